// What a vendor library's sources share: row numbers of its table, the table, the guard by name.
//
// CMake compiles each library with PH_TABLE (path of its whole table), PH_LIBRARY and PH_SONAME defined.
#pragma once

#include "shim/calls/call.h"
#include "shim/calls/unsupported.h"
#include "shim/core/api.h"

namespace ph::library {

// Names are only pasted or quoted, never expanded: many of them are macros of the vendor's headers.
#define API(name, support, note) row_##name,
enum Row : std::size_t {
#include PH_TABLE
  row_count
};
#undef API

extern ApiTable table;

// A call that is not modelled, or not with such arguments (`detail`): what it returns, if it does.
int unsupported(const char* symbol, const char* detail, bool is_harmless = false) noexcept;

// Where a library remembers that a call has failed: it may define this.
__attribute__((weak)) void note_unsupported(const char* symbol) noexcept;

}  // namespace ph::library

// First statement of a modelled body: PH_CALL(cudaStreamQuery); or PH_CALL(cudaLaunchKernel, HostCost::Launch);
#define PH_CALL(name, ...) \
  const ::ph::Call ph_call_guard(::ph::library::table, ::ph::library::row_##name __VA_OPT__(, ) __VA_ARGS__)
