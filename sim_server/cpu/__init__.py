"""What a processor takes for the work of a program's host (docs/host-time.md)."""

from sim_server.cpu.load import DEFAULT_CPU, cpu_names, is_amd, load_cpu
from sim_server.cpu.profile import CALLS, WORKS, CpuProfile

__all__ = ["CALLS", "DEFAULT_CPU", "WORKS", "CpuProfile", "cpu_names", "is_amd", "load_cpu"]
"""`CALLS` and `WORKS`: what is counted."""
