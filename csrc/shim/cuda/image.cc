// Layouts read here: ELF64 (elf.h); of cubins the sections .text.<kernel>, .nv.shared.<kernel>, .nv.info and
// .nv.info.<kernel>, as `cuobjdump -elf` and `readelf` of the CUDA toolkit print them.
#include "shim/cuda/image.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <span>

#include <elf.h>

#include "shim/core/fat_binary.h"

namespace ph::driver {

namespace {

std::uint64_t fnv1a(std::string_view bytes, std::uint64_t hash = 0xcbf29ce484222325) noexcept {
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return hash;
}

// A cubin as its sections; the image's own bytes must outlive it.
class Elf {
 public:
  explicit Elf(const void* data) noexcept
      : base_(static_cast<const char*>(data)),
        header_(*static_cast<const Elf64_Ehdr*>(data)),
        sections_(reinterpret_cast<const Elf64_Shdr*>(base_ + header_.e_shoff), header_.e_shnum) {}

  std::span<const Elf64_Shdr> sections() const noexcept { return sections_; }

  std::string_view name(const Elf64_Shdr& section) const noexcept {
    return base_ + sections_[header_.e_shstrndx].sh_offset + section.sh_name;
  }

  const Elf64_Shdr* find(const std::string& wanted) const noexcept {
    const auto section = std::find_if(sections_.begin(), sections_.end(),
                                      [&](const Elf64_Shdr& candidate) { return name(candidate) == wanted; });
    return section == sections_.end() ? nullptr : &*section;
  }

  // To the end of the last part.
  std::size_t size_bytes() const noexcept {
    std::size_t end = header_.e_shoff + sections_.size_bytes();
    if (header_.e_phnum != 0) end = std::max<std::size_t>(end, header_.e_phoff + header_.e_phnum * sizeof(Elf64_Phdr));
    for (const Elf64_Shdr& section : sections_) {
      if (section.sh_type != SHT_NOBITS) end = std::max<std::size_t>(end, section.sh_offset + section.sh_size);
    }
    return end;
  }

  std::string_view bytes(const Elf64_Shdr& section) const noexcept {
    return {base_ + section.sh_offset, section.sh_size};
  }

 private:
  const char* base_;
  const Elf64_Ehdr& header_;
  std::span<const Elf64_Shdr> sections_;
};

// Calls visit(attribute, payload) for each entry of an .nv.info section: format, attribute, and either two bytes
// of value or a size with that many bytes.
template <class Visit>
void for_each_info(std::string_view info, Visit&& visit) {
  constexpr unsigned char kSized = 4;
  while (info.size() >= 4) {
    std::uint16_t size = 0;
    std::memcpy(&size, info.data() + 2, sizeof size);
    const bool is_sized = static_cast<unsigned char>(info[0]) == kSized;
    const std::size_t payload = is_sized ? std::min<std::size_t>(size, info.size() - 4) : 0;
    visit(static_cast<unsigned char>(info[1]), info.substr(4, payload));
    info.remove_prefix(4 + payload);
  }
}

template <class T>
T read(std::string_view bytes, std::size_t offset) noexcept {
  T value{};
  if (offset + sizeof value <= bytes.size()) std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

void read_parameters(const Elf& elf, ImageKernel& kernel) {
  constexpr unsigned char kParameterInfo = 0x17;  // index, ordinal, offset, and the size in the upper 14 bits
  const Elf64_Shdr* info = elf.find(".nv.info." + kernel.name);
  if (!info) return;
  for_each_info(elf.bytes(*info), [&](unsigned char attribute, std::string_view payload) {
    if (attribute != kParameterInfo) return;
    const auto ordinal = read<std::uint16_t>(payload, 4);
    if (kernel.parameter_bytes.size() <= ordinal) kernel.parameter_bytes.resize(ordinal + 1u);
    kernel.parameter_bytes[ordinal] = static_cast<std::uint16_t>(read<std::uint32_t>(payload, 8) >> 18);
  });
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
    read_parameters(elf, kernel);
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
