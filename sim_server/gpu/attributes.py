"""Numbers of CUdevice_attribute (cudaDeviceAttr has the same ones) and where their values come
from.

Source: cuda.h of CUDA 13.2. Attributes that only Windows, Tegra or graphics interoperation know are
absent; a query of them is refused like one of an unknown number.
"""

from __future__ import annotations

from collections.abc import Mapping

_FIELDS = {
    1: "maxThreadsPerBlock",
    8: "sharedMemPerBlock",
    9: "totalConstMem",
    10: "warpSize",
    11: "memPitch",
    12: "regsPerBlock",
    14: "textureAlignment",
    16: "multiProcessorCount",
    18: "integrated",
    19: "canMapHostMemory",
    21: "maxTexture1D",
    30: "surfaceAlignment",
    31: "concurrentKernels",
    32: "ECCEnabled",
    34: "pciDeviceID",
    35: "tccDriver",
    37: "memoryBusWidth",
    38: "l2CacheSize",
    39: "maxThreadsPerMultiProcessor",
    40: "asyncEngineCount",
    41: "unifiedAddressing",
    50: "pciDomainID",
    51: "texturePitchAlignment",
    52: "maxTextureCubemap",
    55: "maxSurface1D",
    66: "maxSurfaceCubemap",
    75: "major",
    76: "minor",
    77: "maxTexture1DMipmap",
    78: "streamPrioritiesSupported",
    79: "globalL1CacheSupported",
    80: "localL1CacheSupported",
    81: "sharedMemPerMultiprocessor",
    82: "regsPerMultiprocessor",
    83: "managedMemory",
    84: "isMultiGpuBoard",
    85: "multiGpuBoardGroupID",
    86: "hostNativeAtomicSupported",
    88: "pageableMemoryAccess",
    89: "concurrentManagedAccess",
    90: "computePreemptionSupported",
    91: "canUseHostPointerForRegisteredMem",
    95: "cooperativeLaunch",
    97: "sharedMemPerBlockOptin",
    99: "hostRegisterSupported",
    100: "pageableMemoryAccessUsesHostPageTables",
    101: "directManagedMemAccessFromHost",
    106: "maxBlocksPerMultiProcessor",
    108: "persistingL2CacheMaxSize",
    109: "accessPolicyMaxWindowSize",
    111: "reservedSharedMemPerBlock",
    112: "sparseCudaArraySupported",
    113: "hostRegisterReadOnlySupported",
    114: "timelineSemaphoreInteropSupported",
    115: "memoryPoolsSupported",
    116: "gpuDirectRDMASupported",
    117: "gpuDirectRDMAFlushWritesOptions",
    118: "gpuDirectRDMAWritesOrdering",
    119: "memoryPoolSupportedHandleTypes",
    120: "clusterLaunch",
    121: "deferredMappingCudaArraySupported",
    125: "ipcEventSupported",
    129: "unifiedFunctionPointers",
    130: "deviceNumaConfig",
    131: "deviceNumaId",
    133: "mpsEnabled",
    134: "hostNumaId",
    143: "hostNumaMultinodeIpcSupported",
}

# Field and index in it.
_EXTENTS = {
    2: ("maxThreadsDim", 0),
    3: ("maxThreadsDim", 1),
    4: ("maxThreadsDim", 2),
    5: ("maxGridSize", 0),
    6: ("maxGridSize", 1),
    7: ("maxGridSize", 2),
    22: ("maxTexture2D", 0),
    23: ("maxTexture2D", 1),
    24: ("maxTexture3D", 0),
    25: ("maxTexture3D", 1),
    26: ("maxTexture3D", 2),
    27: ("maxTexture2DLayered", 0),
    28: ("maxTexture2DLayered", 1),
    29: ("maxTexture2DLayered", 2),
    42: ("maxTexture1DLayered", 0),
    43: ("maxTexture1DLayered", 1),
    45: ("maxTexture2DGather", 0),
    46: ("maxTexture2DGather", 1),
    47: ("maxTexture3DAlt", 0),
    48: ("maxTexture3DAlt", 1),
    49: ("maxTexture3DAlt", 2),
    53: ("maxTextureCubemapLayered", 0),
    54: ("maxTextureCubemapLayered", 1),
    56: ("maxSurface2D", 0),
    57: ("maxSurface2D", 1),
    58: ("maxSurface3D", 0),
    59: ("maxSurface3D", 1),
    60: ("maxSurface3D", 2),
    61: ("maxSurface1DLayered", 0),
    62: ("maxSurface1DLayered", 1),
    63: ("maxSurface2DLayered", 0),
    64: ("maxSurface2DLayered", 1),
    65: ("maxSurface2DLayered", 2),
    67: ("maxSurfaceCubemapLayered", 0),
    68: ("maxSurfaceCubemapLayered", 1),
    70: ("maxTexture2DLinear", 0),
    71: ("maxTexture2DLinear", 1),
    72: ("maxTexture2DLinear", 2),
    73: ("maxTexture2DMipmap", 0),
    74: ("maxTexture2DMipmap", 1),
}

# What every GPU here answers on a Linux host. GPU_OVERLAP, kernel timeout, compute mode,
# CAN_TEX2D_GATHER, ratio of single to double rate, stream memory operations (92 to 94, 122, 123),
# virtual memory management (102) and file descriptor handles (103), compression (107), RDMA with it
# (110), DMA-BUF (124), fabric handles (128: no fabric manager is simulated), multicast (132: off,
# so that symmetric memory keeps to paths that are modelled).
_CONSTANTS = {
    15: 1,
    17: 0,
    20: 0,
    44: 1,
    69: 268435456,
    87: 2,
    92: 0,
    93: 0,
    94: 0,
    96: 1,
    98: 0,
    102: 1,
    103: 1,
    104: 0,
    105: 0,
    107: 1,
    110: 1,
    122: 1,
    123: 1,
    124: 1,
    128: 0,
    132: 0,
    141: 0,
    142: 0,
}

# PCI_BUS_ID (33) is absent: it differs by device and the shim computes it.
_CLOCKS = {13: "sm_khz", 36: "memory_khz"}
_MEMORY_SYNC_DOMAINS = 126
_TENSOR_MAP = 127


def attribute_values(
    properties: Mapping[str, int],
    extents: Mapping[str, tuple[int, ...]],
    clocks: Mapping[str, int],
) -> dict[int, int]:
    """The value of every attribute that this GPU knows, by number."""
    values = {number: properties[field] for number, field in _FIELDS.items()}
    values |= {number: extents[field][index] for number, (field, index) in _EXTENTS.items()}
    values |= {number: clocks[field] for number, field in _CLOCKS.items()}
    values |= _CONSTANTS
    hopper = properties["major"] >= 9  # brought the tensor memory accelerator and memory domains
    values[_TENSOR_MAP] = int(hopper)
    values[_MEMORY_SYNC_DOMAINS] = 4 if hopper else 1
    return values
