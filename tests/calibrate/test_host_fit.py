"""Times of a processor: fitted to pieces of work, read from files, refused where they are wrong."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from phantora_py.calibrate.host_fit import KINDS, Piece, fit_host, predicted_ns
from sim_server.cpu import CALLS, WORKS, cpu_names, load_cpu
from sim_server.errors import UsageError

TRUE_NS = {
    **{"frame": 40.0, "instruction": 4.0, "dispatch": 600.0, "node": 3000.0, "tensor": 700.0},
    **{"view": 300.0, "binding": 400.0, "wrap": 150.0, "call launch": 2500.0, "call copy": 900.0},
}


def made_pieces(noise: float) -> list[Piece]:
    """Pieces of random counts of a processor with TRUE_NS."""
    random = np.random.default_rng(1)
    pieces = []
    for number in range(60):
        some = random.choice(list(TRUE_NS), 3, replace=False)
        counts = dict.fromkeys(KINDS, 0) | {str(kind): int(random.integers(1, 50)) for kind in some}
        spent_ns = predicted_ns(TRUE_NS, counts) * float(np.exp(random.normal(0, noise)))
        pieces.append(Piece(str(number), spent_ns, counts))
    return pieces


def test_times_are_found_again() -> None:
    """Of pieces without noise, each time to a thousandth."""
    fit = fit_host(made_pieces(0.0))
    assert dict(fit.times_ns) == pytest.approx(TRUE_NS, rel=1e-3)
    assert fit.median_error < 1e-3
    assert set(fit.unknown) == set(KINDS) - set(TRUE_NS)


def test_noise_moves_times_by_less_than_itself() -> None:
    """Ten per cent of noise on each piece."""
    fit = fit_host(made_pieces(0.1))
    for kind in ("dispatch", "node", "call launch"):
        assert fit.times_ns[kind] == pytest.approx(TRUE_NS[kind], rel=0.1)


def test_what_pieces_have_in_common_is_taken_off() -> None:
    """Time and counts."""
    both = dict.fromkeys(KINDS, 3)
    common = Piece("common", 10.0, dict.fromkeys(KINDS, 1))
    assert Piece("one", 25.0, both).less(common) == Piece("one", 15.0, dict.fromkeys(KINDS, 2))


def profile(times: str = "1.0") -> str:
    """A processor whose kinds all take so long."""
    lines = ['title = "T"', 'source = "S"', "interval = [0.5, 2.0]", "[works]"]
    lines += [f"{work} = {times}" for work in WORKS]
    return "\n".join([*lines, "[calls]", *(f"{call} = {times}" for call in CALLS)])


def test_builtin_processors_have_all_times() -> None:
    """And a place that they are from."""
    for name in cpu_names():
        keys = load_cpu(name).shim_keys()
        assert len(keys) == len(WORKS) + len(CALLS)
        assert load_cpu(name).source != ""


def test_a_processor_is_scaled_from_another(tmp_path: Path) -> None:
    """By its speed on one thread; the interval gets wider by an error that is independent."""
    path = tmp_path / "fast.toml"
    path.write_text('base = "genoa"\nspeed = 2\nwidest = 1.5\ntitle = "F"\nsource = "S"\n')
    fast, genoa = load_cpu(str(path)), load_cpu("genoa")
    assert fast.works["dispatch"] == pytest.approx(genoa.works["dispatch"] / 2)
    log_high = math.log(genoa.interval[1])
    assert math.log(fast.interval[1]) == pytest.approx(math.hypot(math.log(1.5), log_high))
    assert 0 < fast.interval[0] < genoa.interval[0]


def test_scaled_processors_are_less_certain_than_the_measured_one() -> None:
    """And newer ones faster, as published single-core figures have it."""
    cpus = {name: load_cpu(name) for name in cpu_names()}
    measured = cpus["sapphire-rapids"]
    for name, cpu in cpus.items():
        if name != "sapphire-rapids":
            assert cpu.interval[0] < measured.interval[0], name
            assert cpu.interval[1] > measured.interval[1], name
    frames = [cpus[name].works["frame"] for name in ("rome", "milan", "genoa", "sapphire-rapids")]
    assert frames == sorted(frames, reverse=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (profile().replace("frame = 1.0", "", 1), "damaged"),
        (profile("-1.0"), "is no time"),
        (profile('"fast"'), "damaged"),
        (profile().replace("[0.5, 2.0]", "[1.5, 2.0]"), "must hold 1"),
        ('base = "genoa"\nspeed = 0\nwidest = 1\ntitle = "F"\nsource = "S"\n', "damaged"),
    ],
)
def test_a_wrong_profile_is_refused(tmp_path: Path, text: str, message: str) -> None:
    """With the name of the file."""
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        load_cpu(str(path))


def test_an_unknown_processor_is_refused() -> None:
    """With those that there are."""
    with pytest.raises(UsageError, match="did you mean 'genoa'"):
        load_cpu("genao")
