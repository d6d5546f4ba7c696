"""The network at flow level: links, routes, max-min fair rates, and flows as events in virtual
time."""

from sim_server.network.flows import Batch, Demand, FlowNetwork
from sim_server.network.folding import Fold
from sim_server.network.link_use import LinkUse
from sim_server.network.maxmin import max_min_rates
from sim_server.network.replicas import Replicas
from sim_server.network.topology import Gpu, Link, Topology

__all__ = [
    "Batch",
    "Demand",
    "FlowNetwork",
    "Fold",
    "Gpu",
    "Link",
    "LinkUse",
    "Replicas",
    "Topology",
    "max_min_rates",
]
