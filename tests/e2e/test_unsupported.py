"""`--unsupported`: what a program gets from a call that is not modelled, and what the report says.

The program needs no PyTorch, but for the profiler's, and its runtime is that of CUDA 13 like our
own by default.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from phantora_runs import PROGRAMS, Phantora, Run

from phantora_py.report.summary import summarise, summary_lines

pytestmark = pytest.mark.torch

PROGRAM = PROGRAMS / "unsupported_calls.py"
NOT_SUPPORTED = 801
PROFILED = """
import ctypes
import torch

torch.ones(10, device="cuda").sum()
cupti = ctypes.CDLL(f"libcupti.so.{torch.version.cuda.partition('.')[0]}")
subscriber = ctypes.c_void_p()
callback = ctypes.CFUNCTYPE(None)(lambda: None)
assert cupti.cuptiSubscribe(ctypes.byref(subscriber), callback, None) == 0
cupti.cuptiEnableDomain(1, subscriber, 2)
"""


def run(phantora: Phantora, mode: str, *arguments: str, options: tuple[str, ...] = ()) -> Run:
    words = ["--ranks", "2", "--unsupported", mode, *options]
    return phantora.run(words, [PROGRAM, *arguments])


def counts(one: Run) -> dict[tuple[str, str], tuple[int, int]]:
    """Ranks and calls by symbol and answer."""
    return {
        (call["symbol"], call["answer"]): (call["ranks"], call["count"])
        for call in one.summary["trust"]["unsupported"]["calls"]
    }


def test_stop(failing_phantora: Phantora) -> None:
    """The default: the first such call ends the run."""
    one = failing_phantora.run(["--ranks", "2"], [PROGRAM])
    assert one.exit_code == 3
    assert "called cudaDeviceSetCacheConfig of cudart, which is not modelled" in one.errors
    assert one.summary["trust"]["unsupported"]["mode"] == "stop"
    assert counts(one) == {}


def test_a_process_below_a_rank_is_heard(failing_phantora: Phantora) -> None:
    """Its parent makes its exit code another; the run ends with the cause."""
    call = "import ctypes; ctypes.CDLL(None).cudaDeviceSetCacheConfig(0)"
    program = (
        "import subprocess, sys, torch\n"
        "torch.cuda.init()\n"
        f"sys.exit(subprocess.run([sys.executable, '-c', {call!r}]).returncode and 1)\n"
    )
    one = failing_phantora.run(["--ranks", "1"], ["-c", program])
    assert one.exit_code == 3
    assert "a rank has started called cudaDeviceSetCacheConfig of cudart, which" in one.errors


def test_error(phantora: Phantora) -> None:
    """Every call fails with CUDA's own code, the last error then; the report lists them."""
    one = run(phantora, "error", options=("--min-trust", "0%"))
    assert one.exit_code == 0, one.errors
    code = NOT_SUPPORTED
    assert f"hints {[code] * 3}, refused {code} then ({code}, 0), memory None" in one.output
    assert one.output.count("cudaErrorNotSupported") == 2
    assert counts(one) == {
        ("cudaDeviceSetCacheConfig", "error"): (2, 6),
        ("cudaImportExternalMemory", "error"): (2, 2),
    }
    trust = one.summary["trust"]
    assert (trust["unsupported"]["skipped"], trust["unsupported"]["refused"]) == (0, 8)
    assert trust["calls"]["unsupported"] == 8


def test_warn(phantora: Phantora) -> None:
    """A hint does nothing and succeeds; what hands something back fails; the result is marked."""
    one = run(phantora, "warn")
    assert one.exit_code == 0, one.errors
    assert f"hints [0, 0, 0], refused {NOT_SUPPORTED} then" in one.output
    assert counts(one) == {
        ("cudaDeviceSetCacheConfig", "success"): (2, 6),
        ("cudaImportExternalMemory", "error"): (2, 2),
    }
    # Said once by each rank.
    said = "cudaDeviceSetCacheConfig of cudart is not modelled; it does nothing and succeeds"
    assert (one.output + one.errors).count(said) == 2
    lines = summary_lines(summarise(one.data))
    assert (
        "[red]not a full model[/]   of the calls that are not modelled 6 did nothing and took no "
        "time, 2 failed as not supported"
    ) in lines
    assert any("6 did nothing and took no time: cudaDeviceSetCacheConfig" in one for one in lines)


def test_no_trust_in_a_run_that_left_something_out(failing_phantora: Phantora) -> None:
    """Whatever share --min-trust asks for."""
    one = run(failing_phantora, "warn", options=("--min-trust", "0%"))
    assert one.exit_code == 6
    assert "6 calls that are not modelled did nothing and took no time" in one.errors


def test_a_call_without_a_status(failing_phantora: Phantora) -> None:
    """It cannot be answered, so it ends the run in every mode."""
    one = run(failing_phantora, "warn", "structure")
    assert one.exit_code == 3
    assert "called cudaCreateChannelDesc of cudart, which is not modelled" in one.errors
    assert "went on" not in one.output


def test_a_profiler_that_is_called_back(failing_phantora: Phantora, tmp_path: Path) -> None:
    """One that wants to hear of every call of CUDA is told that it does not."""
    program = tmp_path / "called_back.py"
    program.write_text(PROFILED)
    one = failing_phantora.run(["--ranks", "1"], [program])
    assert one.exit_code == 3
    assert "called cuptiEnableDomain of cupti (callbacks of domain 2 when the program" in one.errors


def test_a_form_of_a_call(failing_phantora: Phantora, phantora: Phantora) -> None:
    """It is answered as a call is: by the mode, and never with success."""
    one = run(failing_phantora, "stop", "graph")
    assert one.exit_code == 3
    form = "cudaGraphAddEmptyNode of cudart (on a graph that was captured)"
    assert f"called {form}, which is not modelled" in one.errors
    code = NOT_SUPPORTED
    for mode in ("error", "warn"):
        one = run(phantora, mode, "graph")
        assert one.exit_code == 0, one.errors
        said = f"added {code} as None, freed 0, last {code}, destroyed 0"
        assert one.output.count(said) == 2
        assert counts(one) == {("cudaGraphAddEmptyNode", "error"): (2, 2)}


def test_a_failure_after_a_refusal(failing_phantora: Phantora) -> None:
    """The message names the call that was refused: it may be why."""
    one = run(failing_phantora, "error", "fail")
    assert one.exit_code == 4
    assert "It had called cudaImportExternalMemory of cudart at " in one.errors
