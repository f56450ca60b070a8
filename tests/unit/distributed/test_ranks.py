"""Ranks that compute together, as processes of mpiexec: all checks in one session, a rank that is killed, and
exit codes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import weft
from weft.distributed import checkpoint

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
CHECKS = ("collectives", "gradients", "parallel")

mpi4py = pytest.importorskip("mpi4py", reason="mpi4py is not installed (pip install 'weft[mpi]')")


def run(ranks: int, *script: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "weft.distributed.run", "-n", str(ranks), *options, *script]
    return subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def session() -> subprocess.CompletedProcess[str]:
    return run(2, str(HERE / "ranks.py"), *CHECKS)


@pytest.mark.parametrize("module", CHECKS)
def test_every_rank_passes_every_check(session: subprocess.CompletedProcess[str], module: str) -> None:
    checks = [line[4:].split("(")[0] for line in (HERE / f"{module}.py").read_text().splitlines()
              if line.startswith("def check_")]
    lines = session.stdout.splitlines()
    missing = [f"[{rank}] {check}" for rank in (0, 1) for check in checks if f"[{rank}] {check} ok" not in lines]
    assert checks and not missing, session.stdout + session.stderr
    assert session.returncode == 0, session.stderr


KILLED = """
import os, signal, sys
import weft, weft.distributed as dist
from weft.distributed import checkpoint
dist.init_process_group()
x = weft.full((1000,), float(dist.get_rank()))
dist.all_reduce(x)
def killed(descriptor):
    os.kill(os.getpid(), signal.SIGKILL)
for step in range(1000):
    if step == 3 and dist.get_rank() == 1:
        os.fsync = killed  # its share is written by half: in the middle of a save
    checkpoint.save({"x": x + step, "step": step}, checkpoint_id=sys.argv[1])
    dist.all_reduce(x, dist.ReduceOp.AVG)
"""
SIZES = {
    "steps": 3, "batch": 4, "blocks": 1, "width": 16, "heads": 2, "context": 16, "mode": "eager", "prompt": "a",
}
LEAVES = """
import sys, time
import weft.distributed as dist
dist.init_process_group()
if dist.get_rank() == 1:
    sys.exit(7)
time.sleep(200)
"""


def test_a_killed_rank_is_named_and_the_last_checkpoint_is_whole(tmp_path: Path) -> None:
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    # far below the time-out of half an hour, for which nobody waits
    done = run(3, str(script), str(tmp_path / "saved"))
    assert done.returncode == 128 + 9, done.stderr
    for rank in (0, 2):
        lines = [line for line in done.stderr.splitlines() if line.startswith(f"[{rank}]")]
        errors = [line for line in lines if "DistBackendError: barrier" in line]
        assert any("rank 1 (process" in line and "is gone" in line for line in errors), done.stderr


    state = {"x": weft.zeros(1000), "step": -1}
    checkpoint.load(state, checkpoint_id=tmp_path / "saved")
    assert state["step"] == 2 and state["x"].tolist() == [3.0 + 2] * 1000


def test_the_demo_trains_in_ranks_as_in_one_process(tmp_path: Path) -> None:
    sizes = [f"--{name}={value}" for name, value in SIZES.items()]
    text = tmp_path / "text"
    text.write_text("All work and no play makes Jack a dull boy. " * 40)
    checkpoints = []
    for ranks in ("1", "2"):
        out = tmp_path / ranks
        options = ["--data", str(text), "--out", str(out), "--ranks", ranks]
        done = subprocess.run(
            [sys.executable, "-m", "weft", "train", *sizes, *options], cwd=ROOT, env=ENVIRONMENT, capture_output=True,
            text=True, timeout=120,
        )
        assert done.returncode == 0, done.stderr
        checkpoints.append(load_file(out / "checkpoint.safetensors"))
    one, two = checkpoints
    assert one.keys() == two.keys()
    for name in one:
        np.testing.assert_allclose(one[name], two[name], rtol=1e-4, atol=2e-5, err_msg=name)


def test_the_exit_code_is_of_the_first_that_fails_and_the_others_are_ended(tmp_path: Path) -> None:
    script = tmp_path / "leaves.py"
    script.write_text(LEAVES)
    done = run(2, str(script), options=("--grace", "0.5"))
    assert done.returncode == 7 and "rank 1 failed (exit code 7)" in done.stderr, done.stderr
