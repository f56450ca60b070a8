"""A scripted Module under weft.compile: what its program does to lists, dicts and objects that it holds happens once in
each call, and what stands in them is looked at.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional  # noqa: UP035  (what the programs use)

import weft
import weft.jit
from tests.symbols_left import symbols_left
from weft import Tensor, nn


class Counted:
    def __init__(self, n: int) -> None:
        self.n = n
        self.seen: List[int] = [n]  # noqa: UP006

    def bump(self) -> None:
        self.n += 1
        self.seen.append(self.n)


class Holding(nn.Module):
    counted: Counted

    def __init__(self) -> None:
        super().__init__()
        self.items: List[int] = [1]  # noqa: UP006
        self.table: Dict[str, int] = {"a": 1}  # noqa: UP006
        self.rows: List[List[int]] = [[1]]  # noqa: UP006
        self.kept: List[Tensor] = []  # noqa: UP006
        self.counted = Counted(1)
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.items.append(len(self.items))
        self.table["b"] = self.calls
        self.rows[0].append(2)
        self.kept.append(x * 2)
        self.counted.bump()
        self.calls += 1
        return x * self.counted.n + len(self.rows[0])


class Asking(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.items: List[int] = [1]  # noqa: UP006
        self.register_buffer("buffer", weft.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        if bool(x.sum() > 0):
            self.items.append(3)
        held = [self.buffer, x]
        if bool(held[0].sum() > 1):
            x = x + 1
        return x * len(self.items)


class Rebinding(nn.Module):
    """Its tensors are attributes, no buffers; its numbers are made of values."""

    hidden: Optional[Tensor]  # noqa: UP045

    def __init__(self) -> None:
        super().__init__()
        self.hidden = None
        self.mean = weft.zeros(2)
        self.is_positive, self.whole, self.total = False, 1, 0.5
        self.totals = [0.5]

    def forward(self, x: Tensor) -> Tensor:
        before = self.hidden
        if before is not None:
            x = x + before
        self.hidden = x * 2
        self.mean = (self.mean + x) * 0.5
        if self.is_positive:
            x = x * self.total
        self.is_positive = bool(x.sum() > 0)
        self.whole += int(x.sum())
        self.total = float(x.sum())
        self.totals[0] = float(x.max())
        return x + self.whole


def state(module: Any) -> list[Any]:
    kept = [t.tolist() for t in module.kept]
    counted = module.counted
    return [module.items, module.table, module.rows, kept, counted.n, counted.seen, module.calls]


def test_every_call_writes_once() -> None:
    plain, scripted = Holding(), weft.jit.script(Holding())
    compiled = weft.compile(scripted)
    for _ in range(4):
        x = weft.arange(3.0)
        assert compiled(x).tolist() == plain(x).tolist()
        assert state(scripted) == state(plain)


def test_what_hangs_on_values_runs_as_written_once() -> None:
    plain, scripted = Asking(), weft.jit.script(Asking())
    compiled = weft.compile(scripted)
    for sign in (1.0, 1.0, -1.0, 1.0):
        x = weft.ones(2) * sign
        assert compiled(x).tolist() == plain(x).tolist() and scripted.items == plain.items


def test_what_python_writes_is_seen() -> None:
    scripted = weft.jit.script(Asking())
    compiled, x = weft.compile(scripted), -weft.ones(2)
    assert compiled(x).tolist() == [0.0, 0.0]
    scripted.items.append(5)
    x = weft.ones(2) * -3
    assert compiled(x).tolist() == [-4.0, -4.0]


def test_tensors_and_numbers_of_values_are_rebound() -> None:
    """A tensor that was an attribute's before was not looked at, and the new one stayed there as a symbol; a number
    made of values was refused."""
    plain, scripted = Rebinding(), weft.jit.script(Rebinding())
    compiled = weft.compile(scripted)
    for value in (1.0, -2.0, 3.0, 0.5):
        x = weft.ones(2) * value
        assert compiled(x).tolist() == plain(x).tolist()
        assert not symbols_left(scripted)
        for module in (plain, scripted):
            assert module.hidden is not None
        assert scripted.hidden.tolist() == plain.hidden.tolist() and scripted.mean.tolist() == plain.mean.tolist()
        for name in ("is_positive", "whole", "total", "totals"):
            assert getattr(scripted, name) == getattr(plain, name), name
            assert type(getattr(scripted, name)) is type(getattr(plain, name)), name


def test_a_tensor_that_the_user_rebinds_is_seen() -> None:
    scripted = weft.jit.script(Rebinding())
    compiled = weft.compile(scripted)
    for value in (1.0, 5.0):
        scripted.hidden, scripted.mean = weft.ones(2) * value, weft.ones(2) * value
        compiled(weft.ones(2))
        assert scripted.hidden.tolist() == [2 + 2 * value] * 2
        assert scripted.mean.tolist() == [(value + 1 + value) / 2] * 2
