#include "shim/cudart/parameter_table.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "shim/core/cubin.h"
#include "shim/core/fat_binary.h"

namespace ph::cudart {

namespace {

using Sizes = std::vector<std::uint16_t>;
using Table = std::unordered_map<std::string, Sizes>;

Table read_table(const PlacedEntry& placed) {
  Table table;
  const std::string image = unpacked(placed);
  if (image.size() < sizeof(Elf64_Ehdr) || std::memcmp(image.data(), ELFMAG, SELFMAG) != 0) return table;
  constexpr std::string_view kInfo = ".nv.info.";
  const Elf elf(image.data());
  for (const Elf64_Shdr& section : elf.sections()) {
    const std::string_view name = elf.name(section);
    if (!name.starts_with(kInfo)) continue;
    table.emplace(name.substr(kInfo.size()), parameter_bytes(elf.bytes(section)));
  }
  return table;
}

// A kernel has the same parameters on all GPUs: the smallest code objects are looked through first.
std::vector<PlacedEntry> code_objects(const void* wrapper) {
  std::vector<PlacedEntry> found = fat_binary_entries(wrapper);
  std::erase_if(found, [](const PlacedEntry& placed) { return placed.entry.kind != FatbinEntry::kMachineCode; });
  const auto bytes = [](const PlacedEntry& placed) {
    return placed.entry.is_packed() ? placed.entry.unpacked_bytes : placed.entry.bytes;
  };
  std::stable_sort(found.begin(), found.end(),
                   [&](const PlacedEntry& one, const PlacedEntry& other) { return bytes(one) < bytes(other); });
  return found;
}

}  // namespace

std::optional<Sizes> find_parameters(const void* wrapper, const char* name) {
  // Not destroyed: a thread may launch while the process ends.
  static auto& mutex = *new std::mutex;
  static auto& tables = *new std::map<const char*, Table>;
  const std::lock_guard lock(mutex);
  for (const PlacedEntry& placed : code_objects(wrapper)) {
    const auto [entry, is_new] = tables.try_emplace(placed.data);
    if (is_new) entry->second = read_table(placed);
    if (const auto sizes = entry->second.find(name); sizes != entry->second.end()) return sizes->second;
  }
  return std::nullopt;
}

}  // namespace ph::cudart
