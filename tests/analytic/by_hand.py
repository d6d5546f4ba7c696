"""The cluster of the analytic cases, and how long its transfers take, from first principles.

Two nodes of two GPUs; a node's GPUs share one NIC. Collectives cost nothing beside the links they
use (`collectives = "ideal"`). Every number is a power of ten or close to one.

Rounding: an operation's transfer ends at the next whole nanosecond.
Units: bytes, ns, bytes per ns.
"""

from __future__ import annotations

CLUSTER = """\
base = "h100"
name = "by-hand"
gpus_per_node = 2
collectives = "ideal"

[nvlink]
bandwidth = "100 GB/s"
latency = "500 ns"

[nic]
per_node = 1
bandwidth = "10 GB/s"
latency = "2 us"
pcie_bandwidth = "40 GB/s"
pcie_latency = "500 ns"
"""

NVLINK_BYTES_PER_NS = 100
NIC_BYTES_PER_NS = 10
INSIDE_NS = 2 * 500
"""From GPU to GPU of a node: to the switch and from it."""
BETWEEN_NS = 500 + 2_000 + 2_000 + 500
"""From GPU to GPU of different nodes: to the NIC, to the switch, from it, from the NIC."""

SM_COUNT = 132
"""Of an H100."""
NCCL_SMS = 24
"""That a communication launch occupies from its arrival to its end (nccl_sms of the profile)."""


def ceil_div(dividend: int, divisor: int) -> int:
    """The quotient, rounded up."""
    return -(-dividend // divisor)


def send_inside_ns(size_bytes: int) -> int:
    """A message to the other GPU of the node."""
    return INSIDE_NS + ceil_div(size_bytes, NVLINK_BYTES_PER_NS)


def send_between_ns(size_bytes: int, sharing: int = 1) -> int:
    """A message to the other node while `sharing` equal flows leave through the NIC."""
    return BETWEEN_NS + ceil_div(sharing * size_bytes, NIC_BYTES_PER_NS)


def all_reduce_of_all_ns(size_bytes: int) -> int:
    """An all-reduce of the four ranks.

    A ring of n ranks takes 2 (n - 1) = 6 steps. It crosses from node to node twice in a turn and
    turns twice, so 4 of the steps are between nodes. In a ring 2 (n - 1) / n = 3/2 of the buffer
    cross every edge; one edge leaves each node.
    """
    return 4 * BETWEEN_NS + 2 * INSIDE_NS + ceil_div(3 * size_bytes, 2 * NIC_BYTES_PER_NS)


def all_reduce_of_pair_ns(size_bytes: int, sharing: int = 1) -> int:
    """An all-reduce of one GPU of each node, while `sharing` equal ones use the same NICs.

    Two steps, both between nodes; each rank sends 2 (n - 1) / n = 1 times the buffer.
    """
    return 2 * BETWEEN_NS + ceil_div(sharing * size_bytes, NIC_BYTES_PER_NS)


def all_reduce_inside_ns(size_bytes: int) -> int:
    """An all-reduce of the two GPUs of a node: two steps, the buffer once each way."""
    return 2 * INSIDE_NS + ceil_div(size_bytes, NVLINK_BYTES_PER_NS)


BARRIER_NS = all_reduce_of_all_ns(4)
"""torch.distributed.barrier on NCCL is an all-reduce of one float."""
