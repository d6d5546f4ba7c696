"""The page's tables of kernels and communication: means per rank and iteration, with shares."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from phantora_py.data import RunData
from phantora_py.report.exposed import exposed_rows
from phantora_py.report.gpus import run_gpus
from phantora_py.report.kernels import KernelRow, kernel_rows
from phantora_py.report.waiting import waiting_rows
from phantora_py.report.window import Window
from sim_server.kernels import Tier


class Basis:
    """What the tables' figures are means of."""

    def __init__(self, data: RunData, window: Window) -> None:
        self._window = window
        self._gpus = len(run_gpus(data))
        self._count = self._gpus * max(window.iterations, 1)

    @property
    def text(self) -> str:
        """In words."""
        if not self._window.iterations:
            return "Of the whole run, means over GPUs."
        return "Of the iterations after the first, means over GPUs and iterations."

    @property
    def whole_text(self) -> str:
        """What 100 % of the time is."""
        return "the iteration" if self._window.iterations else "the run"

    def mean(self, total: float) -> float:
        """Of a sum over GPUs and iterations."""
        return total / self._count

    def share(self, total_ns: int) -> float:
        """Of the whole time of all GPUs."""
        whole_ns = self._window.length_ns * self._gpus
        return total_ns / whole_ns if whole_ns else 0.0


def kernel_tables(data: RunData, window: Window) -> dict[str, list[dict[str, Any]]]:
    """By class, and by kernel."""
    rows = kernel_rows(data, window)
    basis = Basis(data, window)
    whole_ns = sum(row.total_ns for row in rows) or 1
    by_kernel = [
        {
            **asdict(row),
            "launches": basis.mean(row.launches),
            "mean_ns": row.total_ns / row.launches,
            "time_ns": basis.mean(row.total_ns),
            "share": row.total_ns / whole_ns,
        }
        for row in rows
    ]
    classes: dict[str, list[KernelRow]] = {}
    for row in rows:
        classes.setdefault(row.kernel_class, []).append(row)
    by_class = [_class_row(name, members, basis, whole_ns) for name, members in classes.items()]
    by_class.sort(key=lambda row: (-row["time_ns"], row["name"]))
    return {"kernels": by_kernel, "kernel_classes": by_class}


def _class_row(name: str, rows: list[KernelRow], basis: Basis, whole_ns: int) -> dict[str, Any]:
    total_ns = sum(row.total_ns for row in rows)
    by_tier = [sum(row.total_ns for row in rows if row.tier == tier.value) for tier in Tier]
    return {
        "name": name,
        "launches": basis.mean(sum(row.launches for row in rows)),
        "time_ns": basis.mean(total_ns),
        "share": total_ns / whole_ns,
        "tier_shares": [tier_ns / whole_ns for tier_ns in by_tier],
    }


def exposed_table(data: RunData, window: Window) -> list[dict[str, Any]]:
    """By operation, communicator and Python line. Operations: per iteration, not per rank."""
    basis = Basis(data, window)
    return [
        {
            **asdict(row),
            "operations": row.operations / max(window.iterations, 1),
            "time_ns": basis.mean(row.total_ns),
            "exposed_ns": basis.mean(row.exposed_ns),
            "waiting_ns": basis.mean(row.waiting_ns),
            "moving_ns": basis.mean(row.moving_ns),
            "share": basis.share(row.exposed_ns),
        }
        for row in exposed_rows(data, window)
    ]


def waiting_table(data: RunData, window: Window, most: int) -> dict[str, Any]:
    """The `most` rows that others waited for longest, per iteration, and how many are left."""
    rows = waiting_rows(data, window)
    iterations = max(window.iterations, 1)
    shown = [
        {
            **asdict(row),
            "operations": row.operations / iterations,
            "waited_ns": row.waited_ns / iterations,
            "late_ns": row.late_ns / iterations,
        }
        for row in rows[:most]
    ]
    return {"waiting": shown, "waiting_left_out": len(rows) - len(shown)}
