"""What a launcher says about this process in its environment: mpiexec, SLURM's srun, torchrun, weft.distributed.run."""

from __future__ import annotations

import os
from dataclasses import dataclass

LAUNCHER = "WEFT_RUN"  # set below weft.distributed.run: where rank_process.py finds it; in a rank, that there is one
_VARIABLES = (  # launcher, its variables of the rank and of the number of ranks
    ("mpiexec", "PMI_RANK", "PMI_SIZE"),
    ("mpiexec", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    ("torchrun", "RANK", "WORLD_SIZE"),
)


@dataclass(frozen=True)
class Launched:
    """How this process was started: its rank among `size` ranks, and by what."""

    launcher: str
    rank: int
    size: int


def read_launched() -> Launched | None:
    """What the environment says; None for a process that no launcher started."""
    for launcher, rank, size in _VARIABLES:
        if os.environ.get(rank, "").isdecimal() and os.environ.get(size, "").isdecimal():
            return Launched(launcher, int(os.environ[rank]), int(os.environ[size]))
    return None
