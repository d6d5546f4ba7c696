"""The tasks of this repository. `nox -l` lists them, `nox` alone runs what CI runs."""

from pathlib import Path

import nox
import nox.project

nox.options.default_venv_backend = "venv"
nox.options.sessions = ["lint", "types", "generated", "tests"]

TORCH = "torch==2.15.*"
GROUPS = nox.project.load_toml("pyproject.toml")


def group(name: str) -> list[str]:
    """The requirements of a dependency group of pyproject.toml."""
    return list(nox.project.dependency_groups(GROUPS, name))


@nox.session
def lint(session: nox.Session) -> None:
    """Format and style of the Python code."""
    session.install(*group("lint"))
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Types of the Python code, strictly."""
    session.install(*group("types"))
    session.run("mypy")


@nox.session
def generated(session: nox.Session) -> None:
    """The generated code is what its generator makes; tests check the generated pages."""
    session.install(*group("generated"))
    session.run("python", "tools/generate_protobuf.py")
    session.run("git", "diff", "--exit-code", "sim_server/simulation_pb2*", external=True)


@nox.session
def tests(session: nox.Session) -> None:
    """All tests, under the stock CUDA wheel of PyTorch."""
    session.install(TORCH, ".", *group("test"))
    session.run("pytest", *session.posargs)


@nox.session
def simgrid(session: nox.Session) -> None:
    """Flows against SimGrid. Wants cmake, a C++ compiler and Boost's headers (libboost-dev)."""
    constraints = Path(session.create_tmp()) / "constraints.txt"
    constraints.write_text("pybind11<3\n")  # for the isolated build of SimGrid's bindings
    session.install(*group("simgrid"), env={"PIP_CONSTRAINT": str(constraints)})
    session.install(".", *group("test"))
    session.run("pytest", "-m", "simgrid", "tests/simgrid", *session.posargs)


@nox.session
def benchmarks(session: nox.Session) -> None:
    """What docs/benchmarks.md reports. Wants a machine that does nothing else."""
    session.install(TORCH, ".", *group("test"))
    for name in session.posargs or [
        "launch_cost",
        "overhead",
        "network_accuracy",
        "training_accuracy",
    ]:
        session.run("python", f"benchmarks/{name}.py")
