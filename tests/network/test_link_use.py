"""How busy links are, and what holds flows up, where it is known by hand."""

from __future__ import annotations

import io
import json
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
import pytest
import simpy

from sim_server.network import Batch, Demand, FlowNetwork, Link, LinkUse
from sim_server.network.link_use import link_class

GB = 10**9
# Two GPUs and their NICs: 0 and 1 go to the NVSwitch, 2 and 3 to the leaf.
LINKS = [
    Link("gpu 0.0", "nvswitch 0", 10 * GB, 0),
    Link("gpu 0.1", "nvswitch 0", 10 * GB, 0),
    Link("nic 0.0", "leaf 0", 5 * GB, 0),
    Link("nic 0.1", "leaf 0", 5 * GB, 0),
]
NV, NIC = "NVLink", "NIC"
MS = 10**6
Row = tuple[int, int, dict[str, list[Any]]]


def run(starts: Sequence[tuple[int, Sequence[Demand]]]) -> tuple[list[Row], list[Batch]]:
    """What was noted of demands, each list started at its own time; and their batches."""
    env = simpy.Environment()
    use = LinkUse(LINKS)
    network = FlowNetwork(env, [link.capacity_bytes_per_s for link in LINKS], use=use)
    batches: list[Batch] = []

    def start(at_ns: int, demands: Sequence[Demand]) -> Generator[simpy.Event, Any, None]:
        yield env.timeout(at_ns)
        batches.append(network.start(demands))

    for at_ns, demands in starts:
        env.process(start(at_ns, demands))
    env.run()
    return noted(use), batches


def noted(use: LinkUse) -> list[Row]:
    """Taken in two parts."""
    pieces = [*use.take(100 * MS), *use.take(1 << 60)]
    loads = [load for name, text in pieces if name.endswith("json") for load in json.loads(text)]
    arrays = [np.load(io.BytesIO(text)) for name, text in pieces if name.endswith("npy")]
    return [(begin, end, loads[load]) for rows in arrays for begin, end, load in rows.tolist()]


def test_links_that_are_used_alike() -> None:
    """They are one row, as the images of a folded group are, if they are so for as long."""
    alike, _ = run([(0, [Demand((0,), GB)]), (0, [Demand((1,), GB)])])
    assert alike == [(0, 100 * MS, {NV: [1.0, 1.0, "gpu 0.0 to nvswitch 0"]})]
    apart, _ = run([(0, [Demand((0,), GB)]), (0, [Demand((1,), 2 * GB)])])
    assert apart == [
        (0, 100 * MS, {NV: [0.5, 1.0, "gpu 0.0 to nvswitch 0"]}),
        (0, 200 * MS, {NV: [0.5, 1.0, "gpu 0.1 to nvswitch 0"]}),
    ]


def test_a_flow_alone() -> None:
    """It fills its link, which is half of its class."""
    rows, (batch,) = run([(5, [Demand((0,), GB)])])
    assert rows == [(5, 100 * MS + 5, {NV: [0.5, 1.0, "gpu 0.0 to nvswitch 0"]})]
    assert batch.limit == NV


def test_a_flow_that_is_capped() -> None:
    """No link is full, so it is not a link that it takes its time for."""
    rows, (batch,) = run([(0, [Demand((1, 3), GB, 2 * GB)])])
    expected = {NV: [0.1, 0.2, "gpu 0.1 to nvswitch 0"], NIC: [0.2, 0.4, "nic 0.1 to leaf 0"]}
    assert rows == [(0, 500 * MS, expected)]
    assert batch.limit == "channels"


def test_the_narrowest_link_of_a_path() -> None:
    """The other has room."""
    rows, (batch,) = run([(0, [Demand((0, 2), GB)])])
    expected = {NV: [0.25, 0.5, "gpu 0.0 to nvswitch 0"], NIC: [0.5, 1.0, "nic 0.0 to leaf 0"]}
    assert rows == [(0, 200 * MS, expected)]
    assert batch.limit == NIC


def test_flows_that_share_a_link() -> None:
    """Each change of rates begins a stretch; a load that comes again is in the table once."""
    rows, batches = run([(0, [Demand((0,), GB)]), (50 * MS, [Demand((0,), GB / 4)])])
    full = {NV: [0.5, 1.0, "gpu 0.0 to nvswitch 0"]}
    assert rows == [(0, 50 * MS, full), (50 * MS, 100 * MS, full), (100 * MS, 125 * MS, full)]
    assert [batch.limits_ns for batch in batches] == [{NV: 125 * MS}, {NV: 50 * MS}]


def test_flows_that_share_nothing() -> None:
    """They are rows of their own."""
    rows, _ = run([(0, [Demand((0,), GB), Demand((1,), GB / 2)])])
    one, other = ({NV: [0.5, 1.0, f"gpu 0.{number} to nvswitch 0"]} for number in (0, 1))
    assert sorted(rows, key=lambda row: row[1]) == [(0, 50 * MS, other), (0, 100 * MS, one)]


def test_what_holds_up_may_change() -> None:
    """First half of the NIC's room, then all of it: what took longest counts."""
    rows, batches = run(
        [(0, [Demand((0, 2), GB, 4 * GB)]), (50 * MS, [Demand((1, 2), 2 * GB)])],
    )
    assert batches[0].limits_ns.keys() == {"channels", NIC}
    assert batches[0].limit == NIC
    assert rows[0] == (
        *(0, 50 * MS),
        {NV: [0.2, 0.4, "gpu 0.0 to nvswitch 0"], NIC: [0.4, 0.8, "nic 0.0 to leaf 0"]},
    )


def test_flows_that_stand_for_others() -> None:
    """Four flows of which two go over each link of a class count as the four."""
    rows, _ = run([(0, [Demand((0,), GB / 2, flows_on_link=(2,), flows=4)])])
    assert rows == [(0, 100 * MS, {NV: [1.0, 1.0, "gpu 0.0 to nvswitch 0"]})]


@pytest.mark.parametrize(
    ("source", "target", "name"),
    [
        *(("gpu 0.3", "nvswitch 0", NV), ("gpu 0.3", "nic 0.3", "PCIe")),
        *(("gpu 0.3", "pcie 0.1", "PCIe"), ("pcie 0.1", "host 0", "PCIe")),
        *(("memory 0", "gpu 0.3", "PCIe"), ("host 0", "memory 0", "PCIe")),
        *(("nic 0.3", "leaf 1.3", NIC), ("rail 3", "nic 0.3", NIC)),
        *(("core", "leaf 1", "leaf uplink"), ("leaf 1", "spine 2", "leaf uplink")),
        *(("edge 0.1", "aggregation 0.0", "switch link"), ("a", "b", "switch link")),
    ],
)
def test_classes(source: str, target: str, name: str) -> None:
    """Of links of any fabric, whichever way they go."""
    assert link_class(Link(source, target, GB, 0)) == name
    assert link_class(Link(target, source, GB, 0)) == name


@pytest.mark.parametrize("size_bytes", [0.0, GB])
def test_batches_of_a_network_that_is_not_watched(size_bytes: float) -> None:
    """Nothing is known of what held them up."""
    env = simpy.Environment()
    batch = FlowNetwork(env, [GB]).start([Demand((0,), size_bytes)])
    env.run()
    assert batch.limit == ""
