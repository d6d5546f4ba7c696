"""A function as a process of its own, which goes on with what this one has imported."""

import contextlib
import os
import signal
import subprocess
import time
import traceback
from collections.abc import Callable, Mapping, Sequence

from phantora_py.isolation import system
from sim_server.processes.signals import SIGNALS

_Main = Callable[[Sequence[str]], int]
# How soon its end is seen.
_LOOK_EVERY_S = 0.005


def may_fork() -> bool:
    """Whether this process has one thread: none other holds a lock that a child would wait for."""
    return len(os.listdir("/proc/self/task")) == 1


class Forked:
    """A child that ends with this process, whatever ends it; like a `Popen` as far as a server
    needs one. It has a session and signals as a new program has, and no file of this process.
    """

    def __init__(
        self, main: _Main, words: Sequence[str], environment: Mapping[str, str], output: int
    ) -> None:
        """`main` gets `words` and returns the exit status; the first word is the process's name.
        `output`: the file for what it prints and for tracebacks.
        """
        self._status: int | None = None
        parent_pid = os.getpid()
        # A handler of ours would otherwise end, in the child, what is the parent's to end.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        self._pid = os.fork()
        if self._pid == 0:
            status = 1
            try:
                _as_new_program(parent_pid, words, environment, output)
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
                status = main(words[1:])
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def poll(self) -> int | None:
        """Its exit status, or minus the signal; None while it works."""
        if self._status is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            self._status = os.waitstatus_to_exitcode(status) if pid else None
        return self._status

    def wait(self, timeout: float | None = None) -> int:
        """What `poll` tells once it has ended. Raises: TimeoutExpired."""
        began_s = time.monotonic()
        while (status := self.poll()) is None:
            if timeout is not None and time.monotonic() - began_s > timeout:
                raise subprocess.TimeoutExpired(f"process {self._pid}", timeout)
            time.sleep(_LOOK_EVERY_S)
        return status

    def terminate(self) -> None:
        """Asks it to end, if it has not."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it, if it has not ended."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self._pid, number)


def _as_new_program(
    parent_pid: int, words: Sequence[str], environment: Mapping[str, str], output: int
) -> None:
    """Gives the child what a program has that was executed. Raises: OSError."""
    system.die_with_parent(parent_pid)
    os.setsid()
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    for standard, descriptor in enumerate((os.open(os.devnull, os.O_RDONLY), output, output)):
        os.dup2(descriptor, standard)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            with contextlib.suppress(OSError):  # that of the list itself
                os.close(int(name))
    with contextlib.suppress(OSError):  # it is only a name
        system.show_words(words)
    os.environ.clear()
    os.environ.update(environment)
