// A GPU runs machine code of its own major number and at most its own minor one, the latest that there is; or it compiles
// PTX of at most its own. Source: CUDA C++ Programming Guide, application compatibility.
#include "shim/cudart/compiled_for.h"

#include "shim/core/fat_binary.h"

namespace ph::cudart {

CodeVersions compiled_for(const void* wrapper, int capability) noexcept {
  int ptx = 0;
  int machine_code = 0;
  for (const auto& [entry, data] : fat_binary_entries(wrapper)) {
    const int target = static_cast<int>(entry.capability);
    const bool runs = target <= capability && target / 10 == capability / 10;
    if (entry.kind == FatbinEntry::kMachineCode && runs && target > machine_code) machine_code = target;
    if (entry.kind == FatbinEntry::kPtx && target <= capability && target > ptx) ptx = target;
  }
  if (machine_code != 0) return {machine_code, machine_code};
  return ptx != 0 ? CodeVersions{ptx, capability} : CodeVersions{capability, capability};
}

}  // namespace ph::cudart
