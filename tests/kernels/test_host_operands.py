"""Kernels that use managed memory which stays on the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from caches import H100, measurement

from sim_server.gpu import load_gpu
from sim_server.kernels import CachedTimer, KernelTimer, Tier
from sim_server.timing_cache import Entry, Environment

ADD = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
    "std::array<char*, 3ul>, false>(int, at::native::CUDAFunctor_add<float>, "
    "std::array<char*, 3ul>)"
)
COUNT = 1 << 26
MOVED_BYTES = 3 * 4 * COUNT
MODELS = KernelTimer(load_gpu("h100"))
LINK_BYTES_PER_NS = load_gpu("h100").copies["pinned_bytes_per_s"] / 1e9


@pytest.fixture
def signature(launch: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    return launch(ADD, grid=(COUNT // 512, 1, 1), scalars=((0, COUNT),))


@pytest.mark.parametrize("host_bytes", [4 * COUNT, 1 << 40])
def test_what_they_move_crosses_the_link(signature: dict[str, Any], host_bytes: int) -> None:
    """As much as there is on the host, or all; the time is assumed."""
    here = MODELS.time(signature)
    there = MODELS.time(signature | {"host_bytes": host_bytes})
    crossing_ns = min(host_bytes, MOVED_BYTES) / LINK_BYTES_PER_NS
    assert there.duration_ns == pytest.approx(crossing_ns, rel=0.01)
    assert there.duration_ns > 5 * here.duration_ns
    assert (here.tier, there.tier) == (Tier.MODELLED, Tier.ASSUMED)


def test_little_takes_no_longer(signature: dict[str, Any]) -> None:
    here, there = MODELS.time(signature), MODELS.time(signature | {"host_bytes": 4096})
    assert there.duration_ns == here.duration_ns


def test_lookups_tell_the_rows(launch: Callable[..., dict[str, Any]]) -> None:
    """One for each lookup, unless a cache has been given them; twice in the backward pass."""
    name = (
        "void split_embedding_codegen_forward_unweighted_kernel<float, float, float, {}, long, "
        "1ul, 32ul>(float const*)"
    )
    backward = (
        "void split_embedding_backward_codegen_rowwise_adagrad_unweighted_kernel_warp_per_row_1"
        "<float, float, float, long, 1, 32, false>(float const*)"
    )
    sizes = {"weights": 0, "lookups": 81_920, "bags": 8192, "results": 8192 * 128}
    without, cached, trained = (
        MODELS.time(launch(one, grid=(512, 1, 1), sizes=sizes) | {"host_bytes": 1 << 30})
        for one in (name.format("false"), name.format("true"), backward)
    )
    crossing_ns = 81_920 * 512 / LINK_BYTES_PER_NS
    assert without.duration_ns == pytest.approx(crossing_ns, rel=0.01)
    assert trained.duration_ns == pytest.approx(2 * crossing_ns, rel=0.01)
    assert cached.duration_ns < 0.3 * crossing_ns


def test_measurements_with_the_gpus_memory_say_nothing(signature: dict[str, Any]) -> None:
    """Neither of the kernel itself nor of others like it."""
    entries = [Entry(H100, [measurement(signature, 1e9)])]
    timer = CachedTimer(MODELS, entries, Environment("", "", "13.2", ""))
    there = signature | {"host_bytes": 4 * COUNT}
    assert timer.time(signature).tier is Tier.MEASURED
    assert timer.time(there) == MODELS.time(there)
