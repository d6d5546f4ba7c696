"""The GPU executor's calls, on a simulated GPU: they come to the launches that were asked for.
That they are timed well is for a real one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from phantora_runs import PROGRAMS, Phantora, Run

from phantora_py.data import RunData
from phantora_py.profile.needs import signatures_of
from phantora_py.profile.suite import attention, linear
from phantora_py.profile.suite import product as suite_product
from sim_server.gpu import load_gpu
from sim_server.history import KERNEL_SPAN
from sim_server.kernels import KernelTimer
from sim_server.kernels.names import parse
from sim_server.records import MarkerKind
from sim_server.timing_cache.entry import signature_key

pytestmark = pytest.mark.torch
MODELS = KernelTimer(load_gpu("h100"))
# Families that no call is known for; docs/kernels.md says why.
NOT_COVERED = re.compile(
    r"^at::native::elementwise_kernel$|elementwise_kernel_with_index$|radix_sort::|DeviceCompact|"
    r"unique_by_key|krn_partial|compute_num_of_partial|sum_and_scatter$|compute_grad_weight|"
    r"lpnorm_cleanup$|Scan(Init)?Kernel$|prepare_grouped_gemm_data|_scatter_gather_elementwise"
)


def reissue(asked: list[Mapping[str, Any]], phantora: Phantora, folder: Path) -> Run:
    path = folder / "asked.json"
    path.write_text(json.dumps(asked))
    run = phantora.run(["--ranks", "1"], [PROGRAMS / "reissued_calls.py", str(path)])
    assert run.exit_code == 0, run.errors
    return run


def issued(data: RunData) -> list[set[tuple[str, int]]]:
    """Names and durations of the kernels in each range."""
    spans = data.spans[data.spans["kind"] == KERNEL_SPAN]
    ranges: dict[int, set[tuple[str, int]]] = {}
    begin_ns, number = 0, 0
    for _, time_ns, kind, name in data.markers:
        if kind == MarkerKind.RANGE_PUSH:
            begin_ns, number = time_ns, int(name)
        elif kind == MarkerKind.RANGE_POP:
            inside = (spans["issue_ns"] > begin_ns) & (spans["issue_ns"] <= time_ns)
            timings = [data.timings[index] for index in np.unique(spans["id"][inside])]
            found = {(row["name"], row["duration_ns"]) for row in timings}
            ranges.setdefault(number, set()).update(found)
    return [ranges.get(number, set()) for number in range(1 + max(ranges))]


def test_calls_come_to_what_was_asked_for(phantora: Phantora, tmp_path: Path) -> None:
    """Every kind that the suite has, batches and sums, down to the byte counts."""
    batch = {**suite_product(64, 96, 32, "NT", "bf16"), "batch": 6}
    batch["strides"] = [64 * 32, 32 * 96, 64 * 96]
    added = {**suite_product(64, 96, 32, "NN", "f32"), "beta": True}
    asked = [
        *linear(256, 128, 384, "bf16"),
        *linear(256, 128, 384, "f32"),
        *attention(2, 4, 512, 64),
        *attention(1, 2, 1024, 128),
        *(batch, added),
    ]
    run = reissue(asked, phantora, tmp_path)
    assert run.output == ""
    found = {signature_key(one) for one in signatures_of(run.data)}
    assert [one for one in asked if signature_key(one) not in found] == []


def test_operations_of_every_class_are_issued_again(phantora: Phantora, tmp_path: Path) -> None:
    """What a program launched, the calls for its signatures launch, each within its own calls; but
    for the families that are known not to be covered, and those are refused.
    """
    program = phantora.run(["--ranks", "1"], [PROGRAMS / "many_operations.py"])
    assert program.exit_code == 0, program.errors
    asked = signatures_of(program.data)
    run = reissue(asked, phantora, tmp_path)
    missing = []
    for signature, launched in zip(asked, issued(run.data), strict=False):
        timing = MODELS.time(signature)
        if (timing.name, timing.duration_ns) not in launched:
            missing.append(parse(signature["name"]).family if "name" in signature else signature)
    assert [one for one in missing if not NOT_COVERED.search(str(one))] == []
    classes = {MODELS.time(one).kernel_class for one in asked}
    assert classes >= {"gemm", "convolution", "attention", "norm", "loss", "optimizer", "embedding"}
    assert len(missing) < len(asked) / 8
    for line in run.output.splitlines():
        number, reason = json.loads(line)
        assert "no operation is known" in reason or "strides are not told" in reason, asked[number]
