"""Moves a process into its own namespaces and gives it its node's files."""

import os
from collections.abc import Sequence
from pathlib import Path

from phantora_py.isolation import readonly, system
from phantora_py.isolation.nodes import Node

_SHARED_MEMORY = "/dev/shm"
# Daemons that would answer for the machine. Where one is missing /etc/hosts and /etc/resolv.conf
# are asked, as without them. Source: nscd(8), nss-resolve(8).
_NAME_CACHE = "/run/nscd/socket"
_RESOLVER = "/run/systemd/resolve/io.systemd.Resolve"


def enter(
    namespaces: frozenset[str], node: Node | None, writable: Sequence[str] | None = None
) -> None:
    """Moves the calling process, which must have one thread, into new namespaces.

    `pid` takes effect for the next child, which should call `mount_proc`. `writable`: directories
    in which alone files can be written; None: everywhere. Raises: OSError.
    """
    user, group = os.getuid(), os.getgid()
    if namespaces:
        system.unshare(namespaces)
    if "user" in namespaces:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    if "mnt" in namespaces:
        # Without this the machine would see our mounts where its own are shared.
        system.mount("none", "/", "", system.MS_REC | system.MS_PRIVATE)
        if node is not None:
            _mount_node_files(node)
        if writable is not None:
            readonly.protect(writable)


def mount_proc() -> None:
    """Gives the first process of a pid namespace a /proc that shows that namespace. Raises:
    OSError.
    """
    system.mount("proc", "/proc", "proc", system.MS_NOSUID_NODEV_NOEXEC)


def shared_memory(run_dir: Path, node_name: str) -> str:
    """The directory that ranks of a node see as /dev/shm; empty if the run directory is not in
    there.
    """
    return str(run_dir / node_name / "shm") if run_dir.parent == Path(_SHARED_MEMORY) else ""


def make_shared_memory(run_dir: Path, node_name: str) -> None:
    """Makes that directory, with a place for the run directory itself."""
    directory = shared_memory(run_dir, node_name)
    if directory:
        Path(directory, run_dir.name).mkdir(parents=True)
        Path(directory).chmod(0o1777)


def _mount_node_files(node: Node) -> None:
    _replace("/etc/hosts", node.hosts)
    _replace(_NAME_CACHE, node.hosts)
    if node.resolver:
        _replace("/etc/resolv.conf", node.resolver)
        _replace(_RESOLVER, node.resolver)
    if node.shared_memory:
        # The run directory, itself in /dev/shm, stays visible under its own path.
        run_dir = Path(node.shared_memory).parent.parent
        inside = Path(node.shared_memory) / run_dir.name
        system.mount(str(run_dir), str(inside), "", system.MS_BIND)
        system.mount(node.shared_memory, _SHARED_MEMORY, "", system.MS_BIND | system.MS_REC)


def _replace(path: str, file: str) -> None:
    if os.path.exists(path):
        system.mount(file, path, "", system.MS_BIND)
