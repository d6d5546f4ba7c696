"""A launch and the work it does: the two records that the estimators of kernel classes turn into
each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from sim_server.gpu import GpuProfile
from sim_server.kernels.blocks import over_blocks
from sim_server.kernels.names import KernelName, parse
from sim_server.records.payloads import Kernel

_MAX_BLOCKS_PER_SM = 32
# Assumed: what a thread of an unknown kernel moves.
_UNKNOWN_BYTES_PER_THREAD = 16
# Of the L2 cache, what a kernel finds there of what the one before it wrote. Fitted to residual
# additions on A100, whose operands are warm (microsoft/vidur@7d47513); docs/kernels.md.
L2_SHARE = 0.6
# Until a thread has what it asked for, of memory and of the L2 cache. Fitted to reductions on H100
# (docs/accuracy-operators.md).
_MEMORY_WAIT_NS, _CACHE_WAIT_NS = 480, 220


@dataclass(frozen=True)
class Launch:
    """A kernel launch as its signature tells it."""

    name: KernelName
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared_bytes: int
    scalars: tuple[tuple[int, int], ...]
    """Integer arguments: index of the parameter and value."""
    sizes: Mapping[str, int]
    thread_bytes: int = 0
    """What a thread moves, where the kernel's machine code tells; 0: not known."""
    block_bytes: str = ""
    block_again: str = ""
    block_instructions: str = ""
    block_flops: str = ""
    """What a block does, where Triton's code tells; empty: not known."""
    host_bytes: int = 0
    """Of managed memory that stays on the host."""

    @classmethod
    def from_signature(cls, signature: Kernel) -> Launch:
        """The launch of a {"kind": "kernel"} payload."""
        return cls(
            name=parse(signature["name"]),
            grid=tuple(signature["grid"]),
            block=tuple(signature["block"]),
            shared_bytes=signature.get("shared_bytes", 0),
            scalars=tuple((index, value) for index, value in signature.get("scalars", ())),
            sizes=signature.get("sizes", {}),
            thread_bytes=signature.get("thread_bytes", 0),
            block_bytes=signature.get("block_bytes", ""),
            block_again=signature.get("block_again", ""),
            block_instructions=signature.get("block_instructions", ""),
            block_flops=signature.get("block_flops", ""),
            host_bytes=signature.get("host_bytes", 0),
        )

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return max(1, prod(self.grid))

    def over_blocks(self, expression: str) -> float | None:
        """What all blocks do by what one does (docs/records.md); None: not known."""
        return over_blocks(expression, dict(self.scalars), self.grid) if expression else None

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return max(1, prod(self.block))

    def integer(self, position: int) -> int | None:
        """The integer argument at `position` among the integers; None if there is none."""
        values = self.scalars
        return values[position][1] if -len(values) <= position < len(values) else None

    def parameter(self, index: int) -> int | None:
        """The integer argument that is parameter `index` of the kernel."""
        return next((value for position, value in self.scalars if position == index), None)

    def resident(self, gpu: GpuProfile) -> int:
        """Blocks of this size that a multiprocessor has room for; at least one."""
        properties = gpu.properties
        resident = min(
            _MAX_BLOCKS_PER_SM, properties["maxThreadsPerMultiProcessor"] // self.threads
        )
        if self.shared_bytes > 0:
            each = self.shared_bytes + properties["reservedSharedMemPerBlock"]
            resident = min(resident, properties["sharedMemPerMultiprocessor"] // each)
        return max(1, resident)

    def sm_demand(self, gpu: GpuProfile) -> float:
        """Share of the GPU's room for blocks of this size that the grid fills."""
        return min(1.0, self.blocks / (gpu.sm_count * self.resident(gpu)))


@dataclass(frozen=True)
class Work:
    """What a kernel has to do.

    Units: bytes to and from memory, floating-point operations outside the tensor cores, cycles of
    one multiprocessor for all other instructions, nanoseconds that none of them shortens. `waits`
    is how often a thread waits for what it has asked for before it asks for more.
    `cached_bytes` are those beside `bytes` that a block finds in the L2 cache where it left
    them, as fast as a multiprocessor takes them.
    `efficiency` is the share of a streaming kernel's rate that the access pattern allows. `cold`:
    no kernel before has left the operands in the L2 cache. `sound` is False where the sizes are a
    guess: the duration is then of tier assumed.
    """

    bytes: float
    flops: float = 0.0
    efficiency: float = 1.0
    cycles: float = 0.0
    serial_ns: float = 0.0
    waits: float = 0.0
    cached_bytes: float = 0.0
    cold: bool = False
    sound: bool = True
    weights_bytes: float | None = None
    """What is moved of memory that may be on the host; None: all that is moved may be."""
    region: str = ""
    """Within the class, what the error depends on; see `Timing`."""

    def duration_ns(self, gpu: GpuProfile, blocks: int) -> float:
        """Roofline over the multiprocessors that the grid reaches, on top of the floor of any
        kernel.
        """
        used = min(gpu.sm_count, blocks)
        arithmetic = gpu.peak_flops_per_ns("f32") * used / gpu.sm_count
        issue = used * gpu.cycles_per_ns
        held = self._held(gpu)
        waiting_ns = self.waits * wait_ns(held)
        busy_ns = max(
            self._moving_ns(gpu, used, held),
            self.flops / arithmetic,
            self.cycles / issue,
            waiting_ns,
        )
        return gpu.execution["kernel_floor_ns"] + self.serial_ns + busy_ns

    def crossing_bytes(self, gpu: GpuProfile, host_bytes: int) -> float:
        """What crosses the link if so much of what the kernel uses is on the host: all that it
        moves, as far as there is so much. Of one whose bytes are not told: what the GPU's memory
        moves in its time.
        """
        moved = self.weights_bytes
        if moved is None:
            moved = self.bytes or self.serial_ns * gpu.bandwidth_bytes_per_ns
        return min(moved, host_bytes)

    def _held(self, gpu: GpuProfile) -> float:
        """The share of the bytes that the L2 cache has: the more passes by, the less of what was
        written last is still there.
        """
        if self.cold or not self.bytes:
            return 0.0
        return held_share(self.bytes, gpu)

    def _moving_ns(self, gpu: GpuProfile, used: int, held: float) -> float:
        """Time of the bytes over `used` multiprocessors, from memory and from the L2 cache."""
        most = used * gpu.sm_bandwidth_bytes_per_ns
        rate = min(gpu.bandwidth_bytes_per_ns * self.efficiency, most)
        per_clock = gpu.kernels.l2_bytes_per_clock
        cached = gpu.sm_count * per_clock * gpu.cycles_per_ns * self.efficiency
        moving_ns = self.bytes * ((1 - held) / rate + held / max(rate, min(cached, most)))
        return moving_ns + self.cached_bytes / most


def held_share(moved_bytes: float, gpu: GpuProfile) -> float:
    """Of what a kernel moves, the share that the L2 cache still has of the kernel before."""
    return min(1.0, (L2_SHARE * gpu.l2_bytes / moved_bytes) ** 2)


def wait_ns(held: float) -> float:
    """Until a thread has what it asked for, of which the L2 cache has a share."""
    return held * _CACHE_WAIT_NS + (1 - held) * _MEMORY_WAIT_NS


def guessed(launch: Launch) -> Work:
    """Of a kernel whose sizes nothing tells: by its threads."""
    return Work(bytes=launch.blocks * launch.threads * _UNKNOWN_BYTES_PER_THREAD, sound=False)
