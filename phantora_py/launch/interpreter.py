"""What a Python interpreter holds: its version and its torch, found without importing torch."""

import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from sim_server.collectives.version import NEWEST, version_code
from sim_server.errors import UsageError

# Releases from the oldest to the last that was tested are tried.
OLDEST_TORCH = (2, 5)
TESTED_TORCH = ((2, 6), (2, 8), (2, 9), (2, 10), (2, 11), (2, 12), (2, 14), (2, 15))
SUPPORTED_CUDA_MAJORS = (12, 13)

_RELEASE = re.compile(r"\d+\.\d+")
_NCCL_REQUIREMENT = re.compile(r"^Requires-Dist: nvidia-nccl-cu\d+ ?\(?==([\d.]+)", re.MULTILINE)

# Long enough for a cold start on a slow file system (assumed).
_INSPECTION_LIMIT_S = 60

# The first entry of sys.path is the working directory, which a script would not see.
_INSPECTION = """
import importlib.util, json, sys
sys.path.pop(0)
spec = importlib.util.find_spec("torch")
version = sys.version.split()[0]
print(json.dumps([sys.executable, sys.prefix, version, spec and spec.origin, sys.path]))
"""


@dataclass(frozen=True)
class Torch:
    """An installed torch. `cuda` is None for a build without CUDA."""

    version: str
    cuda: str | None
    directory: Path

    @property
    def release(self) -> tuple[int, int]:
        """Major and minor version."""
        found = _RELEASE.match(self.version)
        assert found is not None, self.version
        major, minor = found[0].split(".")
        return int(major), int(minor)

    @property
    def cuda_major(self) -> int:
        """0 for a build without CUDA."""
        return int(self.cuda.split(".")[0]) if self.cuda else 0


@dataclass(frozen=True)
class Interpreter:
    """A Python interpreter. `ours`: the one that runs phantora, so that ranks may be forked from
    it. `path`: where it looks for modules, but for the program's own directory.
    """

    executable: str
    prefix: str
    version: str
    torch: Torch | None
    path: tuple[str, ...] = ()

    @property
    def release(self) -> tuple[int, int]:
        """Major and minor version."""
        major, minor, *_ = self.version.split(".")
        return int(major), int(minor)

    @property
    def ours(self) -> bool:
        return self.prefix == sys.prefix


def inspect_interpreter(executable: str) -> Interpreter:
    """Looks into `executable`, a path.

    Raises: UsageError if it does not run.
    """
    if _is_ours(executable):
        spec = importlib.util.find_spec("torch")
        version = sys.version.split()[0]
        torch = _torch(spec.origin if spec else None)
        return Interpreter(executable, sys.prefix, version, torch, tuple(sys.path[1:]))
    try:
        answer = subprocess.run(
            [executable, "-c", _INSPECTION],
            capture_output=True,
            text=True,
            check=True,
            timeout=_INSPECTION_LIMIT_S,
        ).stdout
        found, prefix, version, origin, path = json.loads(answer)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise UsageError(f"The interpreter {executable} does not run: {error}") from error
    return Interpreter(found, prefix, version, _torch(origin), tuple(path))


def shim_keys(torch: Torch | None) -> dict[str, str]:
    """What the shim has to know of it: see ListLimits in csrc/shim/kernels/kernel_structures.cc,
    and the version of NCCL."""
    is_large = torch is not None and torch.cuda_major >= 13 and torch.release >= (2, 12)
    return {
        "torch.list_kib": "32" if is_large else "4",
        "nccl.version": str(nccl_version(torch)),
    }


def nccl_version(torch: Torch | None) -> int:
    """Of the NCCL that a program with this torch would load: of the wheel beside it, or else of the
    one that it asks for. A torch that was built with its own does not tell: the newest, then.
    """
    if torch is None or torch.cuda is None:
        return NEWEST
    wheels = f"nvidia_nccl_cu{torch.cuda_major}-*.dist-info"
    packages = torch.directory.parent
    versions = [path.name.split("-")[1] for path in sorted(packages.glob(wheels))]
    for metadata in packages.glob(f"torch-{torch.version.partition('+')[0]}*.dist-info/METADATA"):
        text = metadata.read_text(encoding="utf-8", errors="replace")
        versions += _NCCL_REQUIREMENT.findall(text)
    return next(filter(None, map(version_code, versions)), NEWEST)


def check_torch(interpreter: Interpreter) -> Torch:
    """The torch of `interpreter`, if it is one that can be simulated.

    Raises: UsageError that says what is there and what is supported.
    """
    torch = interpreter.torch
    where = f"The interpreter {interpreter.executable}"
    newest = TESTED_TORCH[-1]
    supported = (
        f"Supported: torch {_name(OLDEST_TORCH)} to {_name(newest)} "
        f"built for CUDA {', '.join(f'{major}.x' for major in SUPPORTED_CUDA_MAJORS)}."
    )
    if torch is None:
        raise UsageError(f"{where} has no torch. {supported}")
    if torch.cuda is None:
        raise UsageError(
            f"{where} has torch {torch.version}, a build without CUDA, which makes no GPU calls "
            "to simulate. Install a CUDA build, as PyPI has it for Linux (pip install "
            f"'torch=={_name(newest)}.*'); it needs no GPU. {supported}"
        )
    if torch.cuda_major not in SUPPORTED_CUDA_MAJORS or not OLDEST_TORCH <= torch.release <= newest:
        raise UsageError(
            f"{where} has torch {torch.version} for CUDA {torch.cuda}, which is not supported. "
            f"{supported}"
        )
    return torch


def note_untested(torch: Torch | None) -> list[str]:
    """What the user should be told of a release that has not been tried; nothing of another."""
    if torch is None or torch.cuda is None or torch.release in TESTED_TORCH:
        return []
    tested = ", ".join(map(_name, TESTED_TORCH))
    return [f"torch {torch.version} has not been tested with phantora; tested: {tested}."]


def _name(release: tuple[int, int]) -> str:
    return ".".join(map(str, release))


def _is_ours(executable: str) -> bool:
    """Same directory and same file: another virtual environment may link to the same file."""
    return os.path.dirname(os.path.abspath(executable)) == os.path.dirname(
        sys.executable
    ) and os.path.realpath(executable) == os.path.realpath(sys.executable)


def _torch(origin: str | None) -> Torch | None:
    """Reads torch/version.py next to `origin`, torch/__init__.py.

    Raises: UsageError if that is damaged, or does not tell a version.
    """
    if origin is None:
        return None
    directory = Path(origin).parent
    try:
        tree = ast.parse((directory / "version.py").read_text(encoding="utf-8"))
    except (OSError, SyntaxError) as error:
        raise UsageError(f"The torch in {directory} is damaged: {error}") from error
    found: dict[str, object] = {}
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=value)):
                found[name] = value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=value)):
                found[name] = value
    cuda, version = found.get("cuda"), found.get("__version__")
    if not isinstance(version, str) or _RELEASE.match(version) is None:
        raise UsageError(
            f"The torch in {directory} does not tell its version ({directory / 'version.py'} has "
            f"{'no __version__' if version is None else f'__version__ = {version!r}'}). "
            "Install it again."
        )
    return Torch(
        version=version,
        cuda=None if cuda is None else str(cuda),
        directory=directory,
    )
