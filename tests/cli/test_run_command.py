"""`phantora run` with programs that need no torch: how a run ends, and what it leaves."""

import json
import os
import pty
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from phantora_py.data import RunData

LIMIT_S = 60.0


@pytest.fixture(autouse=True)
def leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """After every run here, none of its processes is left, not even the one that cleans up."""
    mark = secrets.token_hex(8)
    monkeypatch.setenv("PHANTORA_TEST", mark)
    yield
    assert not _processes(mark)


def _processes(mark: str) -> list[psutil.Process]:
    """Living processes with this value of PHANTORA_TEST in their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("PHANTORA_TEST") == mark:
                found.append(process)
        except psutil.Error:
            continue  # It has ended, or it is not ours.
    return found


def may_mount() -> bool:
    """Whether this user gets a mount namespace of its own."""
    command = ["unshare", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "none", "/dev/shm"]
    return shutil.which("unshare") is not None and (
        subprocess.run(command, capture_output=True, check=False).returncode == 0
    )


def phantora(directory: Path, *arguments: str, script: str) -> subprocess.CompletedProcess[str]:
    """Runs a shell script as two ranks."""
    words = [sys.executable, "-m", "phantora_py", "run", "--ranks", "2", "-o", "run.phr"]
    return subprocess.run(
        [*words, *arguments, "--", "sh", "-c", script],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def test_nccl_variables_reach_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the user's environment are simulated, and the others are listed."""
    monkeypatch.setenv("NCCL_ALGO", "Ring")
    monkeypatch.setenv("NCCL_NTHREADS", "64")
    done = phantora(tmp_path, "--json", script="true")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["trust"]["nccl_not_modelled"] == ["NCCL_NTHREADS=64"]
    with zipfile.ZipFile(tmp_path / "run.phr") as archive:
        variables = json.loads(archive.read("settings.json"))["nccl_environment"]
    assert variables["NCCL_ALGO"] == "Ring"


def test_a_wrong_nccl_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is found before anything is started."""
    monkeypatch.setenv("NCCL_PROTO", "LL64")
    done = phantora(tmp_path, script="true")
    assert done.returncode == 2
    assert "NCCL_PROTO=LL64: 'll64' is not modelled" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("isolation", ["auto", "process"])
def test_a_run_that_finishes(tmp_path: Path, isolation: str) -> None:
    """Exit code 0, the ranks' output, a complete data file and a hint what to do next."""
    done = phantora(tmp_path, "--isolation", isolation, script="echo rank $RANK of $WORLD_SIZE")
    assert done.returncode == 0, done.stderr
    said = {line.rpartition("]: ")[2] for line in done.stdout.splitlines()}
    assert {"rank 0 of 2", "rank 1 of 2"} <= said
    assert done.stderr.endswith("Wrote run.phr\nNext: phantora report run.phr\n")
    with zipfile.ZipFile(tmp_path / "run.phr") as archive:
        run = json.loads(archive.read("run.json"))
        assert run["digest"] == archive.read("digest").decode()
    assert (run["exit_code"], run["ranks"], run["nodes"], run["cluster_name"]) == (0, 2, 1, "h100")
    assert run["wall"]["core_seconds"] > 0
    assert 0 < run["wall"]["startup_s"] <= run["wall"]["total_s"]
    assert [path.name for path in tmp_path.iterdir()] == ["run.phr"]


def test_json_has_the_standard_output_to_itself(tmp_path: Path) -> None:
    """What the ranks print goes to the standard error then."""
    done = phantora(tmp_path, "--json", script="echo from a rank")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["ranks"] == 2
    assert done.stderr.count("from a rank") == 2


def test_quiet(tmp_path: Path) -> None:
    """Only the ranks speak."""
    done = phantora(tmp_path, "--quiet", script="test $RANK = 1 || echo hello")
    assert (done.returncode, done.stdout, done.stderr) == (0, "hello\n", "")


def test_lines_of_ranks_are_whole_and_named(tmp_path: Path) -> None:
    """From the second rank on that prints; those that chosen ranks print are as they are."""
    script = "for i in 1 2 3; do printf 'line '; printf $i; echo; done"
    done = phantora(tmp_path, "--quiet", script=script)
    assert done.returncode == 0, done.stderr
    lines = [line.rpartition("]: ") for line in done.stdout.splitlines()]
    assert sorted(text for *_, text in lines) == sorted(["line 1", "line 2", "line 3"] * 2)
    for name in ("[rank0", "[rank1"):
        own = [text for before, _, text in lines if before == name]
        assert own in (["line 1", "line 2", "line 3"], [])
    chosen = phantora(tmp_path, "--quiet", "--rank", "1", script=f"{script}; echo $RANK")
    assert chosen.stdout == "line 1\nline 2\nline 3\n1\n"


def test_the_output_of_all_ranks_is_kept(tmp_path: Path) -> None:
    """In the data file and, if asked for, in files; also what children print, and a rank that is
    killed in the middle of a line. What rank 0 prints after that would not be shown.
    """
    prints = "sh -c 'echo child; echo error >&2; printf end'"
    dies = "until test -e printed; do sleep .01; done; kill -9 $$"
    script = f"{prints}; if test $RANK = 0; then touch printed; else {dies}; fi"
    done = phantora(tmp_path, "--quiet", "--rank", "0", "--log-dir", "logs", script=script)
    assert done.returncode == 4
    assert done.stdout == "child\nend"
    with_errors = ("stdout", b"child\nend"), ("stderr", b"error\n")
    data = RunData(tmp_path / "run.phr")
    for rank in range(2):
        assert data.log(rank) == dict(with_errors)
        for stream, text in with_errors:
            assert (tmp_path / f"logs/rank-{rank}.{stream}").read_bytes() == text
    report = [sys.executable, "-m", "phantora_py", "report", "run.phr", "--rank", "1"]
    told = subprocess.run(report, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (told.stdout, told.stderr) == ("child\nend", "error\n")


def test_order_is_kept_where_all_goes_to_one_place(tmp_path: Path) -> None:
    """As with 2>&1; --json has the ranks write to the standard error anyway."""
    done = phantora(tmp_path, "--json", script="for i in 1 3 5; do echo $i; echo $i >&2; done")
    assert json.loads(done.stdout)["ranks"] == 2
    for rank in range(2):
        assert RunData(tmp_path / "run.phr").log(rank) == {"log": b"1\n1\n3\n3\n5\n5\n"}


def test_a_single_rank_has_the_terminal(tmp_path: Path) -> None:
    """As if there were no phantora; not so if there are more, or its output is kept in files."""
    script = "test -t 1 && test -t 2 && echo $RANK has a terminal || echo $RANK has none"
    for options, said in (
        ([], "0 has a terminal"),
        (["--log-dir", "logs"], "0 has none"),
        (["--ranks", "2"], "[rank1]: 1 has none"),
    ):
        leader, follower = pty.openpty()
        words = [sys.executable, "-m", "phantora_py", "run", "--quiet", "-o", "run.phr", *options]
        command = [*words, "--", "sh", "-c", f"sleep 0.$RANK; {script}"]
        with subprocess.Popen(command, cwd=tmp_path, stdout=follower, stderr=follower) as process:
            assert process.wait(LIMIT_S) == 0
        os.close(follower)
        assert said in os.read(leader, 1 << 16).decode()
        os.close(leader)


def test_a_reader_that_has_gone_ends_the_run(tmp_path: Path) -> None:
    """`| head -1`: nobody wants to see the rest."""
    words = [sys.executable, "-m", "phantora_py", "run", "--quiet", "-o", "run.phr", "--ranks", "2"]
    script = "while :; do echo on and on; sleep 0.01; done"
    with subprocess.Popen(
        [*words, "--", "sh", "-c", script], cwd=tmp_path, stdout=subprocess.PIPE, stderr=-1
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"on and on\n"
        process.stdout.close()
        assert process.wait(LIMIT_S) == 141


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ("exit 3", "Rank 1 ended with exit code 3."),
        ("kill -9 $$", "Rank 1 was killed by signal 9 (SIGKILL)."),
        ("kill -11 $$", "Rank 1 was killed by signal 11 (SIGSEGV)."),
    ],
)
@pytest.mark.parametrize("isolation", ["auto", "process"])
def test_a_rank_that_fails(tmp_path: Path, isolation: str, end: str, words: str) -> None:
    """Exit code 4 within seconds, though rank 0 would go on; the message names the rank."""
    start_s = time.monotonic()
    script = f"test $RANK = 0 && sleep 300; echo 'what I\nhave to say' >&2; {end}"
    done = phantora(tmp_path, "--isolation", isolation, "--quiet", script=script)
    assert done.returncode == 4
    message = (
        f"{words} It was the first to fail; the others were stopped. Its last lines:\n"
        "  what I\n  have to say"
    )
    shown = message.partition("Its last lines:")[0] + "What it said is above."
    assert done.stderr == f"what I\nhave to say\nphantora: a rank failed: {shown}\n"
    assert time.monotonic() - start_s < 15
    with zipfile.ZipFile(tmp_path / "run.phr") as archive:
        run = json.loads(archive.read("run.json"))
    assert (run["exit_code"], run["failed_rank"], run["message"]) == (4, 1, message)


def test_a_limit_of_memory(tmp_path: Path) -> None:
    """Exit code 2 as soon as the run takes more; the data so far is kept."""
    done = phantora(tmp_path, "--quiet", "--memory-limit", "1MiB", script="exec sleep 300")
    assert done.returncode == 2
    assert done.stderr.startswith("phantora: usage: The run takes ")
    assert "MiB of memory, and --memory-limit is 1.00 MiB: 2 ranks take " in done.stderr
    run = RunData(tmp_path / "run.phr").run
    assert run["exit_code"] == 2
    assert run["host_memory"]["limit_bytes"] == 1 << 20
    assert run["host_memory"]["total_bytes"] > sum(run["host_memory"]["pss_bytes"].values()) > 0


def test_the_run_directory_is_gone(tmp_path: Path) -> None:
    """It is there while the ranks run, and not afterwards."""
    script = "test -d $PHANTORA_RUN_DIR && echo $PHANTORA_RUN_DIR"
    done = phantora(tmp_path, "--quiet", "--rank", "0", script=script)
    assert done.stdout.startswith("/")
    assert not Path(done.stdout.rstrip()).exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted(tmp_path: Path, number: signal.Signals) -> None:
    """Within seconds, with its exit code and the data so far, though a rank left a process."""
    words = [sys.executable, "-m", "phantora_py", "run", "--quiet", "-o", "run.phr", "--"]
    script = "setsid sleep 300 & echo ready; exec sleep 300"
    with subprocess.Popen(
        [*words, "sh", "-c", script],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        try:
            assert process.wait(LIMIT_S) == 128 + number
        finally:
            process.kill()
        assert process.stderr.read() == (
            "phantora: interrupted: every rank was stopped; the data file ends there.\n"
        )
    assert list(tmp_path.iterdir()) == [tmp_path / "run.phr"]
    assert RunData(tmp_path / "run.phr").run["exit_code"] == 128 + number


def test_interrupted_twice(tmp_path: Path) -> None:
    """Exit code 130 at once, without a data file, though the rank does not end when asked to."""
    words = [sys.executable, "-m", "phantora_py", "run", "--quiet", "-o", "run.phr", "--"]
    script = "trap 'echo asked' TERM; echo ready; while :; do sleep 300 & wait; done"
    with subprocess.Popen(
        [*words, "bash", "-c", script],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "asked\n"
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(LIMIT_S) == 130
        finally:
            process.kill()
        assert process.stderr.read() == "phantora: interrupted: everything was stopped at once.\n"
    assert list(tmp_path.iterdir()) == []


def test_runs_at_one_time_in_one_directory(tmp_path: Path) -> None:
    """Both end well and report their own data file, however equal the names would be."""
    words = [sys.executable, "-m", "phantora_py", "run", "--", "sh", "-c", "sleep 1"]
    runs = [
        subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True) for _ in range(2)
    ]
    reported = set()
    for run in runs:
        _, errors = run.communicate(timeout=LIMIT_S)
        assert run.returncode == 0, errors
        reported |= set(re.findall(r"^Wrote (phantora-sh\.\S+\.phr)$", errors, re.MULTILINE))
    assert reported == {path.name for path in tmp_path.iterdir()}
    assert len(reported) == 2


def test_too_few_open_files(tmp_path: Path) -> None:
    """Said before anything is started, with the number that is needed."""
    limited = f"ulimit -n 60; exec {sys.executable} -m phantora_py run --ranks 8 -- true"
    done = subprocess.run(
        ["sh", "-c", limited],
        check=False,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert (done.returncode, done.stderr) == (
        2,
        "phantora: usage: A process may open 60 files here, and a run of 8 ranks needs 64. Raise "
        "the limit (ulimit -n 64) or run fewer ranks.\n",
    )


NO_OUTPUT = "-o output/run.phr cannot be written: No space left on"
NO_DATA_FILE = "The data file output/run.phr cannot be written: No space left on"
FULL_DISKS = """
mount -t tmpfs -o size={shared} none /dev/shm
mkdir output temporary
mount -t tmpfs -o size={output} none output
mount -t tmpfs -o size={temporary} none temporary
export TMPDIR=$PWD/temporary
options='--quiet --isolation process -o output/run.phr'
{python} -m phantora_py run $options -- sh -c '{script}' > /dev/null
code=$?
rm -f output/run.phr
ls -A /dev/shm output temporary
exit $code
"""


@pytest.mark.skipif(not may_mount(), reason="needs a user namespace that may mount")
@pytest.mark.parametrize(
    ("sizes", "script", "code", "message"),
    [
        (
            ("1m", "9m", "1m"),
            "exit 0",
            2,
            "usage: 1 ranks share 5 MiB of memory with the simulation, and there is no",
        ),
        (("9m", "4k", "1m"), "exit 0", 2, f"usage: {NO_OUTPUT}"),
        # Random text cannot be compressed much, and the run goes on until it is noticed.
        (
            ("9m", "1m", "1m"),
            "head -c 3000000 /dev/urandom | base64; sleep 300",
            2,
            f"usage: {NO_DATA_FILE}",
        ),
        (
            ("9m", "1m", "1m"),
            "echo full; head -c 20m /dev/zero > $PHANTORA_RUN_DIR/x; exit 3",
            4,
            "a rank failed: Rank 0 ended with exit code 3. It was the first to fail; the others "
            "were stopped. There is no room left in /dev/shm for what it prints. What it said",
        ),
    ],
    ids=["shared memory", "output", "output later", "shared memory later"],
)
def test_full_disks(
    tmp_path: Path, sizes: tuple[str, str, str], script: str, code: int, message: str
) -> None:
    """At the start and later: a message with what to do, and nothing left there."""
    shared, output, temporary = sizes
    script = FULL_DISKS.format(
        **{"shared": shared, "output": output, "temporary": temporary, "script": script},
        python=sys.executable,
    )
    done = subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", script],
        check=False,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == code, done.stderr
    (said,) = [line for line in done.stderr.splitlines() if line.startswith("phantora: ")]
    assert said.startswith(f"phantora: {message}")
    assert done.stdout.split() == ["/dev/shm:", "output:", "temporary:"]


def test_a_server_elsewhere(tmp_path: Path) -> None:
    """A run can use a server that somebody else started, if it knows the token."""
    token, guess = tmp_path / "token", tmp_path / "guess"
    guess.write_text("guess")
    address = f"unix:{tmp_path}/server"
    serve = ["serve", "--listen", address, "--token-file", str(token)]
    words = [sys.executable, "-m", "phantora_py", *serve]
    with subprocess.Popen(words, cwd=tmp_path) as server:
        try:
            agent = ("--server", address, "--token-file")
            wrong = phantora(tmp_path, *agent, str(guess), script="true")
            assert wrong.returncode == 2
            assert "wrong token" in wrong.stderr
            done = phantora(tmp_path, *agent, str(token), script="true")
            assert done.returncode == 0, done.stderr
            assert server.wait(LIMIT_S) == 0
        finally:
            server.kill()


def test_nobody_can_read_the_token(tmp_path: Path) -> None:
    """That of the run's own server is in no command line and no environment, and its file is this
    user's alone; a token that the user gave for another server is not for ranks.
    """
    script = (
        "cd $PHANTORA_RUN_DIR && stat -c %a . token && cat token && echo &&"
        "echo mine=$PHANTORA_TOKEN. &&"
        "! grep -l -f token /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null"
    )
    environment = {**os.environ, "PHANTORA_TOKEN": "of-another-server"}
    words = [sys.executable, "-m", "phantora_py", "run", "--quiet", "-o", "run.phr"]
    done = subprocess.run(
        [*words, "--isolation", "process", "--", "sh", "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    directory_mode, file_mode, token, mine = done.stdout.split()
    assert (directory_mode, file_mode, mine) == ("700", "600", "mine=.")
    assert len(token) == 32


def test_the_output_is_named_after_the_program_and_the_time(tmp_path: Path) -> None:
    """Without -o nothing is overwritten."""
    words = [sys.executable, "-m", "phantora_py", "run", "--quiet", "--", "sh", "-c", "true"]
    subprocess.run(words, cwd=tmp_path, timeout=LIMIT_S, check=True)
    (made,) = tmp_path.iterdir()
    assert made.name.startswith("phantora-sh.")
    assert made.suffix == ".phr"


def test_a_killed_phantora_leaves_what_it_had_written(tmp_path: Path) -> None:
    """SIGKILL while the ranks run: the data file gets its name, and the report says what it is."""
    words = [sys.executable, "-m", "phantora_py", "run", "--quiet", "-o", "run.phr", "--ranks", "2"]
    with subprocess.Popen(
        [*words, "--", "sh", "-c", "echo under way; sleep 300"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "under way\n"
        process.kill()
    deadline_s = time.monotonic() + LIMIT_S
    while not (tmp_path / "run.phr").exists() and time.monotonic() < deadline_s:
        time.sleep(0.05)
    report = subprocess.run(
        [sys.executable, "-m", "phantora_py", "report", "run.phr"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (report.returncode, "is not complete" in report.stderr) == (2, True)
    assert report.stdout.startswith("2 ranks on 1 node of h100   host time: counted   sh -c 'echo")
    assert "phantora was killed   what follows is what it had written by then" in report.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["run.phr"]
