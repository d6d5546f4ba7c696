"""Regenerates sim_server/simulation_pb2*.py from sim_server/simulation.proto.

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
    return int(
        protoc.main(
            [
                "protoc",
                f"-I{ROOT}",
                f"--python_out={ROOT}",
                f"--pyi_out={ROOT}",
                f"--grpc_python_out={ROOT}",
                "sim_server/simulation.proto",
            ]
        )
    )


if __name__ == "__main__":
    sys.exit(main())
