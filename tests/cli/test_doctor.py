"""`phantora doctor`: every finding is there, and its exit code says whether a run is possible."""

import json
import sys

import pytest

from phantora_py.cli import doctor, main


def test_findings(capsys: pytest.CaptureFixture[str]) -> None:
    """What is missing is named, and is the reason for the exit code."""
    code = main(["doctor", "--json", "--python", sys.executable])
    findings = {one["subject"]: one for one in json.loads(capsys.readouterr().out)}
    assert {"cores", "memory", "/dev/shm", "isolation", "torch", "shim", "engine", "GPU"} <= set(
        findings
    )
    assert findings["libzstd.so.1"]["text"].startswith(
        ("there", "missing: with PyTorch for CUDA 13")
    )
    assert findings["shim"]["good"]
    assert findings["engine"]["good"]
    assert code == (0 if findings["torch"]["good"] else 2)


def test_an_interpreter_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    """The answer is a finding, not an exception."""
    assert main(["doctor", "--python", "/no/such/python3"]) == 2
    assert "/no/such/python3 does not run" in " ".join(capsys.readouterr().out.split())


def test_brackets_are_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What to install is told with its extra: `phantora[containers]`."""
    advice = doctor.Finding("--backend podman", None, "pip install 'phantora[containers]'")
    monkeypatch.setattr(doctor, "examine", lambda _: [advice])
    assert main(["doctor"]) == 0
    assert "phantora[containers]" in capsys.readouterr().out
