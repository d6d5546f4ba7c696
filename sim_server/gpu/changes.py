"""A GPU that differs from a built-in one in memory, clock or power limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sim_server.gpu.profile import AttentionRates, GemmRates, GpuProfile, PassRates

# The rate of products at a power limit, by the ratio of the limits to this power. Dynamic power is
# the clock times the square of the voltage: if the voltage followed the clock the exponent would be
# a third, if it stayed, one. The interval lies between these. Three published rows of torchtitan
# on H100 at 500 W ask for products and attention of 1.25 times a burst's time, an exponent of 0.46
# beside what training takes at 700 W. An operator reports steps that are 10 to 15 % longer at 600 W
# instead of 700, exponents of 0.62 to 0.91 (factryze.ai/scale-atlas/power/power-capping).
_EXPONENT = 1 / 2
_EXPONENTS = (1 / 3, 1.0)
# Classes of kernels that draw as much as they may.
_POWER_BOUND = ("gemm", "attention", "convolution")


def changed_gpu(
    gpu: GpuProfile,
    profile: str,
    *,
    name: str | None = None,
    memory_bytes: int | None = None,
    bandwidth_bytes_per_s: int | None = None,
    sm_clock_khz: int | None = None,
    power_limit_w: int | None = None,
) -> GpuProfile:
    """`gpu` under the name `profile`, with what is given in place of its own.

    `name`: what programs and timing caches know it by. The default differs from that of `gpu`, so
    that what was measured there is not taken for this one. Rates that are fitted to `gpu` are
    scaled: those of memory by the bandwidth, those of multiprocessors by the clock, those of
    products and attention by the power limit too, whose intervals widen.
    """
    memory_bytes = memory_bytes or gpu.memory_bytes
    bandwidth_bytes_per_s = bandwidth_bytes_per_s or int(gpu.memory["bandwidth_bytes_per_s"])
    sm_clock_khz = sm_clock_khz or gpu.clocks["sm_khz"]
    power_limit_w = power_limit_w or gpu.power_limit_w
    bandwidth = bandwidth_bytes_per_s / gpu.memory["bandwidth_bytes_per_s"]
    clock = sm_clock_khz / gpu.clocks["sm_khz"]
    power = power_limit_w / gpu.power_limit_w
    rate = clock * power**_EXPONENT
    return replace(
        gpu,
        profile=profile,
        name=name or f"{gpu.name} ({profile})",
        properties={**gpu.properties, "totalGlobalMem": memory_bytes},
        clocks={**gpu.clocks, "sm_khz": sm_clock_khz},
        power={**gpu.power, "limit_w": power_limit_w},
        memory={**gpu.memory, "bandwidth_bytes_per_s": bandwidth_bytes_per_s},
        peak_per_s={number: value * clock for number, value in gpu.peak_per_s.items()},
        gemm=_scaled_gemm(gpu.gemm, rate, bandwidth),
        gemm_f32=_scaled_gemm(gpu.gemm_f32, rate, bandwidth) if gpu.gemm_f32 else None,
        attention=_scaled_attention(gpu.attention, rate),
        fused_attention=_scaled_attention(gpu.fused_attention, rate),
        intervals=_widened(gpu.intervals, power),
    )


def _scaled_gemm(rates: GemmRates, rate: float, bandwidth: float) -> GemmRates:
    return replace(
        rates,
        sm_flops_per_ns=rates.sm_flops_per_ns * rate,
        sm_bytes_per_ns=rates.sm_bytes_per_ns * rate,
        bandwidth_bytes_per_ns=rates.bandwidth_bytes_per_ns * bandwidth,
        reduction_bytes_per_ns=rates.reduction_bytes_per_ns * bandwidth,
    )


def _scaled_attention(rates: AttentionRates, rate: float) -> AttentionRates:
    return replace(
        rates,
        forward=_scaled_pass(rates.forward, rate),
        backward=_scaled_pass(rates.backward, rate),
    )


def _scaled_pass(rates: PassRates, rate: float) -> PassRates:
    return replace(
        rates,
        sm_flops_per_ns=rates.sm_flops_per_ns * rate,
        softmax_ns=rates.softmax_ns / rate,
    )


def _widened(
    intervals: Mapping[str, tuple[float, float, str]], power: float
) -> dict[str, tuple[float, float, str]]:
    """What the limit's exponent leaves open is added to the classes that the limit bounds."""
    below, above = sorted(power ** (_EXPONENT - one) for one in _EXPONENTS)

    def widen(kind: str, low: float, high: float, source: str) -> tuple[float, float, str]:
        if power == 1 or kind.removeprefix("assumed ").split()[0] not in _POWER_BOUND:
            return low, high, source
        return low * below, high * above, f"{source}; power limit"

    return {kind: widen(kind, *values) for kind, values in intervals.items()}
