// Marks where our own code runs on a thread of the program, so that its cost never enters virtual time.
#pragma once

namespace ph {

// Both ends of what the program calls; they nest, and only the outermost count. In the `measured` host-time model the
// entry charges what the thread has computed since it left our code. True for the outermost.
__attribute__((visibility("default"))) bool enter_own_code() noexcept;
__attribute__((visibility("default"))) void leave_own_code() noexcept;

// The call of the program that this thread is in, by name, until its outermost end; and where that is kept.
void name_call(const char* name) noexcept;
const char* const* current_call() noexcept;

class OwnCode {
 public:
  OwnCode() noexcept : outermost_(enter_own_code()) {}
  ~OwnCode() noexcept { leave_own_code(); }
  OwnCode(const OwnCode&) = delete;
  OwnCode& operator=(const OwnCode&) = delete;

  bool outermost() const noexcept { return outermost_; }

 private:
  bool outermost_;
};

}  // namespace ph
