"""Phantora: runs an unchanged PyTorch training command on a virtual GPU cluster.

`phantora_py.cli` is where a command starts; `phantora_py.launch.run` carries `phantora run` out.
"""

__version__ = "0.1.0"
