"""The report as a page: what it says, of any run, and that what a run says stays text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from made_runs import COMMUNICATION, COPY, KERNEL, make_run, rank_memory, run_json
from pages import Element, page_of, section
from played_files import played_run
from test_critical_path import all_reduces

from phantora_py.cli import main
from phantora_py.data import RunData
from sim_server.records import MarkerKind

GIB = 1 << 30
EVIL = "</script><script>alert(1)</script><!--"
OPERATION = {
    **{"kind": "all_reduce", "comm": 1, "bytes": 1 << 20, "count": 1 << 18, "dtype": 7},
    **{"members": [0, 1], "arrivals_ns": [2_000_000, 1_900_000], "moves_ns": 2_000_000},
    **{"ends_ns": [2_250_000, 2_250_000], "site": "/home/me/train.py:7 main"},
    **{"algorithm": "Ring", "protocol": "LL128"},
}


def two_iterations(path: Path, **changes: Any) -> RunData:
    """Two ranks; the iteration after the first has a kernel, a collective and a copy."""
    by_rank = [
        [
            (KERNEL, 0, 0, 1_000_000),
            (KERNEL, 900_000, 1_000_000, 1_900_000),
            (COMMUNICATION, 900_000, arrives_ns, 2_250_000),
            (COPY, 2_100_000, 2_250_000, 2_500_000),
        ]
        for arrives_ns in (2_000_000, 1_900_000)
    ]
    markers = [
        (rank, time_ns, MarkerKind.OPTIMIZER_STEP, "AdamW#0")
        for rank in (0, 1)
        for time_ns in (500_000, 2_200_000)
    ]
    return make_run(path, by_rank, markers, **{"operations": [OPERATION], **changes})


def test_summary(tmp_path: Path) -> None:
    """The figures of the terminal's report, with their units."""
    page = page_of(two_iterations(tmp_path / "a.phr"), tmp_path / "a.html")
    assert next(page.all("h1")).text == "python train.py"
    iteration = section(page, "iteration")
    assert "1.50 ms iteration, median of 1" in iteration.text
    assert [row[:3] for row in iteration.rows()] == [
        ["compute", "76.7 %", "1.15 ms"],
        ["exposed communication", "16.7 %", "250 us"],
        ["waiting for ranks", "3.3 %", "50.0 us"],
        ["host", "0.0 %", "0 ns"],
        ["idle", "3.3 %", "50.0 us"],
    ]
    assert section(page, "memory").rows()[0] == [
        *("0-1", "4.00 GiB", "", "3.00 GiB", "2.00 GiB", "1.00 GiB", "0 B")
    ]
    assert "torch 2.15.0" in section(page, "facts").text


def test_doubts(tmp_path: Path) -> None:
    """What is assumed comes before what is modelled, however little it is; measured is no doubt."""
    timings = [
        {"name": name, "class": "gemm", "tier": tier, "duration_ns": 1}
        for name, tier in (("sure", "measured"), ("guess", "assumed"), ("model", "modelled"))
    ]
    data = make_run(tmp_path / "a.phr", [[(KERNEL, 0, 0, 1)]], timings=timings)
    spans = data.spans.repeat(3)
    spans["id"], spans["end_ns"] = range(3), (50, 10, 40)
    data = make_run(tmp_path / "a.phr", [[]], spans=spans, timings=timings)
    assert section(page_of(data, tmp_path / "a.html"), "trust").rows() == [
        ["assumed", "gemm", "guess", "10.0 %", "", ""],
        ["modelled", "gemm", "model", "40.0 %", "", ""],
    ]


def test_kernels(tmp_path: Path) -> None:
    """By class with tiers, and by kernel; the first iteration does not count."""
    timings = [
        {"name": "old", "class": "sort", "tier": "modelled", "duration_ns": 1},
        {"name": "matmul", "class": "gemm", "tier": "assumed", "duration_ns": 1},
    ]
    data = two_iterations(tmp_path / "a.phr")
    spans = data.spans
    spans["id"][spans["end_ns"] == 1_900_000] = 1
    data = two_iterations(tmp_path / "a.phr", spans=spans, timings=timings)
    kernels = section(page_of(data, tmp_path / "a.html"), "kernels")
    assert kernels.rows() == [
        ["gemm", "1", "900 us", "78.3 %", "", "", "", "", "78.3 %"],
        ["copies", "1", "250 us", "21.7 %", "", "", "", "21.7 %", ""],
        ["gemm", "matmul", "assumed", "1", "900 us", "900 us", "78.3 %"],
        ["copies", "copy, host to device", "modelled", "1", "250 us", "250 us", "21.7 %"],
    ]


def test_communication(tmp_path: Path) -> None:
    """Exposed time, split where the last rank has arrived; who made others wait; operations."""
    page = page_of(two_iterations(tmp_path / "a.phr"), tmp_path / "a.html")
    assert section(page, "communication").rows() == [
        [
            *("all_reduce", "2 ranks of a node", "train.py:7 main", "1", "300 us", "300 us"),
            *("50.0 us", "250 us", "20.0 %"),
        ],
        [
            *("rank 0", "all_reduce", "2 ranks of a node", "train.py:7 main", "1"),
            *("100 us", "100 us"),
        ],
        [
            *("all_reduce", "2 ranks of a node", "1", "Ring, LL128", "1.00 MiB", "1", "250 us"),
            *("4.19 GB/s", "", "", "100 us"),
        ],
    ]


def test_figures_to_sort_by(tmp_path: Path) -> None:
    """Every figure of a sortable table carries its value."""
    page = page_of(two_iterations(tmp_path / "a.phr"), tmp_path / "a.html")
    tables = [one for one in page.all("table") if one.attributes.get("class", "") == "sortable"]
    cells = [
        one for table in tables for one in table.all("td") if one.attributes.get("class") == "n"
    ]
    assert cells
    assert all(float(one.attributes["data-v"]) >= 0 for one in cells)


def test_what_was_not_modelled(tmp_path: Path) -> None:
    """Ignored calls by symbol, values by Python line without its folders, NCCL's variables."""
    calls = {
        "cudart": {"modelled": {"a": 9}, "ignored": {"cudaProfilerStart": 2}, "passthrough": {}}
    }
    synthetic = [
        {"rank": rank, "site": "/home/me/train.py:50 main", "bytes": 16, "count": 4}
        for rank in (0, 1)
    ]
    settings = {"nccl_environment": {"NCCL_NTHREADS": "256"}}
    data = two_iterations(tmp_path / "a.phr", calls=calls, synthetic=synthetic, settings=settings)
    text = section(page_of(data, tmp_path / "a.html"), "trust").text
    assert "cudaProfilerStart (2)" in text
    assert (
        "8 values read back that no rule produced: zeros to the program. 8 at train.py:50 main"
        in text
    )
    assert "NCCL_NTHREADS=256" in text


def test_calls_that_a_program_went_on_after(tmp_path: Path) -> None:
    """A banner marks the page; calls of all ranks are added up by line, with what became of them.
    So is what the user supposed of experts.
    """
    call = {"library": "cudart", "detail": "", "site": "/home/me/train.py:7 main"}
    hint = call | {"symbol": "cudaMemAdvise", "answer": "success", "count": 2}
    refused = call | {"symbol": "cudaIpcGetMemHandle", "answer": "error", "count": 1}
    data = two_iterations(
        tmp_path / "a.phr",
        run={"unsupported": "warn", "expert_load": {"name": "zipf:1"}},
        unsupported=[{"rank": rank, **one} for rank in (0, 1) for one in (hint, refused)],
        routing=[
            {"experts": 8, "top": 2, "follows": True, "calls": 6},
            {"experts": 1000, "top": 5, "follows": False, "calls": 3},
        ],
    )
    page = page_of(data, tmp_path / "a.html")
    assert (
        "Not a full model: of the calls that are not modelled 4 did nothing and took no time, "
        "2 failed as not supported. See Trust"
    ) in text_of(page)
    text = section(page, "trust").text
    assert "4 of cudaMemAdvise did nothing and took no time, at train.py:7 main ;" in text
    assert "2 of cudaIpcGetMemHandle failed as not supported, at train.py:7 main ." in text
    assert "zipf:1 : 6 routings made up among 8 experts. 3 among other numbers" in text


def test_what_a_run_says_stays_text(tmp_path: Path) -> None:
    """Neither a command nor a kernel nor a Python line can open an element or close a script."""
    data = two_iterations(
        tmp_path / "a.phr",
        run={"command": ["python", EVIL], "exit_code": 4, "message": EVIL, "cluster_name": EVIL},
        timings=[{"name": EVIL, "class": EVIL, "tier": "modelled", "duration_ns": 1}],
        operations=[OPERATION | {"site": f"a.py:1 {EVIL}"}],
        synthetic=[{"rank": 0, "site": EVIL, "bytes": 1, "count": 1}],
    )
    page = page_of(data, tmp_path / "a.html")
    scripts = [one.text for one in page.all("script")]
    assert not any("alert(1)</script>" in text or text == "alert(1)" for text in scripts)
    assert all("<!--" not in text for text in scripts)
    assert EVIL in next(page.all("h1")).text


def test_nothing_is_fetched(tmp_path: Path) -> None:
    """The page names no address, and forbids the browser to fetch any."""
    page = page_of(two_iterations(tmp_path / "a.phr"), tmp_path / "a.html")
    policy = [one.attributes.get("content", "") for one in page.all("meta")]
    assert any(content.startswith("default-src 'none'") for content in policy)
    text = (tmp_path / "a.html").read_text()
    assert "http:" not in text
    assert "https:" not in text
    assert not any("src" in one.attributes for one in page.all("script"))


def test_links_lead_somewhere(tmp_path: Path) -> None:
    """Every section is named at the head, in the order of the page."""
    page = page_of(two_iterations(tmp_path / "a.phr"), tmp_path / "a.html")
    links = [one.attributes["href"].removeprefix("#") for one in page.all("a")]
    assert links == [one.attributes["id"] for one in page.all("section")]


def text_of(page: Element) -> str:
    return next(page.all("body")).text


def test_no_iteration(tmp_path: Path) -> None:
    """The page says that there was none, and shows the whole run."""
    page = page_of(make_run(tmp_path / "a.phr", [[(KERNEL, 0, 0, 3_000_000)]]), tmp_path / "a.html")
    assert "3.00 ms whole run; no iteration found" in text_of(page)
    assert "the tables are of the whole run" in text_of(page)


def test_nothing_ran(tmp_path: Path) -> None:
    """A run without GPU work has a page too."""
    page = page_of(make_run(tmp_path / "a.phr", [[], []]), tmp_path / "a.html")
    assert "0 ns whole run; no iteration found" in text_of(page)


def test_failed(tmp_path: Path) -> None:
    """What went wrong comes first: message, deadlock and what did not fit."""
    row = {"ranks": [0, 1, 3], "state": "waits", "since_ns": 5_000, "site": "/a/b.py:3 f"}
    failed = {"exit_code": 5, "message": "deadlock: ranks 0-1, 3 wait"}
    oom = {"asked_bytes": 100 * GIB, "free_bytes": 70 * GIB, "site": "/x/train.py:9 main"}
    data = make_run(
        tmp_path / "a.phr",
        [[(KERNEL, 0, 0, 10)]],
        run={**failed, "deadlock": [{"title": "communicator 1", "rows": [row]}]},
        memory={"capacity_bytes": 80 * GIB, "per_rank": [rank_memory(oom=[oom])]},
    )
    text = text_of(page_of(data, tmp_path / "a.html"))
    assert "The run failed, exit code 5. deadlock: ranks 0-1, 3 wait" in text
    assert "Of ranks that were stopped the calls are not counted" in text
    assert "0-1, 3 waits 5.00 us b.py:3 f" in text
    assert "Rank 0 ran out of memory : asked 100 GiB, free 70.0 GiB, at train.py:9 main" in text


def test_broke_off(tmp_path: Path) -> None:
    """The page shows what there is and says what is not known."""
    path = tmp_path / "a.phr"
    two_iterations(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.rindex(b"PK\x03\x04")])  # without run.json and the directory
    data = RunData(path)
    assert data.broke_off
    text = text_of(page_of(data, tmp_path / "a.html"))
    assert "Phantora was killed." in text
    assert "Peak memory is not known" in text
    assert "none: the run broke off" in text
    # Spans may have come without their records.
    assert "It is not known, because the run broke off." in text


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("missing/a.html", "cannot be written: the directory"),
        ("a.phr", "is what is read"),
        (".", "cannot be written: it is a directory"),
    ],
)
def test_where_no_page_can_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], out: str, message: str
) -> None:
    """The data file is never overwritten, and what is wrong is said."""
    two_iterations(tmp_path / "a.phr")
    before = (tmp_path / "a.phr").read_bytes()
    assert main(["report", str(tmp_path / "a.phr"), "--html", str(tmp_path / out)]) == 2
    assert message in capsys.readouterr().err
    assert (tmp_path / "a.phr").read_bytes() == before


def test_no_data_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No page is left of a file that is none."""
    (tmp_path / "a.phr").write_text(json.dumps(run_json(1)))
    assert main(["report", str(tmp_path / "a.phr"), "--html", str(tmp_path / "a.html")]) == 2
    assert "is not a data file of phantora" in capsys.readouterr().err
    assert not (tmp_path / "a.html").exists()


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command says what it wrote; one view at a time."""
    two_iterations(tmp_path / "a.phr")
    arguments = ["report", str(tmp_path / "a.phr"), "--html", str(tmp_path / "a.html")]
    assert main(arguments) == 0
    assert capsys.readouterr().out.startswith(f"Wrote {tmp_path / 'a.html'} (")
    assert main([*arguments, "--json"]) == 2
    assert "not allowed with argument" in capsys.readouterr().err


def test_critical_path(tmp_path: Path) -> None:
    """Its causes, and what lies on it, most first; the rank that came last is on it."""
    data = played_run(tmp_path / "a.phr", all_reduces([300, 900, 400]))
    page = page_of(data, tmp_path / "a.html")
    causes, rows = section(page, "path").all("table")
    assert [row[:3] for row in causes.rows()] == [
        ["kernels", "48.7 %", "950 ns"],
        ["copies", "0.0 %", "0 ns"],
        ["communication", "51.3 %", "1.00 us"],
        ["host", "0.0 %", "0 ns"],
        ["waiting", "0.0 %", "0 ns"],
    ]
    assert rows.rows() == [
        ["all_reduce", "3 ranks of a node", "a.py:1", "1", "1.00 us", "51.3 %"],
        ["gemm", "k1", "", "1", "900 ns", "46.2 %"],
        ["gemm", "k2", "", "1", "50 ns", "2.6 %"],
    ]
    assert (
        "It lies on ranks 0-1, and goes from one rank to another 1 time."
        in section(page, "path").text
    )
    (script,) = (one for one in page.all("script") if one.attributes.get("id") == "timeline-data")
    timeline = json.loads(script.text)
    assert [0, "k1", "gemm, modelled, rank 1"] in timeline["names"]
