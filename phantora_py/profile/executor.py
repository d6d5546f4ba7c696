"""The process that owns the GPU, from our side: started when first needed, and again if it dies.

Both sides write JSON objects, one a line. The executor begins with its environment, then answers
each {"signature": ...} with {"warm_ns": [...], "cold_ns": [...], "sm_khz": ...}, or with
{"refused": "why"} for what it cannot do. `torch_executor` is one; tests have another. A signature
that kills it, or takes too long, is refused too: it costs a restart and never the whole.
"""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import IO, Any

from sim_server.errors import UsageError
from sim_server.timing_cache import Environment, Measurement

# Importing PyTorch and making a context; one series of measurements (both assumed, generously).
START_LIMIT_S = 120.0
ANSWER_LIMIT_S = 60.0


class Refused(Exception):  # noqa: N818 - says what happened
    """The executor has no figure for a signature. The message says why."""


class Executor:
    """Close it, or use it in a `with`."""

    def __init__(
        self, command: Sequence[str], origin: str, answer_limit_s: float = ANSWER_LIMIT_S
    ) -> None:
        """`origin`: what measurements say of where they are from.

        Raises: UsageError if it does not start.
        """
        self._command = list(command)
        self._origin = origin
        self._answer_limit_s = answer_limit_s
        self._process: subprocess.Popen[str]
        self._lines: queue.SimpleQueue[str | None]
        self.environment = self._start()

    def measure(self, signature: Mapping[str, Any]) -> Measurement:
        """A series of launches. Raises: Refused; UsageError if a new start fails."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"signature": signature}) + "\n")
            self._process.stdin.flush()
            answer = self._receive(self._answer_limit_s)
        except (BrokenPipeError, _Gone) as reason:
            self.close()
            before, self.environment = self.environment, self._start()
            assert self.environment == before, "the machine has changed"
            raise Refused(str(reason) or "the executor died of it") from reason
        if "refused" in answer:
            raise Refused(answer["refused"])
        return Measurement(
            signature=signature,
            warm_ns=tuple(answer["warm_ns"]),
            cold_ns=tuple(answer["cold_ns"]),
            sm_khz=answer["sm_khz"],
            date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            origin=self._origin,
        )

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def __enter__(self) -> Executor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> Environment:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self._lines = queue.SimpleQueue()
        reading = (self._process.stdout, self._lines)
        threading.Thread(target=_read, args=reading, daemon=True).start()
        try:
            first = self._receive(START_LIMIT_S)
        except _Gone as reason:
            self.close()
            raise UsageError(f"the GPU executor did not start: {reason}") from reason
        if "refused" in first:
            self.close()
            raise UsageError(f"the GPU executor cannot work here: {first['refused']}")
        return Environment(**first)

    def _receive(self, limit_s: float) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=limit_s)
        except queue.Empty as error:
            raise _Gone(f"no answer within {limit_s:.0f} s") from error
        if line is None:
            raise _Gone(f"the executor died of it, with status {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer


class _Gone(Exception):  # noqa: N818 - says what happened
    """The process has ended or hangs."""


def _read(pipe: IO[str], lines: queue.SimpleQueue[str | None]) -> None:
    try:
        for line in pipe:
            lines.put(line)
    except ValueError:
        pass  # closed while reading: it was ended by us
    lines.put(None)
