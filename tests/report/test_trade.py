"""Time, money and energy: figures that can be checked by hand, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compared_runs import certain_members, write_run
from conforming import check_conforms
from idle_recording import make_recording
from made_runs import make_run
from pages import parse, section

from phantora_py.cli import main
from phantora_py.report.link_limits import link_bytes_per_s
from phantora_py.text.units import energy_text, long_time_text, money_text
from sim_server.cluster import load_cluster
from sim_server.gpu import load_gpu
from sim_server.settings import Settings

HOUR_NS = 3_600_000_000_000
WORK = ["--per-iteration", "1000 tokens"]


def hourly(path: Path, **members: Any) -> Path:
    """Two ranks, three iterations of an hour each."""
    return write_run(path, [HOUR_NS] * 3, computes_ns=HOUR_NS // 2, **members)


def trade(capsys: pytest.CaptureFixture[str], path: Path, *words: str) -> dict[str, Any]:
    """In the JSON."""
    assert main(["report", str(path), "--json", *words]) == 0
    summary = json.loads(capsys.readouterr().out)
    check_conforms(summary, "summary")
    return dict(summary["trade"])


def test_by_hand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two GPUs at 2.50 an hour and 700 W, an hour and 1,000 tokens an iteration."""
    path = hourly(tmp_path / "a.phr")
    words = ["--tokens", "1e5", "--price", "2.50", "--power", "700", *WORK]
    found = trade(capsys, path, *words)
    assert (found["gpus"], found["price_per_hour"], found["power_w"]) == (2, 5.0, 1400.0)
    assert found["iteration"]["cost"]["value"] == pytest.approx(5.0)
    assert found["iteration"]["energy_j"]["value"] == pytest.approx(1400 * 3600)
    assert found["iterations"] == pytest.approx(100)
    assert found["to_goal"]["time_s"]["value"] == pytest.approx(100 * 3600)
    assert found["to_goal"]["cost"]["value"] == pytest.approx(500)
    assert found["per_billion"]["cost"]["value"] == pytest.approx(5e6)


def test_without_a_goal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A price alone tells of iterations, and of units where they are known."""
    path = hourly(tmp_path / "a.phr")
    found = trade(capsys, path, "--price", "h100=2")
    assert (found["unit"], found["per_billion"], found["to_goal"]) == (None, None, None)
    assert found["iteration"]["cost"]["value"] == pytest.approx(4)
    assert trade(capsys, path, "--price", "2", *WORK)["per_billion"] is not None


def test_on_the_terminal_and_on_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same figures; nothing if nothing was asked for."""
    path = hourly(tmp_path / "a.phr")
    words = ["--tokens", "1e5", "--price", "2.50", *WORK]
    assert main(["report", str(path), *words]) == 0
    assert "100000 tokens            4.17 days   cost 500.00   100 iterations\n" in (
        capsys.readouterr().out
    )
    page = tmp_path / "a.html"
    assert main(["report", str(path), "--html", str(page), *words]) == 0
    text = page.read_text(encoding="utf-8")
    assert "500.00" in section(parse(text), "trade").text
    assert main(["report", str(path), "--html", str(page)]) == 0
    assert 'id="trade"' not in page.read_text(encoding="utf-8")


def test_the_interval_is_that_of_the_iteration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By as much shorter and longer."""
    path = hourly(tmp_path / "a.phr", **certain_members())
    assert main(["report", str(path), "--json", "--price", "1"]) == 0
    summary = json.loads(capsys.readouterr().out)
    interval, median = summary["trust"]["interval"], summary["iterations"]["median_ns"]
    cost = summary["trade"]["iteration"]["cost"]
    assert cost["low"] / cost["value"] == pytest.approx(interval["low_ns"] / median, rel=1e-3)
    assert cost["high"] / cost["value"] == pytest.approx(interval["high_ns"] / median, rel=1e-3)
    assert cost["low"] < cost["value"] < cost["high"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--price", "-1"], "--price '-1' is not a price per GPU-hour"),
        (["--price", "a100=1"], "no run has a GPU of that name; did you mean 'h100'?"),
        (["--tokens", "0", *WORK], "--tokens '0' is not an amount"),
        (["--tokens", "nan", *WORK], "write a number above 0, as 2e12"),
        (["--tokens", "many", *WORK], "--tokens 'many' is not an amount"),
        (["--power", "-3"], "--power '-3' is not an amount"),
        (["--tokens", "1e9"], "how many tokens an iteration of the whole run gets through is not"),
        (["--samples", "1e9", *WORK], "--per-iteration '64x4096 samples'"),
        (["--price", "1", "--kernels"], "goes with the report itself"),
    ],
)
def test_what_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    """By name, before anything is printed."""
    path = hourly(tmp_path / "a.phr")
    assert main(["report", str(path), *words]) == 2
    said = capsys.readouterr()
    assert message in " ".join(said.err.split())
    assert said.out == ""


def test_a_run_without_iterations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Costs nobody knows what."""
    make_recording(tmp_path / "a.phr")
    assert main(["report", str(tmp_path / "a.phr"), "--price", "1"]) == 2
    assert "has no iteration that takes time" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("members", "gb_per_s"),
    [
        (range(8), 450),  # NVLink of H100
        (range(16), 400),  # eight NICs of 400 Gbit/s
        ((0, 8), 50),  # one NIC each
        ((0, 1, 8, 9), 100),
    ],
)
def test_what_links_allow(tmp_path: Path, members: Any, gb_per_s: float) -> None:
    """Of H100 machines, as their data sheets say."""
    settings = Settings(16, 2, 8, load_cluster("h100"), load_gpu("h100"))
    empty: list[list[Any]] = [[]] * 16
    data = make_run(
        tmp_path / "a.phr",
        empty,
        run={"nodes": 2, "gpus_per_node": 8},
        settings=json.loads(settings.to_json()),
    )
    assert link_bytes_per_s(data, "all_reduce", list(members)) == gb_per_s * 1e9
    assert link_bytes_per_s(data, "all_to_all", list(members)) is None


def test_units() -> None:
    """Of time, money and energy, as people plan in them."""
    assert long_time_text(90.0) == "90.0 s"
    assert long_time_text(27.2 * 86400) == "27.2 days"
    assert (money_text(0.0000536), money_text(1234.5)) == ("5.36e-05", "1,234.50")
    assert (energy_text(54), energy_text(1.18 * 3.6e9)) == ("54.0 J", "1.18 MWh")
