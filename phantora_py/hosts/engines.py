"""What starts a command on another host, and which hosts there are.

Each engine makes a command line that has our standard input, output and error: a host's agent gets
its job there, with the token, and ends when its standard input does.
"""

import json
import os
import select
import shlex
import socket
import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path

from phantora_py.hosts.ray_nodes import HOLD_LIMIT_S, REFUSED
from phantora_py.launch.module import module_command
from phantora_py.launch.shares import Engine
from sim_server.access.hosts import SILENCE_S
from sim_server.errors import UsageError

ENGINES = ("ssh", "slurm", "ray")
SSH_VARIABLE = "PHANTORA_SSH"
"""What is used in place of `ssh`, as words of a shell."""
_LOCAL = ("localhost", "127.0.0.1", "::1")
# A host that does not answer is given up after that; a user does not want to wait for longer
# (assumed).
_CONNECT_S = 10
_SSH_FAILED = 255
_COMMAND_LIMIT_S = 60.0
_RAY_LIMIT_S = HOLD_LIMIT_S + _COMMAND_LIMIT_S
_RAY_NODES = module_command("phantora_py.hosts.ray_nodes")
_SHOWN_CHARACTERS = 1000


class Ssh:
    """OpenSSH, without a question to anybody; nothing but a process for names of this machine."""

    def __init__(self, words: str) -> None:
        self._ssh = shlex.split(words)

    def choose(self, hosts: str | None, file: Path | None) -> list[str]:
        """See `Engine`, as for what follows."""
        if hosts is not None and file is not None:
            raise UsageError("--hosts and --hosts-file both name the hosts; give one.")
        if file is not None:
            names = _read(file)
        else:
            names = [one.strip() for one in (hosts or "").split(",")]
        if not names or not all(names) or any(set(name) & set(" \t,") for name in names):
            raise UsageError("Hosts are named as in --hosts a,b, or one on a line of --hosts-file.")
        if any(name.startswith("-") for name in names):
            raise UsageError("The name of a host does not begin with a dash.")
        return names

    def command(self, host: str, words: Sequence[str]) -> list[str]:
        if host in _LOCAL:
            return list(words)
        options = (
            *("BatchMode=yes", f"ConnectTimeout={_CONNECT_S}"),
            *("ServerAliveInterval=1", f"ServerAliveCountMax={SILENCE_S:.0f}"),
        )
        given = [word for option in options for word in ("-o", option)]
        return [*self._ssh, *given, "--", host, shlex.join(words)]

    def explain(self, host: str, status: int, said: str) -> str | None:
        if host in _LOCAL or status != _SSH_FAILED:
            return None
        return f"Host {host} cannot be reached by ssh: {short(said)}"

    def close(self) -> None:
        """It holds nothing."""


class Slurm:
    """A job step for each host, within an allocation. Source: srun(1) of version 22.05."""

    def choose(self, hosts: str | None, file: Path | None) -> list[str]:
        """See `Engine`, as for what follows."""
        return _allocated(count_of_hosts("slurm", hosts, file))

    def command(self, host: str, words: Sequence[str]) -> list[str]:
        places = ("--nodes=1", "--ntasks=1", "--ntasks-per-node=1", f"--nodelist={host}")
        # The allocation's memory and processors are for the agent and its ranks, all of them.
        whole = ("--overlap", "--exact", "--mem=0", "--quiet", "--kill-on-bad-exit=1")
        return ["srun", *places, *whole, "--export=ALL", *words]

    def explain(self, host: str, status: int, said: str) -> str | None:
        if not said.startswith("srun: error") or "task 0" in said:
            return None
        return f"Slurm starts nothing on host {host}: {short(said)}"

    def close(self) -> None:
        """The allocation is not ours, or ends with us."""


class Ray:
    """An actor on each other host, in a placement group that has a processor of each host."""

    def __init__(self) -> None:
        self._group = f"phantora-{uuid.uuid4().hex}"
        self._holder: subprocess.Popen[str] | None = None

    def choose(self, hosts: str | None, file: Path | None) -> list[str]:
        """See `Engine`, as for what follows."""
        wanted = count_of_hosts("ray", hosts, file)
        # It ends with its standard input, which ends with us at the latest; a Ctrl-C is not for it.
        self._holder = subprocess.Popen(
            [*_RAY_NODES, "hold", self._group, str(wanted)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._holder.stdout is not None
        if not select.select([self._holder.stdout], [], [], _RAY_LIMIT_S)[0]:
            self._holder.kill()
            raise UsageError("The cluster of Ray does not answer. See: ray status")
        held = self._holder.stdout.readline()
        if not held:
            raise UsageError(f"Ray starts no run: {short(self._holder.communicate()[1])}")
        names: list[str] = json.loads(held)
        return names

    def command(self, host: str, words: Sequence[str]) -> list[str]:
        return [*_RAY_NODES, "run", self._group, host, *words]

    def explain(self, host: str, status: int, said: str) -> str | None:
        if status != REFUSED:
            return None
        return f"Ray starts nothing on host {host}: {short(said)}"

    def close(self) -> None:
        if self._holder is not None:
            self._holder.communicate()


def choose_engine(name: str) -> Engine:
    """The engine of that name."""
    match name:
        case "slurm":
            return Slurm()
        case "ray":
            return Ray()
    return Ssh(os.environ.get(SSH_VARIABLE, "ssh"))


def count_of_hosts(engine: str, hosts: str | None, file: Path | None = None) -> int:
    """What --hosts says with an engine that knows the hosts. Raises: UsageError."""
    if file is not None:
        raise UsageError(f"--hosts-file is for --engine ssh; {engine.title()} knows the hosts.")
    wanted = hosts or ""
    if not (wanted.isascii() and wanted.isdecimal() and int(wanted) >= 1):
        raise UsageError(f"With --engine {engine}, --hosts takes the number of hosts.")
    return int(wanted)


def address_for(hosts: Sequence[str], wanted: str | None) -> str:
    """Where the server listens: an address of ours by which the others can reach it, with a port
    that is free.

    Raises: UsageError if none is known.
    """
    if wanted is not None and wanted.rpartition(":")[2].isdecimal():
        return wanted
    address = wanted or _own_address([host for host in hosts[1:] if host not in _LOCAL])
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family) as free:
            free.bind((address.strip("[]"), 0))
            port = free.getsockname()[1]
    except OSError as error:
        raise UsageError(
            f"This host cannot listen on {address}: {error.strerror}. Name an address of this host "
            "with --listen."
        ) from error
    return f"{address}:{port}"


def _own_address(others: Sequence[str]) -> str:
    if not others:
        return "127.0.0.1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((others[0].rpartition("@")[2].partition("/")[0], 9))  # sends nothing
        except OSError as error:
            raise UsageError(
                f"It is not known by which address host {others[0]} reaches this one "
                f"({error.strerror}). Name it with --listen ADDRESS."
            ) from error
        return str(probe.getsockname()[0])


def _allocated(wanted: int) -> list[str]:
    nodes = os.environ["SLURM_JOB_NODELIST"]
    try:
        listed = subprocess.run(
            ["scontrol", "show", "hostnames", nodes],
            capture_output=True,
            text=True,
            timeout=_COMMAND_LIMIT_S,
            check=True,
        ).stdout.split()
    except (OSError, subprocess.SubprocessError) as error:
        raise UsageError(f"Slurm does not say which hosts {nodes} are: {error}.") from error
    if len(listed) < wanted:
        raise UsageError(
            f"The allocation has {len(listed)} hosts ({nodes}) and the run is to have {wanted}."
        )
    own = os.environ.get("SLURMD_NODENAME", socket.gethostname().partition(".")[0])
    if own not in listed:
        raise UsageError(
            f"This host, {own}, is not of the allocation ({nodes}); the run's first host has to "
            "be, so start it there: salloc ... srun --nodes=1 --ntasks=1 --overlap phantora run ..."
        )
    return [own, *(one for one in listed if one != own)][:wanted]


def _read(file: Path) -> list[str]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The hosts file {file} cannot be read: {error}.") from error
    words = (line.partition("#")[0].strip() for line in lines)
    return [word for word in words if word]


def short(text: str) -> str:
    """The end of what a command has said, for a sentence."""
    return " ".join(text.split())[-_SHOWN_CHARACTERS:] or "it said nothing."
