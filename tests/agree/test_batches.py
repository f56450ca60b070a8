"""Random layers trained on batches whose size changes from call to call, empty ones and single rows among them:
compiled steps do what eager steps do.

Where eager refuses a batch, so does the compiled step, with an error of the same kind, and what both left
behind is the same."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from tests.agree.width import times
from weft import Tensor, nn
from weft.nn import functional as F

WIDTH = 4
LAYERS: tuple[Callable[[], nn.Module], ...] = (
    lambda: nn.Linear(WIDTH, WIDTH), lambda: nn.BatchNorm1d(WIDTH), lambda: nn.BatchNorm1d(WIDTH, momentum=None),
    lambda: nn.BatchNorm1d(WIDTH, affine=False), lambda: nn.LayerNorm(WIDTH), lambda: nn.GroupNorm(2, WIDTH),
    lambda: nn.GroupNorm(WIDTH, WIDTH), nn.Tanh, nn.GELU, lambda: nn.Softmax(0),
    lambda: nn.Softmax(-1), lambda: nn.LogSoftmax(0),
)
ENDS: tuple[Callable[[Tensor], Tensor], ...] = (
    lambda y: y.square().mean(), lambda y: y.sum(), lambda y: y.amax(0).sum(), lambda y: y.max(),
    lambda y: y.logsumexp(0).sum(), lambda y: y.std(0).sum(), lambda y: y.median(), lambda y: y.topk(2, 0)[0].sum(),
    lambda y: y[y > 0].max(), lambda y: (y - y[y.argmax(0)[0]]).square().sum(),
    lambda y: F.cross_entropy(y, weft.zeros(y.shape[0], dtype=weft.int64)), lambda y: y.diff(dim=0).square().sum(),
    lambda y: F.glu(y, 0).sum(),
)


def make_step(layers: nn.Module, end: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    optimizer = weft.optim.SGD(layers.parameters(), lr=0.05, momentum=0.5) if list(layers.parameters()) else None

    def step(x: Tensor) -> Tensor:
        if optimizer is not None:
            optimizer.zero_grad()
        loss = end(layers(x))
        if loss.requires_grad:
            loss.backward()
        if optimizer is not None:
            optimizer.step()
        return loss.detach()

    return step


def outcome(step: Callable[[Tensor], Tensor], x: Tensor) -> Any:
    try:
        return step(x).numpy()
    except weft.WeftError as problem:
        return problem


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", ["numpy", "llvm", "interpret"])
def test_steps_over_batches_of_any_size(rng: np.random.Generator, backend: str) -> None:
    for _ in range(times(6)):
        chosen = [int(i) for i in rng.integers(len(LAYERS), size=int(rng.integers(1, 5)))]
        end = int(rng.integers(len(ENDS)))
        mine = nn.Sequential(*(LAYERS[i]() for i in chosen))
        theirs = copy.deepcopy(mine)
        eager, compiled = make_step(mine, ENDS[end]), weft.compile(make_step(theirs, ENDS[end]), backend=backend)
        sizes = [int(n) for n in rng.choice([0, 1, 2, 3, 5], size=7)]
        for at, n in enumerate(sizes):
            before = copy.deepcopy(mine.state_dict())
            x = weft.from_numpy(rng.uniform(-1, 1, (n, WIDTH)).astype(np.float32))
            expected, found = outcome(eager, x), outcome(compiled, x)
            where = f"layers {chosen}, end {end}, call {at} of sizes {sizes}"
            if isinstance(expected, Exception):
                kinds = [k for k in type(expected).__mro__ if k in (RuntimeError, ValueError, IndexError)]
                assert all(isinstance(found, k) for k in kinds), f"{where}: {found!r}, eager {expected!r}"
                # eager may have counted the batch before it refused it; a compiled step leaves everything as it was
                mine.load_state_dict(before)
            else:
                assert not isinstance(found, Exception), f"{where}: {found!r}, eager {expected!r}"
                np.testing.assert_allclose(found, expected, 2e-4, 2e-5, err_msg=where)
            for (name, a), b in zip(mine.state_dict().items(), theirs.state_dict().values(), strict=True):
                np.testing.assert_allclose(b.numpy(), a.numpy(), 2e-4, 2e-5, err_msg=f"{where}: {name}")
