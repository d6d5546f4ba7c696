// CPython's frames as memory: the layouts of the versions we know, and the walk along them. See python_frame.cc.
#pragma once

#include <cstddef>
#include <string>

namespace ph::python {

struct Frame {
  const void* code;       // PyCodeObject
  const void* file;       // its co_filename
  std::ptrdiff_t offset;  // byte offset of the current instruction in the code
};

// The calling thread's frames, innermost first. Nothing if the thread has no Python frame, or the interpreter's
// layout is not (yet) trusted and cannot be checked because the GIL is not held.
class Walk {
 public:
  Walk() noexcept;
  const Frame* next() noexcept;

 private:
  const void* frame_;
  Frame current_{};
};

std::string file_of(const Frame& frame);
std::string function_of(const Frame& frame);
int line_of(const Frame& frame) noexcept;

}  // namespace ph::python
