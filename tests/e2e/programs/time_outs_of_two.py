"""Two ranks. Each has a timer; rank 0 waits, at most for a minute, for messages of rank 1.

The second comes too late. Meanwhile watchdogs, heart beats and a loader's threads wake up as often
as they like. Prints a line of JSON per rank, in seconds of virtual time.
"""

import json
import os
import socket
import threading
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

dist.init_process_group("nccl")
rank = dist.get_rank()
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
ones = torch.ones(1024, device="cuda")
store = dist.distributed_c10d._get_default_store()


def meet() -> None:
    dist.all_reduce(ones)
    ones.sum().item()


meet()
start_s = time.monotonic()
told: dict[str, object] = {"rank": rank}


def now_s() -> float:
    return round(time.monotonic() - start_s, 3)


def ring() -> None:
    told["timer"] = now_s()


loader = DataLoader(torch.arange(8), num_workers=1, pin_memory=True, persistent_workers=True)
told["sum"] = int(sum(loader))
timer = threading.Timer(300.0, ring)
timer.start()
if rank == 0:
    listener = socket.create_server(("127.0.0.1", 0))
    store.set("port", str(listener.getsockname()[1]))
    peer, _ = listener.accept()
    peer.settimeout(60.0)
    told["first"] = [peer.recv(10).decode(), now_s()]
    try:
        peer.recv(10)
    except TimeoutError:
        told["too late"] = now_s()
    peer.settimeout(None)
    told["second"] = [peer.recv(10).decode(), now_s()]
else:
    peer = socket.create_connection(("127.0.0.1", int(store.get("port"))))
    time.sleep(20)
    peer.sendall(b"one")
    time.sleep(100)
    peer.sendall(b"two")
meet()
for _ in range(3):
    # Longer than the time-outs of the process group's watchdog (600) and of its monitor (480).
    time.sleep(700)
    meet()
timer.join()
told["end"] = now_s()
for turn in range(dist.get_world_size()):
    dist.barrier()
    if turn == rank:
        print(json.dumps(told), flush=True)
torch.cuda.synchronize()
dist.destroy_process_group()
