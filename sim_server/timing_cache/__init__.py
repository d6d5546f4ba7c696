"""What was measured on real GPUs, kept from run to run: one file, read and written by many."""

from sim_server.timing_cache.entry import Entry, Environment, Failure, Measurement, Row
from sim_server.timing_cache.store import Damaged, TimingCache, put_away, set_aside

__all__ = [
    "Damaged",
    "Entry",
    "Environment",
    "Failure",
    "Measurement",
    "Row",
    "TimingCache",
    "put_away",
    "set_aside",
]
