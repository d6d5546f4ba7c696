"""Which model of host time a run has."""

from __future__ import annotations

from phantora_py.launch.interpreter import Interpreter
from phantora_py.launch.options import AUTO_HOST_TIME, RunOptions
from sim_server.errors import UsageError

COUNTABLE = ((3, 10), (3, 13))
"""The oldest and the newest Python whose calls csrc/shim/counting can count."""
_NEAREST = "counted"
_OTHERWISE = "fixed"


def choose_host_time(options: RunOptions, interpreter: Interpreter | None) -> tuple[str, list[str]]:
    """The model that the options name, else the nearest to real hosts that this run can have, and
    what to tell of the choice. `interpreter`: the program's; None if it is not Python's.

    Raises: UsageError if options contradict each other.
    """
    chosen = options.host_time
    if options.modules and chosen == "off":
        raise UsageError(
            "--modules is not for --host-time off: work is told apart by when it was issued."
        )
    if chosen != AUTO_HOST_TIME:
        return chosen, []
    if interpreter is None or COUNTABLE[0] <= interpreter.release <= COUNTABLE[1]:
        return _NEAREST, []
    known = " to ".join(f"{major}.{minor}" for major, minor in COUNTABLE)
    return _OTHERWISE, [
        f"host time is {_OTHERWISE}, not {_NEAREST}: the calls of Python {known} can be counted, "
        f"and this is {interpreter.version}."
    ]
