"""Collective communication: which algorithm, what it moves, how long it takes."""

from sim_server.collectives.communication import Communication, Way

__all__ = ["Communication", "Way"]
