"""A training step ends in the same bits whatever vectors the machine has and however many threads run it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from weft.codegen.target import host_target
from weft.support.errors import ValueProblem
from weft.support.knobs import knobs

STEPS = '''
import hashlib
import numpy as np
import weft
from weft import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.drop = nn.Conv2d(3, 20, 3), nn.BatchNorm2d(20), nn.Dropout(0.2)
        self.rows, self.last = nn.LayerNorm(20), nn.Linear(20, 7)

    def forward(self, x):
        x = self.drop(nn.functional.gelu(self.norm(self.conv(x)))).flatten(2).transpose(1, 2)
        x = self.rows(x) + weft.softmax(x, -1) + weft.softmax(x, 1)
        return self.last(x.mean(1)) + x.var((1, 2), keepdim=False)[:, None]

@weft.compile
def sums(x, dim):
    return weft.stack([x.sum(dim), x.var(dim), x.prod(dim), weft.logsumexp(x, dim)])

conjugates = weft.compile(lambda z: weft.fft.fft(z.conj() * z, dim=0))

for threads in (1, 2, 8):
    weft.set_num_threads(threads)
    weft.manual_seed(3)
    model = Model()
    optimizer = weft.optim.AdamW(model.parameters(), lr=1e-2)

    @weft.compile
    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        return loss

    rng = np.random.default_rng(int({seed}))
    for _ in range(3):
        images = rng.standard_normal((9, 3, 15, 14)).astype(np.float32)
        loss = step(weft.from_numpy(images), weft.from_numpy(rng.integers(0, 7, 9)))
    state = [loss, *model.state_dict().values()]
    signals = weft.from_numpy(rng.standard_normal((19, 2, 90)).astype(np.float32))
    for length in (90, 91, 128):  # by factors, as a convolution, halved
        state += [weft.view_as_real(f(weft.fft.rfft(signals, length))).sum(0) for f in (conjugates, weft.fft.ifft)]
    # short of a block, between blocks, and past several
    for length in (1, 15, 17, 64, 100, 1023, 1025, 2047, 2048, 5000):
        rows = weft.from_numpy(rng.standard_normal((3, length)).astype(np.float32))
        state += [sums(rows, 1), sums(rows.T.contiguous(), 0)]
    print(hashlib.sha256(b"".join(t.detach().numpy().tobytes() for t in state)).hexdigest())
'''

PICKS = '''
import hashlib
import numpy as np
import weft

@weft.compile
def step(x, places):
    picked = x[x > 0.5]
    parts = [*weft.sort(x, 1), *weft.topk(x, 20, 1), *weft.median(x, 0), *x.kthvalue(9, 1)]
    parts += [picked, weft.nonzero(x < -1)]
    parts += [x.cumsum(1), x.cumprod(0), *x.cummax(1), *x.cummin(0), x.masked_scatter(x < 0, picked.repeat(3))]
    parts += [x.scatter_reduce(1, places, x, how) for how in ("sum", "mean", "amin")]
    return [*parts, weft.bincount(places.flatten()), weft.searchsorted(weft.sort(x[0])[0], x)]

for threads in (1, 2, 8):
    weft.set_num_threads(threads)
    rng = np.random.default_rng(int({seed}))
    x = rng.standard_normal((37, 2003)).astype(np.float32)
    x[rng.random(x.shape) < 0.01] = np.nan
    state = step(weft.from_numpy(x), weft.from_numpy(rng.integers(0, 2003, x.shape)))
    print(hashlib.sha256(b"".join(t.numpy().tobytes() for t in state)).hexdigest())
'''


def _bits(level: str, seed: int, cache: Path, script: str = STEPS) -> list[str]:
    env = {**os.environ, "WEFT_CPU": level, "WEFT_BACKEND": "llvm", "WEFT_CACHE": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", script.replace("{seed}", str(seed))], env=env, capture_output=True, text=True,
        timeout=300, check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def _runs(level: str) -> bool:
    try:
        with knobs(cpu=level):
            host_target()
    except ValueProblem:
        return False
    return True


@pytest.mark.skipif(not _runs("x86-64-v4"), reason="the machine has one width of vectors that multiply and add at once")
def test_a_training_step_on_every_machine(rng: np.random.Generator, tmp_path: Path) -> None:
    seed = int(rng.integers(1 << 30))
    narrow, wide = _bits("x86-64-v3", seed, tmp_path), _bits("x86-64-v4", seed, tmp_path)
    assert len(narrow) == 3 and len({*narrow, *wide}) == 1


def test_orderings_picks_and_scans_on_narrow_vectors_too(rng: np.random.Generator, tmp_path: Path) -> None:
    """They multiply and add in order, so that machines without an instruction for both give the same bits."""
    seed = int(rng.integers(1 << 30))
    bits = [b for level in ("x86-64-v2", "native") if _runs(level) for b in _bits(level, seed, tmp_path, PICKS)]
    assert len(bits) >= 3 and len(set(bits)) == 1
