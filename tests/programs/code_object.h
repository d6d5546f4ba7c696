/* A code object that every GPU since compute capability 8.0 can load: one kernel and one variable, as PTX. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static const char kPtx[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".visible .global .align 4 .b8 table[64];\n"
    ".visible .entry scale(.param .u64 data, .param .u32 count)\n{\n  ret;\n}\n";

/* A fat binary with one entry. Source: what `fatbinary --image3=kind=ptx,sm=80,file=...` of CUDA 13.0 writes. The driver
   reads the options of the compilation of PTX at the place that is named, always. */
struct FatBinary {
  struct {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes;
  } head;
  struct {
    uint16_t kind, version;
    uint32_t header_bytes;
    uint64_t bytes;
    uint32_t compressed_bytes, options_offset;
    uint16_t minor, major;
    uint32_t architecture, name_offset, name_bytes;
    uint64_t flags, zero, uncompressed_bytes;
    struct {
      uint64_t text_offset;
      char text[8];
    } options;
  } entry;
  char ptx[(sizeof kPtx + 7) / 8 * 8];
};

__attribute__((unused)) static const void* make_fat_binary(void) {
  static struct FatBinary binary;
  binary.head.magic = 0xba55ed50;
  binary.head.version = 1;
  binary.head.header_bytes = sizeof binary.head;
  binary.head.bytes = sizeof binary - sizeof binary.head;
  binary.entry.kind = 1; /* PTX */
  binary.entry.version = 0x101;
  binary.entry.header_bytes = sizeof binary.entry;
  binary.entry.bytes = sizeof binary.ptx;
  binary.entry.options_offset = offsetof(struct FatBinary, entry.options) - sizeof binary.head;
  binary.entry.options.text_offset = binary.entry.options_offset + 8;
  binary.entry.major = 8;
  binary.entry.architecture = 80;
  binary.entry.flags = 0x11; /* 64-bit, Linux */
  memcpy(binary.ptx, kPtx, sizeof kPtx);
  return &binary;
}
