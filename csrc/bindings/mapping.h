// Files that are mapped shared with processes that may do anything to them.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>

namespace ph {

// Errors are std::system_error with the path.
class Mapping {
 public:
  // Reserve creates it with all its pages; otherwise they come when they are touched, if there is room then.
  enum class Open { Create, Reserve, Existing };

  Mapping(const std::string& path, std::size_t size_bytes, Open open);
  ~Mapping();
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&&) = delete;

  void* data() const { return data_; }
  // Pages of the file could not be had: it was cut short, or there is no room for them. Zeros stand there from then on,
  // which nobody shares.
  bool lost_pages() const;

 private:
  void* data_;
  std::size_t size_bytes_;
  std::size_t guard_;  // its place among those that the handler of SIGBUS looks after
};

}  // namespace ph
