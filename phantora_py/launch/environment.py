"""The environment of ranks: what launchers set, and what the shim needs.

Source for torchrun's variables: torch/distributed/elastic/agent/server/local_elastic_agent.py of
PyTorch 2.15.
"""

import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

import psutil

import phantora_py
from phantora_py.isolation.nodes import node_address, node_name
from phantora_py.isolation.probe import Isolation
from phantora_py.launch.command import PROGRAMS
from phantora_py.launch.layout import RunLayout
from phantora_py.launch.libraries import (
    counting_library,
    preload_list,
    preload_value,
    shim_directory,
)
from phantora_py.launchers.launch import Launch, Place

# torchrun's own choice. Source: torch/distributed/run.py of PyTorch 2.15.
_MASTER_PORT = 29500

# What CUDA, NCCL, PyTorch and OpenMP are told. Others may be private, or belong to the shell.
_RECORDED = ("CUDA_", "NCCL_", "OMP_", "PYTORCH_", "TORCH_", "TORCHINDUCTOR_")


# Several ranks would create unique ids of a large communicator; absent ranks cannot, so one does.
# Source: ProcessGroupNCCL.cpp of PyTorch 2.15.
FOLDED = {"TORCH_NCCL_RANKS_PER_ROOT": str(1 << 20)}


def recorded_environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """The user's variables that the data file keeps, because they may explain a difference."""
    return {name: inherited[name] for name in sorted(inherited) if name.startswith(_RECORDED)}


def free_port(address: str) -> int:
    """A TCP port that nobody uses at the moment."""
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def shim_environment(
    run_dir: Path, inherited: Mapping[str, str], cuda_major: int, counts: bool = False
) -> dict[str, str]:
    """What makes a process, and those it starts, load the shim. `counts`: also what counts the
    host's work.
    """
    directory = shim_directory(cuda_major)
    libraries = preload_list(directory)
    if counts:
        libraries.append(counting_library(directory))
    return {
        "LD_PRELOAD": preload_value(libraries, inherited),
        "PHANTORA_RUN_DIR": str(run_dir),
        # NVTX is compiled into its users and loads who listens (csrc/shim/calls/nvtx.cc).
        "NVTX_INJECTION64_PATH": str(libraries[0]),
        # Triton looks for the driver in this folder instead of asking the loader's cache.
        "TRITON_LIBCUDA_PATH": str(directory),
    }


def executed_environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """What programs that a rank executes find: a Python what sets it up as the rank, and all of
    them the simulated node's nvidia-smi.
    """
    site = Path(phantora_py.__file__).parent / "rank" / "site"
    path = [str(site), *inherited.get("PYTHONPATH", "").split(os.pathsep)]
    return {
        "PATH": os.pathsep.join([str(PROGRAMS), inherited.get("PATH", os.defpath)]),
        "PYTHONPATH": os.pathsep.join(entry for entry in path if entry),
        # Where a program sets PYTHONPATH anew (csrc/shim/python/module_path.cc).
        "PHANTORA_SITE": str(site),
        # Of the programs of ours: that of the rank may be any.
        "PHANTORA_PYTHON": sys.executable,
    }


def common_environment(
    layout: RunLayout, launch: Launch | None, isolation: Isolation, restarts: int = 0
) -> dict[str, str]:
    """What the launcher sets alike in all ranks; torchrun, if there is none. The first node is the
    master. `restarts`: how often it has started the ranks again.
    """
    address = node_address(0, isolation.own_network)
    port = launch and launch.master_port
    if port is None:
        # On the machine's network others may use it.
        port = _MASTER_PORT if isolation.own_network else free_port(address)
    master = {
        "MASTER_ADDR": node_name(0) if isolation.named else address,
        "MASTER_PORT": str(port),
    }
    alike = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"), **hash_seed()}
    own = dict(launch.variables) if launch else {}
    if launch is not None and not launch.torchrun_variables:
        return {**alike, **own, **_user_master({**os.environ, **own}, master)}
    common = {
        "WORLD_SIZE": layout.ranks,
        "LOCAL_WORLD_SIZE": layout.ranks_per_node,
        "GROUP_WORLD_SIZE": layout.nodes,
        "ROLE_WORLD_SIZE": layout.ranks,
        "ROLE_NAME": launch.role if launch else "default",
        "TORCHELASTIC_RESTART_COUNT": restarts,
        "TORCHELASTIC_MAX_RESTARTS": launch.max_restarts if launch else 0,
        "TORCHELASTIC_RUN_ID": launch.run_id if launch else "none",
        # The store at MASTER_PORT is rank 0's own; there is no agent that keeps one.
        "TORCHELASTIC_USE_AGENT_STORE": False,
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": os.environ.get("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"),
    }
    return {**alike, **own, **{name: str(value) for name, value in common.items()}, **master}


def hash_seed() -> dict[str, str]:
    """The user's, or one that all runs have: it decides the order of sets, and so what a program
    does first.
    """
    return {"PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "0")}


def _user_master(given: Mapping[str, str], master: Mapping[str, str]) -> dict[str, str]:
    """The user's MASTER_ADDR: a name or address of this machine is the first simulated node's.

    Launchers of MPI and Slurm set none.
    """
    address = given.get("MASTER_ADDR")
    meant = _names_of_machine() | {node_name(0)}
    return {"MASTER_ADDR": master["MASTER_ADDR"]} if address in meant else {}


def _names_of_machine() -> set[str]:
    names = {"localhost", socket.gethostname(), socket.gethostname().partition(".")[0]}
    try:
        addresses = {str(found[4][0]) for found in socket.getaddrinfo(socket.gethostname(), None)}
    except OSError:
        addresses = set()  # The machine does not know itself by name.
    own = psutil.net_if_addrs().values()
    return names | addresses | {one.address for interface in own for one in interface}


def rank_environment(
    rank: int, layout: RunLayout, launch: Launch | None, isolation: Isolation
) -> dict[str, str]:
    """What is particular to one rank."""
    own = {
        "RANK": rank,
        "LOCAL_RANK": layout.local_rank(rank),
        "GROUP_RANK": layout.node(rank),
        "ROLE_RANK": rank,
    }
    variables = {name: str(value) for name, value in own.items()}
    if launch is not None:
        of_launcher = launch.rank_variables(_place(rank, layout, launch, isolation))
        variables = {**(variables if launch.torchrun_variables else {}), **of_launcher}
        if launch.own_ranks:
            return {"PHANTORA_OWN_RANKS": "1"}
    return {**variables, "PHANTORA_RANK": str(rank)}


def _place(rank: int, layout: RunLayout, launch: Launch, isolation: Isolation) -> Place:
    addresses = [node_address(node, isolation.own_network) for node in range(layout.nodes)]
    names = map(node_name, range(layout.nodes)) if isolation.named else addresses
    return Place(
        rank=rank,
        ranks=layout.ranks,
        node=layout.node(rank),
        nodes=layout.nodes,
        local_rank=layout.local_rank(rank),
        ranks_per_node=layout.ranks_per_node,
        names=tuple(names),
        address=addresses[0],
        port=launch.master_port or _MASTER_PORT,
    )
