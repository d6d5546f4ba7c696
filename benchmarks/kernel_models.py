"""The product and attention models of sim_server.kernels over many shapes at once, and their fit.

Twins of `gemm.product_ns` and `attention.pass_ns`: `check_twins` compares them. A fit starts from
a GPU's data sheet, never from coefficients that have seen what is held out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace

import numpy as np
import numpy.typing as npt

from sim_server.gpu import GemmRates, GpuProfile
from sim_server.gpu.profile import PassRates
from sim_server.kernels.attention import Strips, pass_ns
from sim_server.kernels.gemm import SHORTEST_SPLIT, SPLITS, STEP, TILES, Product, product_ns

Floats = npt.NDArray[np.float64]
_CHOICES = np.array([(rows, columns, split) for rows, columns in TILES for split in SPLITS], float)
_ROWS, _COLUMNS, _SPLITS = _CHOICES.T
# Large errors count beyond their share, because the ninth decile is asked for too.
_SQUARES = 0.5
_ROUNDS = 3


@dataclass(frozen=True)
class Products:
    """bf16 products; what their shapes alone decide. `shapes`: [n, 3] of row-major m, n, k."""

    shapes: Floats
    sm_count: int
    tile_results: float
    kept_bytes: float
    """Both as in GemmRates."""
    allowed: npt.NDArray[np.bool_]
    depths: Floats
    waves: Floats
    traffic_bytes: Floats
    written_bytes: Floats
    partial_bytes: Floats

    @classmethod
    def of(cls, shapes: Floats, gpu: GpuProfile) -> Products:
        """The library sees columns first."""
        sm_count = gpu.sm_count
        n, m, k = (shapes[:, [axis]] for axis in range(3))
        tiles = np.ceil(m / _ROWS) * np.ceil(n / _COLUMNS)
        return cls(
            shapes,
            sm_count,
            gpu.gemm.tile_results,
            gpu.gemm.kept_bytes,
            allowed=(_SPLITS == 1) | (k / _SPLITS >= SHORTEST_SPLIT),
            depths=np.ceil(k / _SPLITS / STEP) * STEP,
            waves=np.ceil(tiles * _SPLITS / sm_count),
            traffic_bytes=2 * (m * k + k * n + m * n),
            written_bytes=2 * m * n,
            partial_bytes=np.where(_SPLITS > 1, m * n * 8 * _SPLITS, 0.0),
        )

    def take(self, chosen: npt.NDArray[np.int64]) -> Products:
        """Some of them."""
        names = ("shapes", "allowed", "depths", "waves", "traffic_bytes", "written_bytes")
        return replace(
            self, **{one: getattr(self, one)[chosen] for one in (*names, "partial_bytes")}
        )

    def predict(self, coefficients: Floats) -> Floats:
        """Nanoseconds. `coefficients`: in the order of GemmRates, numbers that are fitted."""
        rates = GemmRates(*coefficients)
        tile_ns = rates.tile_ns * (_ROWS * _COLUMNS / self.tile_results if self.tile_results else 1)
        step_ns = 2 * _ROWS * _COLUMNS / rates.sm_flops_per_ns
        step_ns = step_ns + 2 * (_ROWS + _COLUMNS) / rates.sm_bytes_per_ns
        compute_ns = self.waves * (self.depths * step_ns + tile_ns)
        compute_ns *= 1 + rates.throttle * compute_ns / (compute_ns + rates.throttle_ns)
        held = np.minimum(1, (rates.cached_bytes / self.traffic_bytes) ** 4)
        kept = np.maximum(held, np.minimum(1, (self.kept_bytes / self.written_bytes) ** 4))
        rate = rates.bandwidth_bytes_per_ns
        saved = 1 / rate - 1 / max(rate, rates.cached_bytes_per_ns)
        from_cache = held * (self.traffic_bytes - self.written_bytes) + kept * self.written_bytes
        memory_ns = self.traffic_bytes / rate - from_cache * saved
        memory_ns = memory_ns + self.partial_bytes / rates.reduction_bytes_per_ns
        longer, shorter = np.maximum(compute_ns, memory_ns), np.minimum(compute_ns, memory_ns)
        joined_ns = longer * (1 + (shorter / longer) ** rates.overlap) ** (1 / rates.overlap)
        joined_ns += np.where(_SPLITS > 1, rates.split_ns, 0.0)
        best_ns = np.where(self.allowed, joined_ns, np.inf).min(axis=1)
        return np.asarray(rates.latency_ns + best_ns)


@dataclass(frozen=True)
class Passes:
    """Attention passes in bf16. Shapes: [n] each."""

    strips: Floats
    tiles: Floats
    longest: Floats
    heads: Floats
    depths: Floats
    written_bytes: Floats
    """What the measurement moves beside the pass."""
    tile_elements: Floats
    products: int
    sm_count: int

    @classmethod
    def of(
        cls,
        shapes: Sequence[Strips],
        written_bytes: Floats,
        products: int,
        sm_count: int,
    ) -> Passes:
        """Of `products` matrix products a tile: 2 forward, 5 backward."""
        strips, tiles, longest = np.array([one.tiles() for one in shapes], float).T
        heads = np.array([one.heads for one in shapes], float)
        depths = np.ceil(np.array([one.head_dim for one in shapes]) / 32) * 32
        elements = np.array([one.tile_rows * one.tile_columns for one in shapes], float)
        return cls(
            *(strips, tiles, longest, heads, depths, written_bytes, elements, products, sm_count)
        )

    def take(self, chosen: npt.NDArray[np.int64]) -> Passes:
        """Some of them."""
        return Passes(
            self.strips[chosen],
            self.tiles[chosen],
            self.longest[chosen],
            self.heads[chosen],
            self.depths[chosen],
            self.written_bytes[chosen],
            self.tile_elements[chosen],
            self.products,
            self.sm_count,
        )

    @property
    def waves(self) -> Floats:
        """Blocks per multiprocessor."""
        return np.asarray(self.strips * self.heads / self.sm_count)

    def predict(self, coefficients: Floats) -> Floats:
        """Nanoseconds. `coefficients`: of PassRates, the latency, bytes per ns written beside."""
        flops, softmax_ns, block_ns, tail, latency_ns, write_rate = coefficients
        element_ns = 2 * self.products * self.depths / flops + softmax_ns
        tile_ns = self.tile_elements * element_ns
        blocks = self.strips * self.heads
        spread_ns = (self.tiles * self.heads * tile_ns + blocks * block_ns) / self.sm_count
        strip_ns = self.longest * tile_ns + block_ns
        busy_ns = spread_ns + tail * strip_ns * np.minimum(1, blocks / self.sm_count)
        passed_ns = np.maximum(busy_ns, strip_ns) + self.written_bytes / write_rate
        return np.asarray(latency_ns + passed_ns)


def product_start(gpu: GpuProfile, cached: bool = False) -> Floats:
    """Coefficients from a data sheet: where the fit of products begins. `cached`: with those of the
    L2 cache.
    """
    peak = gpu.peak_flops_per_ns("bf16") / gpu.sm_count
    nominal = gpu.memory["bandwidth_bytes_per_s"] / 1e9
    rates = [3000, 1.5 * peak, 100, 1000, 0.8 * nominal, 3, 20_000, 2000, 0.2, 1e6]
    return np.array([*rates, gpu.l2_bytes / 5, 2 * nominal] if cached else rates)


def pass_start(gpu: GpuProfile) -> Floats:
    """Likewise of attention."""
    peak = gpu.peak_flops_per_ns("bf16") / gpu.sm_count
    nominal = gpu.memory["bandwidth_bytes_per_s"] / 1e9
    return np.array([peak, 0.02, 1000, 0.8, 5000, 0.8 * nominal])


def fit(
    predict: Callable[[Floats], Floats], measured_ns: Floats, start: Floats, steps: int
) -> Floats:
    """Coefficients that bring `predict` close to `measured_ns`, by Nelder-Mead on their logarithms.

    Restarted: a simplex that has become flat finds on from a fresh one.
    """
    # Whoever only predicts needs no SciPy.
    from scipy.optimize import minimize  # noqa: PLC0415

    logarithms, goal = np.log(start), np.log(measured_ns)

    def loss(shift: Floats) -> float:
        errors = np.log(predict(np.exp(logarithms + shift))) - goal
        return float(np.abs(errors).mean() + _SQUARES * np.square(errors).mean())

    shift = np.zeros(len(start))
    for _ in range(_ROUNDS):
        simplex = np.vstack([shift, shift + 0.3 * np.eye(len(start))])
        options = {"maxiter": steps, "initial_simplex": simplex, "adaptive": True}
        shift = minimize(loss, shift, method="Nelder-Mead", options=options).x
    fitted: Floats = np.exp(logarithms + shift)
    return fitted


def check_twins(gpu: GpuProfile) -> None:
    """Fails if what is fitted here is not what the simulator computes."""
    shapes = np.array([(m, n, 4096) for m in (1, 64, 1000, 8192) for n in (128, 4096)], float)
    twin_ns = Products.of(shapes, gpu).predict(np.array(astuple(gpu.gemm)))
    for (m, n, k), ours_ns in zip(shapes.astype(int).tolist(), twin_ns, strict=True):
        product = Product(n, m, k, 1, 2 * (m * k + k * n + m * n), written_bytes=2 * m * n)
        theirs_ns = product_ns(product, gpu.gemm, gpu.sm_count)[0]
        assert abs(ours_ns / theirs_ns - 1) < 1e-9, (m, n, k, ours_ns, theirs_ns)
    strips = [
        Strips(size, size, 128, 64, 128, heads, True) for size in (512, 3000) for heads in (4, 90)
    ]
    rates = PassRates(2000, 0.02, 1000, 0.8)
    passes = Passes.of(strips, np.zeros(len(strips)), 2, gpu.sm_count)
    twin_ns = passes.predict(np.array([2000, 0.02, 1000, 0.8, 5000, 1]))
    for one, ours_ns in zip(strips, twin_ns, strict=True):
        theirs_ns = pass_ns(one, rates, 2, 5000, gpu.sm_count)
        assert abs(ours_ns / theirs_ns - 1) < 1e-9, (one, ours_ns, theirs_ns)
