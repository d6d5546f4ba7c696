"""The work of writing a data file, done again with what is in one: by the server, on the way to the
agent, and by the agent. Nothing of this knows how long it takes.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import numpy as np

from phantora_py.agent.datafile import DataFile
from phantora_py.data import RunData
from sim_server import simulation_pb2 as wire
from sim_server import simulation_pb2_grpc as rpc
from sim_server.access import Endpoint
from sim_server.access.endpoint import MAX_RESPONSE_BYTES
from sim_server.kernels import Tier, Timing
from sim_server.log.history import PIECE_ROWS, SPAN_TYPE, History, Rows
from sim_server.log.run_log import Cells

# Of operations: what is not part of the digest.
DERIVED = ("algorithm", "protocol", "limited_by")
NOT_FROM_THE_SERVER = {"run.json", "start.json", "settings.json"}

Member = tuple[str, bytes]


Streams = list[tuple[str, list[bytes]]]
"""By name: records and answers of each rank, as they came."""


def streams_of(data: RunData) -> Streams:
    """Of all ranks."""
    ranks = range(data.ranks)
    records: Streams = [(f"records/rank-{rank}", list(data.records(rank))) for rank in ranks]
    return records + [(f"answers/rank-{rank}", list(data.answers(rank))) for rank in ranks]


def pack(data: RunData, streams: Streams) -> list[Member]:
    """What the server does with spans, operations, markers, allocations and records."""
    history = History()
    rows: list[tuple[Rows, Sequence[object]]]
    rows = [(Rows("markers"), data.markers), (Rows("allocations"), data.allocations)]
    for number, row in enumerate(data.timings):
        tier, name = Tier(row["tier"]), row["name"]
        timing = Timing(row["duration_ns"], tier, row["class"], name, sm_demand=1.0)
        history.add_timing(str(number).encode(), timing)
    for row in data.operations:
        derived: dict[str, Any] = {key: row[key] for key in DERIVED if key in row}
        history.add_operation({key: row[key] for key in row if key not in derived}, derived)
    for kept, those in rows:
        for one in those:
            kept.add(one)
    members: list[Member] = []
    spans = data.spans[np.argsort(data.spans["end_ns"], kind="stable")].astype(SPAN_TYPE)
    for begin in range(0, len(spans), PIECE_ROWS):
        piece = spans[begin : begin + PIECE_ROWS]
        history.add_spans(piece, int(piece["end_ns"][-1]))
        members += history.take()
    history.add_spans(spans[:0], 1 << 62)
    members += history.take()
    for kept, _ in rows:
        members += kept.take()
    for name, pieces in streams:
        cells = Cells(name)
        for content in pieces:
            cells.add(content)
        members += cells.take(everything=True)
    return members


def members_of(path: Path) -> list[Member]:
    """What the server sent."""
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name not in NOT_FROM_THE_SERVER]
        return [(name, archive.read(name)) for name in names]


def compress(members: list[Member], folder: Path) -> None:
    """What the agent does for the file."""
    file = DataFile(folder / "again.phr", {}, "{}")
    for name, content in members:
        file.write(name, content)
    file.complete({})


class Carrier(rpc.SimulationServicer):
    """Sends members as the server does, to an agent that has connected. To be closed."""

    def __init__(self, members: list[Member], folder: Path) -> None:
        self._members = members
        self._server = grpc.server(
            futures.ThreadPoolExecutor(2),
            options=[("grpc.max_send_message_length", MAX_RESPONSE_BYTES)],
        )
        rpc.add_SimulationServicer_to_server(self, self._server)
        endpoint = Endpoint.of(f"unix:{folder / 'carrier.socket'}", "nobody's")
        endpoint.bind(self._server)
        self._server.start()
        self._channel = endpoint.connect()
        grpc.channel_ready_future(self._channel).result()

    def Attach(  # noqa: N802 - the name of the RPC
        self, request_iterator: Iterator[wire.FromAgent], context: grpc.ServicerContext
    ) -> Iterator[wire.ToAgent]:
        for name, content in self._members:
            chunk = wire.DataChunk(name=name, content=content)
            yield wire.ToAgent(data_chunk=chunk)

    def carry(self) -> None:
        """All of them, once."""
        responses = rpc.SimulationStub(self._channel).Attach(iter(()))
        names = [message.data_chunk.name for message in responses if message.data_chunk.content]
        assert names == [name for name, _ in self._members], "every member has arrived"

    def close(self) -> None:
        self._channel.close()
        self._server.stop(grace=None).wait()
