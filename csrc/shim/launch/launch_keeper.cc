#include "shim/launch/launch_keeper.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>
#include <span>
#include <string>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/channel/rank.h"
#include "shim/core/config.h"
#include "shim/core/json.h"
#include "shim/core/own_memory.h"
#include "shim/values/extents.h"
#include "shim/values/values.h"

namespace ph {

namespace {

using Bytes = std::vector<unsigned char>;

std::string folder() { return config().run_dir + "/launches"; }

// FNV-1a, 64 bits (sim_server/processes/executor.py names files likewise). Source: isthe.com/chongo/tech/comp/fnv.
std::uint64_t hash_of(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return hash;
}

// Whole or not at all: others look for it meanwhile.
void write_file(const std::string& name, std::string_view content) {
  mkdir(folder().c_str(), 0700);
  const std::string path = folder() + '/' + name;
  const std::string partial = folder() + "/." + std::to_string(global_rank()) + '.' + name;
  std::FILE* file = std::fopen(partial.c_str(), "wbe");
  if (file == nullptr) return;
  const bool written = std::fwrite(content.data(), 1, content.size(), file) == content.size();
  if (std::fclose(file) != 0 || !written || std::rename(partial.c_str(), path.c_str()) != 0) unlink(partial.c_str());
}

bool is_written(const std::string& name) { return access((folder() + '/' + name).c_str(), F_OK) == 0; }

// The types of most parameters are not known here, but two do not share bytes: each reaches to the next one at most. The
// runtime takes of it what it needs.
std::vector<Bytes> read_compiled(std::span<void* const> arguments) {
  std::vector<Bytes> all;
  for (void* const argument : arguments) {
    std::size_t bytes = kMostParameterBytes;
    for (void* const other : arguments) {
      if (other > argument)
        bytes = std::min<std::size_t>(bytes, static_cast<char*>(other) - static_cast<char*>(argument));
    }
    all.push_back(read_own_memory(argument, bytes));
  }
  return all;
}

std::vector<Bytes> read_sized(std::span<const std::uint16_t> sizes, void* const* arguments) {
  std::vector<Bytes> all;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto* begin = static_cast<const unsigned char*>(arguments[i]);
    all.emplace_back(begin, begin + sizes[i]);
  }
  return all;
}

// Device memory that a launch may touch.
struct Reached {
  std::set<std::pair<std::uintptr_t, std::size_t>> regions;
  std::map<std::uintptr_t, Bytes> contents;  // what this rank knows of it, at the words that point there
};

// Every aligned word that points into device memory, and what is known there: lists of pointers, sizes, indices.
void reach(std::span<const unsigned char> bytes, Reached& reached) {
  for (std::size_t at = 0; at + sizeof(void*) <= bytes.size(); at += sizeof(void*)) {
    const void* pointer = nullptr;
    std::memcpy(&pointer, bytes.data() + at, sizeof pointer);
    const Extent region = region_of(pointer);
    if (region.empty()) continue;
    reached.regions.emplace(region.begin, region.bytes());
    const auto address = reinterpret_cast<std::uintptr_t>(pointer);
    const std::size_t known = std::min<std::size_t>(known_bytes_from(pointer), config().value_bytes);
    if (known == 0 || reached.contents.contains(address)) continue;
    // An operation that is still queued may write there; then these are values of another time.
    Bytes& content = reached.contents[address] = read_own_memory(pointer, known);
    reach(content, reached);
  }
}

std::string hex(std::span<const unsigned char> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 0xf];
  }
  return text;
}

// Says where the code is. False: that is not known.
bool find_code(const KernelCode& code, payloads::KeptLaunch& told) {
  if (code.module_hash != 0) {
    told.image = hash_text(code.module_hash);
    return true;
  }
  Dl_info info;
  if (code.stub == nullptr || dladdr(code.stub, &info) == 0) return false;
  told.library = info.dli_fname;
  told.offset = static_cast<const char*>(code.stub) - static_cast<const char*>(info.dli_fbase);
  return true;
}

}  // namespace

bool keeps_launches() noexcept {
  static const bool keeps = config().has("launches") && config().number("launches") != 0;
  return keeps && attached();
}

void keep_launch(std::string_view signature, const KernelCode& code, std::uint16_t parameters, const LaunchForm& form,
                 void* const* arguments) {
  const std::string name = hash_text(hash_of(signature));
  payloads::KeptLaunch told{
      .signature = {std::string(signature)}, .cluster = {}, .parameters = {}, .regions = {}, .contents = {}};
  if (!find_code(code, told) || is_written(name)) return;
  std::vector<Bytes> values;
  if (form.packed != nullptr) {
    values.push_back(read_own_memory(form.packed, form.packed_bytes));
  } else if (arguments != nullptr) {
    values =
        code.module_hash != 0 ? read_sized(code.parameter_bytes, arguments) : read_compiled({arguments, parameters});
  }
  Reached reached;
  for (const Bytes& value : values) reach(value, reached);
  told.cooperative = form.cooperative;
  told.cluster = {form.cluster[0], form.cluster[1], form.cluster[2]};
  told.packed = form.packed != nullptr;
  for (const Bytes& value : values) told.parameters.push_back(hex(value));
  for (const auto& [address, bytes] : reached.regions) told.regions.emplace_back(address, bytes);
  for (const auto& [address, content] : reached.contents) told.contents.emplace_back(address, hex(content));
  write_file(name, payload_text(told) + '\n');
}

std::string hash_text(std::uint64_t hash) {
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

void keep_image(std::uint64_t hash, const void* data, std::size_t bytes) noexcept {
  const std::string name = hash_text(hash) + ".image";
  if (!is_written(name)) write_file(name, {static_cast<const char*>(data), bytes});
}

}  // namespace ph

// What Python asks for: 0 or 1.
extern "C" PH_EXPORT int ph_keeps_launches() noexcept { return static_cast<int>(ph::keeps_launches()); }
