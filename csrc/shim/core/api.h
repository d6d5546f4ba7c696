// The interception tables: one row per exported symbol of a vendor library.
//
// A table is a file of rows
//     API(cudaStreamQuery, Modelled, "note")
// sorted by name, which the build makes from `csrc/shim/symbols` and `csrc/shim/api` (api/README.md). It includes no
// vendor header: many API names are macros there. Modelled bodies are written by hand in `csrc/shim/<library>/` with
// the vendor's header included, so that a wrong signature does not compile; all other rows get generated stubs
// (`calls/table_stubs.cc`).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#define PH_EXPORT __attribute__((visibility("default")))

namespace ph {

enum class Support : std::uint8_t {
  Modelled,     // has a body of ours; a note says what it leaves out
  Ignored,      // success without effect; the note says why that is right
  PassThrough,  // handed to the real library
  Unsupported,  // stops the run or fails, see unsupported.h; the note says why success would harm nothing but times
  Undeclared,   // stops the run: no header says that it returns a status
};

struct ApiRow {
  const char* name;
  Support support;
  const char* note;
};

// One per library, registered by a constructor of that library; read by coverage, doctor and tests.
struct ApiTable {
  const char* library;  // "cudart"
  const char* soname;   // "libcudart.so.13"
  const ApiRow* rows;
  std::size_t size;
  std::atomic<std::uint64_t>* counts;  // calls per row
  ApiTable* next;
};

PH_EXPORT void register_table(ApiTable* table) noexcept;
PH_EXPORT const ApiTable* first_registered_table() noexcept;

// What a call costs the host in virtual time: a class per kind of call, the nanoseconds per class come from the GPU
// profile.
// `None` is for calls whose number depends on how far a helper thread happens to be (PyTorch makes an event, or a
// pinned block, when a helper has not yet given one back) and for queries, which cost time only where the program does
// nothing but ask (spin_watch.h).
enum class HostCost : std::uint8_t {
  Light,
  Launch,
  Library,
  Copy,
  Event,
  Sync,
  Alloc,
  Collective,
  Setup,
  kCount,
  None
};

}  // namespace ph
