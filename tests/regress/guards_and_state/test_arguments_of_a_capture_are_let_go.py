"""A program kept the arguments of the call that it was captured in (a batch, however large) for as long as it lived."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft.nn import functional as F

CASES: dict[str, Callable[..., Any]] = {
    "result": lambda x, y, net: (net(x) - y).sum(),
    "views": lambda x, y, net: (x[1:], y.t()),
    "arguments": lambda x, y, net: (x, y),
    "written": lambda x, y, net: y.mul_(2).add_(x.detach()),
    "mask": lambda x, y, net: x[y > 0].sum(),
    "gradient": lambda x, y, net: weft.autograd.grad((x * y).sin().sum(), x)[0],
    "step": lambda x, y, net: F.mse_loss(net(x), y).backward(),
    "loop": lambda x, y, net: [x := x * y for _ in range(12)][-1],
    "vmap": lambda x, y, net: weft.func.vmap(lambda a, b: a @ b)(x, y),
    "list": lambda x, y, net: [x * y, x],
}


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("in_list", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_nothing_of_a_call_stays(case: str, in_list: bool, split: bool) -> None:
    net = weft.nn.Sequential(weft.nn.Linear(3, 3), weft.nn.BatchNorm1d(3))
    body = CASES[case]
    step = weft.compile(lambda pair: body(*pair, net) if in_list else body(pair, pair + 1, net), split=split)
    refs = []
    for size in (4, 5, 5, 6):
        x, y = weft.randn(size, 3, requires_grad=case in ("result", "gradient")), weft.randn(size, 3)
        out = step([x, y] if in_list else x)
        if case == "result":
            out.backward()
        refs += [weakref.ref(t) for t in (x, y)]
        del x, y, out
        net.zero_grad(set_to_none=True)
    gc.collect()
    assert [ref() is None for ref in refs] == [True] * len(refs)
