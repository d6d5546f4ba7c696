"""What ranks of this host and of others send each other without the GPU, carried by their agents.

Ranks notice nothing. Packets between simulated nodes are taken from the router's wire
(`phantora_py.isolation.wire`), and values of tensors from sockets that stand for the ranks of other
hosts in the run directory (csrc/shim/values/exchange.cc). The agent at the other end puts them
where they belong.
"""

import errno
import queue
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from phantora_py.agent.kept_files import keep
from phantora_py.agent.memory import Elsewhere
from phantora_py.agent.parts import Sender
from phantora_py.isolation import wire
from sim_server import simulation_pb2 as messages
from sim_server.access.hosts import SIGN_OF_LIFE_S, SILENCE_S
from sim_server.errors import InternalError, UsageError

# What a full socket says nothing of: that it has room again (assumed: soon enough for a rank).
_RETRY_S = 0.0002
# What exchange.cc sends at most, with its header.
_DATAGRAM_BYTES = (64 << 10) + 1024
# So much goes into one message to the server (assumed: far below what it takes).
_MESSAGE_BYTES = 1 << 20
# After that the kernel has sent again what was lost (assumed: several of its least time-outs).
_LOSS_S = 2.0


@dataclass(frozen=True)
class Neighbours:
    """The ranks of other hosts. `by_address`: of each simulated node there, one of its ranks;
    `elsewhere`: what is told of the hosts themselves.
    """

    ranks: Sequence[int]
    by_address: Mapping[str, int]
    elsewhere: Elsewhere


class Relay:
    """Carries while it is entered.

    `delivered`: parcels that have come and are where they belong. `waking`: those of them that
    may set a rank going which polls in a loop.
    """

    def __init__(
        self,
        sender: Sender,
        run_dir: Path,
        cable: socket.socket,
        neighbours: Neighbours,
        note: Callable[[str], None],
    ) -> None:
        """`cable`: see `phantora_py.isolation.wire`. `note`: is told what the user should know."""
        self.delivered = 0
        self.waking = 0
        self._sender = sender
        self._run_dir = run_dir
        self._cable = cable
        self._neighbours = neighbours
        self._note = note
        self._lock = threading.Lock()  # of what goes out: it leaves in the order of its taking
        self._selector = selectors.DefaultSelector()
        self._values: dict[int, socket.socket] = {}
        self._out = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._out.setblocking(False)
        self._incoming: queue.SimpleQueue[messages.Parcel | None] = queue.SimpleQueue()
        self._late: dict[int, deque[bytes]] = {}
        self._ended = threading.Event()
        self._wake, self._waker = socket.socketpair()
        self._heard_s = time.monotonic()
        self._lost_until_s = 0.0
        self._error: OSError | None = None
        self._threads = [
            threading.Thread(target=self._carry, daemon=True),
            threading.Thread(target=self._deliver, daemon=True),
        ]

    def __enter__(self) -> "Relay":
        """Raises: OSError."""
        self._cable.setblocking(False)
        self._selector.register(self._cable, selectors.EVENT_READ)
        self._selector.register(self._wake, selectors.EVENT_READ)
        for rank in self._neighbours.ranks:
            stand_in = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            stand_in.setblocking(False)
            stand_in.bind(self._values_path(rank))
            self._values[rank] = stand_in
            self._selector.register(stand_in, selectors.EVENT_READ, rank)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self._selector.close()
        for one in (self._cable, self._out, self._wake, self._waker, *self._values.values()):
            one.close()

    def close(self) -> None:
        """Carries no more; what has come meanwhile is delivered."""
        if self._ended.is_set():
            return
        self._ended.set()
        self._waker.send(b"!")
        self._incoming.put(None)
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def check(self) -> None:
        """Raises: UsageError if what ranks of other hosts print or write finds no room."""
        if self._error is not None:
            raise UsageError(
                "What ranks of other hosts print or write cannot be kept in "
                f"{self._run_dir}: {self._error.strerror}."
            )

    def check_server(self) -> None:
        """Raises: InternalError if the server, on another host, has gone without a word."""
        if time.monotonic() - self._heard_s > SILENCE_S:
            raise InternalError(
                f"Nothing was heard of the run's first host for {SILENCE_S:g} s: it or the link to "
                "it has gone."
            )

    def take(self, parcels: messages.Parcels) -> None:
        """Takes what has come for this host."""
        self._heard_s = time.monotonic()
        for parcel in parcels.parcels:
            match parcel.WhichOneof("content"):
                case "printed":
                    self._keep(parcel.rank, parcel.printed)
                case "kept":
                    self._keep_file(parcel.rank, parcel.kept)
                case "note":
                    self._note(parcel.note)
                case "memory_bytes":
                    self._neighbours.elsewhere.taken_bytes[parcel.rank] = parcel.memory_bytes
                case _:
                    self._incoming.put(parcel)

    def send_rest(self) -> bool:
        """Sends what is there; whether there was anything, or something was lost lately."""
        with self._lock:
            found = self._send_all()
            if wire.lost(self._cable):
                self._lost_until_s = time.monotonic() + _LOSS_S
        return found or time.monotonic() < self._lost_until_s

    def _carry(self) -> None:
        next_s = 0.0
        while not self._ended.is_set():
            self._selector.select(SIGN_OF_LIFE_S)
            with self._lock:
                self._send_all()
            if time.monotonic() >= next_s:
                self._sender.send(messages.FromAgent(parcels=messages.Parcels()))
                next_s = time.monotonic() + SIGN_OF_LIFE_S

    def _send_all(self) -> bool:
        parcels, size_bytes, found = messages.Parcels(), 0, False
        for parcel in self._taken():
            found = True
            parcels.parcels.append(parcel)
            size_bytes += parcel.ByteSize()
            if size_bytes > _MESSAGE_BYTES:
                self._sender.send(messages.FromAgent(parcels=parcels))
                parcels, size_bytes = messages.Parcels(), 0
        if parcels.parcels:
            self._sender.send(messages.FromAgent(parcels=parcels))
        return found

    def _taken(self) -> Iterator[messages.Parcel]:
        by_address = self._neighbours.by_address
        for packet in _read_all(self._cable, wire.MAX_PACKET_BYTES):
            rank = by_address.get(wire.destination(packet))
            if rank is not None:
                yield messages.Parcel(rank=rank, packet=packet)
        for rank, stand_in in self._values.items():
            for datagram in _read_all(stand_in, _DATAGRAM_BYTES):
                yield messages.Parcel(rank=rank, values=datagram)

    def _deliver(self) -> None:
        while True:
            try:
                parcel = self._incoming.get(timeout=_RETRY_S if self._late else None)
            except queue.Empty:
                self._try_late()
                continue
            if parcel is None:
                return
            if parcel.HasField("packet"):
                self._put_on_wire(parcel.packet)
                self.waking += not wire.is_attempt(parcel.packet)
                self.delivered += 1
            elif parcel.HasField("values"):
                self._late.setdefault(parcel.rank, deque()).append(parcel.values)
                self._try_late()

    def _put_on_wire(self, packet: bytes) -> None:
        """The network is lossy, as all are: what finds no room is sent again by its sender."""
        while not self._ended.is_set():
            try:
                self._cable.send(packet)
            except OSError as error:
                if error.errno not in {errno.EAGAIN, errno.ENOBUFS}:
                    self._lost_until_s = time.monotonic() + _LOSS_S
                    return
                time.sleep(_RETRY_S)
            else:
                return

    def _try_late(self) -> None:
        """A rank whose socket has no room, or is not there yet, does not hold up the others."""
        for rank, datagrams in list(self._late.items()):
            while datagrams and self._put(rank, datagrams[0]):
                datagrams.popleft()
                self.delivered += 1
                self.waking += 1
            if not datagrams:
                del self._late[rank]

    def _put(self, rank: int, datagram: bytes) -> bool:
        """Whether that is done: delivered, or the rank has ended."""
        try:
            self._out.sendto(datagram, self._values_path(rank))
        except ConnectionRefusedError:
            return True
        except (BlockingIOError, FileNotFoundError):
            return False
        return True

    def _values_path(self, rank: int) -> str:
        return str(self._run_dir / f"values-{rank}.sock")

    def _keep(self, rank: int, printed: messages.Printed) -> None:
        """From here on it is as if the rank had printed it here."""
        try:
            with (self._run_dir / f"rank-{rank}.{printed.stream}").open("ab") as file:
                file.write(printed.text)
        except OSError as error:
            self._error = error

    def _keep_file(self, rank: int, kept: messages.KeptFile) -> None:
        try:
            keep(self._run_dir, rank, kept)
        except OSError as error:
            self._error = error


def _read_all(source: socket.socket, most_bytes: int) -> Iterator[bytes]:
    while True:
        try:
            yield source.recv(most_bytes)
        except BlockingIOError:
            return
