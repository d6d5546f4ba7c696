"""Which calls that we do not model can be answered with an error: those that return a status.

An integer would be no answer where a pointer or nothing is returned. Needs `gcc`, the
preprocessor.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

# Each configuration of a header shows other names: a default stream per thread, and versions kept
# for old programs.
DRIVER_CONFIGURATIONS = ("CUDA_API_PER_THREAD_DEFAULT_STREAM", "__CUDA_API_VERSION_INTERNAL")
NVML_CONFIGURATIONS = ("NVML_NO_UNVERSIONED_FUNC_DEFS",)

# By library: its headers, and the type in which its calls say how they went.
HEADERS = {
    "cublas": (("cublas_v2.h", "cublas.h", "cublasXt.h"), "cublasStatus_t|cublasStatus"),
    "cublasLt": (("cublasLt.h",), "cublasStatus_t"),
    "cuda": (("cuda.h",), "CUresult"),
    "cudart": (("cuda_runtime_api.h",), "cudaError_t"),
    "cudnn": (("cudnn.h",), "cudnnStatus_t"),
    "cufft": (("cufft.h", "cufftXt.h"), "cufftResult"),
    "cusolver": (
        ("cusolverDn.h", "cusolverMg.h", "cusolverRf.h", "cusolverSp.h"),
        "cusolverStatus_t",
    ),
    "cupti": (
        (
            "cupti.h",
            "cupti_checkpoint.h",
            "cupti_pcsampling.h",
            "cupti_pmsampling.h",
            "cupti_profiler_host.h",
            "cupti_profiler_target.h",
            "cupti_range_profiler.h",
            "cupti_sass_metrics.h",
            "cupti_target.h",
        ),
        "CUptiResult|CUptiUtilResult",
    ),
    "cusparse": (("cusparse.h",), "cusparseStatus_t"),
    "cusparseLt": (("cusparseLt.h",), "cusparseStatus_t"),
    "nccl": (("nccl.h", "nccl_device/core.h"), "ncclResult_t"),
    "nvJitLink": (("nvJitLink.h",), "nvJitLinkResult"),
    "nvml": (("nvml.h",), "nvmlReturn_t"),
    "nvrtc": (("nvrtc.h",), "nvrtcResult"),
}


def read_statuses(library: str, directories: Iterable[Path]) -> set[str] | None:
    """The calls of a library that its headers declare to return its status.

    None: `directories` have not all of its headers.
    """
    headers, status = HEADERS[library]
    directories = list(directories)
    found = [
        next((at / name for at in directories if (at / name).exists()), None) for name in headers
    ]
    names: set[str] = set()
    for header in found:
        if header is None:
            return None
        for options in ((), DRIVER_CONFIGURATIONS, NVML_CONFIGURATIONS):
            names |= _declared(header, status, directories, options)
    return names


def _declared(
    header: Path, status: str, directories: list[Path], macros: tuple[str, ...]
) -> set[str]:
    command = ["gcc", "-E", "-P", "-x", "c++", *(f"-D{macro}" for macro in macros)]
    command += [f"-isystem{directory}" for directory in directories]
    text = subprocess.run(
        [*command, str(header)], check=True, capture_output=True, text=True
    ).stdout
    # Calling conventions and attributes may stand between type and name.
    pattern = rf"\b(?:{status})\s+(?:__attribute__\s*\(\([^;]*?\)\)\s*)?(\w+)\s*\("
    return set(re.findall(pattern, text))
