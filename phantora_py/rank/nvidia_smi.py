"""The nvidia-smi of a simulated node, for ranks and what they start (see `bin/nvidia-smi`).

    nvidia-smi [-i GPU,...] [-L | --query-gpu=FIELD,... --format=csv[,noheader][,nounits]]
    nvidia-smi topo -m

It asks our NVML, as pynvml does, and writes what NVIDIA's own writes, so that programs can read it.
It runs without site-packages, and never becomes the rank. Source of names and layouts: nvidia-smi's
manual page and --help-query-gpu.
"""

import argparse
import ctypes
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import NoReturn

_NOT_AVAILABLE = "N/A"
# ctypes' mirror of nvmlMemory_t and of the start of nvmlPciInfo_t, see csrc/shim/nvml/nvml_types.h.
_Memory = ctypes.c_ulonglong * 3
_BUS_ID = slice(36, 68)
_PCI_BYTES = 68
_NVML_NVLINK_MAX_LINKS = 18  # source: nvml.h
_CLOCKS = {"gr": 0, "graphics": 0, "sm": 1, "mem": 2, "memory": 2}


class SmiError(Exception):
    """What was asked for is not to be had."""


class Node:
    """The simulated node's NVML."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(None)
        if not hasattr(self.library, "ph_follow"):
            raise SmiError("the libraries of phantora are not loaded (LD_PRELOAD was changed).")
        # Of the rank's node, whether or not a program of the rank runs already; if not, the next
        # call must not make this process the rank.
        run_dir, rank = os.environb[b"PHANTORA_RUN_DIR"], int(os.environ.pop("PHANTORA_RANK", "0"))
        self.in_use = bool(self.library.ph_follow(run_dir, rank))
        self.call("nvmlInit_v2")
        count = ctypes.c_uint()
        self.call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        self.gpus = [Gpu(self, index) for index in range(count.value)]

    def call(self, name: str, *arguments: object) -> None:
        """Raises: SmiError."""
        code = self.library[name](*arguments)
        if code != 0:
            raise SmiError(f"{name} answered {code}.")

    def text(self, name: str, *arguments: object) -> str:
        """What a function writes into a buffer."""
        buffer = ctypes.create_string_buffer(96)
        self.call(name, *arguments, buffer, len(buffer))
        return buffer.value.decode()

    @property
    def driver(self) -> str:
        """The driver's release."""
        return self.text("nvmlSystemGetDriverVersion")

    @property
    def cuda(self) -> str:
        """The newest CUDA that the driver has."""
        version = ctypes.c_int()
        self.call("nvmlSystemGetCudaDriverVersion_v2", ctypes.byref(version))
        return f"{version.value // 1000}.{version.value % 1000 // 10}"


class Gpu:
    """One GPU, asked as its text is needed."""

    def __init__(self, node: Node, index: int) -> None:
        self.node = node
        self.index = index
        self._handle = ctypes.c_void_p()
        node.call("nvmlDeviceGetHandleByIndex_v2", index, ctypes.byref(self._handle))

    @property
    def name(self) -> str:
        """As CUDA has it."""
        return self.node.text("nvmlDeviceGetName", self._handle)

    @property
    def uuid(self) -> str:
        """With `GPU-` before it."""
        return self.node.text("nvmlDeviceGetUUID", self._handle)

    @property
    def bus(self) -> str:
        """As 00000000:01:00.0."""
        pci = ctypes.create_string_buffer(_PCI_BYTES)
        self.node.call("nvmlDeviceGetPciInfo_v3", self._handle, pci)
        return pci.raw[_BUS_ID].rstrip(b"\0").decode()

    @property
    def capability(self) -> str:
        """Compute capability, as 9.0."""
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.node.call(
            *("nvmlDeviceGetCudaComputeCapability", self._handle),
            *(ctypes.byref(major), ctypes.byref(minor)),
        )
        return f"{major.value}.{minor.value}"

    def memory_mib(self, place: int) -> str:
        """Total, free or used. What a rank's program uses this process cannot know."""
        if place != 0 and self.node.in_use:
            return _NOT_AVAILABLE
        memory = _Memory()
        self.node.call("nvmlDeviceGetMemoryInfo", self._handle, memory)
        return str(memory[place] >> 20)

    @property
    def nvlinks(self) -> int:
        """How many, all of them to switches."""
        enabled = ctypes.c_int()
        ask = self.node.library.nvmlDeviceGetNvLinkState
        return sum(
            ask(self._handle, link, ctypes.byref(enabled)) == 0 and enabled.value == 1
            for link in range(_NVML_NVLINK_MAX_LINKS)
        )

    def clock_mhz(self, clock: str, which: str = "") -> str:
        """Now, or `which` is Max."""
        answer = ctypes.c_uint()
        name = f"nvmlDeviceGet{which}ClockInfo"
        self.node.call(name, self._handle, _CLOCKS[clock], ctypes.byref(answer))
        return str(answer.value)


Field = tuple[str, Callable[[Gpu], str]]
"""A unit, or none, and how a GPU tells its value."""

_FIELDS: dict[str, Field] = {
    "timestamp": ("", lambda _: time.strftime("%Y/%m/%d %H:%M:%S.000")),
    "driver_version": ("", lambda gpu: gpu.node.driver),
    "count": ("", lambda gpu: str(len(gpu.node.gpus))),
    "index": ("", lambda gpu: str(gpu.index)),
    "name": ("", lambda gpu: gpu.name),
    "uuid": ("", lambda gpu: gpu.uuid),
    "pci.bus_id": ("", lambda gpu: gpu.bus),
    "compute_cap": ("", lambda gpu: gpu.capability),
    "compute_mode": ("", lambda _: "Default"),
    "persistence_mode": ("", lambda _: "Enabled"),
    "display_active": ("", lambda _: "Disabled"),
    "mig.mode.current": ("", lambda _: "Disabled"),
    "mig.mode.pending": ("", lambda _: "Disabled"),
    "memory.total": ("MiB", lambda gpu: gpu.memory_mib(0)),
    "memory.free": ("MiB", lambda gpu: gpu.memory_mib(1)),
    "memory.used": ("MiB", lambda gpu: gpu.memory_mib(2)),
    "memory.reserved": ("MiB", lambda _: "0"),
}
_FIELDS |= {
    f"clocks.{kind}{clock}": ("MHz", partial(Gpu.clock_mhz, clock=clock, which=which))
    for clock in _CLOCKS
    for kind, which in (("", ""), ("current.", ""), ("max.", "Max"))
}
# No sensor is simulated (csrc/shim/nvml/sensors.cc).
_FIELDS |= {
    name: (unit, lambda _: _NOT_AVAILABLE)
    for unit, names in {
        "": ("pstate", "temperature.gpu", "temperature.memory", "serial", "ecc.mode.current"),
        "%": ("fan.speed", "utilization.gpu", "utilization.memory"),
        "W": ("power.draw", "power.draw.average", "power.draw.instant", "power.limit"),
    }.items()
    for name in names
}
_ALIASES = {"gpu_name": "name", "gpu_uuid": "uuid", "gpu_bus_id": "pci.bus_id"}
# Of processes none is listed, as in a container.
_APPS = ("timestamp", "gpu_name", "gpu_bus_id", "gpu_uuid", "pid", "process_name", "name")
_APPS_MIB = ("used_memory", "used_gpu_memory")


def query(gpus: list[Gpu], names: list[str], options: set[str]) -> None:
    """Prints the fields of each GPU. Raises: SmiError for one that is not known."""
    fields = [_FIELDS.get(_ALIASES.get(name, name)) for name in names]
    known = [field for field in fields if field is not None]
    if len(known) < len(fields):
        raise SmiError(f'the field "{names[fields.index(None)]}" is not known here.')
    units = [unit if "nounits" not in options else "" for unit, _ in known]
    _print_header(names, units, options)
    for gpu in gpus:
        print(", ".join(_cell(ask(gpu), unit) for unit, (_, ask) in zip(units, known, strict=True)))


def _cell(value: str, unit: str) -> str:
    if value == _NOT_AVAILABLE:
        return f"[{value}]"
    return f"{value} {unit}".rstrip()


def _print_header(names: list[str], units: list[str], options: set[str]) -> None:
    if "noheader" not in options:
        titles = [f"{n} [{u}]" if u else n for n, u in zip(names, units, strict=True)]
        print(", ".join(titles))


def query_processes(names: list[str], options: set[str]) -> None:
    """Prints the header of a table without rows. Raises: SmiError."""
    for name in names:
        if name not in (*_APPS, *_APPS_MIB):
            raise SmiError(f'the field "{name}" is not known here.')
    shows = "nounits" not in options
    _print_header(names, ["MiB" if name in _APPS_MIB and shows else "" for name in names], options)


def _row(left: str, middle: str, right: str) -> str:
    return f"|{left:<41}|{middle:>23} |{right:>21} |"


def print_table(node: Node, gpus: list[Gpu]) -> None:
    """What nvidia-smi prints unasked."""
    cells = ("-" * 41, "-" * 24, "-" * 22)
    line, whole = f"+{'+'.join(cells)}+", f"+{'-' * 89}+"
    title = f" NVIDIA-SMI {node.driver:<22} Driver Version: {node.driver:<14} "
    print(time.strftime("%a %b %d %H:%M:%S %Y"))
    print(whole, f"|{title + 'CUDA Version: ' + node.cuda:<89}|", f"|{'+'.join(cells)}|", sep="\n")
    print(
        _row(f"{' GPU  Name':<27}Persistence-M", "Bus-Id          Disp.A", "Volatile Uncorr. ECC")
    )
    print(_row(f"{' Fan  Temp   Perf':<27}Pwr:Usage/Cap", "Memory-Usage", "GPU-Util  Compute M."))
    print(_row("", "", "MIG M."))
    print(f"|{'+'.join(cells).replace('-', '=')}|")
    for gpu in gpus:
        used, total = gpu.memory_mib(2), gpu.memory_mib(0)
        used = used if used == _NOT_AVAILABLE else f"{used}MiB"
        print(_row(f" {gpu.index:>3}  {gpu.name:<26.26} {'On':>6}", f"{gpu.bus:<16} Off", "N/A"))
        power, load = f" N/A  N/A    N/A{'N/A / N/A':>24}", f"N/A{'Default':>12}"
        print(
            _row(power, f"{used} / {total:>6}MiB", load), _row("", "", "Disabled"), line, sep="\n"
        )
    print("", whole, f"|{' Processes: none is listed':<89}|", whole, sep="\n")


def print_topology(gpus: list[Gpu]) -> None:
    """How each pair of GPUs is joined: NVLinks, or one host whose PCIe switches are not told."""
    names = [f"GPU{gpu.index}" for gpu in gpus]
    print("", *names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID", sep="\t")
    processors = f"0-{(os.cpu_count() or 1) - 1}"
    for gpu, name in zip(gpus, names, strict=True):
        way = f"NV{gpu.nvlinks}" if gpu.nvlinks else "NODE"
        ways = [" X " if other is gpu else way for other in gpus]
        print(name, *ways, processors, _NOT_AVAILABLE, _NOT_AVAILABLE, sep="\t")
    print("\nLegend:\n", "  X    = Self", "  NODE = PCIe within a NUMA node", sep="\n")
    print("  NV#  = a bonded set of # NVLinks")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise SmiError(f"{message}. {self.format_usage().strip()}")


def _parse(words: list[str]) -> argparse.Namespace:
    parser = _Parser(prog="nvidia-smi", allow_abbrev=False, description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("-L", "--list-gpus", action="store_true")
    parser.add_argument("-i", "--id", metavar="GPU,...", help="numbers, UUIDs or bus ids")
    parser.add_argument("--query-gpu", metavar="FIELD,...")
    parser.add_argument("--query-compute-apps", metavar="FIELD,...")
    parser.add_argument("--format", metavar="csv[,noheader][,nounits]")
    options = parser.parse_args(words)
    formats = set(_split(options.format or ""))
    asks = options.query_gpu or options.query_compute_apps
    if (asks and "csv" not in formats) or formats - {"csv", "noheader", "nounits"}:
        parser.error("a query takes --format=csv[,noheader][,nounits]")
    options.format = formats
    return options


def _split(words: str) -> list[str]:
    return [word.strip() for word in words.split(",") if word.strip()]


def _chosen(node: Node, names: str | None) -> list[Gpu]:
    if names is None:
        return node.gpus
    by_name = {key: gpu for gpu in node.gpus for key in (str(gpu.index), gpu.uuid, gpu.bus)}
    missing = [name for name in _split(names) if name not in by_name]
    if missing:
        raise SmiError(f"no devices were found: {missing[0]}.")
    return [by_name[name] for name in _split(names)]


def main() -> int:
    """As NVIDIA's own, exit code 2 for what it cannot do."""
    words = sys.argv[1:]
    try:
        if words[:1] == ["topo"]:
            if words[1:] not in (["-m"], ["--matrix"]):
                raise SmiError("of `topo` it knows -m.")
            print_topology(Node().gpus)
            return 0
        options = _parse(words)
        node = Node()
        gpus = _chosen(node, options.id)
        if options.list_gpus:
            for gpu in gpus:
                print(f"GPU {gpu.index}: {gpu.name} (UUID: {gpu.uuid})")
        elif options.query_gpu:
            query(gpus, _split(options.query_gpu), options.format)
        elif options.query_compute_apps:
            query_processes(_split(options.query_compute_apps), options.format)
        else:
            print_table(node, gpus)
    except SmiError as error:
        print(f"nvidia-smi of a simulated node: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
