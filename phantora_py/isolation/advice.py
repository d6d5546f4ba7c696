"""What a user can change where this machine denies an isolation. Source: the files of /proc/sys
are the kernel's and the distributions' own; docs/decisions/containers.md for the containers.
"""

from collections.abc import Iterator
from pathlib import Path

from phantora_py.isolation.probe import Isolation

_SETTINGS = {
    "kernel/apparmor_restrict_unprivileged_userns": (
        "1",
        "AppArmor keeps user namespaces from programs that it has no profile for (Ubuntu): "
        "sysctl kernel.apparmor_restrict_unprivileged_userns=0 as root, or --backend bwrap, which "
        "has one",
    ),
    "kernel/unprivileged_userns_clone": (
        "0",
        "user namespaces are for root only (Debian): "
        "sysctl kernel.unprivileged_userns_clone=1 as root",
    ),
    "user/max_user_namespaces": (
        "0",
        "the number of user namespaces is limited to 0: "
        "sysctl user.max_user_namespaces=15000 as root",
    ),
}
_SETTINGS_DIRECTORY = Path("/proc/sys")
_FILTERED = "Seccomp:\t2"


def advise(found: Isolation) -> Iterator[str]:
    """What would give more, by what was denied."""
    if "user" in found.denied:
        yield from _for_user_namespaces()
    if "pid" in found.denied:
        yield (
            "a container with a masked /proc permits no new one: start it with "
            "--security-opt systempaths=unconfined (Docker, Podman) or procMount: Unmasked "
            "(Kubernetes)"
        )
    if "net" in found.denied and {"mnt", "uts"} <= found.namespaces:
        yield "the kernel needs its veth driver: modprobe veth as root"


def _for_user_namespaces() -> Iterator[str]:
    known = False
    for name, (bad, text) in _SETTINGS.items():
        try:
            value = (_SETTINGS_DIRECTORY / name).read_text().strip()
        except OSError:
            continue  # This kernel has no such setting.
        if value == bad:
            known = True
            yield text
    if not known and _FILTERED in Path("/proc/self/status").read_text():
        yield (
            "a seccomp filter, as of a container, is in force: start the container with "
            "--security-opt seccomp=unconfined (Docker, Podman) or seccompProfile: Unconfined "
            "(Kubernetes)"
        )
