"""GPUs of a cluster that differ from a built-in one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sim_server.cluster import Cluster, gpu_of_node, load_cluster
from sim_server.cluster.recorded import check_recorded
from sim_server.errors import UsageError
from sim_server.gpu import GpuProfile, load_gpu, profile_names
from sim_server.kernels.timer import KernelTimer
from sim_server.settings import load_gpus

GPU = """
[gpu]
name = "h100-96"
device_name = "NVIDIA H100 96GB HBM2e"
memory = "96 GB"
bandwidth = "2.4 TB/s"
sm_clock = "1.98 GHz"
power_limit = "500 W"
"""
PRODUCT = {"kind": "gemm", "m": 8192, "n": 8192, "k": 8192} | dict.fromkeys("abcd", "bf16")


def write(tmp_path: Path, text: str) -> str:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return str(path)


def gpu_of(tmp_path: Path, text: str) -> GpuProfile:
    return gpu_of_node(load_cluster(write(tmp_path, text)))


def product_ns(gpu: GpuProfile) -> tuple[int, float, float]:
    """Of a large product: its duration and its interval."""
    timing = KernelTimer(gpu).time(PRODUCT)
    assert timing.interval is not None
    return timing.duration_ns, timing.interval.low, timing.interval.high


def test_what_a_file_says_of_its_gpu(tmp_path: Path) -> None:
    """It has its own name, memory and rates; whatever is not said is the base's."""
    cluster = load_cluster(write(tmp_path, f'base = "h100"\n{GPU}'))
    changed, base = gpu_of_node(cluster), load_gpu("h100")
    assert (cluster.gpu, changed.profile, changed.name) == (
        *("h100-96", "h100-96"),
        "NVIDIA H100 96GB HBM2e",
    )
    assert (changed.memory_bytes, changed.power_limit_w) == (96 * 10**9, 500)
    assert changed.bandwidth_bytes_per_ns == pytest.approx(
        base.bandwidth_bytes_per_ns * 2400 / 3352
    )
    assert (changed.peak_per_s, changed.host) == (base.peak_per_s, base.host)
    assert Cluster.from_dict(json.loads(json.dumps(cluster.to_dict()))) == cluster
    check_recorded(cluster)
    assert GpuProfile.from_dict(json.loads(json.dumps(changed.to_dict()))) == changed


def test_nothing_said_is_nothing_changed(tmp_path: Path) -> None:
    """A table with a name alone is the base under another name, also for timing caches."""
    changed, base = gpu_of(tmp_path, 'base = "h200"\n[gpu]\nname = "mine"\n'), load_gpu("h200")
    names = {"profile": "mine", "name": f"{base.name} (mine)"}
    assert changed.to_dict() == base.to_dict() | names


def test_a_power_limit_slows_products_and_widens_their_interval(tmp_path: Path) -> None:
    """By (500 / 700) ** (1/2), as far as multiprocessors decide; exponents of 1/3 and 1 are within
    the interval. What memory bounds stays."""
    base_ns, base_low, base_high = product_ns(load_gpu("h100"))
    text = 'base = "h100"\n[gpu]\npower_limit = "500 W"\n'
    changed_ns, low, high = product_ns(gpu_of(tmp_path, text))
    assert changed_ns / base_ns == pytest.approx((7 / 5) ** (1 / 2), rel=0.03)
    assert low == pytest.approx(base_low * (5 / 7) ** (1 / 6))
    assert high == pytest.approx(base_high * (7 / 5) ** (1 / 2))
    changed, base = gpu_of(tmp_path, text), load_gpu("h100")
    assert changed.intervals["norm"] == base.intervals["norm"]
    assert changed.bandwidth_bytes_per_ns == base.bandwidth_bytes_per_ns


def test_a_clock_scales_what_multiprocessors_do(tmp_path: Path) -> None:
    """Peak rates too, to which MFU refers."""
    text = 'base = "h100"\n[gpu]\nsm_clock = "990 MHz"\n'
    changed, base = gpu_of(tmp_path, text), load_gpu("h100")
    assert changed.peak_flops_per_ns("bf16") == base.peak_flops_per_ns("bf16") / 2
    assert product_ns(changed)[0] == pytest.approx(2 * product_ns(base)[0], rel=0.05)


def test_groups_have_gpus_of_their_own(tmp_path: Path) -> None:
    """Changed or not; one without a word has the cluster's."""
    groups = '[[node_groups]]\nnodes = 1\n[[node_groups]]\nnodes = 1\ngpu = "h200"\n'
    cluster = load_cluster(write(tmp_path, f'base = "h100"\n{GPU}\n{groups}'))
    first, others = load_gpus(cluster, 2)
    assert (first.profile, list(others)) == ("h100-96", ["h200"])
    assert others["h200"] == load_gpu("h200")


def test_every_built_in_gpu_has_a_power_limit() -> None:
    """So that any of them can be a base."""
    assert all(load_gpu(name).power_limit_w >= 300 for name in profile_names())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('base = "h100"\n[gpu]\nmemry = "1 GB"', "unknown key 'gpu.memry'; did you mean"),
        ('base = "h100"\n[gpu]\nbase = "h101"', "gpu: there is no GPU profile 'h101'"),
        ('base = "h100"\n[gpu]\nname = "h200"', "'h200' is a built-in GPU; give the changed"),
        ('base = "h100"\n[gpu]\npower_limit = "0 W"', "gpu.power_limit: '0 W' is none"),
        ('base = "h100"\n[gpu]\npower_limit = 500', "has no unit; write a power as text"),
        ('base = "h100"\n[gpu]\nsm_clock = "2 THz"', "'2 THz' is more than any GPU has"),
        ('base = "h100"\n[gpu]\nmemory = "9000 TB"', "'9000 TB' is more than any GPU has"),
        ('[gpu]\nmemory = "1 GB"', "'gpus_per_node' is missing"),
        (
            f'base = "h100"\n{GPU}\n[[node_groups]]\nnodes = 1\n[[node_groups]]\nnodes = 1\n'
            'gpu = {power_limit = "300 W"}',
            "there are two different 'h100-96'; give each a name of its own",
        ),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, message: str) -> None:
    """What cannot be is named, with its key."""
    with pytest.raises(UsageError) as error:
        load_cluster(write(tmp_path, text))
    assert message in str(error.value)
