// Read here of cubins are the sections .text.<kernel>, .nv.shared.<kernel> and .nv.info, as `cuobjdump -elf` and `readelf`
// of the CUDA toolkit print them.
#include "shim/cuda/image.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>

#include "shim/core/cubin.h"
#include "shim/core/fat_binary.h"

namespace ph::driver {

namespace {

std::uint64_t fnv1a(std::string_view bytes, std::uint64_t hash = 0xcbf29ce484222325) noexcept {
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return hash;
}

void read_registers(const Elf& elf, std::vector<ImageKernel>& kernels) {
  constexpr unsigned char kRegisterCount = 0x2f;  // symbol index, count
  const Elf64_Shdr* info = elf.find(".nv.info");
  const Elf64_Shdr* symbols = elf.find(".symtab");
  const Elf64_Shdr* strings = elf.find(".strtab");
  if (!info || !symbols || !strings) return;
  for_each_info(elf.bytes(*info), [&](unsigned char attribute, std::string_view payload) {
    if (attribute != kRegisterCount) return;
    const auto symbol = read<Elf64_Sym>(elf.bytes(*symbols), read<std::uint32_t>(payload, 0) * sizeof(Elf64_Sym));
    const std::string_view name = elf.bytes(*strings).substr(symbol.st_name).data();
    for (ImageKernel& kernel : kernels) {
      if (kernel.name == name) kernel.registers = read<std::uint32_t>(payload, 4);
    }
  });
}

void read_cubin(const void* data, Image& image) {
  const Elf elf(data);
  image.hash = fnv1a({});
  image.data = data;
  image.bytes = elf.size_bytes();
  image.lists_kernels = true;
  constexpr std::string_view kText = ".text.";
  for (const Elf64_Shdr& section : elf.sections()) {
    const std::string_view name = elf.name(section);
    if (!name.starts_with(kText)) continue;
    ImageKernel kernel;
    kernel.name = name.substr(kText.size());
    kernel.lists_parameters = true;
    // Instructions alone: debug information names the file, which another rank has in another place.
    image.hash = fnv1a(elf.bytes(section), fnv1a(name, image.hash));
    kernel.accesses = code_accesses(elf.bytes(section));
    if (const Elf64_Shdr* shared = elf.find(".nv.shared." + kernel.name)) {
      kernel.static_shared_bytes = static_cast<std::uint32_t>(shared->sh_size);
    }
    if (const Elf64_Shdr* info = elf.find(".nv.info." + kernel.name))
      kernel.parameter_bytes = parameter_bytes(elf.bytes(*info));
    image.kernels.push_back(std::move(kernel));
  }
  read_registers(elf, image.kernels);
}

bool is_ptx(std::string_view text) noexcept { return text.find(".version") != std::string_view::npos; }

// Bytes of a parameter's declaration, as ".param .align 64 .b8 name[128]"; 0: not understood.
// Source: PTX ISA, "Kernel Function Parameters".
std::uint16_t declared_bytes(std::string_view declaration) {
  std::size_t bytes = 0;
  std::size_t count = 1;
  for (std::size_t at = 0; (at = declaration.find_first_not_of(" \t\r\n", at)) != std::string_view::npos;) {
    const std::string_view word = declaration.substr(at, declaration.find_first_of(" \t\r\n", at) - at);
    at += word.size();
    const std::string rest(word.substr(std::min<std::size_t>(2, word.size())));
    const bool is_type = word.size() > 2 && word[0] == '.' && std::strchr("busf", word[1]) != nullptr;
    if (is_type && rest.find_first_not_of("0123456789") == std::string::npos)
      bytes = std::strtoul(rest.c_str(), nullptr, 10) / 8;
    const auto bracket = word.find('[');
    if (bracket != std::string_view::npos)
      count = std::strtoul(std::string(word.substr(bracket + 1)).c_str(), nullptr, 10);
  }
  return static_cast<std::uint16_t>(bytes * count);
}

// `list`: what stands between the parentheses.
std::vector<std::uint16_t> declared_parameters(std::string_view list) {
  std::vector<std::uint16_t> bytes;
  while (list.find(".param") != std::string_view::npos) {
    const auto comma = list.find(',');
    bytes.push_back(declared_bytes(list.substr(0, comma)));
    list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
  }
  return bytes;
}

void read_ptx(std::string_view text, Image& image) {
  image.hash = fnv1a(text);
  image.data = text.data();
  image.bytes = text.size() + 1;  // it ends with a zero
  image.lists_kernels = true;
  constexpr std::string_view kEntry = ".entry";
  for (auto at = text.find(kEntry); at != std::string_view::npos; at = text.find(kEntry, at)) {
    at = text.find_first_not_of(" \t\r\n", at + kEntry.size());
    const auto end = text.find_first_of(" \t\r\n(", at);
    if (at == std::string_view::npos || end == std::string_view::npos) return;
    ImageKernel kernel;
    kernel.name = text.substr(at, end - at);
    if (const auto opening = text.find_first_not_of(" \t\r\n", end);
        opening != std::string_view::npos && text[opening] == '(') {
      kernel.lists_parameters = true;
      kernel.parameter_bytes = declared_parameters(text.substr(opening + 1, text.find(')', opening) - opening - 1));
    }
    image.kernels.push_back(std::move(kernel));
    at = end;
  }
}

}  // namespace

bool read_image(const void* data, Image& image) {
  std::uint32_t magic = 0;
  if (!data) return false;
  std::memcpy(&magic, data, 1);  // PTX may be shorter than a word
  if (std::isspace(static_cast<int>(magic)) || magic == '.' || magic == '/') {
    const std::string_view text(static_cast<const char*>(data));
    if (!is_ptx(text)) return false;
    read_ptx(text, image);
    return true;
  }
  std::memcpy(&magic, data, sizeof magic);
  if (magic == kFatbinWrapperMagic) return read_image(static_cast<const FatbinWrapper*>(data)->data, image);
  if (magic == kFatbinMagic) {
    const auto& header = *static_cast<const FatbinHeader*>(data);
    image.data = data;
    image.bytes = header.header_bytes + header.bytes;
    image.hash = fnv1a({static_cast<const char*>(data), image.bytes});
    return true;
  }
  if (std::memcmp(data, ELFMAG, SELFMAG) != 0) return false;
  read_cubin(data, image);
  return true;
}

}  // namespace ph::driver
