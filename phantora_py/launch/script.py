"""A script that calls a launcher: `bash run.sh`, which calls torchrun.

The script runs once, as it would, outside of the ranks. The launchers in its PATH are stand-ins,
and a Python that it starts asks before it does anything (`phantora_py.launchers.stand_in`): what
turns out to be a launcher's command is handed over, becomes the run, and ends with the run's exit
code. Then the script goes on.
"""

import json
import os
import queue
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import phantora_py
from phantora_py.launch.command import is_launch
from phantora_py.launchers import stand_in
from phantora_py.launchers.recognise import NAMES
from phantora_py.launchers.sbatch import read_job, variables_of_job
from phantora_py.launchers.scripts import job_script, script_launcher
from sim_server.errors import PhantoraError, RankFailed, UsageError

_SITE = Path(phantora_py.__file__).parent / "rank" / "site"
_PYTHON = "PHANTORA_PYTHON"
# The next Python in PATH, which asks us although the script may have set PYTHONPATH anew.
_REAL_PYTHON = """\
IFS=:
for entry in $PATH; do
    [ "$entry" = {ours} ] || rest="${{rest:+$rest:}}$entry"
done
unset IFS
real=$(PATH="$rest" command -v {name}) || {{ echo "{name}: not found" >&2; exit 127; }}
PYTHONPATH={site}${{PYTHONPATH:+:$PYTHONPATH}} exec "$real" "$@"
"""
_LOOK_S = 0.05
_GRACE_S = 2.0


@dataclass(frozen=True)
class _Handed:
    """What a launcher in the script was to start; `end` tells it how that went."""

    words: tuple[str, ...]
    environment: dict[str, str]
    directory: str
    end: Callable[[int], None]


@contextmanager
def launch_of_script(
    words: Sequence[str], to_stderr: bool
) -> Iterator[tuple[tuple[str, ...] | None, int | None]]:
    """Within it this process has the directory and variables of the launch that the script of
    `words` calls; yields its words, or None if the command is no such script, and the script's
    process if it is one.

    `to_stderr`: where the script's output goes. Raises: UsageError if it launches nothing, or more
    than once; RankFailed if it fails after a launch that went well.
    """
    if not words or is_launch(words):
        yield None, None
        return
    words, variables = _as_job(words)
    launcher = None if _is_python(words) else script_launcher(words)
    if launcher is None:
        yield (words if variables else None), None
        return
    text = shlex.join(words)
    with ExitStack() as stack:
        desk = stack.enter_context(_Desk())
        script = stack.enter_context(_running(words, desk, variables, to_stderr))
        handed = _wait(script, desk, text, launcher)
        before = dict(os.environ), os.getcwd()
        stack.callback(_enter, *before)
        _enter(handed.environment, handed.directory)
        try:
            yield handed.words, script.pid
        except PhantoraError as error:
            handed.end(error.exit_code)
            if error.exit_code < 128:
                script.wait()
            raise
        handed.end(0)
        status = script.wait()
    if desk.refused:
        raise UsageError(
            f"{text} starts a second launch: {desk.refused}. A run is one launch; give each a "
            "`phantora run` of its own."
        )
    if status != 0:
        raise RankFailed(f"{text} ended with exit code {status} after its launch had ended well.")


def _as_job(words: Sequence[str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """A job's script with the variables that Slurm gives it; other words as they are.

    Raises: UsageError for options of sbatch that cannot be simulated.
    """
    text = job_script(words) or ""
    if os.path.basename(words[0]) == "sbatch":
        given = read_job(words[1:], text)
        if not given.rest:
            raise UsageError("sbatch is given no script.")
        words = ("bash", *given.rest)
    elif text:
        given = read_job((), text)
    else:
        return tuple(words), {}
    return tuple(words), variables_of_job(given, os.environ)


def _is_python(words: Sequence[str]) -> bool:
    return os.path.basename(words[0]).startswith("python")


def _enter(environment: dict[str, str], directory: str) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)


def _wait(script: "subprocess.Popen[bytes]", desk: "_Desk", text: str, launcher: str) -> _Handed:
    """Until a launch is handed over. Raises: UsageError if the script ends without one."""
    while True:
        try:
            return desk.handed.get(timeout=_LOOK_S)
        except queue.Empty:
            status = script.poll()
        if status is not None and desk.handed.empty():
            how = f"ended with exit code {status}" if status else "ended"
            raise UsageError(
                f"{text} names {launcher}, but {how} before it had started it. Give its launch to "
                f"phantora run directly: phantora run -- {launcher} ..."
            )


@contextmanager
def _running(
    words: Sequence[str], desk: "_Desk", variables: Mapping[str, str], to_stderr: bool
) -> Iterator["subprocess.Popen[bytes]"]:
    """The script, in a session of its own, so that Ctrl-C is for us alone."""
    try:
        script = subprocess.Popen(
            list(words),
            env=desk.environment() | dict(variables),
            stdout=2 if to_stderr else None,
            start_new_session=True,
        )
    except OSError as error:
        raise UsageError(f"{words[0]} cannot be started: {error.strerror}.") from error
    try:
        yield script
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(script.pid, number)
            with suppress(subprocess.TimeoutExpired):
                script.wait(_GRACE_S)
                break


class _Desk:
    """Where launchers of the script are handed over. `handed`: the first; `refused`: a second."""

    def __init__(self) -> None:
        self.handed: queue.Queue[_Handed] = queue.Queue()
        self.refused = ""
        self._taken = False
        self._lock = threading.Lock()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._directory = Path(tempfile.mkdtemp(prefix="phantora-script-"))

    def __enter__(self) -> "_Desk":
        self._listener.bind(str(self._directory / "socket"))
        self._listener.listen(64)
        self._make_stand_ins()
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def environment(self) -> dict[str, str]:
        """Of the script."""
        before = os.environ
        path = [str(self._programs), before.get("PATH", os.defpath)]
        modules = [str(_SITE), *filter(None, [before.get("PYTHONPATH")])]
        return {
            **before,
            "PATH": os.pathsep.join(path),
            "PYTHONPATH": os.pathsep.join(modules),
            _PYTHON: sys.executable,
            stand_in.SOCKET: str(self._directory / "socket"),
        }

    @property
    def _programs(self) -> Path:
        return self._directory / "bin"

    def _make_stand_ins(self) -> None:
        self._programs.mkdir()
        for name in NAMES:
            words = [sys.executable, "-I", "-S", stand_in.__file__, name]
            self._make_program(name, f'exec {shlex.join(words)} "$@"\n')
        scontrol = [sys.executable, "-I", "-S", str(_SITE.parent / "scontrol.py")]
        self._make_program("scontrol", f'exec {shlex.join(scontrol)} "$@"\n')
        own = {"ours": shlex.quote(str(self._programs)), "site": shlex.quote(str(_SITE))}
        for name in ("python", "python3"):
            self._make_program(name, _REAL_PYTHON.format(name=name, **own))

    def _make_program(self, name: str, text: str) -> None:
        program = self._programs / name
        program.write_text(f"#!/bin/sh\n{text}", encoding="utf-8")
        program.chmod(0o755)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # It was closed.
            threading.Thread(target=self._receive, args=[connection], daemon=True).start()

    def _receive(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            told = b"".join(iter(lambda: connection.recv(1 << 16), b""))
            message = json.loads(told.decode("utf-8", "surrogateescape"))
            if not is_launch(message["words"]):
                _send(connection, {"status": None})
                return
            with self._lock:
                first, self._taken = not self._taken, True
            if not first:
                self.refused = shlex.join(message["words"])
                said = f"phantora: usage: a run is one launch: {self.refused} is not started."
                _send(connection, {"status": UsageError.exit_code, "message": said})
                return
            _send(connection, {"launch": True})
            ended = threading.Event()

            def end(status: int) -> None:
                with suppress(OSError):  # whoever waited was killed
                    _send(connection, {"status": status})
                ended.set()

            self.handed.put(
                _Handed(
                    tuple(message["words"]),
                    self._without_ours(message["environment"]),
                    message["directory"],
                    end,
                )
            )
            ended.wait()

    def _without_ours(self, environment: dict[str, str]) -> dict[str, str]:
        """The variables as they were in the script but for what is there for the script only."""
        kept = {
            name: value
            for name, value in environment.items()
            if name not in (stand_in.SOCKET, _PYTHON)
        }
        for name, ours in (("PATH", self._programs), ("PYTHONPATH", _SITE)):
            entries = kept.pop(name, "").split(os.pathsep)
            left = [entry for entry in entries if entry and entry != str(ours)]
            if left:
                kept[name] = os.pathsep.join(left)
        return kept


def _send(connection: socket.socket, message: dict[str, object]) -> None:
    connection.sendall(json.dumps(message).encode() + b"\n")
