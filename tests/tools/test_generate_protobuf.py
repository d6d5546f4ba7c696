"""The generated protobuf code is that of the .proto file."""

from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import FileDescriptor

from sim_server import simulation_pb2
from sim_server.chakra import execution_trace_pb2

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.parametrize(
    ("source", "made"),
    [
        ("sim_server/simulation.proto", simulation_pb2.DESCRIPTOR),
        ("sim_server/chakra/execution_trace.proto", execution_trace_pb2.DESCRIPTOR),
    ],
)
def test_generated_code_is_current(tmp_path: Path, source: str, made: FileDescriptor) -> None:
    """Compared by descriptor: the text differs between versions of the generator."""
    protoc = pytest.importorskip("grpc_tools.protoc")
    output = tmp_path / "descriptors"
    arguments = [f"-I{ROOT}", f"--descriptor_set_out={output}", source]
    assert protoc.main(["protoc", *arguments]) == 0
    described = descriptor_pb2.FileDescriptorSet.FromString(output.read_bytes()).file[0]
    generated = descriptor_pb2.FileDescriptorProto.FromString(made.serialized_pb)
    described.ClearField("source_code_info")
    for message in (described, generated):
        for kind in message.message_type:
            for one in (kind, *kind.nested_type):
                for field in one.field:
                    field.ClearField("json_name")
    assert generated == described, "run: python tools/generate_protobuf.py"
