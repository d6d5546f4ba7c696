"""The commands that compare with published results, on a file of a few made-up rows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
HEADER = "system,version,op_name,nccl_dtype,num_gpus,size_bytes,time_us"


def run(folder: Path, name: str, *arguments: str) -> str:
    """What a command of benchmarks prints about two systems, one of them held out."""
    results = folder / "results.csv"
    rows = [
        f"{system},2.29,all_reduce,half,{gpus},{1 << 20},{time_us}"
        for system, gpus, time_us in (
            ("h100_sxm", 8, 25.0),
            ("h100_sxm", 8, 26.0),
            ("h100_sxm", 8, 60.0),
            ("gb300", 4, 1.0),
            ("unheard_of", 4, 1.0),
        )
    ]
    results.write_text("\n".join([HEADER, *rows]) + "\n", encoding="utf-8")
    command = [sys.executable, str(BENCHMARKS / f"{name}.py"), str(results), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


def test_page_shows_the_bad_rows(tmp_path: Path) -> None:
    """Medians of repetitions; fitted and unseen apart; an aim that is missed says so."""
    lines = run(tmp_path, "network_accuracy").splitlines()
    fitted = next(line for line in lines if line.startswith("| single node | yes |"))
    unseen = next(line for line in lines if line.startswith("| single node | no |"))
    assert fitted.split("|")[3].strip() == "1"
    assert fitted.split("|")[-3].endswith(": met ")
    assert unseen.split("|")[-3].endswith("**missed** ")
    assert any(line.startswith("| GB300 | 4 |") and "too slow at 1 MiB" in line for line in lines)
    assert any(line.startswith("* 1 rows of the files are of no system") for line in lines)


def test_figures_have_curves_and_points(tmp_path: Path) -> None:
    """One file for each system and for each built-in cluster that has no measurements."""
    printed = run(tmp_path, "network_figures", "-o", str(tmp_path / "figures")).split()
    names = {Path(one).name for one in printed}
    assert {"h100.svg", "gb300.svg", "h200-not-measured.svg"} <= names
    picture = ElementTree.parse(tmp_path / "figures" / "h100.svg").getroot()
    space = "{http://www.w3.org/2000/svg}"
    assert len(picture.findall(f".//{space}polyline")) == 1
    dots = [one for one in picture.iter(f"{space}circle") if one.get("r") == "2.5"]
    assert len(dots) == 1
