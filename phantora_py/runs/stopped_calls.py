"""Calls that are not modelled, made by a process below a rank.

Such a process ends with exit code 3, and its parent may end with any other. It has left word of
what it called (csrc/shim/calls/unsupported.cc).
"""

from dataclasses import replace
from pathlib import Path

from phantora_py.agent.kept_files import STOPPED_CALL
from phantora_py.agent.parts import Outcome
from sim_server.errors import RankFailed, UnsupportedCall

_LONGEST = 200


def explain(outcome: Outcome, run_directory: Path) -> Outcome:
    """The outcome; if a rank has failed and one of its processes left word, with the cause."""
    if outcome.exit_code != RankFailed.exit_code:
        return outcome
    try:
        text = (run_directory / STOPPED_CALL).read_text(encoding="ascii", errors="replace")
    except FileNotFoundError:
        return outcome
    message = (
        f"a process that a rank has started called {text[:_LONGEST]}, which is not modelled. "
        "Nothing may be guessed, so that process was ended, and the rank failed: "
        f"{outcome.message}"
    )
    return replace(outcome, exit_code=UnsupportedCall.exit_code, message=message)
