// Where a rank's address space holds the memory of its simulated GPUs: the same in every rank.
//
// User space ends at 2^47; libraries, heap and stacks live at its top, executables at 0x55..., the address sanitizer's
// shadow ends at 0x1000'7fff'8000 (asan_mapping.h), so what lies between is free.
#pragma once

#include <cstdint>

namespace ph {

#if defined(__SANITIZE_THREAD__)
// The thread sanitizer allows programs a few TiB (tsan_platform.h, kHiAppMemBeg): room for the eight GPUs of the tests
// where addresses are not randomised.
inline constexpr std::uintptr_t kFirstDeviceAddress = 0x7e80'0000'0000;
inline constexpr std::uintptr_t kDeviceSpanBytes = 0x18'0000'0000;  // 96 GiB
inline constexpr int kMaxDevices = 8;
inline constexpr std::uintptr_t kEndOfReservable = 0x7f80'0000'0000;
#else
inline constexpr std::uintptr_t kFirstDeviceAddress = 0x1100'0000'0000;
inline constexpr std::uintptr_t kDeviceSpanBytes = 0x80'0000'0000;  // 512 GiB
inline constexpr int kMaxDevices = 96;                                  // an NVL72 rack is a node
inline constexpr std::uintptr_t kEndOfReservable = 0x5100'0000'0000;
#endif

// The first of a range are given out last: small numbers beside each other look like them (values/packed_addresses.h).
inline constexpr std::uintptr_t kAvoidedBytes = 0x1'4000'0000;  // 5 GiB

// Behind the devices: addresses that the program reserves itself, through the driver's virtual memory calls.
inline constexpr std::uintptr_t kFirstReservable = kFirstDeviceAddress + kMaxDevices * kDeviceSpanBytes + kAvoidedBytes;

// Managed memory, which is the host's, lies from here on if there is room: behind all that, before executables.
inline constexpr std::uintptr_t kFirstManaged = kEndOfReservable + 0x100'0000'0000;

}  // namespace ph
