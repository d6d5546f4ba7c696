"""The NCCL_* variables of the user's environment: which the model honours, and which it cannot.

Meaning and defaults: NCCL's user guide, "Environment Variables"; the older names of the channel
limits: src/graph/connect.cc of NCCL 2.20.3. docs/network.md says what each one changes here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sim_server.collectives.tuning import Algorithm, Protocol
from sim_server.collectives.version import NEWEST
from sim_server.errors import UsageError

MOST_CHANNELS = 64
"""MAXCHANNELS. Source: src/include/device.h of NCCL 2.24 and later."""

_HONOURED = frozenset(
    {
        "NCCL_ALGO",
        "NCCL_PROTO",
        "NCCL_MIN_NCHANNELS",
        "NCCL_MAX_NCHANNELS",
        "NCCL_MIN_NRINGS",
        "NCCL_MAX_NRINGS",
        "NCCL_NVLS_ENABLE",
        "NCCL_P2P_DISABLE",
        "NCCL_IB_HCA",
        "NCCL_PXN_DISABLE",
        "NCCL_BUFFSIZE",
        "NCCL_CROSS_NIC",
        "NCCL_COLLNET_ENABLE",
        "NCCL_PAT_ENABLE",
    }
)

# These change what is said, found or waited for, not how fast a healthy communicator is.
_HARMLESS = frozenset(
    {
        "NCCL_ASYNC_ERROR_HANDLING",
        "NCCL_COMM_ID",
        "NCCL_DEBUG",
        "NCCL_DEBUG_FILE",
        "NCCL_DEBUG_SUBSYS",
        "NCCL_DEBUG_TIMESTAMP_FORMAT",
        "NCCL_DEBUG_TIMESTAMP_LEVELS",
        "NCCL_DESYNC_DEBUG",
        "NCCL_HOME",
        "NCCL_HOSTID",
        "NCCL_IB_GID_INDEX",
        "NCCL_IB_RETRY_CNT",
        "NCCL_IB_TIMEOUT",
        "NCCL_INCLUDE_DIR",
        "NCCL_LIB_DIR",
        "NCCL_RAS_ADDR",
        "NCCL_RAS_ENABLE",
        "NCCL_ROOT",
        "NCCL_SET_THREAD_NAME",
        "NCCL_SOCKET_FAMILY",
        "NCCL_SOCKET_IFNAME",
        "NCCL_TOPO_DUMP_FILE",
        "NCCL_VERSION",
    }
)

# Switches whose value 0 is NCCL's default or leaves the modelled path in place.
_HARMLESS_WHEN_0 = frozenset({"NCCL_IB_DISABLE", "NCCL_SHM_DISABLE"})


@dataclass(frozen=True)
class NcclEnvironment:
    """What the variables say, checked."""

    algorithms: frozenset[str]
    """Names that NCCL_ALGO leaves."""
    protocols: frozenset[str]
    """Names that NCCL_PROTO leaves."""
    min_channels: int = 0
    """NCCL_MIN_NCHANNELS."""
    max_channels: int = MOST_CHANNELS
    """NCCL_MAX_NCHANNELS."""
    nvls: bool = True
    """NCCL_NVLS_ENABLE is not 0."""
    peer_to_peer: bool = True
    """NCCL_P2P_DISABLE is not 1: GPUs of a node reach each other without the host's memory."""
    hca: str = ""
    """NCCL_IB_HCA."""
    pxn: bool = True
    """NCCL_PXN_DISABLE is not 1: on rails, bytes go over NVLink to the GPU of the right rail."""
    buffer_bytes: int | None = None
    """NCCL_BUFFSIZE; None for NCCL's own 4 MiB."""
    cross_nic: int = 2
    """NCCL_CROSS_NIC: rings keep to a NIC (0), change it (1), or change it where needed."""
    collnet: bool = False
    """NCCL_COLLNET_ENABLE is 1: switches of the network add up, where they can."""
    pat: bool = True
    """NCCL_PAT_ENABLE is not 0."""
    version: int = NEWEST
    """Not a variable, but of whose these are: `sim_server.collectives.version`."""

    @staticmethod
    def read(variables: Mapping[str, str], version: int = NEWEST) -> NcclEnvironment:
        """The variables as NCCL understands them. Raises: UsageError."""
        min_channels = _channels(variables, "NCCL_MIN_NCHANNELS", "NCCL_MIN_NRINGS", 0)
        max_channels = _channels(variables, "NCCL_MAX_NCHANNELS", "NCCL_MAX_NRINGS", MOST_CHANNELS)
        return NcclEnvironment(
            algorithms=_names("NCCL_ALGO", variables, [one.value for one in Algorithm]),
            protocols=_names("NCCL_PROTO", variables, [one.value for one in Protocol]),
            min_channels=max(min_channels, 0),
            max_channels=max(max_channels, 1),
            nvls=_number(variables, "NCCL_NVLS_ENABLE", 2) != 0,
            peer_to_peer=_number(variables, "NCCL_P2P_DISABLE", 0) != 1,
            pxn=_number(variables, "NCCL_PXN_DISABLE", 0) != 1,
            hca=variables.get("NCCL_IB_HCA", "").strip(),
            buffer_bytes=_buffer_bytes(variables),
            cross_nic=_number(variables, "NCCL_CROSS_NIC", 2),
            collnet=_number(variables, "NCCL_COLLNET_ENABLE", 0) == 1,
            pat=_number(variables, "NCCL_PAT_ENABLE", 2) != 0,
            version=version,
        )

    def channels(self, default: int) -> int:
        """How many channels a communicator has that would have `default` of them."""
        return max(min(default, self.max_channels), min(self.min_channels, self.max_channels))

    def used_nics(self, per_node: int) -> tuple[int, ...]:
        """NICs of a node that NCCL_IB_HCA leaves.

        NIC number i is taken to be called mlx5_i: assumed, as cluster files do not name NICs.
        Raises: UsageError when none is left.
        """
        nics = [number for number in range(per_node) if self._selects(f"mlx5_{number}")]
        if not nics:
            raise UsageError(
                f"NCCL_IB_HCA={self.hca} leaves no NIC: those of a node of this cluster are taken "
                f"to be called mlx5_0 to mlx5_{per_node - 1}; unset it, or name some of these"
            )
        return tuple(nics)

    def _selects(self, name: str) -> bool:
        """A list of prefixes with optional ports; `=` before it wants whole names, `^` excludes."""
        text = self.hca
        if not text:
            return True
        excludes = text.startswith("^")
        text = text.removeprefix("^")
        whole = text.startswith("=")
        names = [item.strip().partition(":")[0] for item in text.removeprefix("=").split(",")]
        found = any(name == one if whole else name.startswith(one) for one in names if one)
        return found != excludes


def nccl_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The NCCL_* variables of an environment, sorted."""
    return {name: value for name, value in sorted(environment.items()) if name.startswith("NCCL_")}


def not_modelled(variables: Mapping[str, str]) -> list[str]:
    """Those that could change times and that the model does not know, as NAME=value."""
    return [
        f"{name}={value}"
        for name, value in sorted(variables.items())
        if name not in _HONOURED | _HARMLESS
        and not (name in _HARMLESS_WHEN_0 and value.strip() == "0")
    ]


def _channels(variables: Mapping[str, str], name: str, older: str, default: int) -> int:
    """A limit of the channels; the newer name counts more, and NCCL has at most 64."""
    return min(_number(variables, name, _number(variables, older, default)), MOST_CHANNELS)


def _buffer_bytes(variables: Mapping[str, str]) -> int | None:
    if "NCCL_BUFFSIZE" not in variables:
        return None
    size_bytes = _number(variables, "NCCL_BUFFSIZE", 0)
    if size_bytes < 1:
        raise UsageError(f"NCCL_BUFFSIZE={size_bytes}: a buffer has at least one byte")
    return size_bytes


def _number(variables: Mapping[str, str], name: str, default: int) -> int:
    text = variables.get(name, "").strip()
    if not text:
        return default
    try:
        return int(text, 0)
    except ValueError as error:
        raise UsageError(f"{name}={text}: is not a whole number") from error


def _names(name: str, variables: Mapping[str, str], known: Sequence[str]) -> frozenset[str]:
    """Names that a variable such as NCCL_ALGO="Ring,Tree" or "^Tree" leaves."""
    text = variables.get(name, "").strip()
    if not text:
        return frozenset(known)
    by_name = {one.lower(): one for one in known}
    names = [one.strip().lower() for one in text.removeprefix("^").split(",")]
    for one in names:
        if one not in by_name:
            raise UsageError(
                f"{name}={text}: '{one}' is not modelled; known are {', '.join(known)}"
            )
    chosen = {by_name[one] for one in names}
    return frozenset(set(known) - chosen if text.startswith("^") else chosen)
