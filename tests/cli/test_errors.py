"""The user's mistakes: each ends at once with its exit code and one message that helps."""

import sys
from pathlib import Path

import pytest

from phantora_py.cli import main
from phantora_py.cli.commands import VERBS
from phantora_py.cli.messages import parse_share, parse_size_bytes, print_written
from sim_server.errors import UsageError

GOLDEN = {
    "unknown cluster": (
        ["run", "--cluster", "h10", "--", "sh"],
        "phantora: usage: there is no cluster 'h10'; did you mean 'h100'? Built in are a100, b200, "
        "gb200, h100, h200; anything else is the path of a TOML file\n",
    ),
    "no command": (
        ["run"],
        "phantora: usage: No command was given. Usage: phantora run [OPTIONS] -- COMMAND ...\n",
    ),
    "no program": (
        ["exec"],
        "phantora: usage: No program was given. Usage: phantora exec [--cluster NAME|FILE] -- "
        "PROGRAM ...\n",
    ),
    "no dashes": (
        ["run", "sh", "-c", "true"],
        "phantora: usage: unrecognized arguments: sh -c true. The command to run, with its own "
        "options, follows a '--'. See: phantora --help\n",
    ),
    "unknown program": (
        ["run", "--", "no-such-program"],
        "phantora: usage: There is no program no-such-program in PATH. Check the command after "
        "'--'.\n",
    ),
    "too many ranks": (
        ["run", "--ranks", "12", "--", "sh"],
        "phantora: usage: 12 ranks are not 2 nodes with 8 ranks each; ask for a multiple of 8 "
        "ranks or set the ranks per node\n",
    ),
    "unknown verb": (
        ["dance"],
        "phantora: usage: argument VERB: invalid choice: 'dance' (choose from "
        f"{', '.join(map(repr, VERBS))}). See: phantora --help\n",
    ),
    "verb with a typing error": (
        ["runn"],
        "phantora: usage: argument VERB: there is no 'runn'; did you mean 'run'? "
        f"There are {', '.join(VERBS)}. See: phantora --help\n",
    ),
    "choice with a typing error": (
        ["run", "--host-time", "meassured", "--", "sh"],
        "phantora: usage: argument --host-time: there is no 'meassured'; did you mean 'measured'? "
        "There are fixed, measured, recorded, counted, off, auto. See: phantora run --help\n",
    ),
    "bad choice": (
        ["run", "--host-time", "wall", "--", "sh"],
        "phantora: usage: argument --host-time: invalid choice: 'wall' (choose from 'fixed', "
        "'measured', 'recorded', 'counted', 'off', 'auto'). See: phantora run --help\n",
    ),
    "modules without host time": (
        ["run", "--modules", "--host-time", "off", "--", "sh"],
        "phantora: usage: --modules is not for --host-time off: work is told apart by when it was "
        "issued.\n",
    ),
    "server without token": (
        ["run", "--server", "127.0.0.1:1", "--", "sh"],
        "phantora: usage: --server needs the token that the server was started with: --token-file "
        "FILE or the variable PHANTORA_TOKEN.\n",
    ),
    "token on the command line": (
        ["run", "--server", "127.0.0.1:1", "--token", "secret", "--", "sh"],
        "phantora: usage: --token is not taken: every user of a machine can read its command "
        "lines. Give the token in a file with --token-file, or in the variable PHANTORA_TOKEN.\n",
    ),
    "token for nobody": (
        ["run", "--insecure", "--", "sh"],
        "phantora: usage: --insecure is for --server or --hosts, which were not given.\n",
    ),
    "serve without token": (
        ["serve"],
        "phantora: usage: A server needs a token, which its agents show: --token-file FILE, which "
        "is made if new, or the variable PHANTORA_TOKEN.\n",
    ),
    "output nowhere": (
        ["run", "-o", "/no/such/directory/a.phr", "--", "sh"],
        "phantora: usage: -o /no/such/directory/a.phr cannot be written: the directory "
        "/no/such/directory does not exist. Make it, or name another file.\n",
    ),
    "bad size": (
        ["run", "--values-threshold", "64k", "--", "sh"],
        "phantora: usage: '64k' is not a size; write for example 64KiB (B, KiB, MiB, GiB).\n",
    ),
    "no such rank": (
        ["run", "--rank", "8", "--", "sh"],
        "phantora: usage: --rank 8 shows the output of a rank that there is not: ranks are 0 to 0. "
        "The number of ranks is --ranks.\n",
    ),
    "bad rank": (
        ["run", "--rank", "0,x", "--", "sh"],
        "phantora: usage: 'x' is not a rank; write for example 3, 8-15 or 0,8-15.\n",
    ),
    "bad share": (
        ["run", "--min-trust", "80", "--", "sh"],
        "phantora: usage: '80' is not a share; write for example 80% or 0.8.\n",
    ),
    "bad isolation": (
        ["run", "--isolation", "T3", "--", "sh"],
        "phantora: usage: --isolation takes auto, process or require:TIER with one of T0, T1, T2, "
        "T3, not 'T3'.\n",
    ),
    "torchrun option": (
        ["run", "--", sys.executable, "-m", "torch.distributed.run", "--nproc", "8", "--nodes=2"],
        "phantora: usage: torchrun has no option --nodes that phantora knows. Did you "
        "mean --nnodes?\n",
    ),
}


@pytest.mark.parametrize("case", GOLDEN)
def test_golden(
    case: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Exit code 2, nothing on the standard output, exactly this message, no file left."""
    monkeypatch.chdir(tmp_path)
    arguments, message = GOLDEN[case]
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    # From Python 3.12 on argparse lists choices without quotes.
    assert said.err.replace("'", "") == message.replace("'", "")
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_cluster_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The file and the key are named."""
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text('base = "h100"\ngpus_per_nod = 4\n')
    assert main(["run", "--cluster", "mine.toml", "--", "sh"]) == 2
    said = capsys.readouterr().err
    assert "mine.toml" in said
    assert "gpus_per_nod" in said


def test_our_own_fault(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception that nobody expected keeps its traceback and ends with 70."""

    def fail(_: object) -> None:
        raise ZeroDivisionError("ours")

    monkeypatch.setattr("phantora_py.runs.run.prepare", fail)
    assert main(["run", "--", "sh"]) == 70
    said = capsys.readouterr().err
    assert "ZeroDivisionError: ours" in said
    assert "phantora: internal error: " in said


@pytest.mark.parametrize(
    ("text", "size_bytes"), [("0", 0), ("64KiB", 65536), ("1 MiB", 1 << 20), ("2GiB", 2 << 30)]
)
def test_sizes(text: str, size_bytes: int) -> None:
    """Binary units, with or without a space."""
    assert parse_size_bytes(text) == size_bytes


@pytest.mark.parametrize(("text", "share"), [("80%", 0.8), ("0.8", 0.8), ("100%", 1), ("0", 0)])
def test_shares(text: str, share: float) -> None:
    """Per cent or a fraction."""
    assert parse_share(text) == pytest.approx(share)


@pytest.mark.parametrize("text", ["", "x", "101%", "-1", "nan"])
def test_no_shares(text: str) -> None:
    """Nothing else passes, least of all what would compare as true with everything."""
    with pytest.raises(UsageError):
        parse_share(text)


def test_names_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    """No brackets or colons of a path are taken for a style or a picture."""
    print_written(Path("a[red]b/:key: c.phr"))
    assert capsys.readouterr().err == (
        "Wrote a[red]b/:key: c.phr\nNext: phantora report 'a[red]b/:key: c.phr'\n"
    )
