"""Regenerates the *_pb2*.py of sim_server/simulation.proto and of sim_server/chakra.

Generated code refuses to run under a protobuf or grpcio older than its generator, so it is made
with the oldest grpcio-tools whose runtime pyproject.toml allows:

    pip install 'grpcio-tools==1.66.*' 'setuptools<80'
    python tools/generate_protobuf.py
"""

import sys
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Runs protoc; exit code as protoc's."""
    # The path from the repository's root makes the generated imports `from sim_server import ...`.
    messages = ["protoc", f"-I{ROOT}", f"--python_out={ROOT}", f"--pyi_out={ROOT}"]
    services = f"--grpc_python_out={ROOT}"
    made = protoc.main([*messages, services, "sim_server/simulation.proto"])
    return int(made or protoc.main([*messages, "sim_server/chakra/execution_trace.proto"]))


if __name__ == "__main__":
    sys.exit(main())
