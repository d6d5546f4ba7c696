"""A run on hosts that Slurm has not allocated yet: it is started anew within an allocation."""

import os
import subprocess
from collections.abc import Sequence

from phantora_py.hosts.engines import count_of_hosts, short
from phantora_py.launch.interrupts import Interrupts
from phantora_py.launch.module import module_command
from sim_server.errors import UsageError

_LIMIT_S = 60.0
_LOOK_EVERY_S = 0.1
_HELD = module_command("phantora_py.hosts.held")


def is_wanted(engine: str, hosts: str | None) -> bool:
    """Whether the run is for hosts of Slurm, and there is no allocation."""
    return engine == "slurm" and hosts is not None and "SLURM_JOB_NODELIST" not in os.environ


def run_within(hosts: str, command: Sequence[str]) -> int:
    """Runs the command as a step on the first of so many hosts; its exit code, or that of the
    signal that has interrupted it. The allocation ends with it.

    Raises: UsageError if Slurm has no such hosts. Source: salloc(1), srun(1) of version 22.05.
    """
    request = (f"--nodes={count_of_hosts('slurm', hosts)}", "--ntasks-per-node=1", "--exclusive")
    try:
        tested = subprocess.run(
            ["sbatch", "--test-only", *request, "--wrap=true"],
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"--engine slurm: this machine has no Slurm: {error}.") from error
    if tested.returncode:
        raise UsageError(f"--engine slurm: no {hosts} hosts: {short(tested.stderr)}")
    # Steps of agents go beside it, and an interrupt is handed on to it.
    place = ("--nodes=1", "--ntasks=1", "--overlap", "--mem=0")
    step = ("srun", *place, "--quiet", "--disable-status", *command)
    # In a session of its own a Ctrl-C does not reach it: Slurm would end all steps at once.
    salloc = subprocess.Popen(
        [*_HELD, "salloc", "--quiet", *request, *step],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    assert salloc.stdin is not None
    with Interrupts() as interrupts, salloc:
        while True:
            try:
                code = salloc.wait(_LOOK_EVERY_S)
                return code if interrupts.number is None else 128 + interrupts.number
            except subprocess.TimeoutExpired:
                if interrupts.number is not None:
                    salloc.stdin.close()
            except BaseException:  # a second interrupt
                salloc.terminate()
                raise
