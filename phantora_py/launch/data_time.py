"""`--data-time`: what a batch takes to be loaded, checked."""

from phantora_py.launch.layout import RunLayout
from phantora_py.rank.loader_time import LoaderTime
from sim_server.cluster import Cluster
from sim_server.cluster.units import parse_ns
from sim_server.errors import UsageError


def choose_data_time(text: str | None, cluster: Cluster, layout: RunLayout) -> LoaderTime | None:
    """None if it was not given. Raises: UsageError if it is no time, or none at all."""
    if text is None:
        return None
    try:
        batch_ns = parse_ns(text)
    except ValueError as error:
        raise UsageError(f"--data-time {text}: {error}.") from error
    if batch_ns == 0:
        raise UsageError(f"--data-time {text}: leave it out if loading takes no time.")
    return LoaderTime(batch_ns, cluster.host.cores, layout.ranks_per_node)
