// Attributes of pointers.
#include "shim/cuda/driver.h"
#include "shim/cuda/virtual_memory.h"
#include "shim/memory/managed.h"

using namespace ph;
using namespace ph::driver;

namespace {

template <class T>
CUresult give(void* data, T value) noexcept {
  *static_cast<T*>(data) = value;
  return CUDA_SUCCESS;
}

// Of memory that the program has mapped it is the reservation, mapped or not, while cuMemGetAddressRange tells the one
// mapping. Source: the tests of NVIDIA DALI's cu_vm_test.cc.
CUresult range_attribute(void* data, CUpointer_attribute which, const Reservation& of) noexcept {
  return which == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR ? give(data, of.base) : give(data, of.bytes);
}

bool is_range(CUpointer_attribute which) noexcept {
  return which == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR || which == CU_POINTER_ATTRIBUTE_RANGE_SIZE;
}

CUresult attribute(void* data, CUpointer_attribute which, CUdeviceptr address, const Allocation& of) noexcept {
  const bool on_host = of.device < 0;
  if (of.kind == MemoryKind::Managed) {  // it is the device's by its type (assumed), and the host's by its addresses
    const int owner = managed_facts(to_pointer(address), 1).owner;
    if (which == CU_POINTER_ATTRIBUTE_CONTEXT) return give(data, primary_context(owner));
    if (which == CU_POINTER_ATTRIBUTE_MEMORY_TYPE) return give(data, static_cast<unsigned>(CU_MEMORYTYPE_DEVICE));
    if (which == CU_POINTER_ATTRIBUTE_IS_MANAGED) return give(data, 1u);
    if (which == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) return give(data, owner);
  }
  switch (which) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: return give(data, primary_context(on_host ? current_device() : of.device));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return give(data, static_cast<unsigned>(on_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE));
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: return give(data, address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER: return on_host ? give(data, to_pointer(address)) : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: return give(data, 0u);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: return give(data, static_cast<unsigned long long>(of.base));
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return give(data, on_host ? current_device() : of.device);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE: return give(data, on_host || of.mapped ? 0u : 1u);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: return range_attribute(data, which, {of.base, of.bytes});
    case CU_POINTER_ATTRIBUTE_MAPPED: return give(data, 1u);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: return give(data, 0ull);
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE: return give(data, on_host ? 0u : 1u);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: return give(data, CUmemoryPool{});
    default: return CUDA_ERROR_NOT_SUPPORTED;
  }
}

// False: CUDA does not know the address.
bool give_known(CUresult& result, void* data, CUpointer_attribute which, CUdeviceptr address) noexcept {
  Allocation allocation;
  Reservation reservation;
  if (is_range(which) && find_reservation(address, reservation)) {
    result = range_attribute(data, which, reservation);
  } else if (find_allocation(to_pointer(address), allocation)) {
    result = attribute(data, which, address, allocation);
  } else {
    return false;
  }
  return true;
}

}  // namespace

extern "C" {

// An address that CUDA does not know is an error here; Triton tells host pointers from device pointers by it.
PH_EXPORT CUresult cuPointerGetAttribute(void* data, CUpointer_attribute which, CUdeviceptr address) noexcept {
  PH_CALL(cuPointerGetAttribute);
  CUresult result;
  return data && give_known(result, data, which, address) ? result : CUDA_ERROR_INVALID_VALUE;
}

// Here it is none: the attributes of an unknown address are null or zero, as the vendor documents.
PH_EXPORT CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* which, void** data,
                                          CUdeviceptr address) noexcept {
  PH_CALL(cuPointerGetAttributes);
  if (!which || !data) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {
    if (CUresult ignored; give_known(ignored, data[i], which[i], address)) continue;
    if (which[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) {
      give(data[i], -2);  // "no device", as the driver answers
    } else if (which[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE || which[i] == CU_POINTER_ATTRIBUTE_IS_MANAGED) {
      give(data[i], 0u);
    } else {
      give(data[i], CUdeviceptr{0});
    }
  }
  return CUDA_SUCCESS;
}

PH_EXPORT CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute which, CUdeviceptr address) noexcept {
  PH_CALL(cuPointerSetAttribute);
  Allocation allocation;
  if (!value || which != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) return CUDA_ERROR_INVALID_VALUE;
  return find_allocation(to_pointer(address), allocation) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // extern "C"
