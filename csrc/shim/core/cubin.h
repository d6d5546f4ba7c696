// Code objects as ELF64 (elf.h). What lies in their sections .nv.info and .nv.info.<kernel> is as `cuobjdump -elf` of the
// CUDA toolkit prints it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <elf.h>

namespace ph {

// A cubin as its sections; the image's own bytes must outlive it. They may lie at any address.
class Elf {
 public:
  explicit Elf(const void* data) : base_(static_cast<const char*>(data)) {
    std::memcpy(&header_, base_, sizeof header_);
    sections_.resize(header_.e_shnum);
    if (!sections_.empty())
      std::memcpy(sections_.data(), base_ + header_.e_shoff, sections_.size() * sizeof(Elf64_Shdr));
  }

  std::span<const Elf64_Shdr> sections() const noexcept { return sections_; }

  std::string_view name(const Elf64_Shdr& section) const noexcept {
    return base_ + sections_[header_.e_shstrndx].sh_offset + section.sh_name;
  }

  const Elf64_Shdr* find(std::string_view wanted) const noexcept {
    const auto section = std::find_if(sections_.begin(), sections_.end(),
                                      [&](const Elf64_Shdr& candidate) { return name(candidate) == wanted; });
    return section == sections_.end() ? nullptr : &*section;
  }

  // To the end of the last part.
  std::size_t size_bytes() const noexcept {
    std::size_t end = header_.e_shoff + sections_.size() * sizeof(Elf64_Shdr);
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
  Elf64_Ehdr header_;
  std::vector<Elf64_Shdr> sections_;
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

// Sizes of a kernel's parameters, in order. `info`: the content of its .nv.info.<kernel>.
inline std::vector<std::uint16_t> parameter_bytes(std::string_view info) {
  constexpr unsigned char kParameterInfo = 0x17;  // index, ordinal, offset, and the size in the upper 14 bits
  std::vector<std::uint16_t> sizes;
  for_each_info(info, [&](unsigned char attribute, std::string_view payload) {
    if (attribute != kParameterInfo) return;
    const auto ordinal = read<std::uint16_t>(payload, 4);
    if (sizes.size() <= ordinal) sizes.resize(ordinal + 1u);
    sizes[ordinal] = static_cast<std::uint16_t>(read<std::uint32_t>(payload, 8) >> 18);
  });
  return sizes;
}

}  // namespace ph
