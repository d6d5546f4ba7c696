"""The errors that reach the user, each with the exit code of the command that it ends.

A message answers: what, where (file, rank, Python line), why it matters, what to do next. Errors of
our own (broken invariants) are assertions, not members of this family.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from typing import Any


class PhantoraError(Exception):
    """An error that ends the command with `exit_code` and its message, without a traceback."""

    exit_code = 70


class UsageError(PhantoraError):
    """A wrong option, configuration or input file."""

    exit_code = 2


class UnsupportedCall(PhantoraError):  # noqa: N818 - names what happened, as the report does
    """The program called something that is not modelled."""

    exit_code = 3


class RankFailed(PhantoraError):  # noqa: N818
    """A rank of the user's program ended with a failure."""

    exit_code = 4

    def __init__(
        self, message: str, detail: str = "", rank: int | None = None, status: int = 0
    ) -> None:
        """`detail`: what is known beside how the process ended, in sentences. `rank`, `status`:
        whose process ended, and with which exit code or minus the signal.
        """
        super().__init__(f"{message} {detail}".strip())
        self.detail = detail
        self.rank = rank
        self.status = status


def garbled_rank(who: str, what: str) -> RankFailed:
    """What a rank says cannot be: `who` and `what` make the first sentence."""
    # All of it in the detail: where such a rank dies a moment later, its end is told first.
    return RankFailed(
        "",
        f"{who} {what}. Nothing that it says can be relied on, so the run ends here. Code of the "
        "program that writes where it should not (an extension, ctypes) does that; if it has none, "
        "this is a fault of phantora.",
    )


class Deadlock(PhantoraError):  # noqa: N818
    """No rank can proceed, or ranks disagree about a collective."""

    exit_code = 5

    def __init__(self, message: str, tables: Sequence[Mapping[str, Any]] = ()) -> None:
        """`tables`: of the deadlock report, see `sim_server.deadlock`; none for a mismatch."""
        super().__init__(message)
        self.tables = list(tables)


class Mismatch(Deadlock):
    """Ranks disagree about a collective: on hardware nobody could proceed."""


class LowTrust(PhantoraError):  # noqa: N818
    """Less of the time than asked for rests on measurements."""

    exit_code = 6


class GateFailed(PhantoraError):  # noqa: N818
    """A comparison is worse than asked for."""

    exit_code = 6


class Interrupted(PhantoraError):  # noqa: N818
    """The user asked for an early end by Ctrl-C; 143 if it was by SIGTERM, 129 by SIGHUP."""

    exit_code = 130

    def __init__(self, message: str, number: int = signal.SIGINT) -> None:
        super().__init__(message)
        self.exit_code = 128 + number

    @classmethod
    def is_code(cls, exit_code: int) -> bool:
        """Whether an exit code tells of such an end."""
        return exit_code - 128 in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


class InternalError(PhantoraError):
    """A fault of ours that was noticed in time to explain it."""

    exit_code = 70


def unsupported_message(rank: int, call: Mapping[str, str], where: str) -> str:
    """`call`: library, symbol and detail, and what the program is answered. `where`: its line."""
    detail = f" ({call['detail']})" if call["detail"] else ""
    advice = f"`phantora coverage --library {call['library']}` lists what is"
    if call.get("answer") != "none":
        advice += "; with --unsupported error the call would fail and the program go on"
    sentences = [
        f"rank {rank} called {call['symbol']} of {call['library']}{detail}, which is not modelled, "
        f"at {where}.",
        "Nothing may be guessed, so the run ends here.",
        f"{advice}.",
    ]
    return " ".join(sentences)
