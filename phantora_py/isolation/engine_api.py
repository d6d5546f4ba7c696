"""Containers of Docker Engine and Podman, which speak one API.

The image needs no registry: it has only the directories, and links, of this machine's root; the
machine's own are bound to them. So a container sees the files that a plain process sees. Source:
the `docker` package; podman-system-service(1).
"""

import hashlib
import io
import os
import resource
import socket
import tarfile
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from phantora_py.isolation.engines import DEVICES, EngineFailed, files_of
from phantora_py.isolation.nodes import Node

# Podman takes names without a host for those of registries.
_REPOSITORY = "localhost/phantora-host"
# The engine makes these itself.
_OF_THE_ENGINE = (DEVICES.strip("/"), "proc", "sys", "run")
# Requests of several threads overlap within the engine: 64 containers took 26.6 s one by one and
# 12.5 s with four threads (measured, Docker Engine 20.10).
_THREADS = 4
_REQUEST_LIMIT_S = 60
_ANSWER_LIMIT_S = 10
# No such container; its removal is in progress.
_GONE = (404, 409)


def find(name: str) -> Any:
    """A client of the engine. Raises: EngineFailed if it cannot be reached."""
    try:
        import docker  # noqa: PLC0415 - an extra of the installation
    except ImportError as error:
        raise EngineFailed(
            "the Python package docker is missing: pip install 'phantora[containers]'"
        ) from error
    variable = "DOCKER_HOST" if name == "docker" else "CONTAINER_HOST"
    address = os.environ.get(variable) or _default_address(name)
    try:
        # We connect first: the package does not clean up after a connection that is refused.
        if address.startswith("unix://"):
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(address.removeprefix("unix://"))
        client = docker.DockerClient(address, timeout=_ANSWER_LIMIT_S)
    except (docker.errors.DockerException, OSError) as error:
        start = "dockerd" if name == "docker" else "podman system service"
        raise EngineFailed(
            f"{name} does not answer at {address}; start {start} or set {variable} ({error})"
        ) from error
    client.api.timeout = _REQUEST_LIMIT_S
    return client


class EngineApi:
    """Containers started through the engine's API, on this machine's network."""

    def __init__(self, name: str, run_dir: str, writable: Sequence[str] | None) -> None:
        """`writable`: see `container.enter`."""
        self._client = find(name)
        self._writable = writable
        self._run_dir = run_dir
        self._image = _image(self._client)
        # A rootless Podman has its user as root in containers.
        mapped = name == "podman" and os.getuid() != 0
        self._user = "0:0" if mapped else f"{os.getuid()}:{os.getgid()}"
        self._pool = ThreadPoolExecutor(_THREADS)
        self._starts: list[Future[Any]] = []

    def announce(self, node: Node) -> None:
        """Nothing is made for a node as a whole."""

    def start(self, node: Node, command: Sequence[str]) -> None:
        """Has a container started; what goes wrong is told by `check`."""
        self._starts.append(self._pool.submit(self._run, node, list(command)))

    def check(self) -> None:
        """Raises: EngineFailed if a container could not be started."""
        for start in self._starts:
            error = start.exception() if start.done() else None
            if error is not None:
                raise EngineFailed(str(error)) from error

    def close(self) -> None:
        """Kills all containers; the engine removes them."""
        import docker  # noqa: PLC0415

        self._pool.shutdown(cancel_futures=True)
        mine = {"label": f"phantora={self._run_dir}"}
        # Those that the engine is removing just now may be gone before they are looked at.
        for container in self._client.containers.list(all=True, filters=mine, ignore_removed=True):
            try:
                container.remove(force=True)
            except docker.errors.APIError as error:
                if error.status_code not in _GONE:
                    raise
        self._client.close()

    def _run(self, node: Node, command: list[str]) -> None:
        import docker  # noqa: PLC0415

        self._client.containers.run(
            self._image,
            command,
            detach=True,
            auto_remove=True,
            hostname=node.name,
            network_mode="host",
            user=self._user,
            working_dir=os.getcwd(),
            # The sweeper knows processes of a run by this.
            environment={"PHANTORA_RUN_DIR": self._run_dir},
            labels={"phantora": self._run_dir},
            volumes={**self._machine_files(), **_volumes(files_of(node))},
            # An engine that may not raise limits fails at its own defaults.
            ulimits=[
                docker.types.Ulimit(name=name, soft=soft, hard=hard)
                for name, (soft, hard) in _limits().items()
            ],
        )

    def _machine_files(self) -> dict[str, dict[str, str]]:
        root = [(f"/{entry}", f"/{entry}") for entry in _root_directories()]
        if self._writable is None:
            return _volumes(root)
        spared = _volumes((directory, directory) for directory in self._writable)
        return {**_volumes(root, "ro"), **spared}


def _volumes(pairs: Iterable[tuple[str, str]], mode: str = "rw") -> dict[str, dict[str, str]]:
    """Sources and targets as the API wants them; one source has one target."""
    return {source: {"bind": target, "mode": mode} for source, target in pairs}


def _default_address(name: str) -> str:
    if name == "docker":
        return "unix:///var/run/docker.sock"
    user = os.getuid()
    directory = "/run" if user == 0 else f"/run/user/{user}"
    return f"unix://{directory}/podman/podman.sock"


def _limits() -> dict[str, tuple[int, int]]:
    """No more than ours; Podman also bounds processes by the ids there are."""
    ids = int(Path("/proc/sys/kernel/pid_max").read_text())
    _, processes = resource.getrlimit(resource.RLIMIT_NPROC)
    if processes == resource.RLIM_INFINITY or processes > ids:
        processes = ids
    return {
        "nofile": resource.getrlimit(resource.RLIMIT_NOFILE),
        "nproc": (processes, processes),
    }


def _root_directories() -> list[str]:
    return [
        entry.name
        for entry in os.scandir("/")
        if entry.is_dir(follow_symlinks=False) and entry.name not in _OF_THE_ENGINE
    ]


def _image(client: Any) -> str:
    """The image, made where it is not there yet."""
    content = root_archive()
    # Podman 4.3 imports without regard to the tag.
    name = f"{_REPOSITORY}-{hashlib.sha256(content).hexdigest()[:12]}"
    if not client.images.list(name):
        client.api.import_image_from_data(content, repository=name, tag="latest")
    return f"{name}:latest"


def root_archive() -> bytes:
    """A tar archive with the root's directories, empty, and its links."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for entry in sorted({*_OF_THE_ENGINE, *os.listdir("/")}):
            member = tarfile.TarInfo(entry)
            path = Path("/", entry)
            if path.is_symlink():
                member.type, member.linkname = tarfile.SYMTYPE, os.readlink(path)
            elif path.is_dir() or entry in _OF_THE_ENGINE:
                member.type, member.mode = tarfile.DIRTYPE, 0o755
            else:
                continue
            tar.addfile(member)
    return archive.getvalue()
