#pragma once

#include <cerrno>

namespace ph {

// What a function in the C library's place does beside its own task leaves no trace in errno.
class KeepErrno {
 public:
  KeepErrno() noexcept = default;
  ~KeepErrno() noexcept { errno = saved_; }
  KeepErrno(const KeepErrno&) = delete;
  KeepErrno& operator=(const KeepErrno&) = delete;

 private:
  const int saved_ = errno;
};

}  // namespace ph
