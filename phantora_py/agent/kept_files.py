"""Files of the run directory that are read once the ranks have ended, sent to where they are read.

Ranks leave them on their own host. On the first one they are then as if its ranks had left them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from phantora_py.agent.parts import Sender
from phantora_py.data.schema import check_host_use
from phantora_py.launch.unsimulated import FILE as UNSIMULATED
from phantora_py.machine.process_tree import cpu_s
from phantora_py.rank.execution_traces import FOLDER, file_of
from sim_server import simulation_pb2 as messages
from sim_server.errors import InternalError
from sim_server.files.schema import Fault, parse

STOPPED_CALL = "stopped-call"
"""A call that is not modelled, made by a process below a rank (csrc/shim/calls/unsupported.cc)."""
# So much goes into one message to the server (assumed: far below what it takes).
_PIECE_BYTES = 1 << 20
_OF_HOSTS = re.compile(r"host-\d{1,6}\.json")


@dataclass(frozen=True)
class HostUse:
    """What the run took of one host. `host_memory`, `by_machine`: as in run.json
    (docs/data-file.md).
    """

    host: str
    index: int
    core_seconds: float
    host_memory: dict[str, Any]
    by_machine: list[dict[str, float]]


@dataclass(frozen=True)
class KeptFiles:
    """Those of this host, which is not the first, and what the run took of it."""

    sender: Sender
    run_dir: Path
    ranks: Sequence[int]
    host: str
    index: int

    def tell_memory(self, taken_bytes: int) -> None:
        """While the ranks run: what the run takes of this host."""
        parcel = messages.Parcel(rank=self.ranks[0], memory_bytes=taken_bytes)
        self.sender.send(messages.FromAgent(parcels=messages.Parcels(parcels=[parcel])))

    def send(
        self, host_memory: Mapping[str, Any], by_machine: Sequence[Mapping[str, float]]
    ) -> None:
        """Once the ranks have ended. Raises: OSError."""
        depended = [dict(one) for one in by_machine]
        use = HostUse(self.host, self.index, cpu_s(os.getpid()), dict(host_memory), depended)
        own = _name_of(self.index)
        (self.run_dir / own).write_text(json.dumps(asdict(use)), encoding="ascii")
        names = [(self.ranks[0], name) for name in (STOPPED_CALL, UNSIMULATED, own)]
        names += [(rank, f"{FOLDER}/{file_of(rank)}") for rank in self.ranks]
        for rank, name in names:
            for content in _pieces(self.run_dir / name):
                kept = messages.KeptFile(name=name, content=content)
                parcels = messages.Parcels(parcels=[messages.Parcel(rank=rank, kept=kept)])
                self.sender.send(messages.FromAgent(parcels=parcels))


def read_uses(run_dir: Path, hosts: int) -> list[HostUse]:
    """What the agents of the other ones of so many hosts have told, as far as they came to it.

    Raises: InternalError if one has told something else.
    """
    paths = run_dir.glob("host-*.json")
    return sorted((_read_use(path, hosts) for path in paths), key=lambda one: one.index)


def _read_use(path: Path, hosts: int) -> HostUse:
    try:
        value = parse(path.read_bytes())
        check_host_use(value)
        if path.name != _name_of(value["index"]) or not 0 < value["index"] < hosts:
            raise Fault(f"index: {value['index']} is another host's")
        return HostUse(**value)
    except (Fault, TypeError) as error:
        raise InternalError(f"what a host told of itself, {path.name}: {error}") from error


def _name_of(index: int) -> str:
    return f"host-{index}.json"


def keep(run_dir: Path, rank: int, kept: messages.KeptFile) -> None:
    """Adds a piece to the file of this host. Raises: OSError; ValueError if it is none of these."""
    name = kept.name
    is_known = name in (STOPPED_CALL, UNSIMULATED, f"{FOLDER}/{file_of(rank)}")
    if not is_known and not _OF_HOSTS.fullmatch(name):
        raise ValueError(f"the server sent {name[:80]!a} for the run directory")
    path = run_dir / name
    if name == STOPPED_CALL and path.exists():
        return  # not the first
    with path.open("ab") as file:
        file.write(kept.content)


def _pieces(path: Path) -> Iterator[bytes]:
    if not path.exists():
        return
    with path.open("rb") as file:
        while content := file.read(_PIECE_BYTES):
            yield content
