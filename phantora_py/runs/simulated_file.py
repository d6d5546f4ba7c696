"""A simulation in this process, without ranks of its own, into a data file."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from phantora_py.agent.datafile import DataFile
from phantora_py.agent.parts import Outcome
from phantora_py.runs.run import Clocks, describe_end
from sim_server.errors import Deadlock, PhantoraError, UsageError
from sim_server.files.schema import Fault
from sim_server.kernels import Timer
from sim_server.settings import Settings
from sim_server.simulation import Simulation

# What engine and server raise for records that are each as they should be and do not fit together.
_NOT_SIMULATED = (ValueError, LookupError, ArithmeticError)

Watch = Callable[[Simulation], AbstractContextManager[object]]
"""Looks at a simulation while it goes on, from another thread."""

Play = Callable[[Simulation, Callable[[str, bytes], None]], None]
"""Has a simulation's ranks do what they do, and writes what they record."""


def simulate_into(
    output: Path,
    start: dict[str, Any],
    settings: Settings,
    timer: Timer,
    *,
    watch: Watch,
    play: Play,
    refusal: Callable[[Exception], UsageError],
    known: Outcome | None = None,
    more: Callable[[str], dict[str, Any]] = lambda _digest: {},
    iterations: int | None = None,
) -> Outcome:
    """Writes the whole file, or none. `start`: what run.json has before the run begins; `refusal`:
    of records that cannot be simulated; `known`: how the run ended, as far as no simulation tells;
    `more`: what else run.json has, by the digest; `iterations`: the run ends after so many.

    Raises: UsageError, that of `refusal` or of a file that cannot be written.
    """
    clocks = Clocks()
    clocks.started_s = clocks.start_s
    file = DataFile(output, start, settings.to_json())
    outcome = known or Outcome()
    try:
        simulation = Simulation(settings, timer, iterations is not None, iterations=iterations)
        with watch(simulation):
            try:
                play(simulation, file.write)
            except (Fault, *_NOT_SIMULATED) as error:
                raise refusal(error) from error
            except PhantoraError as error:
                tables = json.dumps(error.tables) if isinstance(error, Deadlock) else ""
                outcome = replace(
                    outcome, exit_code=error.exit_code, message=str(error), tables=tables
                )
            if simulation.is_over and simulation.steady is not None:
                outcome = replace(outcome, steady=asdict(simulation.steady))
            for name, content in simulation.files():
                file.write(name, content)
        end = describe_end(outcome, file.digest, clocks.to_dict())
        file.complete(start | end | more(file.digest))
    except BaseException:
        file.discard()
        raise
    return outcome
