"""What copies and waits are called where other tools read them: in Chrome traces, in Chakra's.

Source: CUDA's and NCCL's names of the calls; of copies what Kineto writes.
"""

from __future__ import annotations

from sim_server.records.schema import CopyKind, WaitKind

COPY_NAMES = {
    CopyKind.HOST_TO_DEVICE: "Memcpy HtoD",
    CopyKind.DEVICE_TO_HOST: "Memcpy DtoH",
    CopyKind.DEVICE_TO_DEVICE: "Memcpy DtoD",
    CopyKind.PEER_TO_PEER: "Memcpy PtoP",
    CopyKind.HOST_TO_HOST: "Memcpy HtoH",
}
WAIT_NAMES = {
    WaitKind.STREAM: "cudaStreamSynchronize",
    WaitKind.EVENT: "cudaEventSynchronize",
    WaitKind.DEVICE: "cudaDeviceSynchronize",
    WaitKind.QUERY_STREAM: "cudaStreamQuery",
    WaitKind.QUERY_EVENT: "cudaEventQuery",
    WaitKind.ELAPSED: "cudaEventElapsedTime",
    WaitKind.LAUNCH_QUEUE: "cudaLaunchKernel: queue full",
    WaitKind.COMM_INIT: "ncclCommInitRank",
    WaitKind.COMM_SPLIT: "ncclCommSplit",
}
