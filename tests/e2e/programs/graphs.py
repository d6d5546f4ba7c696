"""A step of training, eager or as a CUDA graph; gradients are averaged inside the capture."""

import sys

import torch
import torch.distributed as dist

STEPS = 4


def main(mode: str) -> None:
    """Trains for some steps and says what a counter is to which all ranks add."""
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64)
    ).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), capturable=True)
    data = torch.randn(32, 64, device="cuda")
    counter = torch.ones(2, device="cuda")
    beside = torch.cuda.Stream()

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        model(data).square().mean().backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        beside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(beside):
            data @ data.T
        torch.cuda.current_stream().wait_stream(beside)
        dist.all_reduce(counter)
        optimizer.step()

    warm_up = torch.cuda.Stream()
    with torch.cuda.stream(warm_up):
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    run = step
    if mode == "graph":
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        run = graph.replay
    counter.fill_(1.0)
    for _ in range(STEPS):
        run()
        torch.cuda.synchronize()
    print(f"rank {dist.get_rank()}: counter {counter.tolist()}")
    dist.destroy_process_group()


def spoil() -> None:
    """A synchronisation inside a capture is refused, and the program goes on."""
    graph = torch.cuda.CUDAGraph()
    data = torch.ones(8, device="cuda")
    try:
        with torch.cuda.graph(graph):
            data.mul_(2)
            torch.cuda.synchronize()
    except torch.AcceleratorError as error:
        print(str(error).splitlines()[0])
    print("after it", (torch.ones(2, device="cuda") + 1).tolist())


if __name__ == "__main__":
    spoil() if sys.argv[1] == "spoil" else main(sys.argv[1])
