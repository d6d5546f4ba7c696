"""The process that owns the GPU, from our side: started once, and again if it dies.

Both sides write JSON objects, one a line. The executor begins with its environment, then answers
each {"signature": ..., "launch": ...} with {"warm_ns": [...], "cold_ns": [...], "sm_khz": ...,
"memory_khz": ..., "temperature_c": ..., "outliers": ...}, the last three where they are known, or
with {"refused": "why"} for what it cannot do. "launch" is there for kernels of the run that goes
on: a file in which a rank has written down one (csrc/shim/launch/launch_keeper.h). While the
executor waits for the GPU it says {"waiting": "why"}, and has time again.
`phantora_py.profile.torch_executor` is one; tests have another. A signature that kills it, takes
too long or makes it talk nonsense is refused too: it costs a restart and never the run.
"""

from __future__ import annotations

import json
import queue
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime, timezone
from math import isfinite
from pathlib import Path
from typing import IO, Any

from sim_server.errors import UsageError
from sim_server.processes.signals import uninterrupted
from sim_server.timing_cache import Environment, Failure, Measurement

# Importing PyTorch and making a context; one series of measurements (both assumed, generously).
START_LIMIT_S = 120.0
ANSWER_LIMIT_S = 60.0
# A killed process that a driver holds on to is left to whoever sweeps up after the run (assumed).
_END_LIMIT_S = 10.0
LEAST_SAMPLES = 5
# Restarts with nothing measured between them, after which it is not tried again (assumed).
_MOST_FAILURES = 5
_TELL_EVERY_S = 1.0
_LAST_WORDS_BYTES = 2000
# Of a measurement, beside what every answer has.
_EXTRAS = ("memory_khz", "temperature_c", "outliers")


class Refused(Exception):  # noqa: N818 - says what happened
    """The executor has no figure for a signature. The message says why."""


class Broke(Refused):
    """The signature broke the executor, which works again."""

    def __init__(self, what: str, limit_s: float | None) -> None:
        """`limit_s`: see `Failure`."""
        super().__init__(what)
        self.limit_s = limit_s


class Executor:
    """Starts when it is entered, and ends with that."""

    def __init__(
        self,
        command: Sequence[str],
        origin: str,
        answer_limit_s: float = ANSWER_LIMIT_S,
        tell: Callable[[], None] = lambda: None,
        launches: Path | None = None,
    ) -> None:
        """`origin`: what measurements say of where they are from. `tell` is called now and then
        while somebody waits for an answer. `launches`: where ranks write down what they launch.
        """
        self._command = list(command)
        self._origin = origin
        self.answer_limit_s = answer_limit_s
        self._tell = tell
        self._launches = launches
        self._process: subprocess.Popen[str]
        self._lines: queue.SimpleQueue[str | None]
        self._errors: IO[bytes]
        self._failures = 0
        self._given_up = ""
        self.restarts = 0
        self.environment: Environment

    def measure(self, signature: Mapping[str, Any]) -> Measurement:
        """A series of launches. Raises: Refused, whatever goes wrong with the process; Broke where
        it is the signature that it goes wrong with.
        """
        if signature.get("host_bytes"):
            raise Refused("it uses memory of the host, and would be measured with the GPU's")
        if not self._given_up and self._process.poll() is not None:
            self._restart()  # Nobody asked it anything when it died.
        if self._given_up:
            raise Refused(self._given_up)
        try:
            answer = self._ask(signature)
            if "refused" in answer:
                raise Refused(str(answer["refused"]))
            measurement = self._measurement(signature, answer)
        except (BrokenPipeError, _Gone) as reason:
            self._restart()
            if self._given_up:
                raise Refused(str(reason)) from reason
            limit_s = self.answer_limit_s if isinstance(reason, _Late) else None
            raise Broke(str(reason), limit_s) from reason
        self._failures = 0
        return measurement

    def failure(self, signature: Mapping[str, Any], broke: Broke) -> Failure:
        """What is to be remembered of a signature that broke it."""
        return Failure(signature, str(broke), _now(), self._origin, broke.limit_s)

    def __enter__(self) -> Executor:
        """Raises: UsageError if it does not start."""
        self._errors = tempfile.TemporaryFile()
        try:
            self.environment = self._start()
        except BaseException:
            self._errors.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        self._errors.close()

    def _ask(self, signature: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        question: dict[str, Any] = {"signature": signature}
        kept = self._launches and self._launches / launch_name(signature)
        if kept and kept.exists():
            question["launch"] = str(kept)
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise _Gone("the executor had died") from error
        return self._receive(self.answer_limit_s)

    def _measurement(self, signature: Mapping[str, Any], answer: dict[str, Any]) -> Measurement:
        """Raises: _Gone for an answer that is none."""
        try:
            warm_ns = tuple(float(sample) for sample in answer["warm_ns"])
            cold_ns = tuple(float(sample) for sample in answer["cold_ns"])
            if len(warm_ns) < LEAST_SAMPLES or not all(map(isfinite, (*warm_ns, *cold_ns))):
                raise ValueError(f"{len(warm_ns)} warm samples of at least {LEAST_SAMPLES}")
            return Measurement(
                signature=signature,
                warm_ns=warm_ns,
                cold_ns=cold_ns,
                sm_khz=int(answer["sm_khz"]),
                date=_now(),
                origin=self._origin,
                **{name: int(answer[name]) for name in _EXTRAS if answer.get(name) is not None},
            )
        except (KeyError, TypeError, ValueError) as error:
            raise _Gone(f"it gave an answer that is none: {error!r}") from error

    def _restart(self) -> None:
        """What cannot be started again, or fails time after time, is done without from now on."""
        self._end()
        self._failures += 1
        self.restarts += 1
        if self._failures >= _MOST_FAILURES:
            self._given_up = f"the executor failed {self._failures} times in a row"
            return
        try:
            found = self._start()
        except UsageError as error:
            self._given_up = f"the executor could not be started again: {error}"
            return
        if found != self.environment:
            self._end()
            self._given_up = "the executor came back in another environment"

    def _end(self) -> None:
        self._process.kill()
        try:
            self._process.wait(_END_LIMIT_S)
        except subprocess.TimeoutExpired:
            return
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                continue  # What it was being asked was still on its way.

    def _start(self) -> Environment:
        self._errors.seek(0)
        self._errors.truncate()
        try:
            with ExitStack() as stack:
                self._spawn(stack)
                first = self._receive(START_LIMIT_S)
                if "refused" in first:
                    raise UsageError(f"the GPU executor cannot work here: {first['refused']}")
                environment = Environment(**first)
                stack.pop_all()
                return environment
        except (_Gone, TypeError) as reason:
            raise UsageError(f"the GPU executor did not start: {reason}{self._said()}") from reason

    def _spawn(self, stack: ExitStack) -> None:
        """Signals that ask for an end wait until `stack` ends the process; it never gets them."""
        try:
            with uninterrupted():
                self._process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=self._errors,
                    text=True,
                )
                stack.callback(self._end)
        except OSError as error:
            raise UsageError(
                f"the GPU executor {self._command[0]} does not start: {error}"
            ) from error
        assert self._process.stdout is not None
        self._lines = queue.SimpleQueue()
        reading = (self._process.stdout, self._lines)
        threading.Thread(target=_read, args=reading, daemon=True).start()

    def _receive(self, limit_s: float) -> dict[str, Any]:
        answer = {"waiting": ""}
        while "waiting" in answer:
            line = self._next_line(limit_s)
            if line is None:
                raise _Gone(f"the executor died of it, with status {self._process.wait()}")
            try:
                answer = json.loads(line)
            except ValueError as error:
                raise _Gone(f"it gave an answer that is none: {line.strip()[:80]!r}") from error
            if not isinstance(answer, dict):
                raise _Gone(f"it gave an answer that is none: {line.strip()[:80]!r}")
        return answer

    def _next_line(self, limit_s: float) -> str | None:
        end_s = time.monotonic() + limit_s
        while (left_s := end_s - time.monotonic()) > 0:
            self._tell()
            try:
                return self._lines.get(timeout=min(left_s, _TELL_EVERY_S))
            except queue.Empty:
                continue
        raise _Late(f"no answer within {limit_s:g} s")

    def _said(self) -> str:
        """The last that it wrote on its standard error, for a message."""
        size = self._errors.seek(0, 2)
        self._errors.seek(max(0, size - _LAST_WORDS_BYTES))
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return f". Its last words: {lines[-1]}" if lines else ""


def launch_name(signature: Mapping[str, Any]) -> str:
    """Of the file in which ranks write down its launch: FNV-1a of its text as they write it."""
    name = 0xCBF29CE484222325
    for byte in json.dumps(signature).encode():
        name = (name ^ byte) * 0x100000001B3 % (1 << 64)
    return f"{name:016x}"


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


class _Gone(Exception):  # noqa: N818 - says what happened
    """The process has ended, hangs or talks nonsense."""


class _Late(_Gone):
    """It hangs, or needs more time."""


def _read(pipe: IO[str], lines: queue.SimpleQueue[str | None]) -> None:
    try:
        for line in pipe:
            lines.put(line)
    except ValueError:
        pass  # closed while reading: it was ended by us
    lines.put(None)
