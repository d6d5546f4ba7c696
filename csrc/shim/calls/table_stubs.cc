// Compiled once per vendor library: its table, and a stub for each row that has no body.
//
// Stubs need no signature: on x86-64 whoever returns a status leaves it in the same place. An ignored call returns
// 0, which is success in every library of ours. This file must not include a vendor header.
#include "shim/calls/library.h"

namespace ph::library {

namespace {

#define API(name, support, note) {#name, Support::support, note},
constexpr ApiRow kRows[] = {
#include PH_TABLE
};
#undef API

std::atomic<std::uint64_t> counts[row_count];

}  // namespace

ApiTable table{PH_LIBRARY, PH_SONAME, kRows, row_count, counts, nullptr};

namespace {
__attribute__((constructor)) void register_this_table() { register_table(&table); }
}  // namespace

int unsupported(const char* symbol, const char* detail, bool is_harmless) noexcept {
  const int result = answer_unsupported({PH_LIBRARY, symbol, detail, is_harmless});
  if (result != 0 && note_unsupported != nullptr) note_unsupported(symbol);
  return result;
}

}  // namespace ph::library

#define PH_STUB_Modelled(name)
#define PH_STUB_PassThrough(name)
#define PH_STUB_Ignored(name)                                       \
  extern "C" PH_EXPORT int name() noexcept {                        \
    ph::count_ignored(ph::library::table, ph::library::row_##name); \
    return 0;                                                       \
  }
// Weak: a body in its place may say more than the name.
#define PH_STUB_Unsupported(name)                                                           \
  extern "C" PH_EXPORT __attribute__((weak)) int name() noexcept {                          \
    constexpr bool is_harmless = *ph::library::kRows[ph::library::row_##name].note != '\0'; \
    return ph::library::unsupported(#name, "", is_harmless);                                \
  }
#define PH_STUB_Undeclared(name) \
  extern "C" PH_EXPORT int name() noexcept { ph::stop_unsupported(PH_LIBRARY, #name, ""); }
#define API(name, support, note) PH_STUB_##support(name)
#include PH_TABLE
#undef API
