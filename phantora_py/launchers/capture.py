"""Runs a launcher that ends in torchrun's own code, up to the point where it would start processes.

    python capture.py DESCRIPTOR GPUS MODULE FUNCTION [ARGUMENT ...]

Runs in the program's interpreter, which need not have phantora. FUNCTION of MODULE is the
launcher's; what it wants to start, and the variables that it has set, are written to DESCRIPTOR as
JSON. GPUS: what it finds, as JSON: `count`, and `properties` of each as PyTorch names them. What
the launcher prints is printed.
"""

import importlib
import json
import os
import runpy
import subprocess
import sys
from types import SimpleNamespace
from typing import Any


class _Captured(BaseException):
    """The launcher has said what it starts. Not an Exception: launchers catch those."""


class _Capture:
    """Takes the place of what starts processes. `found`: what was to be started."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}
        self._before = dict(os.environ)

    def take(self, kind: str, what: Any, environment: Any = None) -> None:
        """Raises: _Captured, always."""
        now = os.environ if environment is None else environment
        variables = {name: value for name, value in now.items() if self._before.get(name) != value}
        self.found = {"kind": kind, "what": what, "variables": variables}
        raise _Captured

    def stand_in(self, torchrun: Any) -> None:
        """`torchrun`: the module torch.distributed.run."""
        usual: Any = subprocess.Popen

        class Popen(usual):  # type: ignore[misc]
            """Looking at the machine is allowed; starting Python is what a launcher ends in."""

            def __init__(own, words: Any, *rest: Any, **options: Any) -> None:  # noqa: N805
                if isinstance(words, list | tuple) and words and words[0] == sys.executable:
                    self.take("command", list(words), options.get("env"))
                super().__init__(words, *rest, **options)

        torchrun.run = lambda arguments: self.take("torchrun", vars(arguments))
        runpy.run_path = (
            lambda path, *_, **__: self.take(  # type: ignore[assignment]
                "script", [path, *sys.argv[1:]]
            )
        )
        subprocess.Popen = Popen  # type: ignore[assignment,misc]


def _show_gpus(torch: Any, count: int, properties: dict[str, Any]) -> None:
    """What launchers, and the libraries that they import, ask of a GPU without using it."""
    found = SimpleNamespace(**properties)
    torch.cuda.device_count = lambda: count
    torch.cuda.is_available = lambda: count > 0
    torch.cuda.is_bf16_supported = lambda *_, **__: True
    torch.cuda.get_device_properties = lambda *_, **__: found
    torch.cuda.get_device_capability = lambda *_, **__: (found.major, found.minor)
    torch.cuda.get_device_name = lambda *_, **__: found.name


def main() -> None:
    """Ends with 0 if the launcher got as far, else as the launcher did."""
    descriptor, gpus, module, function, *arguments = sys.argv[1:]
    sys.path.pop(0)
    capture = _Capture()
    _show_gpus(importlib.import_module("torch"), **json.loads(gpus))
    capture.stand_in(importlib.import_module("torch.distributed.run"))
    sys.argv = [function, *arguments]
    try:
        getattr(importlib.import_module(module), function)()
    except _Captured:
        with open(int(descriptor), "w", encoding="utf-8") as answer:
            json.dump(capture.found, answer, default=str)
        return
    sys.exit(f"{module}.{function} has started no process.")


if __name__ == "__main__":
    main()
