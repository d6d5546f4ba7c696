"""Refuses mpi4py where a launcher of MPI has promised it several ranks.

There is no MPI library underneath a simulated mpirun or srun: each rank would find itself alone,
and go on.
"""

from __future__ import annotations

import os
from types import ModuleType

_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")


def refuse_alone(mpi: ModuleType) -> None:
    """`mpi`: mpi4py.MPI. Raises: RuntimeError if it has fewer ranks than its launcher has said."""
    ranks = max(int(os.environ.get(name, "1")) for name in _SIZES)
    found = mpi.COMM_WORLD.Get_size()
    if found < ranks:
        raise RuntimeError(
            f"mpi4py finds {found} rank of {ranks}: there is no MPI library underneath simulated "
            "ranks. Let the program communicate by torch.distributed; a rank's place is in the "
            "variables of its launcher (OMPI_COMM_WORLD_RANK, PMI_RANK, SLURM_PROCID)."
        )
