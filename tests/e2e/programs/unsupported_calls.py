"""Calls that are not modelled: hints, one that hands something back, one that returns no status,
and forms of calls that are modelled otherwise.
"""

import ctypes
import sys

runtime = ctypes.CDLL("libcudart.so.13")


def misuse_captured_graph() -> None:
    """Adds a node to it, and frees what it allocates."""
    stream, graph, node, memory = (ctypes.c_void_p() for _ in range(4))
    assert runtime.cudaStreamCreate(ctypes.byref(stream)) == 0
    assert runtime.cudaStreamBeginCapture(stream, 2) == 0
    assert runtime.cudaMallocAsync(ctypes.byref(memory), ctypes.c_size_t(4096), stream) == 0
    assert runtime.cudaStreamEndCapture(stream, ctypes.byref(graph)) == 0
    added = runtime.cudaGraphAddEmptyNode(ctypes.byref(node), graph, None, ctypes.c_size_t(0))
    freed = runtime.cudaFree(memory)
    last = runtime.cudaGetLastError()
    destroyed = runtime.cudaGraphDestroy(graph)
    print(f"added {added} as {node.value}, freed {freed}, last {last}, destroyed {destroyed}")


if "graph" in sys.argv:
    misuse_captured_graph()
    sys.exit()
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
