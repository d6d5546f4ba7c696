"""The tasks of this repository. `nox -l` lists them, `nox` alone runs what CI runs."""

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import nox
import nox.project

nox.options.default_venv_backend = "venv"
nox.options.sessions = ["lint", "types", "generated", "docs", "tests", "cuda12"]

TORCH = "torch==2.15.*"
TORCH_CUDA_12 = "torch==2.8.*"
# Two files at a time, in the order of tests/conftest.py. A process that ends is not replaced: a run
# that waited for its successor would wait for ever.
SIDE_BY_SIDE = (
    *("--numprocesses=2", "--max-worker-restart=0"),
    *("--dist=loadfile", "--no-loadscope-reorder", "--durations=40"),
)
# What runs our C++ without PyTorch.
NATIVE_TESTS = [
    "tests/agent",
    "tests/engine",
    "tests/kernels/test_kernel_arguments.py",
    "tests/network",
    "tests/programs",
    "tests/shim",
    "tests/sim_server",
]
# Real training, and what PyTorch's helper threads do.
TRAINING_TESTS = [
    "tests/e2e/test_examples.py",
    "tests/e2e/test_outside_waits.py",
    "tests/e2e/test_parallelism.py",
    "tests/e2e/test_watchdogs.py",
]
# Whatever is wrong or hostile.
ATTACKS = [
    "tests/attack",
    "tests/agent/test_damaged_channels.py",
    "tests/e2e/test_garbled_ranks.py",
    "tests/e2e/test_operator_table.py",
    "tests/sim_server/test_garbled_records.py",
]
# Folders of C++ that clang-tidy looks at: those that no vendor's header is needed for.
CHECKED_FOR_FAULTS = [
    "csrc/engine",
    "csrc/network",
    *(
        f"csrc/shim/{folder}"
        for folder in (
            *("channel", "core", "graph", "host_time", "memory", "modules", "profiling"),
            *("python", "streams", "waiting"),
        )
    ),
]
# What the rank's hooks take from the installed PyTorch is there.
NAMES_TEST = "tests/rank/test_torch_names.py"
# What depends on the installed PyTorch: every CUDA symbol that it imports is known, values of its
# operators are right.
RELEASE_TESTS = [
    "tests/shim/test_tables.py::test_imports_of_installed_torch_have_rows",
    "tests/rank",
    "tests/e2e/test_operator_table.py",
]
# Python with PyTorch, from the oldest pair to the newest.
VERSIONS = [
    ("3.10", "2.6.0"),
    ("3.11", "2.8.0"),
    ("3.11", "2.9.1"),
    ("3.11", "2.10.0"),
    ("3.12", "2.11.0"),
    ("3.11", "2.12.1"),
    ("3.11", "2.14.1"),
    ("3.13", "2.15.0"),
]
# Not under sanitizers: their dlopen hides its caller's RUNPATH, time is not what it is without, and
# the thread sanitizer leaves addresses for eight GPUs.
NOT_SANITIZED = [
    "tests/kernels/test_kernel_arguments.py::test_reading_is_cheap",
    "tests/shim/test_dlopen.py::test_runpath_of_the_caller_holds",
    "tests/shim/test_small_collectives.py::test_rank_that_ends_early_has_sent_everything[12]",
]
# The first forks while other threads allocate; the child then waits for locks of the address
# sanitizer's allocator that nobody has any more (gcc 12). The others want signals and a function
# that the sanitizer takes for itself.
NOT_WITH_ADDRESS = [
    "tests/shim/test_stress.py",
    "tests/agent/test_damaged_channels.py::test_a_fault_elsewhere_is_not_ours",
    "tests/programs/test_run_real.py::test_reports_a_line_per_program",
    "tests/shim/test_launch_keeper.py::test_a_kernel_of_a_library",
]
# Signals that the sanitizer takes for itself; addresses that it uses; a thread of its own, with
# which a process joins no namespace; programs that lack it; and an openssl that it ends.
NOT_WITH_THREAD = [
    "tests/agent/test_damaged_channels.py::test_a_fault_elsewhere_is_not_ours",
    "tests/programs/test_process_exit.py::test_calls_are_told",
    "tests/programs/test_programs.py::test_one_gpu[driver_virtual_memory]",
    "tests/programs/test_programs.py::test_program[driver_virtual_memory-12]",
    "tests/programs/test_programs.py::test_program[driver_virtual_memory-13]",
    "tests/programs/test_run_real.py::test_reports_a_line_per_program",
    "tests/programs/test_static_runtime.py",
    "tests/shim/test_host_models.py",
    "tests/shim/test_launch_keeper.py::test_a_kernel_of_a_library",
    "tests/sim_server/test_access.py",
]
# What `fast` runs, by the beginning of the path of a changed file.
FAST_TESTS = {
    "csrc/engine": ["tests/engine"],
    "csrc/network": ["tests/network/test_maxmin.py", "tests/network/test_settling.py"],
    "csrc/shim": ["tests/programs/test_programs.py"],
    "sim_server/access": ["tests/sim_server/test_access.py", "tests/attack/test_connections.py"],
    "sim_server/cluster": ["tests/cluster"],
    "sim_server/kernels": ["tests/kernels/test_kernel_models.py"],
    "sim_server": ["tests/sim_server"],
    "phantora_py/agent": ["tests/agent"],
    "phantora_py/launch": ["tests/launch"],
    "phantora_py/report": ["tests/report"],
}
GROUPS = nox.project.load_toml("pyproject.toml")
WHEELS: list[str] = []  # see `wheel`


def group(name: str) -> list[str]:
    """The requirements of a dependency group of pyproject.toml."""
    return list(nox.project.dependency_groups(GROUPS, name))


def native_sources() -> list[str]:
    """The C and C++ files of the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "*.cc", "*.h", "*.c"], check=True, capture_output=True, text=True
    )
    return listed.stdout.split()


def wheel(session: nox.Session) -> str:
    """Our package for this Python, built once for all sessions: that takes minutes."""
    if not WHEELS:
        folder = Path("build/wheel")
        shutil.rmtree(folder, ignore_errors=True)
        session.run("pip", "wheel", "--no-deps", "--wheel-dir", str(folder), ".")
        WHEELS.extend(map(str, folder.iterdir()))
    (built,) = WHEELS
    return built


@nox.session
def lint(session: nox.Session) -> None:
    """Format of all code, style of the Python code, faults that clang-tidy finds in the C++."""
    session.install(*group("lint"))
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")
    session.run("clang-format", "--dry-run", "-Werror", *native_sources())
    checked = [name for name in native_sources() if name.endswith(".cc")]
    checked = [name for name in checked if str(Path(name).parent) in CHECKED_FOR_FAULTS]
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # a compiler's time for each file
        find = partial(find_faults, session)
        list(pool.map(find, (checked[first::4] for first in range(4))))


def find_faults(session: nox.Session, sources: list[str]) -> None:
    """.clang-tidy has the checks."""
    session.run("clang-tidy", "--quiet", *sources, "--", "-std=c++20", "-Icsrc", silent=True)


@nox.session(name="format")
def format_code(session: nox.Session) -> None:
    """Formats all code."""
    session.install(*group("lint"))
    session.run("ruff", "format", ".")
    session.run("clang-format", "-i", *native_sources())


@nox.session
def types(session: nox.Session) -> None:
    """Types of the Python code, strictly."""
    session.install(*group("types"))
    # Names that the oldest Python lacks; for it, NumPy has no types of our functions' results.
    oldest = ("--python-version", VERSIONS[0][0], "--disable-error-code", "no-any-return")
    with ThreadPoolExecutor() as pool:  # minutes each
        list(pool.map(lambda options: session.run("mypy", *options), ((), oldest)))


@nox.session
def generated(session: nox.Session) -> None:
    """The generated code is what its generator makes; tests check the generated pages."""
    session.install(*group("generated"))
    session.run("python", "tools/generate_protobuf.py")
    session.run(
        "git", "diff", "--exit-code", "sim_server/*_pb2*", "sim_server/chakra/*_pb2*", external=True
    )


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation as a site in build/docs; any warning fails, also of a link to nowhere."""
    session.install(*group("docs"))
    session.run(
        *("sphinx-build", "--fail-on-warning", "--keep-going", "--quiet"),
        *("--conf-dir", "docs", ".", "build/docs"),
    )


@nox.session
def tests(session: nox.Session) -> None:
    """All tests, under the stock CUDA wheel of PyTorch."""
    groups = [*group("test"), *group("scripts"), *group("notebooks")]
    session.install(TORCH, f"{wheel(session)}[ray]", *groups)
    session.run("pytest", *SIDE_BY_SIDE, *session.posargs)


def changed_files(base: str) -> list[str]:
    """Files that are not as in the commit `base`, new ones among them."""
    listings = (
        ["git", "diff", "--name-only", base],
        ["git", "ls-files", "--others", "--exclude-standard"],
    )
    texts = [
        subprocess.run(words, check=True, capture_output=True, text=True).stdout
        for words in listings
    ]
    return "".join(texts).splitlines()


def fast_tests(changed: list[str]) -> list[str]:
    """The quick tests of these files, and tests that are among them; all quick ones if none is."""
    own = [path for path in changed if Path(path).match("tests/**/test_*.py")]
    found = {path: None for path in own if Path(path).exists()}
    for path in changed:
        beginnings = [one for one in FAST_TESTS if path.startswith(f"{one}/")]
        for one in sorted(beginnings, key=len)[-1:]:
            found |= dict.fromkeys(FAST_TESTS[one])
    return list(found) or [test for tests in FAST_TESTS.values() for test in tests]


@nox.session(reuse_venv=True)
def fast(session: nox.Session) -> None:
    """What has changed since the last commit is built and tested, without PyTorch.

    Objects are kept in build/fast, and the packages that they are built with in .nox, so that only
    what depends on a change is compiled. Arguments: tests to run instead.
    """
    requirements = GROUPS["build-system"]["requires"]
    session.install(*requirements, "cmake", "ninja", *group("test"))
    session.install("--no-build-isolation", "--config-settings=build-dir=build/fast", ".")
    tests = session.posargs or fast_tests(changed_files("HEAD"))
    session.run("pytest", "-m", "not torch", *tests)


@nox.session
def cuda12(session: nox.Session) -> None:
    """Real training, and programs in C, with a PyTorch and the headers of CUDA 12."""
    session.install(TORCH_CUDA_12, wheel(session), *group("test"))
    training = ["tests/e2e/test_examples.py", "tests/e2e/test_parallelism.py"]
    tests = session.posargs or [*training, NAMES_TEST, "tests/programs"]
    session.run("pytest", *SIDE_BY_SIDE, *tests)


@nox.session
@nox.parametrize("python,torch", VERSIONS)
def versions(session: nox.Session, torch: str) -> None:
    """Real training under each tested PyTorch, and what it has; skips a Python that is not here.

    One environment, of 6 GB, at a time: that of a pair that failed is removed too.
    """
    try:
        session.install(f"torch=={torch}", ".", *group("test"))
        session.run("pytest", *(session.posargs or [*RELEASE_TESTS, *TRAINING_TESTS]))
    finally:
        shutil.rmtree(session.virtualenv.location)


def library(session: nox.Session, name: str) -> str:
    """Where gcc keeps a library; the session is skipped if it has none."""
    path = subprocess.run(
        ["gcc", f"-print-file-name={name}"], check=True, capture_output=True, text=True
    ).stdout.strip()
    if not Path(path).is_absolute():
        session.skip(f"gcc has no {name}")
    return path


@nox.session
@nox.parametrize("sanitizer", ["address,undefined", "thread"])
def sanitizers(session: nox.Session, sanitizer: str) -> None:
    """The tests of the C++ under sanitizers; the first finding fails. Wants gcc.

    Arguments: tests to run instead, without a search for leaks. All of them take ten minutes, and
    hours beside other work.
    """
    runtime = library(session, "libtsan.so" if sanitizer == "thread" else "libasan.so")
    # It fixes addresses: the thread sanitizer does not work with those of every kernel.
    fixed = subprocess.run(["setarch", "-R", "true"], check=False, capture_output=True)
    if fixed.returncode != 0:
        session.skip("addresses cannot be fixed here (setarch -R)")

    session.install(*group("test"))
    settings = {
        # Without the comma, at which gcc would cut a path that it hands to the linker.
        "build-dir": f"build/sanitize-{sanitizer.replace(',', '-')}",
        "cmake.build-type": "RelWithDebInfo",
        "cmake.define.PHANTORA_SANITIZE": sanitizer,
    }
    session.install(".", *(f"--config-settings={key}={value}" for key, value in settings.items()))
    flags = f"-fsanitize={sanitizer} -fno-sanitize-recover=all -g"
    environment = {
        "CFLAGS": flags,
        "CXXFLAGS": flags,
        # With the C++ library, whose exceptions the address sanitizer looks for when it starts.
        "LD_PRELOAD": f"{runtime}:{library(session, 'libstdc++.so')}",
        # Our libraries come before, for programs to reach the C library through them.
        "ASAN_OPTIONS": "verify_asan_link_order=0:detect_leaks=0",
        "LSAN_OPTIONS": f"suppressions={Path('tests/leaks.supp').resolve()}:print_suppressions=0",
        "TSAN_OPTIONS": "halt_on_error=1:die_after_fork=0:"
        f"suppressions={Path('tests/races.supp').resolve()}",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    pytest = ["setarch", "-R", "pytest", "-m", "not torch"]
    left_out = NOT_WITH_THREAD if sanitizer == "thread" else NOT_WITH_ADDRESS
    skipped = [f"--deselect={test}" for test in NOT_SANITIZED + left_out]
    tests = session.posargs or NATIVE_TESTS
    session.run(*pytest, *skipped, *tests, env=environment, external=True)
    if sanitizer != "thread" and not session.posargs:
        environment["ASAN_OPTIONS"] = "verify_asan_link_order=0"
        session.run(*pytest, "tests/programs/test_programs.py", env=environment, external=True)


@nox.session
def simgrid(session: nox.Session) -> None:
    """Flows against SimGrid. Wants cmake, a C++ compiler and Boost's headers (libboost-dev)."""
    constraints = Path(session.create_tmp()) / "constraints.txt"
    constraints.write_text("pybind11<3\n")  # for the isolated build of SimGrid's bindings
    session.install(*group("simgrid"), env={"PIP_CONSTRAINT": str(constraints)})
    session.install(wheel(session), *group("test"))
    session.run("pytest", "-m", "simgrid", "tests/simgrid", *session.posargs)


@nox.session
def hta(session: nox.Session) -> None:
    """Traces in Holistic Trace Analysis."""
    session.install(TORCH, wheel(session), *group("test"), *group("hta"))
    session.run("pytest", "-m", "hta", "tests/e2e/test_hta.py", *session.posargs)


@nox.session
def chakra(session: nox.Session) -> None:
    """Execution traces in Chakra's own reader."""
    session.install(TORCH, wheel(session), *group("test"))
    session.install("--no-deps", *group("chakra"))
    session.run("pytest", "-m", "chakra", "tests/e2e/test_chakra_reader.py", *session.posargs)


@nox.session
def frameworks(session: nox.Session) -> None:
    """Programs from PyPI: DeepSpeed, Lightning, Megatron-Core, timm, torchao, torchtitan, wandb."""
    groups = [*group("test"), *group("frameworks"), *group("scripts")]
    session.install(TORCH, wheel(session), *groups)
    names = "folded_runs frameworks helpers_outside own_workers scripts user_loops"
    files = [f"tests/e2e/test_{name}.py" for name in names.split()]
    session.run("pytest", "-m", "frameworks", *files, *session.posargs)


@nox.session
def recommendation(session: nox.Session) -> None:
    """TorchRec, on the PyTorch that its FBGEMM is built for; `-- --sources DIR`: its DLRM, too."""
    libraries = ("torchrec==1.3.*", "fbgemm-gpu==1.3.*", "torchmetrics", "pyre-extensions")
    session.install(TORCH_CUDA_12, wheel(session), *group("test"), *libraries)
    session.run("pytest", "tests/e2e/test_frameworks.py", "-k", "torchrec", *session.posargs)
    files = ("tests/e2e/test_published_programs.py", "-k", "dlrm")
    session.run("pytest", "-m", "programs", *files, *session.posargs)


@nox.session
def programs(session: nox.Session) -> None:
    """Programs that others publish: `-- --sources DIR` names a folder with checkouts."""
    groups = ["test", "scripts", "frameworks", "programs"]
    session.install(TORCH, wheel(session), *(one for name in groups for one in group(name)))
    session.run(
        "pytest", "-m", "programs", "tests/e2e/test_published_programs.py", *session.posargs
    )


@nox.session
def hunt(session: nox.Session) -> None:
    """Thousands of random programs in oracle and system (docs/oracle.md)."""
    session.install(wheel(session), *group("test"))
    session.run("python", "tests/oracle/hunt.py", *session.posargs)


@nox.session
def attack(session: nox.Session) -> None:
    """Wrong inputs of every format, hostile connections, kills, values: at length.

    docs/attack.md says what there is and which variables say how much of it.
    """
    session.install(TORCH, wheel(session), *group("test"))
    amounts = {"EXAMPLES": "100000", "RUNS": "100", "RANKS": "64"}
    asked = {f"PHANTORA_ATTACK_{name}": amount for name, amount in amounts.items()}
    session.run(
        *("pytest", *SIDE_BY_SIDE, *(session.posargs or ATTACKS)),
        env={name: os.environ.get(name, amount) for name, amount in asked.items()},
    )


@nox.session
def dist(session: nox.Session) -> None:
    """An sdist and a manylinux wheel in dist/; the wheel trains in a fresh environment.

    The wheel is built from the sdist. Its tag is that of this machine's C library, as auditwheel
    finds it: build in a manylinux image for older systems.
    """
    session.install(*group("dist"))
    folder, repaired = Path("dist"), Path("dist/wheel")
    shutil.rmtree(folder, ignore_errors=True)
    session.run("python", "-m", "build", "--outdir", str(folder))
    (built,) = folder.glob("*.whl")
    session.run("auditwheel", "repair", "--wheel-dir", str(repaired), str(built))
    built.unlink()
    (wheel,) = repaired.glob("*-manylinux_*.whl")
    fresh = Path(session.create_tmp()) / "fresh"
    session.run("python", "-m", "venv", "--clear", str(fresh))
    session.run(str(fresh / "bin/pip"), "install", TORCH, str(wheel), external=True)
    command = ("run", "--cluster", "h100", "--ranks", "2", "-o", str(fresh / "run.phr"))
    training = (str(fresh / "bin/python"), "examples/train_gpt_ddp.py")
    session.run(str(fresh / "bin/phantora"), *command, "--", *training, external=True)


@nox.session
def benchmarks(session: nox.Session) -> None:
    """What docs/benchmarks.md reports. Wants a machine that does nothing else."""
    session.install(TORCH, wheel(session), *group("test"))
    for name in session.posargs or ["launch_cost.py", "overhead.py", "accuracy"]:
        session.run("python", f"benchmarks/{name}")


@nox.session
def accuracy(session: nox.Session) -> None:
    """The pages that compare models with measurements of others, which are no part of the
    repository: `nox -s accuracy -- FOLDER`. With `--trainings` also that of whole trainings.
    """
    folders = [one for one in session.posargs if one != "--trainings"]
    if len(folders) != 1:
        session.error("which folder are the measurements in? nox -s accuracy -- FOLDER")
    (folder,) = folders
    session.install(TORCH, wheel(session), *group("test"), *group("accuracy"))
    for name in (
        "kernel_accuracy.py",
        "attention_shapes.py",
        "memory_accuracy.py",
        "product_types.py",
        "expert_layers.py",
    ):
        session.run("python", f"benchmarks/{name}", folder, "--write")
    session.install("liger-kernel")
    session.run("python", "benchmarks/triton_published.py", folder, "--write")
    names = ("nccl_single_node.csv", "nccl_multi_node.csv", "nccl_tests_more.csv.gz")
    collectives = [f"{folder}/{name}" for name in names]
    session.run("python", "benchmarks/network_accuracy.py", *collectives, "--write")
    if "--trainings" in session.posargs:
        kept = str(Path(session.create_tmp()) / "trainings.json")
        session.run("python", "benchmarks/accuracy", folder, "--keep", kept, "--write")
