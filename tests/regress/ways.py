"""The ways of running a function of one tensor whose results lie alike in memory."""

from __future__ import annotations

from collections.abc import Callable

import weft

Program = Callable[[weft.Tensor], weft.Tensor]
WAYS: dict[str, Callable[[Program, weft.Tensor], weft.Tensor]] = {
    "eager": lambda f, x: f(x),
    "meta": lambda f, x: f(x.to("meta")),
    "functionalized": lambda f, x: weft.func.functionalize(f)(x),
    "lazy": lambda f, x: f(x.to("lazy")),
    "compiled": lambda f, x: weft.compile(f)(x),
}
