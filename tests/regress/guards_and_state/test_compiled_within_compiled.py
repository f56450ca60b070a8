"""What a compiled function, a compiled Module or a scripted method reads counts as state of a compiled function that
calls it: these are objects of weft's own, and what they call was taken for made in the call, so that no guard saw a
flag, a buffer or an item that changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft import nn


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.k = 2
        self.register_buffer("b", weft.ones(1))

    def forward(self, x: weft.Tensor) -> weft.Tensor:
        if self.training:
            x = x * 2
        return x * self.k * self.b


class Configured(Scaled):
    def __init__(self) -> None:
        super().__init__()
        self.settings = {"a": 1.0}

    def forward(self, x: weft.Tensor) -> weft.Tensor:
        return super().forward(x) * self.settings["a"]


FORMS: dict[str, Callable[[Any], Any]] = {
    "module": weft.compile,
    "method": lambda m: weft.compile(m.forward),
    "split": lambda m: weft.compile(m.forward, split=True),
    "twice": lambda m: weft.compile(weft.compile(m)),
    "scripted method": lambda m: m.forward,
    "script compiled": lambda m: weft.compile(m.forward),
}


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("form", list(FORMS))
def test_what_it_reads_may_change(form: str, split: bool) -> None:
    is_scripted = form.startswith("script")
    module: Any = weft.jit.script(Scaled()) if is_scripted else Configured()
    inner = FORMS[form](module)
    for outer in (weft.compile(inner, split=split), weft.compile(lambda x: inner(x), split=split)):
        module.settings = {"a": 1.0}
        for training, k, b, a in ((True, 2, 1.0, 1.0), (False, 2, 1.0, 1.0), (True, 3, 1.0, 2.0), (True, 3, 2.0, 2.0),
                                  (False, 4, 2.0, 3.0)):
            module.train(training)
            module.k, module.b, module.settings["a"] = k, weft.full((1,), b), a
            assert outer(weft.ones(1)).item() == (2 if training else 1) * k * b * (1.0 if is_scripted else a)
