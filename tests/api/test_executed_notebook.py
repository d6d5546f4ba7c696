"""A notebook that a kernel executes: runs and their comparison are shown as tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compared_runs import US, write_run

nbclient = pytest.importorskip("nbclient", reason="needs nbclient and ipykernel")
pytest.importorskip("ipykernel", reason="needs nbclient and ipykernel")

CELLS = (
    "import sys\nimport phantora_py as phantora",
    "run = phantora.run([sys.executable, '-c', 'print(6 * 7)'], ranks=2, output='one.phr')\nrun",
    "slow = phantora.open('slow.phr')\nslow.compare(phantora.open('fast.phr'))",
    "slow.iteration_ns",
    "phantora.run(['false'], ranks=1)",
)


@pytest.mark.filterwarnings("ignore")  # of the kernel's libraries
def test_a_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is run is heard, tables come as HTML, and a failure is an error of ours."""
    from nbformat.v4 import new_code_cell, new_notebook  # noqa: PLC0415

    for variable in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    for name, length in (("slow", 40), ("fast", 20)):
        write_run(tmp_path / f"{name}.phr", [length * US] * 3)
    notebook = new_notebook(cells=[new_code_cell(text) for text in CELLS])
    place = {"metadata": {"path": str(tmp_path)}}
    client = nbclient.NotebookClient(notebook, timeout=120, allow_errors=True, resources=place)
    client.execute()
    nothing, ran, compared, figure, failed = (cell["outputs"] for cell in notebook["cells"])
    assert nothing == []
    assert "42" in "".join(one["text"] for one in ran if one["output_type"] == "stream")
    assert "one.phr</td>" in shown(ran)["text/html"]
    assert "speed-up" in shown(compared)["text/html"]
    assert "2.00" in shown(compared)["text/html"]
    assert shown(compared)["text/plain"] == "<Compared slow, fast>"
    assert shown(figure)["text/plain"] == str(40 * US)
    (error,) = (one for one in failed if one["output_type"] == "error")
    assert error["ename"] == "RankFailed"


def shown(outputs: list[Any]) -> dict[str, str]:
    """What the cell's last expression is shown as."""
    (result,) = (one["data"] for one in outputs if one["output_type"] == "execute_result")
    return dict(result)
