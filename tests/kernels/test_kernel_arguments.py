"""The shim's reading of kernel arguments, through a small program that is compiled here."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from native_programs import CSRC, compile_cxx

_HERE = Path(__file__).parent

# Mangled names as PyTorch 2.15 registers them.
_SUM = "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_9NanSumOpsIffEEjfLi4ELi4EEEEEvT1_"
_ZERO = (
    "_ZN2at6native12_GLOBAL__N_125multi_tensor_apply_kernelINS1_18TensorListMetadataILi1EEENS1_11Zero"
    "FunctorIfLi1ELi1ELi0EEEJEEEvT_T0_DpT1_"
)
_ADDCMUL = (
    "_ZN2at6native54_GLOBAL__N__ae7e1889_21_ForeachPointwiseOp_cu_ef478fac25multi_tensor_apply_kernelI"
    "NS1_18TensorListMetadataILi3EEENS1_24PointwiseOpScalarFunctorIfLi3ELi3ELi0EEEJSt10multipliesIfEfE"
    "EEvT_T0_DpT1_"
)
_FLASH = (
    "_ZN13pytorch_flash16flash_fwd_kernelI23Flash_fwd_kernel_traitsILi128ELi128ELi64ELi4ELb0E"
    "Lb0EN7cutlass10bfloat16_tE19Flash_kernel_traitsILi128ELi128ELi64ELi4ES3_EELb0ELb1ELb0ELb"
    "0ELb1ELb1ELb0ELb0EEEvNS_16Flash_fwd_paramsE"
)
_CAST = (
    "_ZN2at6native27unrolled_elementwise_kernelINS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EELi4E"
    "23TrivialOffsetCalculatorILi2EjES7_ILi1EjENS0_6memory12LoadWithCastILi2EEENSA_13StoreWit"
    "hCastILi1EEEEEviT_T0_T2_T3_T4_T5_"
)
_ADD = (
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3"
    "EELb0EEEviT0_T1_"
)
_RESIZE = (
    "_ZN2at6native54_GLOBAL__N__1ee4fd4a_21_UpSampleBilinear2d_cu_607db5e329upsample_bilinear2d_out_"
    "frameIffEEviT0_S3_bN5torch10headeronly6detail27GenericPackedTensorAccessorINS6_14TensorAccessor"
    "IN3c108ArrayRefIlEEKT_Lm3ENS5_16DefaultPtrTraitsElEENS_6detail16IndexBoundsCheckILm4ElEESD_Lm4E"
    "SE_lEENS7_INS8_ISB_SC_Lm3ESE_lEESI_SC_Lm4ESE_lEE"
)
_BICUBIC = _RESIZE.replace("29upsample_bilinear2d_out_frame", "28upsample_bicubic2d_out_frame")
_SAMPLER = (
    "_ZN2at6native47_GLOBAL__N__035bd546_14_GridSampler_cu_23dc5aa522grid_sampler_2d_kernelIfiEEvT0_"
    "NS_4cuda6detail10TensorInfoIKT_S3_EES9_NS6_IS7_S3_EENS0_6detail24GridSamplerInterpolationENSB_1"
    "8GridSamplerPaddingEb"
)
_CONCATENATION = (
    "_ZN2at6native12_GLOBAL__N_119CatArrayBatchedCopyINS1_10OpaqueTypeILj4EEEmLi1ELi4ELi1EEEvPT_NS1_25"
    "CatArrInputTensorMetadataIS5_T0_XT2_EXT3_EEENS1_16TensorSizeStrideIS8_Lj4EEEiS8_"
)
_SEGMENTS = (
    "_ZN14at_cuda_detail3cub6detail10radix_sort30DeviceSegmentedRadixSortKernelINS1_5radix10policy_"
    "hubIfliE10Policy1000ELb1ELNS0_9SortOrderE0EflN2at6native12_GLOBAL__N_18offset_tESC_iNS1_21"
    "identity_decomposer_tEEEvPKT2_PSE_PKT3_PSI_T4_T5_iiT7_"
)
# As fbgemm_gpu 1.3 registers them.
_ACCESSORS = "N2at27GenericPackedTensorAccessor"
_LOOKUPS = (
    f"_Z49split_embedding_codegen_forward_unweighted_kernelIfffLb0ElLm1ELm16EEv{_ACCESSORS}IT_Lm1ENS0_"
    "17RestrictPtrTraitsElEES4_NS1_IT0_Lm2ES3_lEENS1_IiLm1ES3_iEENS1_IlLm1ES3_iEES7_N10fbgemm_gpu12"
    "FixedDivisorENS1_IT3_Lm1ES3_iEESC_lS7_PKiNS1_IT1_Lm2ES3_lEE"
)
_UPDATES = (
    "_Z71split_embedding_backward_codegen_dense_unweighted_kernel_warp_per_row_1IffflLi1ELi16ELb0EEv"
    f"{_ACCESSORS}IT0_Lm2ENS0_17RestrictPtrTraitsElEENS1_IT_Lm1ES3_lEENS1_IlLm1ES3_iEENS1_IiLm1ES3_iEE"
    "S7_NS1_IT2_Lm1ES3_iEES8_S8_S8_iS6_ijiif"
)


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("arguments") / "kernel_arguments"
    sources = [_HERE / "kernel_arguments.cc", *sorted(CSRC.glob("shim/kernels/kernel_*.cc"))]
    return compile_cxx(sources, built, "-O2")


def _run(program: Path, mode: str, name: str) -> str:
    done = subprocess.run(
        [str(program), mode], input=name + "\n", text=True, check=True, capture_output=True
    )
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # int, functor, std::array<char*, 3>
        (_ADD, "1 3 | 0:i32 | 2:19"),
        (_SUM, "1 1 | | 0:0"),
        # float*, const float*, int, int, int, const bool*, int, bool
        (
            "_ZN43_GLOBAL__N__f71e7945_10_SoftMax_cu_9f978f6320softmax_warp_forwardIfffLi4ELb0ELb0ELi32"
            "EEEvPT0_PKT_iiiPKbib",
            "1 8 | 2:i32 3:i32 4:i32 6:i32 7:u8 |",
        ),
        # char**, char**, long*, long*, long*, long, long
        (
            "_ZN2at6native6detail51split_with_sizes_copy_out_contiguous_no_cast_kernelEPPcS3_PlS4_S4_ll",
            "1 7 | 5:i64 6:i64 |",
        ),
        ("_Z5emptyv", "1 0 | |"),
        ("triton_poi_fused_add_0", "0 0 | |"),
        ("_Znotmangled", "0 0 | |"),
    ],
)
def test_plan_of_a_name(program: Path, name: str, expected: str) -> None:
    """Integers and structures with sizes are found at the right parameter."""
    assert _run(program, "plan", name).split() == expected.split()


@pytest.mark.parametrize(
    ("mode", "name", "sizes"),
    [
        ("reduction", _SUM, {"num_inputs": 4096, "num_outputs": 512}),
        ("no-reduction", _SUM, None),
        ("tensor-list", _ZERO, {"elements": 65546 + 7}),
        ("small-tensor-list", _ZERO, {"elements": 65546 + 7}),
        (
            "repeated-list",
            _ADDCMUL,
            {"elements": 65546 + 7, "different_elements": 2 * (65546 + 7)},
        ),
        ("cast", _CAST, {"load_bytes": 6, "store_bytes": 4}),
        (
            "compiled-reduction",
            "reduction_prod_kernel",
            {"num_inputs": 4096, "num_outputs": 512, "element_bytes": 4},
        ),
        (
            "compiled-reduction-of-halves",
            "reduction_prod_kernel",
            {"num_inputs": 4096, "num_outputs": 512, "element_bytes": 2},
        ),
        ("compiled-reduction", "reduce", None),
        ("segments", _SEGMENTS, {"segment_items": 8192}),
        (
            "forward-lookups",
            _LOOKUPS,
            {"weights": 25_600, "lookups": 150, "bags": 64, "results": 4096},
        ),
        ("backward-lookups", _UPDATES, {"results": 4096, "weights": 25_600, "lookups": 150}),
        (
            "flash",
            _FLASH,
            {
                "batch": 2,
                "heads": 32,
                "kv_heads": 8,
                "seqlen_q": 4000,
                "seqlen_k": 4096,
                "head_dim": 96,
            },
        ),
        (
            "flash-of-unequal-lengths",
            _FLASH,
            {
                **{"batch": 2, "heads": 32, "kv_heads": 8, "seqlen_q": 4000, "seqlen_k": 4096},
                **{"head_dim": 96, "total_q": 6000},
            },
        ),
        ("accessors", _RESIZE, {"tensor_bytes": 4 * 2 * 3 * (8 * 16 + 16 * 32), "planes": 6}),
        ("accessors", _BICUBIC, {"tensor_bytes": 4 * 2 * 3 * (8 * 16 + 16 * 32), "planes": 6}),
        (
            "tensor-infos",
            _SAMPLER,
            {
                "tensor_bytes": 4 * (2 * 3 * 8 * 16 + 2 * 4 * 4 * 2 + 2 * 3 * 4 * 4),
                "results": 2 * 3 * 4 * 4,
            },
        ),
    ],
)
def test_sizes_in_structures(
    program: Path, mode: str, name: str, sizes: dict[str, int] | None
) -> None:
    """Sizes are read from the structures, and left out where the structure disagrees."""
    signature = json.loads(_run(program, mode, name))
    assert signature.get("sizes") == sizes
    assert signature["kind"] == "kernel"


@pytest.mark.parametrize(
    ("mode", "name"),
    [
        ("garbled-accessors", _RESIZE),
        ("garbled-strided", "k"),
        ("garbled-concatenation", _CONCATENATION),
        ("garbled-list", _ZERO),
    ],
)
def test_nothing_is_said_of_sizes_that_are_none(program: Path, mode: str, name: str) -> None:
    """Their products and sums do not begin again at zero."""
    assert "sizes" not in json.loads(_run(program, mode, name))


@pytest.mark.parametrize("mode", ["tensor-pointers", "small-tensor-pointers"])
def test_tensors_of_a_list_are_found(program: Path, mode: str) -> None:
    """Each tensor once, however many blocks work on it."""
    assert _run(program, mode, _ZERO).splitlines() == ["0x1000", "0x9000"]


def test_expanded_operands_have_fewer_elements(program: Path) -> None:
    """A row and a column count once, and so do sectors that a warp reads in common; nothing is said
    of what the launch has no threads for.
    """
    told, doubtful = map(json.loads, _run(program, "strided", "k").splitlines())
    assert told["sizes"] == {
        "warp_sectors": 4 + 4 + 4 + 1,
        "first_elements": 64 * 32,
        "second_elements": 32,
        "third_elements": 64,
    }
    assert "sizes" not in doubtful


def test_inputs_that_are_given_twice_are_told(program: Path) -> None:
    """The output does not count: an operation in place reads what it writes."""
    lines = _run(program, "operands", _ADD.replace("arrayIPcLm3E", "arrayIPcLm4E")).splitlines()
    sizes = [json.loads(line).get("sizes") for line in lines]
    assert sizes == [None, {"repeated_inputs": 1}, {"repeated_inputs": 2}]


def test_elements_of_what_pytorch_compiles(program: Path) -> None:
    """Where operands have types of their own they are arguments; else a thread moves what it stores
    once more for each input: half of that which vectorized code has stores for.
    """
    lines = _run(program, "compiled-pointwise", "gcd_kernel").splitlines()
    signature = json.loads(lines[0])
    assert signature["scalars"] == [[0, 1000]]
    assert signature["sizes"] == {"load_bytes": 12, "store_bytes": 8}
    assert lines[1:] == ["0", "96", "0"]
    lines = _run(program, "compiled-pointwise", "gcd_vectorized4_kernel").splitlines()
    assert "sizes" not in json.loads(lines[0])
    assert lines[-1] == "96"
    lines = _run(program, "compiled-pointwise", "gcd").splitlines()
    assert lines[1:] == ["0", "0", "0"]


def test_scalars_are_index_and_value(program: Path) -> None:
    """A signature lists integer arguments with their parameter."""
    assert json.loads(_run(program, "cast", _CAST))["scalars"] == [[0, 1000]]


def test_reading_is_cheap(program: Path) -> None:
    """Reading the arguments of an elementwise launch takes well under a microsecond."""
    nanoseconds = float(_run(program, "time", _ADD).split()[0])
    assert nanoseconds < 500, nanoseconds
