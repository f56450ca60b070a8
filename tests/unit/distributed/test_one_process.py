"""A group of one process, for which no MPI is needed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

import weft
import weft.distributed as dist
from weft.distributed.launched import Launched, read_launched
from weft.distributed.peers import Peers

VARIABLES = (
    "PMI_RANK", "PMI_SIZE", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "RANK", "WORLD_SIZE",
)


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def alone() -> Iterator[None]:
    dist.init_process_group("gloo", timeout=timedelta(seconds=5))
    yield
    dist.destroy_process_group()


def test_questions_before_there_is_a_group() -> None:
    assert not dist.is_initialized() and dist.group.WORLD is None and not dist.is_nccl_available()
    with pytest.raises(ValueError, match="init_process_group"):
        dist.get_rank()
    with pytest.raises(RuntimeError, match="make groups"):
        dist.ProcessGroup()
    with pytest.raises(ValueError, match="no backend 'nccl'"):
        dist.init_process_group("nccl")
    with pytest.raises(ValueError, match="world_size=2"):
        dist.init_process_group(world_size=2, rank=0)
    assert not dist.is_initialized()


@pytest.mark.usefixtures("alone")
def test_collectives_of_one() -> None:
    assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (0, 1, "mpi")
    x, y = weft.arange(4.0), weft.empty(4)
    dist.all_reduce(x, dist.ReduceOp.AVG)
    work = dist.all_gather_into_tensor(y, x, async_op=True)
    assert work is not None and work.is_completed() and y.tolist() == x.tolist() == [0.0, 1.0, 2.0, 3.0]
    dist.reduce_scatter(y, [x + 1])
    dist.all_to_all_single(x, y)
    out = [weft.empty(4)]
    dist.gather(x, out)
    dist.scatter(y, [x * 2])
    assert out[0].tolist() == [1.0, 2.0, 3.0, 4.0] and y.tolist() == [2.0, 4.0, 6.0, 8.0]
    values = [None]
    dist.all_gather_object(values, {"a": 1})
    dist.barrier()
    assert values == [{"a": 1}]
    with pytest.raises(ValueError, match="this rank itself"):
        dist.send(x, 0)


@pytest.mark.usefixtures("alone")
def test_a_write_is_seen_by_autograd() -> None:
    w = weft.ones(3, requires_grad=True)
    h = w * 2
    out = (h * h).sum()
    dist.all_reduce(h)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


@pytest.mark.parametrize("variables, launched", [
    ({"PMI_RANK": "1", "PMI_SIZE": "3"}, Launched("mpiexec", 1, 3)),
    ({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2"}, Launched("srun", 0, 2)),
    ({"RANK": "2", "WORLD_SIZE": "4"}, Launched("torchrun", 2, 4)), ({"RANK": "2"}, None),
])
def test_what_launchers_say(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], launched: Launched | None
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert read_launched() == launched


def test_ranks_that_mpi_does_not_know_are_refused(tmp_path: Path) -> None:
    script = "import weft.distributed as d\ntry: d.init_process_group()\nexcept RuntimeError as e: print(e)"
    done = subprocess.run(
        [sys.executable, "-c", script], env={"RANK": "0", "WORLD_SIZE": "2", "PATH": "/usr/bin:/bin"},
        cwd=Path(__file__).parents[3], capture_output=True, text=True,
    )
    assert "torchrun started 2 ranks" in done.stdout, done.stderr
    assert "weft[mpi]" in done.stdout or "weft.distributed.run -n 2" in done.stdout


def test_peers_that_ended_are_noticed() -> None:
    import os
    import socket

    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    here = socket.gethostname()
    peers = Peers(0, [(here, os.getpid()), (here, process.pid), ("elsewhere", 1)])
    assert peers.gone() == [] and f"rank 1 (process {process.pid} on {here})" == peers.name(1)
    process.kill()
    process.wait()
    assert peers.gone() == [1]
    peers.close()
