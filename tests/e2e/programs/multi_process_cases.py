"""A suite of PyTorch's own kind: each test starts two processes, which are ranks; one fails."""

import torch
import torch.distributed as dist
from torch.testing._internal.common_distributed import MultiProcessTestCase


class TwoProcesses(MultiProcessTestCase):  # type: ignore[misc]
    """Test methods run in the processes."""

    @property
    def world_size(self) -> int:
        """Of each test."""
        return 2

    def setUp(self) -> None:
        """Starts them."""
        super().setUp()
        self._spawn_processes()

    def _init(self) -> None:
        torch.cuda.set_device(self.rank)
        store = dist.FileStore(self.file_name, self.world_size)
        dist.init_process_group("nccl", store=store, rank=self.rank, world_size=self.world_size)

    def test_sum(self) -> None:
        """Of values that are known."""
        self._init()
        ones = torch.full((4,), float(self.rank + 1), device="cuda")
        dist.all_reduce(ones)
        assert ones.cpu().tolist() == [3.0] * 4
        dist.destroy_process_group()

    def test_gathering(self) -> None:
        """Beside another group, which ends first."""
        self._init()
        group = dist.new_group([0, 1])
        parts = torch.zeros(2, device="cuda")
        own = torch.full((1,), float(self.rank), device="cuda")
        dist.all_gather_into_tensor(parts, own, group=group)
        assert parts.tolist() == [0.0, 1.0]
        dist.destroy_process_group(group)
        dist.destroy_process_group()

    def test_that_fails(self) -> None:
        """In one of them."""
        self._init()
        assert self.rank == 0
