"""Calls that are not modelled: hints, one that hands something back, one that returns no status."""

import ctypes
import sys

runtime = ctypes.CDLL("libcudart.so.13")
hints = [runtime.cudaDeviceSetCacheConfig(1) for _ in range(3)]
# Before anything is made: the pointer that a success would have filled.
memory = ctypes.c_void_p(0)
refused = runtime.cudaImportExternalMemory(ctypes.byref(memory), None)
last = runtime.cudaGetLastError(), runtime.cudaGetLastError()
print(f"hints {hints}, refused {refused} then {last}, memory {memory.value}", flush=True)
runtime.cudaGetErrorName.restype = ctypes.c_char_p
print(runtime.cudaGetErrorName(refused).decode(), flush=True)
if "structure" in sys.argv:
    runtime.cudaCreateChannelDesc(8, 0, 0, 0, 0)
    print("went on", flush=True)
sys.exit(1 if "fail" in sys.argv else 0)
