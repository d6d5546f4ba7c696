"""`--iteration`: what ends an iteration, where the user knows better."""

from __future__ import annotations

from sim_server.settings import parse_choice

ITERATION_FORMS = "optimizer:N|profiler|nvtx:NAME|call:MODULE:FUNCTION"
ITERATION_HELP = (
    "what ends an iteration: a step of optimizer N (counted from 0 in the order of their first "
    "steps); a step of torch.profiler; the end of an NVTX range; the return of a function; "
    "default: phantora finds what the program repeats"
)


def checked_iteration(text: str | None) -> str | None:
    """Raises: UsageError if it is no way to end an iteration."""
    return None if text is None else parse_choice(text).text
