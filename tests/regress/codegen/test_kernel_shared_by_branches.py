"""A kernel that several blocks call: defined once, and there for each, also where one of the blocks runs in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft import Tensor
from weft.codegen.emit import I64, Module, const
from weft.utils import pytree


def _square(x: Tensor) -> Tensor:
    return x @ x


def _chosen(c: Tensor, a: Tensor) -> Any:
    return weft.cond(c, _square, lambda a: a.t() @ a, (a,))


def _repeated(c: Tensor, a: Tensor, b: Tensor) -> Any:
    def body(i: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return i + 1, _chosen(c, x) / 2

    return weft.while_loop(lambda i, x: i < 3, body, (weft.tensor(0), a)), _square(b)


def _in_rows(c: Tensor, a: Tensor, b: Tensor) -> Any:
    def step(state: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        following = weft.cond(c, lambda s: s @ s / 2, lambda s: s.t() @ s / 2, (state,))
        return following, (following @ row).sum()

    return weft.scan(step, a, b), _square(b)


def _batched(c: Tensor, a: Tensor, b: Tensor) -> Any:
    rows = a.expand(3, *a.shape)
    return weft.cond(c, lambda r: r @ r, lambda r: r.mT @ r, (rows,)), b.expand(3, *b.shape) @ b.expand(3, *b.shape)


def _nested(c: Tensor, a: Tensor, b: Tensor) -> Any:
    return weft.cond(c, lambda a: weft.cond(a.sum() > 4, _square, lambda a: a.t() @ a, (a,)), lambda a: b @ b, (a,))


PROGRAMS: dict[str, Callable[..., Any]] = {
    "a branch, then outside": lambda c, a, b: (_chosen(c, a), _square(b)),
    "outside, then a branch": lambda c, a, b: (_square(b), _chosen(c, a)),
    "two branches": lambda c, a, b: (_chosen(c, a), _chosen(c, b)),
    "a branch in a branch": _nested, "a loop": _repeated, "a scan": _in_rows, "batches": _batched,
}  # fmt: skip


@pytest.mark.parametrize("options", [{}, {"split": True}], ids=["whole", "split"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_products_of_a_matrix_with_itself_in_blocks(name: str, options: dict[str, Any]) -> None:
    function = PROGRAMS[name]
    compiled = weft.compile(function, **options)
    for size, takes in ((2, True), (3, False), (3, True), (2, False)):
        args = (weft.tensor(takes), weft.rand(size, size), weft.rand(size, size))
        expected, results = (pytree.tree_leaves(f(*args)) for f in (function, compiled))
        for one, other in zip(expected, results, strict=True):
            weft.testing.assert_close(other, one)


def test_a_module_keeps_what_its_entries_call() -> None:
    module = Module()
    innermost = module.function("innermost", I64)
    innermost.ret(const(I64, 1))
    inner = module.function("inner", I64)
    inner.ret(inner.call(innermost.signature, []))
    outer = module.function("outer", I64)
    outer.ret(outer.call(inner.signature, []))
    alone = module.function("alone", I64)
    alone.ret(alone.call(innermost.signature, []))
    module.keep(["inner"])
    assert list(module.functions) == ["innermost", "inner"]
