"""How near a replay comes to the original: two data files, iteration by iteration."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from phantora_py.data import RunData
from phantora_py.report.findings import Findings
from phantora_py.report.window import Window
from phantora_py.runs.resimulate import resimulate
from phantora_py.runs.what_if import WhatIf
from phantora_py.text.units import duration_text, percent_text, size_text
from sim_server.errors import UsageError
from sim_server.log.history import KERNEL_SPAN

_WITH_PYTHON = ("counted", "measured", "recorded")
"""Models of host time that know the program's own work."""


def score(replayed: Path, original: Path) -> dict[str, Any]:
    """Figures of an iteration of both, and by how much the replay's differ.

    Times are in ns: of an iteration the median; of kernels all of rank 0's in the iterations,
    divided by their number. Where the host time of one has the program's own work, both are
    compared without host time, because a replay's Python is another. Raises: UsageError if one has
    no iterations.
    """
    runs = [RunData(replayed), RunData(original)]
    sees_host = any(one.run["host_time"] in _WITH_PYTHON for one in runs)
    with TemporaryDirectory(prefix="phantora-score-") as folder:
        if sees_host:
            runs = [_without_host(one, Path(folder) / str(at)) for at, one in enumerate(runs)]
        ours, theirs = map(_figures, runs)
    classes = sorted({*ours["kernel_ns"], *theirs["kernel_ns"]})
    return {
        "iteration_ns": _pair(ours["iteration_ns"], theirs["iteration_ns"]),
        "kernels": _pair(ours["kernels"], theirs["kernels"]),
        "kernels_equal": ours["names"] == theirs["names"],
        "kernels_differing": _differing(ours["names"], theirs["names"]),
        "kernel_ns": {
            one: _pair(ours["kernel_ns"].get(one, 0), theirs["kernel_ns"].get(one, 0))
            for one in classes
        },
        "collectives": _pair(sum(ours["moved"].values()), sum(theirs["moved"].values())),
        "collectives_equal": ours["moved"] == theirs["moved"],
        "collectives_differing": _differing(_named(ours["moved"]), _named(theirs["moved"])),
        "collective_bytes": _pair(_bytes(ours["moved"]), _bytes(theirs["moved"])),
        "peak_memory_bytes": _pair(ours["peak_bytes"], theirs["peak_bytes"]),
        "without_host_time": sees_host,
    }


def _without_host(data: RunData, path: Path) -> RunData:
    """The same run on hosts that take no time, simulated into `path`."""
    resimulate(data, WhatIf(host_time_off=True), path)
    return RunData(path)


def _figures(data: RunData) -> dict[str, Any]:
    findings = Findings(data)
    if findings.median_ns is None:
        raise UsageError(
            f"{data.path} has no iterations that could be compared: it needs two optimizer steps "
            "or more."
        )
    window: Window = findings.window
    spans = data.spans_of(0)
    spans = window.ended_in(spans[spans["kind"] == KERNEL_SPAN])
    names: Counter[str] = Counter()
    kernel_ns: Counter[str] = Counter()
    for number, begin_ns, end_ns in zip(
        *(spans[name].tolist() for name in ("id", "start_ns", "end_ns")), strict=True
    ):
        timing = data.timings[number]
        names[timing["name"]] += 1
        kernel_ns[timing["class"]] += end_ns - begin_ns
    moved = Counter(
        (one["kind"], one["bytes"], *sorted(one["members"])) for one in window.operations_in(data)
    )
    peaks = [one["device_peak_bytes"] for one in data.memory["per_rank"]]
    return {
        "iteration_ns": findings.median_ns,
        "kernels": sum(names.values()),
        "names": names,
        "kernel_ns": dict(kernel_ns),
        "moved": moved,
        "peak_bytes": max(peaks, default=0),
    }


def _named(moved: Counter[tuple[Any, ...]]) -> Counter[str]:
    return Counter(
        {
            f"{kind} of {size_bytes:,} B among ranks {', '.join(map(str, members))}": count
            for (kind, size_bytes, *members), count in moved.items()
        }
    )


def _bytes(moved: Counter[tuple[Any, ...]]) -> int:
    return sum(count * size_bytes for (_, size_bytes, *_), count in moved.items())


def _differing(ours: Counter[str], theirs: Counter[str]) -> dict[str, dict[str, int]]:
    return {
        name: {"replay": ours[name], "original": theirs[name]}
        for name in sorted({*ours, *theirs})
        if ours[name] != theirs[name]
    }


def _pair(replay: int, original: int) -> dict[str, float | None]:
    change = None if not original else replay / original - 1
    return {"replay": replay, "original": original, "change": change}


def score_lines(found: dict[str, Any]) -> list[str]:
    """As text."""

    def line(what: str, pair: dict[str, Any], text: Any) -> str:
        change = "" if pair["change"] is None else f"   {_signed(pair['change'])}"
        return f"{what:<28}{text(pair['replay']):>14}{text(pair['original']):>14}{change}"

    lines = [
        f"{'':<28}{'replay':>14}{'original':>14}",
        line("iteration", found["iteration_ns"], duration_text),
        line("kernels of rank 0", found["kernels"], lambda count: f"{count:,}"),
        *(line(f"  {name}", pair, duration_text) for name, pair in found["kernel_ns"].items()),
        line("collectives", found["collectives"], lambda count: f"{count:,}"),
        line("  bytes", found["collective_bytes"], size_text),
        line("peak memory", found["peak_memory_bytes"], size_text),
    ]
    if found["without_host_time"]:
        lines.append("without host time: a replay's Python is not the program's")
    for what in ("kernels", "collectives"):
        lines.append(f"{what} are {'the same' if found[f'{what}_equal'] else 'not the same'}")
        lines += [
            f"  {name}: {counts['replay']:,} for {counts['original']:,}"
            for name, counts in found[f"{what}_differing"].items()
        ]
    return lines


def _signed(change: float) -> str:
    return f"{'+' if change >= 0 else '-'}{percent_text(abs(change))}"
