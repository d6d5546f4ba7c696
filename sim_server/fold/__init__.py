"""Folded runs: ranks that are not run because others do the same (docs/decisions/folding.md)."""

from sim_server.fold.mesh import Apart, Dimension, Fold, NotClosedError

__all__ = ["Apart", "Dimension", "Fold", "NotClosedError"]
