"""`--iteration`: what ends an iteration, where the user knows better."""

from __future__ import annotations

from sim_server.settings import parse_choice

ITERATION_FORMS = "optimizer:N|profiler|nvtx:NAME|call:MODULE:FUNCTION"
ITERATION_HELP = (
    "what ends an iteration: a step of the optimizer that was the N-th to step, from 0; a step "
    "of torch.profiler; the end of an NVTX range; the return of a function; default: what the "
    "program repeats"
)


def checked_iteration(text: str | None) -> str | None:
    """Raises: UsageError if it is no way to end an iteration."""
    return None if text is None else parse_choice(text).text
