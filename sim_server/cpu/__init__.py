"""What a processor takes for the work of a program's host (docs/host-time.md)."""

from sim_server.cpu.load import cpu_names, load_cpu
from sim_server.cpu.profile import CALLS, WORKS, CpuProfile

__all__ = ["CALLS", "WORKS", "CpuProfile", "cpu_names", "load_cpu"]
"""`CALLS` and `WORKS`: what is counted."""
