"""A server that lies: an agent takes nothing that would pass for a good run or spoil its data."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent import futures
from pathlib import Path

import grpc
import pytest
from attacked_server import METHOD, TOKEN

from phantora_py.agent.simulation import Simulation
from sim_server import simulation_pb2 as wire
from sim_server.access import Endpoint
from sim_server.errors import InternalError, UsageError

WELCOME = wire.ToAgent(welcome=wire.Welcome())


class Channels:
    """Those of rank 0; as the real ones, which check what they are given."""

    def wake(self) -> None:
        """Nobody polls."""

    def answer(self, rank: int, *_: object) -> None:
        if rank != 0:
            raise ValueError(f"rank {rank} is not ours")


def chunk(name: str) -> wire.ToAgent:
    """A member of the data file."""
    return wire.ToAgent(data_chunk=wire.DataChunk(name=name))


def failure(**fields: object) -> wire.ToAgent:
    """An end of the run."""
    return wire.ToAgent(failure=wire.Failure(**fields))  # type: ignore[arg-type]


LIES: dict[str, tuple[list[wire.ToAgent | bytes], str]] = {
    "garbage": ([b"\xff" * 9], "a message that cannot be read"),
    "nothing": ([wire.ToAgent()], "a message that cannot be read"),
    "success": ([failure(exit_code=0)], "a failure that is none, with code 0"),
    "code": ([failure(exit_code=77)], "a failure that is none, with code 77"),
    "tables": ([failure(exit_code=5, tables="{")], "a failure that is none, with code 5"),
    "no tables": ([failure(exit_code=5, tables="7")], "a failure that is none, with code 5"),
    "answer": (
        [wire.ToAgent(answers=wire.Answers(answers=[wire.Answer(rank=7)]))],
        "an answer that is none (rank 7 is not ours)",
    ),
    "own member": ([chunk("run.json")], "'run.json' for the data file"),
    "way out": ([chunk("../../etc/passwd")], "'../../etc/passwd' for the data file"),
    "root": ([chunk("/etc/passwd")], "'/etc/passwd' for the data file"),
    "no name": ([chunk("")], "'' for the data file"),
    "line break": ([chunk("a\nb")], "'a\\nb' for the data file"),
    "again": ([chunk("spans"), chunk("spans")], "'spans' for the data file"),
}


@pytest.mark.parametrize("name", LIES)
def test_a_server_that_lies_is_not_believed(tmp_path: Path, name: str) -> None:
    """The connection ends with one sentence that says what came, and nothing later is taken."""
    lies, sentence = LIES[name]
    spoken = [WELCOME.SerializeToString()]
    spoken += [one if isinstance(one, bytes) else one.SerializeToString() for one in lies]

    def attach(requests: Iterator[bytes], _: grpc.ServicerContext) -> Iterator[bytes]:
        next(requests)
        yield from spoken
        yield wire.ToAgent(progress=wire.Progress(iterations=1)).SerializeToString()

    service, _, method = METHOD[1:].partition("/")
    handler = grpc.method_handlers_generic_handler(
        service, {method: grpc.stream_stream_rpc_method_handler(attach)}
    )
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=2), [handler])
    endpoint = Endpoint.of(f"unix:{tmp_path}/socket", TOKEN)
    endpoint.bind(server)
    server.start()
    simulation = Simulation(endpoint, Channels())  # type: ignore[arg-type]
    try:
        simulation.join(wire.Hello(), lambda: None, limit_s=10)
        while (message := simulation.next_message()) is not None:
            assert not message.HasField("progress")
        with pytest.raises(InternalError) as caught:
            simulation.check_orderly_end()
        assert str(caught.value).endswith(f"the server sent {sentence}")
    finally:
        simulation.close()
        server.stop(None).wait()


def test_a_server_that_is_none(tmp_path: Path) -> None:
    """Somebody else's socket: the agent gives up within its limit, and says why."""
    endpoint = Endpoint.of(f"unix:{tmp_path}/nobody", TOKEN)
    simulation = Simulation(endpoint, Channels())  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"No server answers at unix:.* \(waited 0.2 s\): .+"):
        simulation.join(wire.Hello(), lambda: None, limit_s=0.2)
    simulation.close()
