"""Lookups in embedding tables: how often rows repeat, and what of them a cache holds."""

from sim_server.lookups.cache import Share, hit_rates
from sim_server.lookups.histogram import ReuseHistogram
from sim_server.lookups.read import read_lookups
from sim_server.lookups.working_set import Lookups, Occurrences, Popularity, Sharded

__all__ = [
    "Lookups",
    "Occurrences",
    "Popularity",
    "ReuseHistogram",
    "Sharded",
    "Share",
    "hit_rates",
    "read_lookups",
]
