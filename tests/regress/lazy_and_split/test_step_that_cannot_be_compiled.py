"""A lazy step for which no program may be made has its values; factories give tensors that are no views."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import weft
from weft import lazy
from weft.lazy.programs import Plan


def test_values_are_there_where_no_program_may_be_made():
    x = weft.ones(3, device="lazy") + 1
    lazy.mark_step()
    y = (x * 3.7).cos().tan()
    part = y[1:]
    part.add_(1)
    with lazy.no_recompile(), pytest.raises(RuntimeError, match="no_recompile"):
        lazy.mark_step()
    wanted = (weft.full((3,), 7.4).cos().tan() + weft.tensor([0.0, 1, 1])).tolist()
    assert part.tolist() == pytest.approx(wanted[1:]) and y.tolist() == pytest.approx(wanted)


@pytest.mark.parametrize("make", [
    lambda: weft.rand(3, 4, device="lazy"), lambda: weft.randn(2, 3, 2, device="lazy"),
    lambda: weft.rand_like(weft.ones(2, 2, device="lazy")), lambda: weft.randint(0, 5, (2, 3), device="lazy"),
    lambda: weft.empty(2, 3, device="lazy").normal_(), lambda: weft.eye(3, device="lazy"),
])
def test_what_a_factory_makes_is_no_view(make):
    made = make()
    assert not made._is_view() and made[0]._base is made
    assert "reshape_scatter" not in lazy.debug.dump_ir([made[0].add_(1)])
    made.detach_()


def test_copies_have_public_names():
    x = weft.arange(6.0).view(2, 3)
    assert weft.slice_copy(x, 1, 0, 2).tolist() == [[0, 1], [3, 4]]
    weft.alias_copy(x).zero_()
    assert x.sum().item() == 15


def test_a_thread_reads_what_another_one_asks_for(monkeypatch):
    """A value whose program is being made has no bytes yet: who reads it waits."""
    x = weft.full((3,), 2.0, device="lazy")
    x[1:].add_(5)
    found: list[object] = []

    def read() -> None:
        try:
            found.append(x.tolist())
        except BaseException as problem:
            found.append(problem)

    reader = threading.Thread(target=read)

    def program(*args: Any) -> Any:
        if reader.ident is None:
            reader.start()
            reader.join(0.05)
        return made(*args)

    made = Plan.program
    monkeypatch.setattr(Plan, "program", program)
    lazy.mark_step()
    reader.join()
    assert found == [[2, 7, 7]]
