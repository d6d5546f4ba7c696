"""The hosts of a run, from its options."""

from collections.abc import Sequence
from contextlib import ExitStack

from phantora_py.hosts.engines import address_for, choose_engine
from phantora_py.isolation.probe import Isolation
from phantora_py.launch.layout import RunLayout
from phantora_py.launch.options import RunOptions
from phantora_py.launch.shares import Hosts, divide
from sim_server.access import Endpoint
from sim_server.errors import UsageError


def choose(
    options: RunOptions, layout: RunLayout, isolation: Isolation, live_ranks: Sequence[int]
) -> Hosts | None:
    """None: the run has one. Raises: UsageError for what cannot be done on several."""
    if options.hosts is None and options.hosts_file is None:
        if options.engine != "ssh":
            raise UsageError(f"--engine {options.engine} starts agents on --hosts; say how many.")
        return None
    if options.gpus is not None:
        raise UsageError(
            "--gpus is for a program of one simulated node, which stays whole on one host; leave "
            "it or --hosts out."
        )
    refused = {
        "--server": options.server is not None,
        "--gpu": options.gpu,
        f"--backend {options.backend}": options.backend != "native",
    }
    for name, is_given in refused.items():
        if is_given:
            raise UsageError(f"{name} is for a run on one host; leave it or --hosts out.")
    if not isolation.own_network:
        raise UsageError(
            "On several hosts the simulated nodes need a network of their own, and there is none: "
            f"{isolation.reason or '--network host was given'}. See: phantora doctor"
        )
    engine = choose_engine(options.engine)
    with ExitStack() as stack:
        stack.callback(engine.close)
        names = engine.choose(options.hosts, options.hosts_file)
        if len(names) == 1:
            return None
        shares = divide(names, layout, live_ranks)
        address = address_for(names, options.listen)
        Endpoint.of(address, "-", options.tls, options.insecure)
        stack.pop_all()  # the hosts are held from here on
    return Hosts(tuple(shares), address, engine)
