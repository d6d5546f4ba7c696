"""What the shim reads from the machine code of run-time compiled kernels."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from native_programs import CSRC, compile_cxx

# As `nvdisasm -hex` prints Triton's kernels for compute capability 9.0, and the branches of 8.0.
LDG_128 = "0000000404047981 000ea4000c1e1d00"
LDG_64 = "0000000406067981 000ea2000c0e1b00"
STG_128 = "0000000806007986 000fe2000c101d04"
STG_32 = "0000000b08007986 002fe2000c101904"
EXIT = "000000000000794d 000fea0003800000"
FORWARD = "00000004001c0947 000fea0003800000"
BACK = "fffffff000ac8947 000fea000383ffff"
ITSELF = "fffffffc00fc7947 000fc0000383ffff"
ITSELF_80 = "fffffff000007947 000fc0000383ffff"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("machine_code") / "machine_code"
    sources = [Path(__file__).parent / "machine_code.cc", CSRC / "shim/cuda/machine_code.cc"]
    return compile_cxx(sources, built, "-O1")


@pytest.mark.parametrize(
    ("instructions", "expected_bytes"),
    [
        ([LDG_128, STG_128, EXIT, ITSELF], [32, 16, 16]),
        ([LDG_64, LDG_64, FORWARD, STG_32, EXIT, ITSELF_80], [20, 4, 4]),
        ([LDG_64, BACK, STG_32, STG_128, EXIT, ITSELF], [0, 20, 4]),
        ([EXIT, ITSELF], [0, 0, 0]),
    ],
)
def test_accesses_of_a_thread(
    program: Path, instructions: list[str], expected_bytes: list[int]
) -> None:
    """Loads and stores count by width; a loop makes them unknown, the branch at the end not. All
    stores in the code count in any case, and the narrowest is told.
    """
    done = subprocess.run(
        [str(program)], input="\n".join(instructions), text=True, check=True, capture_output=True
    )
    assert [int(part) for part in done.stdout.split()] == expected_bytes
