"""Phantora: runs an unchanged PyTorch training command on a virtual GPU cluster.

`phantora_py.cli` is where a command starts; `phantora_py.launch.run` carries `phantora run` out.
`mark_iteration` is for programs that want to say themselves what an iteration is.
"""

from phantora_py.rank.markers import mark_iteration

__all__ = ["__version__", "mark_iteration"]
__version__ = "0.1.0"
