"""`phantora search`: constraints, objectives, and that it finds what an exhaustive sweep would."""

from __future__ import annotations

import itertools
import random
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from compared_runs import certain_members, write_run
from conforming import check_conforms

from phantora_py.advice.expressions import evaluate
from phantora_py.advice.objective import parse_budget, parse_objective
from phantora_py.advice.search import search
from phantora_py.advice.space import read_space
from phantora_py.cli import main
from phantora_py.cli.search import lines
from phantora_py.sweep.plan import Configuration
from phantora_py.sweep.results import Result
from sim_server.errors import RankFailed, UsageError

COMMAND = ["python", "train.py", "{tp}", "{batch}", "{layers}"]
SPACE = """
[search]
objective = "{objective}"
per_iteration = "{{batch}} samples"
where = ["tp * batch <= 64"]
{more}
[fixed]
layers = 32
[grid]
tp = [1, 2, 4, 8]
batch = [1, 2, 4, 8, 16, 32]
[[cheap]]
layers = 2
"""
US = 1000


def space_of(
    directory: Path, objective: str = "time to 1e6 samples", more: str = "", cheap: str = ""
) -> Any:
    """Twenty-one layouts."""
    path = directory / "space.toml"
    path.write_text(SPACE.format(objective=objective, more=more) + cheap)
    return read_space(path, COMMAND)


class Machine:
    """Runs whose time is a formula of their values: layers, and something beside them that cheap
    runs weigh too much.
    """

    def __init__(self, directory: Path, seed: int = 0) -> None:
        self.directory = directory
        self.names: list[str] = []
        rng = random.Random(seed)
        self.of_batch, self.fixed, self.of_tp = (rng.uniform(1, 30) for _ in range(3))
        self.beside_of_batch, self.beside = rng.uniform(0, 60), rng.uniform(0, 200)

    def time_ns(self, values: Any) -> int:
        """Large batches use the machine better, up to where memory is short."""
        tp, batch, layers = (int(values[name]) for name in ("tp", "batch", "layers"))
        a_layer = self.of_batch * batch / tp + self.fixed + self.of_tp * tp
        beside = self.beside_of_batch * batch + self.beside
        return int(US * (layers * a_layer + beside))

    def __call__(self, plan: Sequence[Configuration]) -> list[Result]:
        return [self._run(one) for one in plan]

    def _run(self, one: Configuration) -> Result:
        self.names.append(one.name)
        is_full = int(one.values["layers"]) == 32
        if is_full and not fits(one):
            return Result(one.name, 4, "CUDA out of memory", True, 10.0, None)
        path = write_run(
            self.directory / f"{len(self.names)}.phr",
            [self.time_ns(one.values)] * 6,
            computes_ns=US,
            **certain_members(),
        )
        return Result(one.name, 0, "", False, 10.0 if is_full else 1.0, path)


def fits(one: Configuration) -> bool:
    """Whether a full run of this does."""
    return int(one.values["batch"]) * 3 <= 24 * int(one.values["tp"])


def best_of(space: Any, machine: Machine) -> Configuration:
    """What an exhaustive sweep finds."""
    best: Configuration = min(
        filter(fits, space.configurations),
        key=lambda one: machine.time_ns(one.values) / one.values["batch"],
    )
    return best


@pytest.mark.parametrize("seed", range(12))
def test_the_choice_is_that_of_the_exhaustive_sweep(tmp_path: Path, seed: int) -> None:
    """For a third of its runs at most, and one that shows that cheap runs are not full ones; what
    does not fit is no choice.
    """
    space, machine = space_of(tmp_path), Machine(tmp_path, seed)
    found = search(space, machine)
    check_conforms(found, "search")
    best = best_of(space, machine)
    assert found["ranking"][0]["name"] == best.name
    assert found["ranking"][0]["pareto"]
    cheap, in_full = found["stages"]
    assert in_full["runs"] <= len(space.configurations) / 3 + 1
    assert cheap["runs"] < len(space.configurations)
    assert found["left_out"] == 24 - len(space.configurations) > 0
    assert shlex.join(found["command"]) == shlex.join(best.command)
    told = "\n".join(lines(found))
    assert f"  * {best.name}" in told
    works = [one["figures"]["throughput"] for one in found["ranking"][:2]]
    amounts = [one["per_iteration"] for one in works if one]
    assert f"Why it is better than {found['ranking'][1]['name']}: an iteration of a rank" in told
    assert ("times the work" in told) is (amounts[0] != amounts[1])
    assert re.search(r"Fastest: .*, (1\.\d+|[2-9]\.\d+) times as fast", told)
    assert f"-- {shlex.join(best.command)}" in told


def test_the_fastest_may_be_another_than_the_best(tmp_path: Path) -> None:
    """Where the objective is none of time alone; the line says that it is about this."""
    found = search(space_of(tmp_path), Machine(tmp_path))
    assert found["fastest"] is not None
    assert not any("By time alone" in line for line in lines(found))
    found["fastest"]["name"] = found["ranking"][1]["name"]
    (said,) = (line for line in lines(found) if "Fastest" in line)
    assert said.startswith(f"By time alone: Fastest: {found['ranking'][1]['name']}, ")


@pytest.mark.parametrize("seed", range(12))
def test_two_cheap_runs_foretell_the_full_one(tmp_path: Path, seed: int) -> None:
    """Where they differ in the number of layers alone, time lies on a line through them. So few
    full runs are left, and what they take is what was told.
    """
    space = space_of(tmp_path, cheap="[[cheap]]\nlayers = 4")
    machine = Machine(tmp_path, seed)
    found = search(space, machine)
    assert found["ranking"][0]["name"] == best_of(space, machine).name
    *_, in_full = found["stages"]
    assert in_full["runs"] <= 3
    for one in found["ranking"]:
        assert one["cheap_value"] == pytest.approx(one["value"], rel=1e-3)


@pytest.mark.parametrize(
    "cheap", ['layers = "4"', "layers = 4\nbatch = 2", "layers = 2\nrun.ranks = 1"]
)
def test_cheap_runs_without_a_line(tmp_path: Path, cheap: str) -> None:
    """They differ in no number, in two, or in a run's option: the last one counts as it is."""
    space, machine = space_of(tmp_path, cheap=f"[[cheap]]\n{cheap}"), Machine(tmp_path)
    found = search(space, machine)
    first = found["ranking"][0]
    assert first["cheap_value"] is not None
    assert first["cheap_value"] < 0.5 * first["value"]


class Folded(Machine):
    """Runs of which cheap ones take what full ones take, as those of fewer ranks do, and fit as
    they do. Keeps how many were asked for at a time.
    """

    def __init__(self, directory: Path, seed: int = 0) -> None:
        super().__init__(directory, seed)
        self.batches: list[int] = []

    def time_ns(self, values: Any) -> int:
        """Likewise, but for the layers."""
        return super().time_ns({**values, "layers": 32})

    def __call__(self, plan: Sequence[Configuration]) -> list[Result]:
        self.batches.append(len(plan))
        return super().__call__(plan)


@pytest.mark.parametrize("seed", range(12))
def test_one_full_run_shows_that_cheap_ones_are_as_good(tmp_path: Path, seed: int) -> None:
    """And then no other is run in full, of half of the space at most."""
    space, machine = space_of(tmp_path), Folded(tmp_path, seed)
    space = replace(space, configurations=[one for one in space.configurations if fits(one)])
    found = search(space, machine)
    assert found["ranking"][0]["name"] == best_of(space, machine).name
    cheap, in_full = found["stages"]
    assert in_full["runs"] == 1
    assert cheap["runs"] <= len(space.configurations) / 2
    assert [one["in_full"] for one in found["ranking"]] == [True] + [False] * (cheap["runs"] - 1)
    assert sum("(by its cheap run)" in line for line in lines(found)) == cheap["runs"] - 1
    assert found["fastest"] is not None
    assert found["fastest"]["next"] == found["ranking"][1]["name"]


def test_several_runs_at_a_time(tmp_path: Path) -> None:
    """As many as are asked for, and the choice is the same."""
    space, machine = space_of(tmp_path), Folded(tmp_path)
    space = replace(space, configurations=[one for one in space.configurations if fits(one)])
    found = search(space, machine, jobs=4)
    assert found["ranking"][0]["name"] == best_of(space, machine).name
    assert max(machine.batches) == machine.batches[0] == 4
    assert len(set(machine.names)) == len(machine.names)


@pytest.mark.parametrize("seed", range(12))
def test_a_space_without_cheap_values(tmp_path: Path, seed: int) -> None:
    """Not all of it runs."""
    machine = Machine(tmp_path, seed)
    space = replace(space_of(tmp_path), cheap=[])
    found = search(space, machine)
    assert found["ranking"][0]["name"] == best_of(space, machine).name
    (in_full,) = found["stages"]
    assert in_full["runs"] < len(space.configurations)
    assert found["ended"] == "no other candidate is expected to be better"


def test_what_runs_have_cost(tmp_path: Path) -> None:
    """The processors' time of each stage; null where a result lacks it."""
    machine = Folded(tmp_path)

    def run(plan: Sequence[Configuration]) -> list[Result]:
        return [replace(one, cpu_s=2.0) for one in machine(plan)]

    found = search(space_of(tmp_path), run)
    assert [one["cpu_s"] for one in found["stages"]] == [2.0 * s["runs"] for s in found["stages"]]
    assert any(f"{found['stages'][0]['cpu_s']:.0f} s of processors" in one for one in lines(found))
    found = search(space_of(tmp_path), machine)
    assert {one["cpu_s"] for one in found["stages"]} == {None}


def test_a_budget(tmp_path: Path) -> None:
    """Is kept to, and what it left is told."""
    machine = Machine(tmp_path)
    found = search(space_of(tmp_path, more='budget = "10 runs"'), machine)
    assert len(machine.names) == 10
    assert "the budget is spent" in found["ended"]
    with pytest.raises(RankFailed, match="No configuration finished in full"):
        search(space_of(tmp_path, more='budget = "3 runs"'), Machine(tmp_path))


def test_a_run_that_is_refused_ends_the_search(tmp_path: Path) -> None:
    """Nothing is known of that configuration, so that it must not lose in silence."""

    def refused(plan: Sequence[Configuration]) -> list[Result]:
        return [Result(one.name, 2, "usage: no such option.", False, 1.0, None) for one in plan]

    with pytest.raises(UsageError, match=r"tp=1 batch=1 \(cheap 1\): its run is refused: usage"):
        search(space_of(tmp_path), refused)


def test_a_fold_that_leaves_no_rank_out(tmp_path: Path) -> None:
    """Is left away, with its witnesses; a text has the configuration's own values."""
    path = tmp_path / "space.toml"
    path.write_text(
        '[search]\nobjective = "samples/s"\n[fixed]\nrun.ranks = 4\n[grid]\ntp = [2, 4]\n'
        '[[cheap]]\nrun.fold = "{tp}"\nrun.witness = 0\n'
    )
    space = read_space(path, ["python", "train.py", "{tp}"])
    folded, whole = (space.cheaper(one, 0).run for one in space.configurations)
    assert folded == {"ranks": "4", "fold": "2", "witness": "0"}
    assert whole == {"ranks": "4"}


def test_the_command_to_run_has_flags_without_values(tmp_path: Path) -> None:
    """As `phantora run` takes them; and it says that not all were run."""
    found = search(space_of(tmp_path), Folded(tmp_path))
    found["run_options"] = {"ranks": "8", "until-steady": "true", "modules": "false"}
    *_, last = lines(found)
    assert last.startswith("Run it: phantora run --ranks=8 --until-steady -- python")
    left = found["configurations"] - len(found["ranking"]) - len(found["did_not_run"])
    assert left > 0
    assert any(f"{left} others were not run" in line for line in lines(found))


def test_cost_and_rate(tmp_path: Path) -> None:
    """In their own units: money, and more is better."""
    found = search(space_of(tmp_path, "cost of 1e6 samples", "price = 2"), Machine(tmp_path))
    best = found["ranking"][0]
    assert best["figures"]["cost"] is not None
    assert best["value"] == pytest.approx(best["figures"]["cost"]["per_million"])
    found = search(space_of(tmp_path, "samples/s/GPU"), Machine(tmp_path))
    values = [one["value"] for one in found["ranking"]]
    assert values == sorted(values, reverse=True)
    first = found["ranking"][0]["figures"]
    assert first["throughput"] is not None
    assert values[0] == pytest.approx(first["throughput"]["per_s"] / 2)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a * b = 6", True),
        ("a * b == 6 and not a > b", True),
        ("run.ranks % a = 0 or missing_is_not_read = 1", True),
        ("1 < a < b", True),
        ("-a + b // 2 != -1", False),
        ("name = 'full'", True),
    ],
)
def test_expressions(text: str, value: bool) -> None:
    """As people write them; texts that are numbers are numbers."""
    values = {"a": 2, "b": 3, "run.ranks": "8", "name": "full", "missing_is_not_read": 1}
    assert evaluate(text, values, "where") is value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("c = 1", "there is no value c; there are a"),
        ("a +", "is no expression of values"),
        ("__import__('os')", "is not understood"),
        ("a / 0 = 1", "division by zero"),
        ("a in a", "is not understood"),
    ],
)
def test_wrong_expressions(text: str, message: str) -> None:
    """Are named, and run nothing."""
    with pytest.raises(UsageError, match=re.escape(message)):
        evaluate(text, {"a": 2}, "where")


@pytest.mark.parametrize("text", ["time", "fastest", "time to tokens", "tokens", "cost", "0", 3])
def test_an_objective_without_units(text: Any) -> None:
    """Is refused, with those that there are."""
    with pytest.raises(UsageError, match="has no units that can be counted; write 'time to 2e12"):
        parse_objective(text)


@pytest.mark.parametrize("text", ["0 runs", "0", "-3 runs", "nothing", "1e3", "2 years", "1.2.3 h"])
def test_a_budget_of_nothing(text: str) -> None:
    """Is refused, with what one looks like."""
    with pytest.raises(UsageError, match="is nothing that could be spent"):
        parse_budget(text)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ('objective = "time to 1e6 samples"', ""),
            "has no objective; write 'time to 2e12 tokens'",
        ),
        (("time to 1e6 samples", "cost of 1e6 samples"), "needs a price"),
        (("[search]", "[search]\nprice = -1"), "is not a price per GPU-hour"),
        (('"tp * batch <= 64"', '"tp > 8"'), "the space contradicts itself"),
        (('"tp * batch <= 64"', '"pp = 1"'), "there is no value pp"),
        (("[search]", '[search]\nbudget = "0 h"'), "is nothing that could be spent"),
        (("[search]", "[search]\ngoal = 1"), "[search] has no 'goal'"),
        (("[[cheap]]\nlayers", "[[cheap]]\ndepth"), "'depth', which is no value of the space"),
        (("[grid]", "[grids]"), "unknown table 'grids'"),
    ],
)
def test_spaces_that_are_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    change: tuple[str, str],
    message: str,
) -> None:
    """With exit code 2, before anything is run."""
    monkeypatch.chdir(tmp_path)
    text = SPACE.format(objective="time to 1e6 samples", more="")
    assert change[0] in text
    Path("space.toml").write_text(text.replace(*change))
    assert main(["search", "space.toml", "--", *COMMAND]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert [one.name for one in tmp_path.iterdir()] == ["space.toml"]


ROOT = Path(__file__).parents[2]
SPACES = sorted(
    path
    for folder in ("examples/spaces", "benchmarks/search_spaces")
    for path in (ROOT / folder).glob("*.toml")
)


@pytest.mark.parametrize("path", SPACES, ids=lambda path: path.stem)
def test_ready_made_spaces(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has the command that it is for in its first lines, and can be read with it."""
    monkeypatch.chdir(ROOT)
    everything = path.read_text(encoding="utf-8").splitlines(keepends=True)
    comment = itertools.takewhile(lambda line: line.startswith("#"), everything)
    text = "".join(line.lstrip("# ") for line in comment).replace("\\\n", "")
    (command,) = re.findall(r"phantora search (.*)", text)
    file, dashes, *words = shlex.split(command)
    assert (file, dashes) == (str(path.relative_to(ROOT)), "--")
    space = read_space(Path(file), words)
    assert len(space.configurations) >= 8
    for one in space.configurations:
        for rung in range(len(space.cheap)):
            assert space.cheaper(one, rung).command
