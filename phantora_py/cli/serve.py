"""`phantora serve`: runs only the simulation server, for agents elsewhere."""

import argparse
import os
import shlex
import sys
from pathlib import Path

from phantora_py.cli.access import add_access_arguments, chosen_tls
from phantora_py.launch.gpu import executor_command, open_cache
from phantora_py.launch.limits import require_server_addresses, require_server_processes
from sim_server.access import Endpoint
from sim_server.access.offer import Offer
from sim_server.access.tokens import VARIABLE, make_token_file, take_token
from sim_server.cluster import load_cluster
from sim_server.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `phantora serve`."""
    parser.add_argument(
        "--listen",
        default="127.0.0.1:50051",
        metavar="ADDRESS",
        help="where agents connect: unix:PATH or HOST:PORT; default: 127.0.0.1:50051, which only "
        "this machine can reach",
    )
    parser.add_argument(
        "--agents", type=int, default=1, metavar="N", help="number of hosts that will join"
    )
    parser.add_argument(
        "--cluster",
        default="h100",
        metavar="NAME|FILE",
        help="the cluster to simulate; agents must ask for the same; default: h100",
    )
    parser.add_argument(
        "--cache",
        type=Path,
        metavar="FILE",
        help="file of measured kernel times, see `phantora cache`",
    )
    parser.add_argument(
        "--gpu",
        action="store_true",
        help="measure kernels that the --cache lacks on this machine's GPU, and add them to it",
    )
    parser.add_argument(
        "--executor",
        metavar="COMMAND",
        help="with --gpu: the command that measures (sim_server/processes/executor.py says how it "
        "is called); default: PyTorch on this GPU",
    )
    add_access_arguments(parser.add_argument_group("who may join"))


def run(options: argparse.Namespace) -> int:
    """Serves one run; returns its exit code."""
    from sim_server.service import MAX_AGENTS, serve  # noqa: PLC0415 - it loads the engine

    if not 1 <= options.agents <= MAX_AGENTS:
        raise UsageError(f"--agents takes a number from 1 to {MAX_AGENTS}.")
    require_server_addresses()
    require_server_processes()
    offer = _offer(options)
    if options.token_file is not None and not options.token_file.exists():
        make_token_file(options.token_file)
    token = take_token(options.token_file, os.environ)
    if token is None:
        raise UsageError(
            "A server needs a token, which its agents show: --token-file FILE, which is made if "
            f"new, or the variable {VARIABLE}."
        )
    endpoint = Endpoint.of(options.listen, token, chosen_tls(options), options.insecure)
    print(f"phantora serve on {options.listen}, cluster {offer.cluster.name}", file=sys.stderr)
    return serve(endpoint, options.agents, offer)


def _offer(options: argparse.Namespace) -> Offer:
    """Raises: UsageError for what cannot be simulated or measured with."""
    cluster = load_cluster(options.cluster)
    if options.executor is not None and not options.gpu:
        raise UsageError("--executor says what measures for --gpu, which was not given.")
    if options.gpu and options.cache is None:
        raise UsageError(
            "--gpu needs --cache FILE, where measurements are kept; it is made if new."
        )
    if options.cache is None:
        return Offer(cluster)
    open_cache(options.cache, write=options.gpu)
    executor = None
    if options.gpu:
        words = shlex.split(options.executor) if options.executor else executor_command()
        executor = {"command": words, "origin": "phantora serve --gpu"}
    return Offer(cluster, options.cache.resolve(), executor)
