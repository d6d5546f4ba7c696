"""Small C programs, one per group of calls, compiled against our declarations and run as the ranks
of a run whose agent answers every wait at once.

The comment that a program begins with names the rows of the interception tables that it covers.
`python tests/programs/run_real.py` runs the same programs on a GPU with the vendor's libraries.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest
from program_runs import (
    CSRC,
    HERE,
    PROGRAMS,
    compile_program,
    covered_rows,
    find_cuda_headers,
    rank_count,
    rank_variables,
)
from stand_in_agent import StandInAgent, write_settings

from phantora_py.launch.libraries import preload_list, preload_value, shim_directory
from sim_server.gpu import load_gpu
from sim_server.records.forms import check_payload, payload_of
from sim_server.records.payloads import SIGNATURES

SIGNATURE, STATISTICS, KERNEL, COPY, FILL, HOST_FUNCTION = 1, 4, 18, 19, 20, 23
# Called while libraries are loaded, long before there is a rank whose calls could be counted.
UNCOUNTED = {
    "__cudaRegisterFatBinary",
    "__cudaRegisterFatBinaryEnd",
    "__cudaRegisterFunction",
    "__cudaRegisterVar",
    "__cudaUnregisterFatBinary",
}
# Libraries whose every modelled row some program must call.
COMPLETE = (
    "cublas",
    "cublasLt",
    "cuda",
    "cudart",
    "cudnn",
    "cufft",
    "cupti",
    "cusolver",
    "cusparse",
    "nccl",
    "nvml",
)


def cuda_headers() -> Path:
    """The folder of cuda.h and the headers it needs; skips the test where there is none."""
    spec = importlib.util.find_spec("nvidia")
    found = find_cuda_headers((spec and spec.submodule_search_locations) or ())
    if found is None:
        pytest.skip("no CUDA headers: pip install nvidia-cuda-runtime nvidia-cuda-crt")
    return found


def cuda_12_headers() -> Path:
    """The same of CUDA 12, which lacks what `crt` has."""
    spec = importlib.util.find_spec("nvidia.cuda_runtime")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("no headers of CUDA 12: pip install nvidia-cuda-runtime-cu12")
    return Path(spec.submodule_search_locations[0]) / "include"


def run_program(source: Path, directory: Path, cuda_major: int = 13, gpus: int = 8) -> list[bytes]:
    """The records of rank 0 of the program on a node of H100. Raises: AssertionError."""
    binary, ranks = directory / source.stem, rank_count(source)
    libraries = preload_list(shim_directory(cuda_major))
    headers = [cuda_headers()]
    if cuda_major == 12:
        headers.insert(0, cuda_12_headers())
    includes = [f"-isystem{path}" for path in headers[1:]]
    compile_program(source, binary, headers[0], libraries, "-DPHANTORA_MODEL", *includes)
    write_settings(directory, ranks, {**load_gpu("h100").shim_keys(), "gpu.count": str(gpus)})
    agent = StandInAgent(directory, ranks)
    try:
        processes = [_start(binary, rank, ranks, libraries) for rank in range(ranks)]
        ended = [(process.communicate(timeout=60), process.returncode) for process in processes]
    finally:
        agent.close()
    for (_, errors), code in ended:
        assert code == 0, errors
        # Sensors are refused by name, once each; a program says nothing else.
        refused = [
            line for line in errors.splitlines() if " of nvml answers not supported: " in line
        ]
        assert len(set(refused)) == len(errors.splitlines()), errors
    return agent.records[0]


def _start(binary: Path, rank: int, ranks: int, libraries: list[Path]) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        **rank_variables(rank, ranks, binary.parent),
        "PHANTORA_RANK": str(rank),
        "PHANTORA_RUN_DIR": str(binary.parent),
        "LD_PRELOAD": preload_value(libraries, os.environ),
    }
    return subprocess.Popen(
        [str(binary)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def modelled_rows(library: str) -> list[str]:
    """The names of a table's rows that have a body of ours."""
    definition = CSRC / "shim" / "api" / f"{library}.def"
    return re.findall(r"^API\((\w+), Modelled,", definition.read_text("ascii"), re.MULTILINE)


def payload(record: bytes) -> dict[str, Any]:
    """The JSON that follows a record's first cell."""
    (size_bytes,) = struct.unpack_from("<Q", record, 24)
    parsed: dict[str, Any] = json.loads(record[64 : 64 + size_bytes])
    return parsed


def called_rows(records: list[bytes]) -> set[str]:
    """The modelled rows that a program called, as it counted them itself."""
    statistics = [payload(record) for record in records if record[0] == STATISTICS]
    return {row for counts in statistics for row in counts["modelled"]}


def signatures(records: list[bytes]) -> list[dict[str, Any]]:
    """The signature of every kernel record, in order; each is of a class of the schema."""
    announced: dict[int, dict[str, Any]] = {}
    kernels = []
    for record in records:
        (ident,) = struct.unpack_from("<I", record, 16)
        if record[0] == SIGNATURE:
            announced[ident] = payload(record)
            check_payload(announced[ident], payload_of(announced[ident], SIGNATURES))
        elif record[0] == KERNEL:
            kernels.append(announced[ident])
    return kernels


@pytest.mark.parametrize("cuda_major", [13, 12])
@pytest.mark.parametrize("source", PROGRAMS, ids=lambda path: path.stem)
def test_program(source: Path, cuda_major: int, tmp_path: Path) -> None:
    """Calls do what the vendor documents, misuse is refused; the rows it names are called."""
    called = called_rows(run_program(source, tmp_path, cuda_major))
    assert sorted(set(covered_rows(source)) - called - UNCOUNTED) == []


@pytest.mark.parametrize(
    "source", [path for path in PROGRAMS if rank_count(path) == 1], ids=lambda path: path.stem
)
def test_one_gpu(source: Path, tmp_path: Path) -> None:
    """Where a node has one GPU a program leaves out what needs two."""
    run_program(source, tmp_path, gpus=1)


def test_gemm_signatures(tmp_path: Path) -> None:
    """A product's record says sizes, types, batch and arithmetic, column-major."""
    products = signatures(run_program(HERE / "cublas_gemm.c", tmp_path))
    assert products[0] == {
        "kind": "gemm", "library": "cublas", "m": 32, "n": 16, "k": 64, "batch": 1,
        "transa": "T", "transb": "N", "lda": 64, "ldb": 64, "ldc": 32,
        "a": "f32", "b": "f32", "c": "f32", "d": "f32", "compute": "f32",
        "epilogue": "none", "beta": True,
    }  # fmt: skip
    expected = [("f64", False), ("f32", False), ("f32", False), ("tf32", False)]
    assert [(p["compute"], p["beta"]) for p in products[1:5]] == expected
    assert products[3]["a"] == "bf16"
    assert (products[5]["batch"], products[5]["strides"]) == (4, [64, 0, 64])
    assert products[6]["pointer_array"] is True
    vector = products[9]
    assert (vector["m"], vector["n"], vector["k"]) == (8, 1, 16)
    assert [p.get("operation") for p in products[10:]] == ["dot", "trsm", "getrf"]


def test_built_graphs_have_branches(tmp_path: Path) -> None:
    """Nodes that wait for nothing run beside each other; what follows one alone stays with it."""
    records = run_program(HERE / "cudart_graph_nodes.c", tmp_path)
    work = [record for record in records if record[0] in (COPY, FILL, HOST_FUNCTION)]
    streams = [struct.unpack_from("<I", record, 4)[0] for record in work[:5]]
    assert [record[0] for record in work[:5]] == [FILL, FILL, COPY, COPY, HOST_FUNCTION]
    first, second = streams[:2]
    assert first != second
    assert streams[2:] == [first, second, first]


def test_matmul_signature(tmp_path: Path) -> None:
    """cuBLASLt's record carries the epilogue of the descriptor."""
    (product,) = signatures(run_program(HERE / "cublasLt_matmul.c", tmp_path))
    assert (product["m"], product["n"], product["k"]) == (256, 64, 128)
    assert (product["library"], product["epilogue"]) == ("cublasLt", "gelu_bias")


def test_module_signatures(tmp_path: Path) -> None:
    """Launches of one code object have its hash, by whatever way it was loaded."""
    launches = signatures(run_program(HERE / "driver_module.c", tmp_path))
    assert [launch["grid"] for launch in launches] == [[2, 1, 1], [1, 1, 1], [1, 1, 1]]
    assert len({launch["module"] for launch in launches}) == 1
    assert {launch["name"] for launch in launches} == {"scale"}


def test_convolution_signature(tmp_path: Path) -> None:
    """A convolution's record has its sizes; a graph that is nothing we know has its bytes."""
    convolution, unnamed = signatures(run_program(HERE / "cudnn_convolution.c", tmp_path))
    assert convolution == {
        "kind": "library", "library": "cudnn", "operation": "convolution_forward", "type": "f16",
        "compute": "f32", "layout": "contiguous", "groups": 2,
        "x": [8, 6, 32, 32], "w": [16, 3, 3, 3], "y": [8, 16, 16, 16],
        "padding": [1, 1], "stride": [2, 2], "dilation": [1, 1],
        "flops": 2 * 8 * 16 * 16 * 16 * 3 * 3 * 3,
        "bytes": 2 * (8 * 6 * 32 * 32 + 16 * 3 * 3 * 3 + 8 * 16 * 16 * 16),
    }  # fmt: skip
    assert (unnamed["operation"], unnamed["bytes"]) == ("graph", 2 * 2 * 8 * 64)


def test_attention_signatures(tmp_path: Path) -> None:
    """Attention has the same record whether it came as one operation or as its steps."""
    composite, unified, repeated = signatures(run_program(HERE / "cudnn_attention.c", tmp_path))
    assert composite == unified == repeated == {
        "kind": "library", "library": "cudnn", "operation": "attention_forward", "type": "f16",
        "batch": 2, "heads": 8, "kv_heads": 2, "seqlen_q": 128, "seqlen_k": 128,
        "head_dim": 64, "head_dim_v": 64, "causal": 1, "dropout": 0, "bias": 0,
        "bytes": 2 * 2 * 128 * 64 * (8 + 2 + 2 + 8),
    }  # fmt: skip


def test_batch_norm_signatures(tmp_path: Path) -> None:
    """Batch normalisation's records count the operands that are as large as its input."""
    records = signatures(run_program(HERE / "cudnn_batch_norm.c", tmp_path))
    operand_bytes = 2 * 8 * 64 * 16 * 16
    assert [(record["operation"], record["bytes"]) for record in records] == [
        ("batch_norm_forward_training", 2 * operand_bytes),
        ("batch_norm_backward", 3 * operand_bytes),
        ("batch_norm_forward_inference", 2 * operand_bytes),
    ]


def test_recurrent_signatures(tmp_path: Path) -> None:
    """A pass over a recurrent network is one record, with its sizes and those of the batch."""
    _, _, *passes = signatures(run_program(HERE / "cudnn_recurrent.c", tmp_path))
    names = ["lstm_forward", "lstm_backward_data", "lstm_backward_weights"]
    assert [one.pop("operation") for one in passes] == names
    assert passes == [{
        "kind": "library", "library": "cudnn", "type": "f32", "layers": 2, "directions": 2,
        "seqlen": 6, "batch": 4, "tokens": 24, "input": 32, "hidden": 64, "projection": 0,
        "persistent": 0, "tensor_cores": 0, "dropout": 1,
    }] * 3  # fmt: skip


@pytest.mark.parametrize("source", PROGRAMS, ids=lambda path: path.stem)
def test_covers(source: Path) -> None:
    """A program names the rows that it covers, and they are rows that we model."""
    libraries = [path.stem for path in (CSRC / "shim" / "api").glob("*.def")]
    modelled = {row for library in libraries for row in modelled_rows(library)}
    assert sorted(set(covered_rows(source)) - modelled) == []


@pytest.mark.parametrize("library", COMPLETE)
def test_every_modelled_row_is_covered(library: str) -> None:
    """Each call that we model is named by some program."""
    covered = {row for source in PROGRAMS for row in covered_rows(source)}
    assert sorted(set(modelled_rows(library)) - covered) == []
