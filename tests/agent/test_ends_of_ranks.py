"""How a rank's end is told."""

from __future__ import annotations

import pytest

from phantora_py.agent.ends import describe_end


@pytest.mark.parametrize(
    ("status", "oom_killed", "text"),
    [
        (1, True, "ended with exit code 1."),
        (-11, True, "was killed by signal 11 (SIGSEGV)."),
        (-9, False, "was killed by signal 9 (SIGKILL)."),
        (-60, False, "was killed by signal 60 (real-time)."),
        (
            -9,
            True,
            "was killed by signal 9 (SIGKILL). "
            "The kernel has just killed a process for lack of memory (see dmesg).",
        ),
    ],
)
def test_ends_are_put_into_words(status: int, oom_killed: bool, text: str) -> None:
    """A signal is named, and lack of memory where there was one."""
    assert describe_end(status, oom_killed) == text
