// CPython's frames as memory: the layouts of the versions we know, and the walk along them. See python_frame.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "shim/core/api.h"

namespace ph::python {

struct Frame {
  const void* code;       // PyCodeObject
  const void* file;       // its co_filename
  std::ptrdiff_t offset;  // byte offset of the current instruction in the code
  const void* place;      // the interpreter's own frame
};

// The calling thread's frames, innermost first. Nothing if the thread has no Python frame, or the interpreter's
// layout is not (yet) trusted and cannot be checked because the GIL is not held.
class Walk {
 public:
  Walk() noexcept;
  ~Walk() noexcept;
  Walk(const Walk&) = delete;
  Walk& operator=(const Walk&) = delete;
  const Frame* next() noexcept;

 private:
  const void* frame_;
  const bool counted_;
  Frame current_{};
};

// Waits until no thread but the calling one walks, and lets none but the main one begin: they find no frames from now
// on. To be called by the main thread before its interpreter ends.
void end_other_walks() noexcept;

// What another process needs to read the main thread's frames (phantora_py/agent/frames.py), as JSON: addresses and
// offsets. To be called by the main thread. Empty if its layout is not trusted.
std::string stack_description();

// Where an interpreter's frame has its code object, in bytes; -1: no Python in this process, or not one that we know.
PH_EXPORT std::ptrdiff_t code_in_frame() noexcept;

// The function's first argument, unless functions within it use that, too: then it is in a cell.
const void* first_local(const Frame& frame) noexcept;

// Tells code objects apart that follow each other at one address: of the name, the first line and the line table.
std::uint64_t fingerprint_of(const Frame& frame) noexcept;

std::string file_of(const Frame& frame);
std::string function_of(const Frame& frame);
int line_of(const Frame& frame) noexcept;

}  // namespace ph::python
