"""A run as a process of its own, so that it has its signals and threads to itself."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.text import Text

from phantora_py.agent.simulation import error_of
from phantora_py.api.options import RunOptions, words_of
from phantora_py.api.run import Run
from phantora_py.launch.module import module_command
from sim_server import simulation_pb2 as wire
from sim_server.errors import InternalError, LowTrust, PhantoraError

# The last error that a run prints, up to its end: `phantora: kind: message`.
_ERROR = re.compile(r"^phantora: [a-z ]+: ((?:(?!^phantora: [a-z ]+: ).)*)\Z", re.DOTALL | re.M)
# Of what a run said that ended without an error of its own.
_TAIL = 2000


def start(
    command: Sequence[str | os.PathLike[str]], env: Mapping[str, str], options: RunOptions
) -> Run:
    """As `phantora_py.run`. What the ranks print goes to `sys.stderr`, as with `--json`. Where no
    `output` is given, the data file goes into the working directory.
    """
    if isinstance(command, (str, os.PathLike)):
        raise TypeError(f"run() takes a list of words, as ['python', 'train.py'], not {command!r}")
    path = Path(options.get("output") or _default_output()).absolute()
    command_words = [os.fspath(word) for word in command]
    words = [*words_of({**options, "output": path}), "--", *command_words]
    exit_code, said = _carry_out(["run", "--json", *words], env)
    if exit_code != 0:
        raise _error(exit_code, said)
    return Run(path)


def _default_output() -> str:
    """Runs that begin in the same second have files of their own."""
    return f"phantora-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}.phr"


def _carry_out(words: Sequence[str], env: Mapping[str, str]) -> tuple[int, str]:
    """The exit code and what was said, which is also passed on."""
    said: list[str] = []
    with subprocess.Popen(
        [*module_command("phantora_py"), *words],
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,  # The summary, which the data file has.
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                said.append(line)
                sys.stderr.write(line)
            exit_code = process.wait()
        except BaseException:
            process.terminate()
            process.communicate()
            raise
    return exit_code, "".join(said)


def _error(exit_code: int, said: str) -> PhantoraError:
    """The run's own error. Notebooks ask for colours even where there is no terminal."""
    plain = Text.from_ansi(said).plain.rstrip()
    found = _ERROR.search(plain)
    error: PhantoraError
    if found is None:
        error = InternalError(f"the run ended with {exit_code}: {plain[-_TAIL:]}")
    elif exit_code == LowTrust.exit_code:  # The same as of gates, which runs do not have.
        error = LowTrust(found[1])
    else:
        error = error_of(wire.Failure(exit_code=exit_code, message=found[1]))
    error.exit_code = exit_code
    return error
