"""Runs `phantora run` as a user does, with real PyTorch programs, and tells what came of it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryFile
from types import MappingProxyType
from typing import IO, Any

import psutil
from command_forks import command_forks
from conforming import check_conforms

from phantora_py.data import RunData
from phantora_py.report.summary import summarise

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAMS = Path(__file__).parent / "programs"
LIMIT_S = 240.0
# For what a run leaves behind: the last of it goes within this time (assumed).
SETTLING_S = 15.0
# Unless a test names another: what tests expect of times are multiples of fixed ones.
HOST_TIME = "fixed"
MARK = "PHANTORA_TEST_MARK"


@dataclass(frozen=True)
class Run:
    """One run of `phantora run` that has ended."""

    exit_code: int
    output: str
    errors: str
    path: Path
    wall_s: float

    @cached_property
    def data(self) -> RunData:
        return RunData(self.path)

    @cached_property
    def summary(self) -> dict[str, Any]:
        summary = summarise(self.data)
        check_conforms(summary, "summary")
        return dict(summary)


def _written(file: IO[str]) -> str:
    file.seek(0)
    return file.read()


class Phantora:
    """Runs in one directory. `close` checks that nothing of them is left."""

    def __init__(self, directory: Path, limit_s: float = LIMIT_S) -> None:
        self.directory = directory
        self._limit_s = limit_s
        self._mark = uuid.uuid4().hex
        self._runs = 0

    def start(
        self,
        options: Sequence[str],
        command: Sequence[str | Path],
        environment: Mapping[str, str] = MappingProxyType({}),
        prefix: Sequence[str] = (),
        whole: Sequence[str] | None = None,
    ) -> tuple[subprocess.Popen[str], Path]:
        """A run that goes on, and its data file to be. Python programs run in our interpreter.

        Host time is `HOST_TIME` unless `options` say otherwise.
        `environment` is added to our own; `prefix` comes before the command line, as "nice" would.
        `whole`: all words of a command that is no Python program.
        """
        words, path = self._words(options, whole or [sys.executable, *map(str, command)])
        process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "phantora_py", *words],
            cwd=self.directory,
            env=self._environment(environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        return process, path

    def run(
        self,
        options: Sequence[str],
        command: Sequence[str | Path],
        environment: Mapping[str, str] = MappingProxyType({}),
        prefix: Sequence[str] = (),
        whole: Sequence[str] | None = None,
    ) -> Run:
        """A run to its end; arguments as of `start`. It is forked if that makes no difference."""
        started_s = time.monotonic()
        forks, own = command_forks(), self._environment(environment)
        if not prefix and forks.can_take(own):
            words, path = self._words(options, whole or [sys.executable, *map(str, command)])
            with ExitStack() as stack:
                outputs = [stack.enter_context(TemporaryFile("w+")) for _ in range(2)]
                try:
                    code = forks.run(words, self.directory, own, outputs, self._limit_s)
                except TimeoutError as hang:
                    raise self._hang("".join(map(_written, outputs))) from hang
                output, errors = map(_written, outputs)
            return Run(code, output, errors, path, time.monotonic() - started_s)
        process, path = self.start(options, command, environment, prefix, whole)
        with process:
            try:
                output, errors = process.communicate(timeout=self._limit_s)
            except subprocess.TimeoutExpired as hang:
                process.terminate()
                # Where its ranks are, as it has noted and says at its end.
                said = "".join(process.communicate(timeout=self._limit_s))
                raise self._hang(said) from hang
        return Run(process.returncode, output, errors, path, time.monotonic() - started_s)

    def _words(self, options: Sequence[str], command: Sequence[str]) -> tuple[list[str], Path]:
        """Those of the next run, and its data file."""
        self._runs += 1
        path = self.directory / f"run-{self._runs}.phr"
        words = ["run", "--quiet", "-o", str(path), "--host-time", HOST_TIME]
        return [*words, *options, "--", *command], path

    def _environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        return {**os.environ, **environment, MARK: self._mark}

    def _hang(self, said: str) -> AssertionError:
        return AssertionError(f"no end after {self._limit_s:g} s, and said: {said}")

    def left(self) -> list[str]:
        """Processes of our runs that still live, and their run directories."""
        found = []
        for process in psutil.process_iter():
            try:
                is_ours = process.environ().get(MARK) == self._mark
                # The environment that it shows is another's if it was forked.
                is_ours |= process.pid != os.getpid() and process.cwd() == str(self.directory)
                if is_ours and process.status() != "zombie":
                    found.append(f"{process.pid} {process.name()}")
            except psutil.Error:
                continue  # It has ended, or it is not ours.
        return found + [str(path) for path in self._run_directories() if path.exists()]

    def _run_directories(self) -> list[Path]:
        """Those that our programs have written down."""
        return [Path(note.read_text()) for note in self.directory.glob("run-directory-*")]

    def close(self) -> None:
        """Raises: AssertionError if a process or a run directory outlives the runs."""
        deadline_s = time.monotonic() + SETTLING_S
        while (left := self.left()) and time.monotonic() < deadline_s:
            time.sleep(0.05)
        assert not left, left
