"""One rank that fills host tensors in many ways and prints what it finds."""

from __future__ import annotations

import copy
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

SIDE = 1024  # 4 MiB of fp32, large
DIRECTORY = Path(sys.argv[1])


def resident_mib() -> float:
    """Memory that this process has for itself."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty")) / 1024


def sums(*tensors: Any) -> list[float]:
    """What a look at all values shows."""
    return [float(tensor.detach().double().sum()) for tensor in tensors]


class Model(nn.Module):  # type: ignore[misc]
    """Parameters above and below the threshold."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(8 * SIDE, SIDE)
        self.attention = nn.MultiheadAttention(SIDE, 8)
        self.linear = nn.Linear(4 * SIDE, SIDE)


def initialise(module: Any) -> None:
    """As models of Hugging Face do, and models of timm."""
    if isinstance(module, nn.Embedding):
        module.weight.data.normal_(mean=0.0, std=0.02)
    elif isinstance(module, nn.Linear):
        nn.init.trunc_normal_(module.weight, std=0.02)


def unasked() -> dict[str, Any]:
    """Tensors that nobody looks at, 30 MiB and more at a time, and the memory that they take."""
    taken = {}
    before_mib = resident_mib()

    def note(name: str) -> None:
        taken[name] = resident_mib() - before_mib

    model = Model().apply(initialise)
    nn.init.constant_(model.linear.weight, 0.0)
    nn.init.normal_(model.linear.weight)
    note("constructed")
    twin = copy.deepcopy(model)
    note("copied")
    twin.load_state_dict(model.state_dict())
    note("loaded")
    twin.to(torch.bfloat16)
    note("cast")
    staged = [parameter.data.pin_memory() for parameter in model.parameters()]
    note("pinned")
    drawn = [torch.randn(8 * SIDE, SIDE), torch.rand(8 * SIDE, SIDE), torch.zeros(8 * SIDE, SIDE)]
    note("drawn")
    del staged, drawn
    model.cuda()
    note("moved")
    return taken


def exact() -> dict[str, Any]:
    """Values that every program may rely on."""
    dirty = torch.full((SIDE, SIDE), 7.0).zero_()
    overwritten = torch.randn(SIDE, SIDE)
    overwritten.copy_(torch.ones(SIDE, SIDE))
    touched = torch.zeros(SIDE, SIDE)
    touched[3] = 5.0
    clone = touched.clone()
    with torch.device("cuda"):  # where new tensors of the program come to lie, not ours
        on_host = torch.ones(3, device="cpu") * 2
    columns = torch.zeros(SIDE, 2 * SIDE)
    columns[-1] = 1.0
    columns[:, :SIDE].zero_()
    part = nn.init.normal_(torch.ones(2, SIDE, SIDE)[0])
    return {
        "zeroed": sums(dirty, torch.zeros(SIDE, SIDE)),
        "overwritten": sums(overwritten, touched, clone, clone.to(torch.bfloat16)),
        "columns": sums(columns),
        "neighbour": sums(part._base[1]),
        "constant": sums(torch.ones(SIDE, SIDE)),
        "integers": bool(torch.randint(1, 9, (SIDE, SIDE)).min() > 0),
        "not around zero": bool(torch.empty(SIDE, SIDE).uniform_(1.0, 2.0).min() >= 1.0),
        "number": sums(torch.ones(SIDE, SIDE).copy_(torch.tensor(2.0)), on_host),
    }


def copies_of_written() -> list[list[float]]:
    """What was written into a tensor that was left, and sums, as its copies have them."""
    written = torch.randn(SIDE, SIDE).t()
    written[1:3, 500] = 2.0
    written[700, 800:] = 3.0
    copies = [
        *(written.clone(), written.to(torch.bfloat16), written.t()[:600].clone().t()),
        *(written.contiguous(), copy.deepcopy(written)),
    ]
    return [sums(one[1:3, 500], one[700, 800:], one) for one in copies]


def decided() -> list[Any]:
    """What random numbers decide, and what else is known of them."""
    many = SIDE * SIDE
    state = torch.get_rng_state()
    numbers = torch.rand(SIDE, SIDE)
    numbers[3, :2] = torch.tensor([2.0, 3.0])
    copies = [copy.deepcopy(numbers), numbers.to(torch.float64)]
    counts = [int((one < 0.25).sum()) for one in (numbers, *copies)]
    torch.set_rng_state(state)
    again = torch.rand(SIDE, SIDE)
    order = torch.rand(many).argsort()
    return [
        *(abs(count / many - 0.25) < 0.01 for count in counts),
        *(one[3, :2].tolist() == [2.0, 3.0] for one in (numbers, *copies)),
        # The pages around what was written are what they were.
        *(bool((one == numbers)[6:].all()) for one in copies),
        bool(((again < 0.25) == (numbers < 0.25))[6:].all()),
        bool((order.sort().values == torch.arange(many)).all() and order[0] != order[1] - 1),
        torch.rand(many).argmax().item() != torch.rand(many).argmax().item(),
        len(set(torch.randn(many).long().tolist())) > 5,
        abs(int(torch.rand(many).bernoulli().sum()) / many - 0.5) < 0.01,
    ]


def errors() -> list[str]:
    """What is wrong stays wrong."""
    found = []
    calls: list[Callable[[], object]] = [
        lambda: torch.randn(SIDE, SIDE).normal_(0.0, -1.0),
        lambda: torch.zeros(SIDE, SIDE, dtype=torch.int32).normal_(),
        lambda: torch.zeros(SIDE, SIDE).copy_(torch.randn(2 * SIDE, SIDE)),
        lambda: torch.randn(SIDE, SIDE, requires_grad=True).normal_(),
    ]
    for wrong in calls:
        try:
            wrong()
        except (RuntimeError, NotImplementedError) as error:
            found.append(type(error).__name__)
    return found


def checkpoint() -> dict[str, Any]:
    """A file that is loaded, looked at, and then overwritten."""
    path = DIRECTORY / "checkpoint.pt"
    torch.save({"large": torch.full((8 * SIDE, SIDE), 3.0), "small": torch.full((9,), 4.0)}, path)
    before_mib = resident_mib()
    loaded = torch.load(path)
    torch.randn(8 * SIDE, SIDE).copy_(loaded["large"])
    taken_mib = resident_mib() - before_mib
    seen = sums(loaded["large"][:2])
    path.write_bytes(b"")
    return {"seen": seen, "small": sums(loaded["small"]), "taken_mib": taken_mib}


def drawn_in_child() -> bool:
    """Whether a child of the rank, such as a data loader's worker, gets random numbers."""
    child = os.fork()
    if child == 0:
        os._exit(int(bool(torch.randn(SIDE, SIDE).abs().max() > 0)))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


def main() -> None:
    """Print everything as JSON."""
    torch.manual_seed(1)
    found: dict[str, Any] = {
        "small": sums(nn.Linear(64, 64).weight, torch.randn(100), torch.rand(100)),
        "unasked": unasked(),
        "checkpoint": checkpoint(),
        "exact": exact(),
        "copies": copies_of_written(),
        "decided": decided(),
        "errors": errors(),
        "child": drawn_in_child(),
        "small, later": sums(torch.randn(100)),
    }
    weights = torch.randn(SIDE, SIDE)  # looked at
    found["item"] = weights[2, 2].item()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
