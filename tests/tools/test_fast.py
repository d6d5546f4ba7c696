"""What `nox -s fast` chooses to run."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def noxfile() -> ModuleType:
    """It defines its sessions when it is imported."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        spec = importlib.util.spec_from_file_location("noxfile", ROOT / "noxfile.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


def test_a_change_brings_its_tests(noxfile: ModuleType) -> None:
    """Those of the innermost folder that has some, the changed tests, and all quick ones if none
    belongs to it.
    """
    chosen = noxfile.fast_tests
    assert chosen(["csrc/engine/items.cc"]) == ["tests/engine"]
    assert chosen(["sim_server/cluster/units.py"]) == ["tests/cluster"]
    assert chosen(["sim_server/log/steady.py", "README.md"]) == ["tests/sim_server"]
    assert chosen(["tests/tools/test_fast.py"]) == ["tests/tools/test_fast.py"]
    assert "tests/report" in chosen(["README.md"])


def test_its_tests_are_there(noxfile: ModuleType) -> None:
    """A moved test would be run no more."""
    for begin, tests in noxfile.FAST_TESTS.items():
        assert (ROOT / begin).is_dir()
        assert all((ROOT / test).exists() for test in tests)
