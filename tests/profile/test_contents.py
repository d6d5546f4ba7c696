"""What is laid into memory before a kernel is launched again."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import replace

import pytest

from phantora_py.profile.calls import Refusal
from phantora_py.profile.contents import missing_contents
from sim_server.kernels.work import Launch
from sim_server.records.payloads import Kernel

BACKWARD = (
    "_ZN2at6native45_GLOBAL__N__495ba4d0_12_Embedding_cu_9c8c8d3a33embedding_backward_feature_kernel"
    "IfflEEvPKT1_PKT_PS6_ili"
)
GATHER = "_ZN2at6native24vectorized_gather_kernelILi16ElEEvPcS2_PT0_illllb"


def launch(name: str, *scalars: tuple[int, int]) -> Launch:
    signature: Kernel = {
        "kind": "kernel",
        "name": name,
        "grid": (2, 1, 1),
        "block": (32, 32, 1),
        "shared_bytes": 0,
        "scalars": list(scalars),
    }
    return Launch.from_signature(signature)


def pointers(*addresses: int) -> list[bytes]:
    return [address.to_bytes(8, "little") + b"more" for address in addresses]


def test_a_gather_finds_indices_of_all_rows() -> None:
    """Each as often as the others, not in order, where the pointer to them points."""
    gather = launch(GATHER, (3, 1000), (4, 256), (5, 100), (6, 256), (7, 256), (8, 0))
    ((address, content),) = missing_contents(gather, pointers(1 << 20, 2 << 20, 3 << 20), [])
    numbers = array("q", content)
    assert address == 3 << 20
    assert Counter(numbers) == {number: 10 for number in range(100)}
    assert list(numbers[:100]) != sorted(numbers[:100])


def test_gradients_of_an_embedding_go_to_the_rows_that_there_is_room_for() -> None:
    """From the table's pointer to the end of its allocation."""
    backward = launch(BACKWARD, (3, 48), (4, 64), (5, -1))
    regions = [(0, 1 << 20), (1 << 20, 4096 + 8 * 64 * 4)]
    ((address, content),) = missing_contents(backward, pointers(64, 0, (1 << 20) + 4096), regions)
    assert address == 64
    assert Counter(array("q", content)) == {number: 6 for number in range(8)}


def test_others_find_zeros() -> None:
    """But where the work depends on what nobody knows, nothing is measured."""
    assert missing_contents(launch("_Z4workPfj", (1, 5)), pointers(64, 5), []) == []
    name = "_ZN2at6native19compute_grad_weightIflEEvPKT0_PKT_PS2_"
    with pytest.raises(Refusal, match="values are not known"):
        missing_contents(launch(name), pointers(0, 0, 0), [])
    with pytest.raises(Refusal, match="is not told"):
        missing_contents(launch(BACKWARD, (3, 48), (4, 64)), pointers(64, 0, 64), [])


@pytest.mark.parametrize(
    "name",
    [
        "void at::native::reduce_kernel<128, 4, at::native::ReduceOp<float> >(float)",
        "void cub::DeviceScanKernel<Policy, long*, cub::ScanTileState<long, true> >(long*)",
        "void cub::DeviceRadixSortOnesweepKernel<Policy, long>(long*)",
    ],
)
def test_blocks_that_count_themselves_are_not_launched_again(name: str) -> None:
    """What the last launch has left there would be taken for their own progress."""
    with pytest.raises(Refusal, match="cleared before each launch"):
        missing_contents(replace(launch(name), grid=(2, 8, 1)), [], [])


def test_blocks_with_results_of_their_own_count_nothing() -> None:
    signature = launch("void at::native::reduce_kernel<512, 1, Sum>(float)")
    assert missing_contents(replace(signature, grid=(8, 1, 1)), [], []) == []
