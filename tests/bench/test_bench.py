"""`phantora bench` on a cluster whose times can be computed by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from phantora_py.cli import main

ROUND = str(Path(__file__).with_name("round_cluster.toml"))
KEYS = [
    *("op", "ranks", "size_bytes", "time_us", "algbw_gb_per_s", "busbw_gb_per_s"),
    *("algorithm", "protocol", "channels"),
]


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller's own NCCL_* do not reach the tests."""
    for name in ("NCCL_ALGO", "NCCL_PROTO", "NCCL_DEBUG", "NCCL_NTHREADS"):
        monkeypatch.delenv(name, raising=False)


def rows(
    capsys: pytest.CaptureFixture[str], *arguments: str, cluster: str = ROUND
) -> list[dict[str, Any]]:
    """What --json prints."""
    assert main(["bench", *arguments, "--cluster", cluster, "--json"]) == 0
    printed: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return printed


@pytest.mark.parametrize(
    ("operation", "time_us", "busbw_gb_per_s"),
    [
        # 80 MB over links of 10 bytes/ns: 2(n-1)/n of it, (n-1)/n of it, all of it.
        ("all_reduce", 14_000, 10),
        ("all_gather", 7_000, 10),
        ("reduce_scatter", 7_000, 10),
        ("alltoall", 7_000, 10),
        ("broadcast", 8_000, 10),
        ("reduce", 8_000, 10),
        ("sendrecv", 8_000, 10),
    ],
)
def test_bus_bandwidth_is_that_of_the_link(
    capsys: pytest.CaptureFixture[str], operation: str, time_us: float, busbw_gb_per_s: float
) -> None:
    """An ideal library fills the links: bus bandwidth is theirs, whatever the operation."""
    (row,) = rows(capsys, operation, "--ranks", "8", "-b", "80000000", "-e", "80000000")
    assert list(row) == KEYS
    assert row["op"] == operation
    assert (row["ranks"], row["size_bytes"]) == (8, 80_000_000)
    assert row["time_us"] == time_us
    assert row["busbw_gb_per_s"] == pytest.approx(busbw_gb_per_s, rel=1e-12)
    assert row["algbw_gb_per_s"] == pytest.approx(80_000 / time_us, rel=1e-12)


def test_gather_is_bound_by_the_root(capsys: pytest.CaptureFixture[str]) -> None:
    """The root's link takes what seven others send."""
    (row,) = rows(capsys, "gather", "--ranks", "8", "-b", "80000000", "-e", "80000000")
    assert (row["time_us"], row["busbw_gb_per_s"]) == (7_000, pytest.approx(10))


def test_a_slow_nic_holds_up_its_ring(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Each of eight NICs of a node carries an eighth of 15/16 of 80 MB, one at 1 byte/ns."""
    file = tmp_path / "slow.toml"
    slow = '[[nic_exceptions]]\nnic = "nic 1.5"\nbandwidth = "1 GB/s"\n'
    file.write_text(Path(ROUND).read_text(encoding="utf-8") + slow, encoding="utf-8")
    arguments = ["all_gather", "--ranks", "16", "-b", "80000000", "-e", "80000000"]
    (row,) = rows(capsys, *arguments, cluster=str(file))
    assert row["time_us"] == 9_375


def test_subsets_share_links(capsys: pytest.CaptureFixture[str]) -> None:
    """Communicators over different nodes run beside each other; over shared uplinks they wait.

    Each node has a leaf of its own with half the capacity upwards: 4 sending ranks fill it.
    """
    size = ("-b", "80000000", "-e", "80000000", "--ranks", "16")
    apart = rows(capsys, "sendrecv", *size, "--subset", "0-7", "--subset", "8-15")
    assert [(row["ranks"], row["time_us"]) for row in apart] == [(8, 8_000), (8, 8_000)]
    pairs = [("--subset", f"{one},{one + 8}") for one in range(8)]
    few = rows(capsys, "sendrecv", *size, *(word for pair in pairs[:4] for word in pair))
    assert [row["time_us"] for row in few] == [8_000] * 4
    many = rows(capsys, "sendrecv", *size, *(word for pair in pairs for word in pair))
    assert [row["time_us"] for row in many] == [16_000] * 8


def test_text_has_the_columns_of_nccl_tests(capsys: pytest.CaptureFixture[str]) -> None:
    """Size, count, type, reduction, root, time and bandwidths; and it says that they are
    virtual."""
    arguments = ["bench", "all_reduce", "--cluster", ROUND, "-b", "8000", "-e", "80M", "-f", "1000"]
    assert main(arguments) == 0
    assert capsys.readouterr().out.splitlines() == [
        "# phantora bench all_reduce: 8 ranks on 1 x 8 GPUs of round; times are virtual, out of "
        "place",
        "# Collective test starting: all_reduce_perf",
        *(f"#  Rank {rank:2} Group  0 Pid      0 on node-0 device {rank:2}" for rank in range(8)),
        "#",
        "#       size         count      type   redop    root     time   algbw   busbw",
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)",
        "        8000          2000     float     sum      -1     1.40    5.71   10.00",
        "     8000000       2000000     float     sum      -1  1400.00    5.71   10.00",
        "# Avg bus bandwidth    : 10 ",
    ]


def test_user_variables_count(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """NCCL_ALGO chooses; what is not modelled is said, on the standard error."""
    monkeypatch.setenv("NCCL_ALGO", "Tree")
    monkeypatch.setenv("NCCL_NTHREADS", "64")
    arguments = ["bench", "all_reduce", "--ranks", "16", "-b", "1M", "-e", "1M", "--json"]
    assert main(arguments) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)[0]["algorithm"] == "Tree"
    assert said.err == "note: not modelled: NCCL_NTHREADS=64\n"


LOG = """\
#  Rank  0 Group  0 Pid  1 on node-a device  0 [0x1b] X
#  Rank  1 Group  0 Pid  2 on node-a device  1 [0x43] X
           0             0     float     sum      -1     5.00    0.00    0.00      0
    10000000       2500000     float     sum      -1   500.00    0.00   20.00      0
    20000000       5000000     float     sum      -1  4000.00    0.00    5.00      0
    40000000      10000000     float     sum      -1  4000.00    0.00   10.00      0
"""


def test_comparison(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Half and twice as long are equally wrong; ranks come from the log; empty ones are left
    out."""
    log = tmp_path / "log.txt"
    log.write_text(LOG)
    assert main(["bench", "all_reduce", "--cluster", ROUND, "--compare", str(log)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("# phantora bench all_reduce: 2 ranks on 1 x 2 GPUs of round")
    assert [line.split() for line in lines[4:7]] == [
        ["10000000", "float", "500.00", "1000.00", "20.00", "10.00", "+100.0", "%"],
        ["20000000", "float", "4000.00", "2000.00", "5.00", "10.00", "-50.0", "%"],
        ["40000000", "float", "4000.00", "4000.00", "10.00", "10.00", "+0.0", "%"],
    ]
    assert lines[7:] == [
        "# Median error         : 100.0 % either way, +0.0 % with its sign",
        "# Worst errors         : -50.0 % and +100.0 % of 3 sizes",
    ]


def test_comparison_as_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The same rows with what was measured beside them."""
    log = tmp_path / "log.txt"
    log.write_text(LOG)
    compared = rows(capsys, "all_reduce", "--compare", str(log))
    assert list(compared[0]) == [*KEYS, "measured_time_us", "measured_busbw_gb_per_s", "error"]
    assert [row["error"] for row in compared] == [1.0, -0.5, 0.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["all_reduce", "--ranks", "1"], "a collective needs at least 2 ranks"),
        (["all_gather", "-e", "64"], "-e 64 is too small: a rank would get no element"),
        (
            ["all_reduce", "--subset", "0-4", "--subset", "4-7"],
            "--subset 0-4 and --subset 4-7 share rank 4",
        ),
        (["all_reduce", "--compare", "LOG", "--ranks", "4"], "is a log of 2 ranks, not of 4"),
        (["all_reduce", "--compare", "LOG", "--subset", "0-1"], "leave --subset out"),
        (
            ["all_reduce", "-d", "float16"],
            "there is no 'float16'; did you mean 'bfloat16'? There are ",
        ),
    ],
)
def test_mistakes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str], message: str
) -> None:
    """Exit code 2, nothing on the standard output, a message that says what would be right."""
    log = tmp_path / "log.txt"
    log.write_text(LOG)
    words = [str(log) if word == "LOG" else word for word in arguments]
    assert main(["bench", *words, "--cluster", ROUND]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert message in said.err


def test_log_of_another_operation(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Where the log says which program wrote it, the operation must be the same."""
    log = tmp_path / "log.txt"
    log.write_text(f"# Collective test starting: all_gather_perf\n{LOG}")
    assert main(["bench", "all_reduce", "--cluster", ROUND, "--compare", str(log)]) == 2
    assert "is a log of all_gather, not of all_reduce" in capsys.readouterr().err
