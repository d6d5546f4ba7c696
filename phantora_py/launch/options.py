"""What the user asked `phantora run` for."""

from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from sim_server.access import Tls
from sim_server.processes.executor import ANSWER_LIMIT_S

AUTO_HOST_TIME = "auto"
HOST_TIMES = ("fixed", "measured", "recorded", "counted", "off", AUTO_HOST_TIME)
HOST_TENSORS = ("lazy", "real")
UNSUPPORTED = ("stop", "error", "warn")


@dataclass(frozen=True)
class RunOptions:
    """The options of one run; `phantora_py.cli.run` fills them from the command line."""

    command: tuple[str, ...]
    """The words after `--`."""
    script: int | None = None
    """The process of the script that has called the launcher of `command`."""
    cluster: str = "h100"
    """A built-in name or the path of a TOML file."""
    ranks: int | None = None
    nodes: int | None = None
    gpus_per_node: int | None = None
    gpus: int | None = None
    """Of one node, for a program that starts its own ranks."""
    fold: str | None = None
    """How many ranks to run, or the folded dimensions of `mesh`; None: all run."""
    mesh: str | None = None
    """The grid that ranks form, `dp=4,tp=8`, outermost dimension first."""
    apart: str | None = None
    """Ranks that are a class of their own, `0,1000-1023`, or coordinates, `dp=0`."""
    fold_searches: bool = False
    """The first run of `--fold auto`, see `runs.fold_search`."""
    witnesses: int | None = None
    """How many ranks run beside those to see whether they do the same; None: a few."""
    output: Path | None = None
    """The data file; None: named after the program and the time, in `directory`."""
    directory: Path = Path()
    """The one in which `phantora run` was started, as seen from the one in which the command is."""
    host_time: str = AUTO_HOST_TIME
    """One of HOST_TIMES."""
    host_gaps: Path | None = None
    """The data file of a measured run, whose gaps `recorded` replays."""
    host_samples: bool = False
    """Of a measured run: count what is timed."""
    execution_trace: Path | None = None
    """Where each rank's operators go, as PyTorch's observer writes them; docs/traces.md."""
    cpu: str | None = None
    """The processor that `counted` is for, see `sim_server.cpu`; None: the cluster's."""
    host_tensors: str = "lazy"
    """One of HOST_TENSORS; docs/decisions/host-memory.md."""
    data_time: str | None = None
    """Processor time that a data loader's batch takes, as in `12 ms`; docs/host-time.md."""
    expert_load: str = "uniform"
    """`uniform`, `zipf:S` or a file of weights; docs/decisions/small-operations.md."""
    lookups: Path | None = None
    """Embedding tables with the statistics of their lookups; docs/recommendation.md."""
    unsupported: str = "stop"
    """One of UNSUPPORTED; docs/decisions/unsupported-calls.md."""
    isolation: str = "auto"
    """`auto`, `process` or `require:TIER`."""
    backend: str = "native"
    """What starts ranks: phantora itself, or an engine of containers; see `isolation.backend`."""
    network: str = "own"
    """`own`: a network of the simulated nodes' own, where permitted; `host`: this machine's."""
    read_only: bool = False
    """Ranks write to no files but those below `writable` and where every program may."""
    writable: tuple[Path, ...] = ()
    """Directories, for `read_only`."""
    zygote: bool = True
    """Fork ranks from one process where the command permits it."""
    json: bool = False
    """Print the summary as JSON, and nothing else, on the standard output."""
    min_trust: float | None = None
    """Least share of GPU time, 0 to 1, whose times must not be merely assumed."""
    strict: bool = False
    """Fail on any doubt about the iteration time, see `report.trust`."""
    accepted_reads: tuple[str, ...] = ()
    """FILE:LINE where `strict` lets unknown values be read."""
    values_threshold_bytes: int = 64 * 1024
    """Copies and collectives up to this size move real data."""
    cache: Path | None = None
    """A timing cache."""
    gpu: bool = False
    """Measure on this machine's GPU what `cache` lacks, and keep it there."""
    executor: str | None = None
    """The command that measures (sim_server/processes/executor.py); None: PyTorch on this GPU."""
    executor_limit_s: float = ANSWER_LIMIT_S
    """For one signature; after that it counts as hung."""
    server: str | None = None
    """Address of a running `phantora serve`; None: start a server for this run."""
    token_file: Path | None = None
    """With the token of `server`; None: PHANTORA_TOKEN has it."""
    tls: Tls | None = None
    """For a server beyond this machine."""
    insecure: bool = False
    """Do without `tls` there."""
    engine: str = "ssh"
    """What starts the agents of other hosts, see `phantora_py.hosts.engines`."""
    hosts: str | None = None
    """Their names, or with Slurm how many there are, ours with them; None: the run has one."""
    hosts_file: Path | None = None
    """Their names, one on a line, in place of `hosts`."""
    listen: str | None = None
    """Address of this host, or HOST:PORT, at which the agents of the others find the server."""
    stall_limit_s: float | None = None
    """The run fails if no rank makes progress for so long; None: never."""
    shown_ranks: frozenset[int] | None = None
    """Ranks whose output is shown; None: all."""
    log_dir: Path | None = None
    """A directory for files of the ranks' output."""
    memory_limit_bytes: int | None = None
    """What the run may take of all its hosts; None: of each all but a margin."""
    memory_kinds: bool = False
    """Also tell what PyTorch's memory is (phantora_py.rank.memory_kinds)."""
    modules: bool = False
    """Also tell for which modules work is issued (phantora_py.rank.modules)."""
    iteration: str | None = None
    """What ends an iteration (sim_server/log/iterations.py); None: that is found out."""
    until_steady: bool = False
    """Stop the ranks once the iteration time has settled (sim_server/log/steady.py)."""
    iterations: int | None = None
    """What the program will do, for the progress line; None: not told."""
    live: bool = False
    """On a terminal show the state of the ranks as a table."""
    quiet: bool = False
    """No headline, progress or summary."""

    def seen_from(self, directory: Path) -> "RunOptions":
        """The same options when the command's directory is another than `directory`, where the
        user has written them: relative paths lead to the same files.
        """
        if Path.cwd() == directory:
            return self
        moved = {one.name: _moved(getattr(self, one.name), directory) for one in fields(self)}
        for name in ("cluster", "expert_load"):  # a name or a path
            if (directory / moved[name]).is_file():
                moved[name] = str(directory / moved[name])
        return replace(self, **moved)


def _moved(value: Any, directory: Path) -> Any:
    """A path, or what holds paths, as seen from everywhere."""
    if isinstance(value, Path):
        return directory / value
    if isinstance(value, tuple):
        return tuple(_moved(one, directory) for one in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(
            value,
            **{one.name: _moved(getattr(value, one.name), directory) for one in fields(value)},
        )
    return value
