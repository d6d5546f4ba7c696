"""A GPU profile: everything that differs between GPU models, as one immutable record.

The TOML files in `builtin/` hold the figures with their sources; this module gives them types and
names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from dataclasses import field as default_field
from typing import Any, NoReturn

from sim_server.errors import UsageError
from sim_server.gpu.attributes import attribute_values


@dataclass(frozen=True)
class GemmRates:
    """Coefficients of the matrix product model (`sim_server.kernels.gemm`), for bf16.

    They describe the fit, not the hardware: a rate may exceed the hardware's, because another term
    takes part of the time.
    """

    latency_ns: float
    sm_flops_per_ns: float
    sm_bytes_per_ns: float
    tile_ns: float
    bandwidth_bytes_per_ns: float
    overlap: float
    """Exponent that joins compute and memory time: 1 adds them, infinity takes the longer."""
    reduction_bytes_per_ns: float
    split_ns: float
    throttle: float
    """Share by which long products slow down, at most: power and cache limits."""
    throttle_ns: float
    cached_bytes: float = 0.0
    """Operands and result up to so much come from the L2 cache."""
    cached_bytes_per_ns: float = 1.0
    """At this rate, if it is more than the memory's."""
    grouped_step: float = 1.0
    """Arithmetic takes so many times as long in grouped products."""
    block_scaled_step: float = 1.0
    """A step takes so many times as long where FP8 has scales of blocks."""
    tile_results: float = 0.0
    """`tile_ns` is of a tile of so many results, and of others by their number: most of what a
    block does beside its steps is to write them. 0: it is of any tile."""
    kept_bytes: float = 0.0
    """A result up to so much stays in the L2 cache, whatever the operands take."""

    def moving_ns(self, traffic_bytes: float, written_bytes: float) -> float:
        """Time of a product's operands and result. Little of more than the cache holds is there."""
        held = min(1.0, (self.cached_bytes / traffic_bytes) ** 4)
        kept = min(1.0, (self.kept_bytes / max(1, written_bytes)) ** 4)
        rate = self.bandwidth_bytes_per_ns
        saved = 1 / rate - 1 / max(rate, self.cached_bytes_per_ns)
        from_cache = held * (traffic_bytes - written_bytes) + max(held, kept) * written_bytes
        return traffic_bytes / rate - from_cache * saved


@dataclass(frozen=True)
class PassRates:
    """One pass of an attention kernel on one multiprocessor."""

    sm_flops_per_ns: float
    softmax_ns: float
    """Per element of the score matrix."""
    tile_ns: float
    tail: float
    """Share of the longest block's time that the last wave adds."""
    assumed: bool = False
    """Not fitted to measurements of this kernel on this GPU."""


@dataclass(frozen=True)
class AttentionRates:
    """Coefficients of the attention model (`sim_server.kernels.attention`), for bf16."""

    forward: PassRates
    backward: PassRates
    latency_ns: float

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> AttentionRates:
        """The rates of a profile's table."""
        forward, backward = PassRates(**values["forward"]), PassRates(**values["backward"])
        return cls(forward, backward, values["latency_ns"])


@dataclass(frozen=True)
class KernelCosts:
    """What PyTorch's own kernels take of a GPU. Unless a profile says otherwise, what was fitted to
    A100; 0: not measured there. docs/accuracy-operators.md has H100's.

    Units: cycles of one multiprocessor; nanoseconds beside `kernel_floor_ns`.
    """

    l2_bytes_per_clock: float = 17.7
    """What a multiprocessor gets from the L2 cache: residual additions, microsoft/vidur@7d47513."""
    place_cycles: float = 0.0
    """For an element whose place in memory is worked out from strides, and for each of its
    operands: RMS norms and rotations of Hugging Face, linkedin/Liger-Kernel@ead96b61.
    """
    operand_cycles: float = 0.377
    cast_operand_cycles: float = 0.0
    """For each operand of an element that is cast."""
    moved_cycles: float = 0.0
    """For an element that a concatenation moves without vectors."""
    start_ns: float = 0.0
    """Until what is read is there, of vectors, and of elements that are cast or placed."""
    element_start_ns: float = 0.0


@dataclass(frozen=True)
class GpuProfile:
    """A GPU model, its host's costs, and what its software takes of its memory.

    Units: bytes, nanoseconds, operations per second.
    """

    profile: str
    name: str
    properties: Mapping[str, int]
    """Scalar fields of cudaDeviceProp (CUDA 13) by name."""
    extents: Mapping[str, tuple[int, ...]]
    """Array fields of cudaDeviceProp by name."""
    clocks: Mapping[str, int]
    software: Mapping[str, int | str]
    memory: Mapping[str, float]
    execution: Mapping[str, int]
    peak_per_s: Mapping[str, float]
    """Dense peak rate by type of the operands, with tensor cores where they take the type."""
    copies: Mapping[str, int]
    host: Mapping[str, float]
    gemm: GemmRates
    attention: AttentionRates
    """FlashAttention-2, which PyTorch brings."""
    fused_attention: AttentionRates
    """cuDNN's attention."""
    intervals: Mapping[str, tuple[float, float, str]] = default_field(default_factory=dict)
    """By kind of prediction: of what multiples of it 90 % are, and where that is from."""
    gemm_f32: GemmRates | None = None
    """Of f32 outside the tensor cores; None: `gemm`, by the ratio of peaks."""
    kernels: KernelCosts = KernelCosts()
    power: Mapping[str, float] = default_field(default_factory=dict)
    """`limit_w`: what the board may draw. `training`: how much longer than in short bursts products
    and attention take at that limit. Files of earlier versions have neither.
    """

    @property
    def architecture(self) -> str:
        """What libraries choose their kernels by, for messages."""
        major, minor = self.compute_capability
        return f"compute capability {major}.{minor}, {self.sm_count} multiprocessors"

    @property
    def compute_capability(self) -> tuple[int, int]:
        """Major and minor."""
        return self.properties["major"], self.properties["minor"]

    @property
    def sm_count(self) -> int:
        """Multiprocessors."""
        return self.properties["multiProcessorCount"]

    @property
    def memory_bytes(self) -> int:
        """Device memory in all, as cudaMemGetInfo says."""
        return self.properties["totalGlobalMem"]

    @property
    def context_bytes(self) -> int:
        """What a process's context takes of the device's memory."""
        return int(self.memory["context_bytes"])

    @property
    def nccl_bytes_per_communicator(self) -> int:
        """What NCCL takes of the device's memory for one communicator."""
        return int(self.memory["nccl_bytes_per_communicator"])

    @property
    def nccl_sm_count(self) -> int:
        """Multiprocessors that a NCCL kernel occupies."""
        return self.execution["nccl_sms"]

    @property
    def query_ns(self) -> int:
        """What a query of a stream or an event costs the host."""
        return self.execution["query_ns"]

    @property
    def bandwidth_bytes_per_ns(self) -> float:
        """Memory rate that a good streaming kernel reaches."""
        return self.memory["bandwidth_bytes_per_s"] * self.memory["efficiency"] / 1e9

    @property
    def power_limit_w(self) -> int:
        """What the board may draw."""
        return int(self.power["limit_w"])

    @property
    def training_factor(self) -> float:
        """How much longer than in short bursts products and attention take in training."""
        return self.power.get("training", 1.0)

    @property
    def l2_bytes(self) -> int:
        """Of the cache that all multiprocessors share."""
        return self.properties["l2CacheSize"]

    @property
    def cycles_per_ns(self) -> float:
        """Clock of the multiprocessors."""
        return self.clocks["sm_khz"] / 1e6

    @property
    def sm_bandwidth_bytes_per_ns(self) -> float:
        """Most that one multiprocessor moves to and from memory."""
        return self.execution["sm_bytes_per_clock"] * self.cycles_per_ns

    def peak_flops_per_ns(self, number: str) -> float:
        """Peak rate for operands of type `number` ("bf16", "f32" ...); f32's if it has none."""
        return self.peak_per_s.get(number, self.peak_per_s["f32"]) / 1e9

    def shim_keys(self) -> dict[str, str]:
        """This GPU's lines of shim.conf, which the launcher writes and the shim reads."""
        keys: dict[str, int | float | str] = {"gpu.name": self.name}
        keys |= {f"gpu.{field}": value for field, value in self.properties.items()}
        for field, values in self.extents.items():
            keys |= {f"gpu.{field}.{index}": value for index, value in enumerate(values)}
        attributes = attribute_values(self.properties, self.extents, self.clocks)
        keys |= {f"gpu.attribute.{number}": value for number, value in attributes.items()}
        keys |= {
            "gpu.clockRate": self.clocks["sm_khz"],
            "gpu.memoryClockRate": self.clocks["memory_khz"],
            "gpu.driverVersion": self.software["driver_version"],
            "gpu.driverRelease": self.software["driver_release"],
            "gpu.uuid_seed": self.software["uuid_seed"],
            "gpu.pciBusID_base": self.software["pci_bus_id_base"],
            "gpu.context_bytes": self.context_bytes,
            "gpu.nccl_bytes_per_communicator": self.nccl_bytes_per_communicator,
            "gpu.cublas_bytes_per_handle": int(self.memory["cublas_bytes_per_handle"]),
            "host.query_ns": self.query_ns,
        }
        for name, value in self.host.items():
            keys[f"host.{name}"] = float(value) if name == "cpu_factor" else int(value)
        return {key: str(value) for key, value in keys.items()}

    def to_dict(self) -> dict[str, Any]:
        """A JSON-compatible copy; `from_dict` reads it back."""
        return {
            "profile": self.profile,
            "name": self.name,
            "properties": {
                **self.properties,
                **{field: list(values) for field, values in self.extents.items()},
            },
            "clocks": dict(self.clocks),
            "software": dict(self.software),
            "memory": dict(self.memory),
            "execution": dict(self.execution),
            "peak_per_s": dict(self.peak_per_s),
            "copies": dict(self.copies),
            "host": dict(self.host),
            "gemm": vars(self.gemm).copy(),
            "gemm_f32": vars(self.gemm_f32).copy() if self.gemm_f32 else None,
            "attention": asdict(self.attention),
            "fused_attention": asdict(self.fused_attention),
            "intervals": {kind: list(values) for kind, values in self.intervals.items()},
            "kernels": vars(self.kernels).copy(),
            "power": dict(self.power),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> GpuProfile:
        """The profile that `to_dict` wrote, or that a profile's TOML tables hold."""
        fields = dict(values)
        properties = fields.pop("properties")
        tables: dict[str, Any] = {name: _Table(name, fields.pop(name)) for name in _TABLES}
        intervals = fields.pop("intervals", _UNKNOWN)  # files of earlier versions have none
        return cls(
            properties=_Table(
                "properties", {k: v for k, v in properties.items() if not isinstance(v, list)}
            ),
            extents={k: tuple(v) for k, v in properties.items() if isinstance(v, list)},
            gemm=GemmRates(**fields.pop("gemm")),
            gemm_f32=GemmRates(**single) if (single := fields.pop("gemm_f32", None)) else None,
            attention=AttentionRates.from_dict(fields.pop("attention")),
            fused_attention=AttentionRates.from_dict(fields.pop("fused_attention")),
            intervals={kind: _interval(*values) for kind, values in intervals.items()},
            kernels=KernelCosts(**fields.pop("kernels", {})),
            **tables,
            **fields,
        )


_TABLES = ("clocks", "software", "memory", "execution", "peak_per_s", "copies", "host")


class _Table(dict[str, Any]):
    """A table of a profile. Profiles come from files of runs, too: what one lacks is named."""

    def __init__(self, name: str, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self._name = name

    def __missing__(self, key: str) -> NoReturn:
        raise UsageError(f"The profile of the GPU has no {self._name}.{key}; it is damaged.")


# Of a profile that says nothing: a factor of three either way covers any guess (assumed).
_UNKNOWN = {
    "sustained": (1.0, 1.0, "not known"),
    "modelled": (1 / 3, 3.0, "not known"),
    "assumed": (1 / 3, 3.0, "not known"),
}


def _interval(low: float, high: float, source: str) -> tuple[float, float, str]:
    assert 0 < low <= 1 <= high, f"{low} to {high} ({source}) does not hold the prediction"
    return low, high, source
