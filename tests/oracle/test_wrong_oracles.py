"""The suite rejects oracles and systems that are wrong on purpose."""

from __future__ import annotations

import pytest
from comparison import compare
from histories import differences
from host_programs import Program
from hypothesis import HealthCheck, Phase, find, settings
from oracle import Oracle
from random_programs import programs
from system import Delivery, System
from wrong_oracles import WRONG_ORACLES, WRONG_SYSTEMS

from sim_server._engine import MalformedInput

SEARCH = settings(
    max_examples=3000,
    phases=[Phase.generate],
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("wrong", WRONG_ORACLES)
def test_a_wrong_oracle_is_rejected(wrong: type[Oracle]) -> None:
    """Among the first programs there is one on which it differs from the system."""

    def differs(program: Program) -> bool:
        return any(differences(wrong(program).run(), Oracle(program).run()))

    program = find(programs(), differs, settings=SEARCH)
    assert compare(program, [Delivery()], wrong(program).run())


@pytest.mark.parametrize("wrong", WRONG_SYSTEMS)
def test_a_wrong_system_is_rejected(wrong: type[System]) -> None:
    """Likewise, or it finds itself wrong."""

    def differs(program: Program) -> bool:
        try:
            found = wrong(program, Delivery(seed=3)).run()
        except MalformedInput as error:
            return "comes from before the host clock that the rank had told" in str(error)
        return any(differences(Oracle(program).run(), found))

    assert find(programs(), differs, settings=SEARCH)
