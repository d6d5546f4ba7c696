"""The oracle's device: kernels that share multiprocessors, and copy engines. In exact fractions.

Running kernels share a device evenly: while their demands exceed what is there, all are slowed down
by the same factor. A kernel ends at the first whole nanosecond at which its work is done, and takes
its share until then.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import Any

from machine import NCCL_SM_COUNT, SM_COUNT

LEAST_AVAILABLE = Fraction(1, 10)


@dataclass(eq=False)
class Running:
    """A kernel, or what runs like one."""

    item: Any
    left_ns: Fraction
    demand: Fraction


@dataclass
class Device:
    """One GPU of one rank."""

    running: list[Running] = field(default_factory=list)
    """In order of their start."""
    launches: int = 0
    """NCCL launches under way."""
    since_ns: int = 0

    def speed(self) -> Fraction:
        """Work done per nanosecond, the same for every kernel."""
        available = max(1 - self.launches * Fraction(NCCL_SM_COUNT, SM_COUNT), LEAST_AVAILABLE)
        return min(Fraction(1), available / sum(kernel.demand for kernel in self.running))

    def move_to(self, now_ns: int) -> None:
        """Let the kernels work until now; before anything changes."""
        if self.running:
            done_ns = self.speed() * (now_ns - self.since_ns)
            for kernel in self.running:
                kernel.left_ns -= done_ns
        self.since_ns = now_ns

    def add(self, kernel: Running, now_ns: int) -> None:
        """A kernel starts."""
        self.move_to(now_ns)
        self.running.append(kernel)

    def remove(self, item: object, now_ns: int) -> None:
        """A kernel ends."""
        self.move_to(now_ns)
        self.running = [kernel for kernel in self.running if kernel.item is not item]

    def occupy(self, more: int, now_ns: int) -> None:
        """NCCL launches start or end."""
        self.move_to(now_ns)
        self.launches += more

    def next_end(self) -> tuple[int, Running] | None:
        """When a kernel ends, and which. Of several, that with the least work left, then the one
        that started first.
        """
        if not self.running:
            return None
        first = min(self.running, key=lambda kernel: kernel.left_ns)
        return self.since_ns + max(ceil(first.left_ns / self.speed()), 0), first
