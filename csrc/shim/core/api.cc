// The registered tables.
#include "shim/core/api.h"

namespace ph {

namespace {
ApiTable* first_table = nullptr;
}

void register_table(ApiTable* table) noexcept {
  table->next = first_table;
  first_table = table;
}

const ApiTable* first_registered_table() noexcept { return first_table; }

}  // namespace ph
