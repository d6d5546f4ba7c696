"""Channels: the blocks of a collective's kernel, each of which moves a part of the buffer.

How many NCCL makes is so chosen that they fill the links; then the links bound the bandwidth, and
the costs fitted in `sim_server.collectives.tuning` hold. With fewer, or with small buffers, what a
channel can carry bounds it:

    bytes per second that a rank sends <= channels * rate of a channel
    rate of a channel, Simple          <= NCCL_BUFFSIZE / (time of a step + latency of its path)

The second line is the bandwidth of a window: a sender may be a buffer ahead of its receiver.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from sim_server.collectives.environment import NcclEnvironment
from sim_server.collectives.group import Group
from sim_server.collectives.tuning import Algorithm, Protocol

# Source: log of 8 A100 with NVSwitch in NVIDIA/nccl-tests issue 100; on other GPUs assumed.
_INSIDE_A_NODE = 24
# Source: "channel 0-1 ... NIC 7, channel 2-3 ... NIC 0" in NVIDIA/nccl issue 320.
_PER_RAIL = 2
# Source: src/enqueue.cc of NCCL 2.20.3: NVLS needs no more to reach its peak.
_MOST_OF_NVLS = 16

# Threads of a channel, and bytes per thread below which NCCL takes fewer channels. Source:
# src/include/device.h, comm.h and src/graph/tuning.cc of NCCL 2.20.3.
_THREADS = {Protocol.LL: 512, Protocol.LL128: 640, Protocol.SIMPLE: 512}
_BYTES_PER_THREAD = {Protocol.LL: 8, Protocol.LL128: 8, Protocol.SIMPLE: 64}


@dataclass(frozen=True)
class ChannelRates:
    """What one channel carries. Units: bytes of payload per second."""

    simple: float
    ll128: float

    def of(self, protocol: Protocol) -> float:
        """Rate under a protocol; of LL a quarter of Simple, as in NCCL's cost model."""
        if protocol is Protocol.LL128:
            return self.ll128
        return self.simple / 4 if protocol is Protocol.LL else self.simple


# Source: perChMaxTreeBws and perChMaxRingLL128Bws for one node in src/graph/tuning.cc of NCCL
# 2.20.3 (commit b6475625). There the first bounds trees; that it bounds rings and NVLS too is
# assumed, and so is that a Blackwell GPU's channel carries what a Hopper GPU's does.
CHANNEL_RATES = {
    "ampere": ChannelRates(24.0e9, 20.0e9),
    "hopper": ChannelRates(38.7e9, 36.7e9),
    "blackwell": ChannelRates(38.7e9, 36.7e9),
    # PCIe is slower than any channel.
    "pcie": ChannelRates(inf, inf),
    "ideal": ChannelRates(inf, inf),
}


@dataclass(frozen=True)
class Channels:
    """The channels of one algorithm in one communicator."""

    count: int
    """How many there are."""
    limited: bool
    """Whether the user left fewer than NCCL would have made."""

    def used(self, algorithm: Algorithm, protocol: Protocol, ranks: int, size_bytes: int) -> int:
        """How many an operation uses. Source: src/enqueue.cc of NCCL 2.20.3."""
        if algorithm not in (Algorithm.RING, Algorithm.TREE):
            return self.count
        channel_bytes = _THREADS[protocol] * _BYTES_PER_THREAD[protocol]
        if algorithm is Algorithm.RING and protocol is Protocol.LL:
            channel_bytes *= ranks
        return max(min(self.count, size_bytes // channel_bytes), 1)


def channels_of(algorithm: Algorithm, group: Group, environment: NcclEnvironment) -> Channels:
    """The channels that an algorithm has. Those of sends are a power of two, as in NCCL's
    src/graph/paths.cc."""
    default = _INSIDE_A_NODE if len(group.nodes) == 1 else _PER_RAIL * group.rails
    count = environment.channels(default)
    if algorithm in (Algorithm.NVLS, Algorithm.NVLS_TREE):
        default = min(default, _MOST_OF_NVLS)
        count = environment.channels(default)
    elif algorithm is Algorithm.DIRECT:
        default, count = (1 << (one - 1).bit_length() for one in (default, count))
    return Channels(count, limited=count < default)
