"""GPU profiles: complete, consistent, readable by the shim."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest

from sim_server.errors import UsageError
from sim_server.gpu import GpuProfile, load_gpu, profile_names
from sim_server.kernels import fill_rate


@pytest.fixture(params=profile_names())
def gpu(request: pytest.FixtureRequest) -> GpuProfile:
    return load_gpu(request.param)


def _driver_types() -> Path | None:
    spec = importlib.util.find_spec("nvidia.cu13")
    for place in spec.submodule_search_locations or () if spec else ():
        header = Path(place) / "include" / "driver_types.h"
        if header.is_file():
            return header
    return None


def test_builtin_names() -> None:
    """The GPUs are there, the common table is none of them."""
    data_centre = ["a100", "a100-40", "b200", "gb200", "h100", "h100-pcie", "h200", "l40s"]
    assert profile_names() == [*data_centre, "rtx4090"]


def test_variants_have_what_they_do_not_say_from_their_base() -> None:
    """The 40 GB A100 differs from the other in memory alone."""
    small, large = load_gpu("a100-40").to_dict(), load_gpu("a100").to_dict()
    differing = {key for key in large if small[key] != large[key]}
    assert differing == {"profile", "name", "properties", "clocks", "memory", "gemm", "intervals"}
    assert small["properties"] | {"totalGlobalMem": 0} == large["properties"] | {
        "totalGlobalMem": 0
    }


def test_nothing_of_a_scaled_gpu_counts_as_fitted(gpu: GpuProfile) -> None:
    """GPUs that nobody measured have assumed attention and wider intervals of products."""
    if gpu.profile in ("a100", "a100-40", "h100", "h200"):
        return
    assert gpu.attention.backward.assumed
    assert gpu.fused_attention.backward.assumed
    low, high, source = gpu.intervals["gemm large"]
    if gpu.profile in ("b200", "l40s", "rtx4090"):
        assert not source.startswith(("transfer", "assumed"))
        return
    assert high / low > 1.4
    assert source.startswith("transfer")


def test_unknown_name_is_a_usage_error() -> None:
    """A wrong name is answered with the nearest right one."""
    with pytest.raises(UsageError, match="did you mean 'h100'"):
        load_gpu("h10")


def test_json_round_trip(gpu: GpuProfile) -> None:
    """A profile survives its way through JSON."""
    assert GpuProfile.from_dict(json.loads(json.dumps(gpu.to_dict()))) == gpu


def test_a_profile_that_lacks_something(gpu: GpuProfile) -> None:
    """A file of a run may have lost a value: whoever needs it gets a sentence that names it."""
    values = gpu.to_dict()
    del values["copies"]["fill_latency_ns"]
    damaged = GpuProfile.from_dict(values)
    assert damaged.to_dict() == values
    with pytest.raises(UsageError, match=r"no copies\.fill_latency_ns; it is damaged"):
        fill_rate(damaged)


def test_every_field_of_the_device_properties(gpu: GpuProfile) -> None:
    """cudaDeviceProp of CUDA 13 has no field that the profile does not know."""
    header = _driver_types()
    if header is None:
        pytest.skip("no CUDA 13 headers")
    text = header.read_text(errors="replace")
    struct = text.split("struct __device_builtin__ cudaDeviceProp", 1)[1].split("};", 1)[0]
    declared = set(re.findall(r"(?:int|size_t)\s+(\w+)(?:\[\d+\])?;", struct)) - {"reserved"}
    # The shim makes the bus of a device from its ordinal.
    assert declared - {"pciBusID"} == set(gpu.properties) | set(gpu.extents)


def test_shim_keys_are_plain_lines(gpu: GpuProfile) -> None:
    """Keys and values fit `key = value` lines, and what the shim cannot do without is there."""
    keys = gpu.shim_keys()
    assert all("\n" not in key + value and "=" not in key for key, value in keys.items())
    costs = "light launch library copy event sync alloc collective setup clock_read"
    needed = {f"host.{name}_ns" for name in costs.split()} | {"host.cpu_factor", "gpu.name"}
    needed |= {f"host.driver_{name}_ns" for name in costs.split()[:-1]}
    needed |= {"gpu.totalGlobalMem", "gpu.driverVersion", "gpu.context_bytes", "gpu.uuid_seed"}
    needed |= {"gpu.nccl_bytes_per_communicator", "gpu.pciBusID_base", "gpu.maxGridSize.2"}
    assert needed <= keys.keys()


def test_attributes_agree_with_the_properties(gpu: GpuProfile) -> None:
    """What Triton asks through the driver is what PyTorch reads from the properties."""
    keys = gpu.shim_keys()
    for number, field in (
        (97, "sharedMemPerBlockOptin"),
        (16, "multiProcessorCount"),
        (75, "major"),
    ):
        assert keys[f"gpu.attribute.{number}"] == str(gpu.properties[field])
    asked = (1, 10, 13, 16, 36, 37, 38, 39, 75, 76, 81, 82, 95, 97, 102, 106, 115)
    assert all(f"gpu.attribute.{number}" in keys for number in asked)


@pytest.mark.parametrize(
    ("name", "memory_gib", "multiprocessors", "opt_in_bytes"),
    [
        # What PyTorch prints on such machines, and the CUDA programming guide.
        ("a100", (79.1, 79.4), 108, 163 * 1024),
        ("h100", (79.1, 79.3), 132, 227 * 1024),
        ("h200", (139.7, 139.9), 132, 227 * 1024),
        ("b200", (178.3, 178.4), 148, 227 * 1024),
        ("gb200", (184.30, 184.32), 152, 227 * 1024),
    ],
)
def test_published_facts(
    name: str, memory_gib: tuple[float, float], multiprocessors: int, opt_in_bytes: int
) -> None:
    """Memory, multiprocessors and shared memory are the real ones."""
    gpu = load_gpu(name)
    assert memory_gib[0] <= gpu.memory_bytes / 2**30 <= memory_gib[1]
    assert gpu.sm_count == multiprocessors
    assert gpu.properties["sharedMemPerBlockOptin"] == opt_in_bytes
    assert gpu.clocks["memory_khz"] * 2e3 * gpu.properties["memoryBusWidth"] / 8 == pytest.approx(
        gpu.memory["bandwidth_bytes_per_s"], rel=0.03
    )
