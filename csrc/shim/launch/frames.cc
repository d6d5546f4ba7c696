#include "shim/launch/frames.h"

#include <cstdint>

#include <unwind.h>

namespace ph {

namespace {

struct Search {
  std::uintptr_t address;
  std::uintptr_t begin = 0;  // of the frame looked at
  std::size_t bytes = 0;
};

// A frame ends where its caller's begins, at the canonical frame address, and what it hands over on the stack lies in it.
_Unwind_Reason_Code visit(_Unwind_Context* context, void* data) noexcept {
  auto& search = *static_cast<Search*>(data);
  const std::uintptr_t end = _Unwind_GetCFA(context);
  if (search.begin != 0 && search.begin <= search.address && search.address < end) search.bytes = end - search.address;
  search.begin = end;
  return end > search.address ? _URC_END_OF_STACK : _URC_NO_REASON;
}

}  // namespace

std::size_t frame_bytes_from(const void* pointer) noexcept {
  Search search{.address = reinterpret_cast<std::uintptr_t>(pointer)};
  _Unwind_Backtrace(visit, &search);
  return search.bytes;
}

}  // namespace ph
