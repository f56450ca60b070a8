"""Indices out of bounds in captured programs: an error with the user's line, whatever would read or write with them,
and state as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft

BACKENDS = ("interpret", "numpy", "llvm")
BAD = (3, -4, 100, -(2**40), 2**63 - 1)
READS: dict[str, Callable[[weft.Tensor, weft.Tensor], Any]] = {
    "one place": lambda x, i: x[i],
    "a place of the last dim": lambda x, i: x[..., i],
    "a view of a view": lambda x, i: x[1:].mT[i],
    "a write to a place": lambda x, i: x.clone().index_put((i,), weft.tensor(2.0)),
    "a write to a view": lambda x, i: write(x.clone(), i),
    "a sum of a view": lambda x, i: x[i].sum(),
    "a list": lambda x, i: x[i[None].expand(4)],
    "index_select": lambda x, i: x.index_select(1, i[None]),
    "gather": lambda x, i: x.gather(0, i.expand(1, 3)),
    "scatter_add": lambda x, i: x.scatter_add(1, i.expand(3, 1), x),
}


def write(x: weft.Tensor, i: weft.Tensor) -> weft.Tensor:
    view = x[i]
    view.add_(1)
    return x


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", READS)
def test_reads_and_writes(name: str, backend: str) -> None:
    x, read = weft.arange(9.0).view(3, 3), READS[name]
    compiled = weft.compile(read, backend=backend)
    for good in (1, 2, 0):
        assert compiled(x, weft.tensor(good)).tolist() == read(x, weft.tensor(good)).tolist()
    for bad in BAD:
        with pytest.raises(IndexError):
            compiled(x, weft.tensor(bad))
        with pytest.raises(IndexError):
            read(x, weft.tensor(bad))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_step_that_fails_changes_nothing_and_names_its_line(backend: str) -> None:
    w = weft.ones(3, 2, requires_grad=True)
    steps = weft.zeros(())

    def step(i: weft.Tensor) -> weft.Tensor:
        steps.add_(1)
        (w[i] * 2).sum().backward()  # the line that is named
        with weft.no_grad():
            w.sub_(w.grad)
        return w[i].clone()

    compiled = weft.compile(step, backend=backend)
    compiled(weft.tensor(-1))
    before = w.tolist(), w.grad.tolist(), steps.item()
    with pytest.raises(IndexError) as caught:
        compiled(weft.tensor(7))
    assert "test_index_out_of_bounds.py" in str(caught.value)
    assert (w.tolist(), w.grad.tolist(), steps.item()) == before


WRITES: dict[str, Callable[[weft.Tensor, weft.Tensor], Any]] = {
    "index_put_": lambda x, i: x.index_put_((i,), x[:2].clone()),
    "index_add_": lambda x, i: x.index_add_(0, i, x[:2].clone()),
    "index_copy_": lambda x, i: x.index_copy_(0, i, x[:2].clone()),
    "index_fill_": lambda x, i: x.index_fill_(1, i, 3.0),
    "scatter_": lambda x, i: x.scatter_(0, i.view(2, 1), 3.0),
    "two of them": lambda x, i: (x.index_fill_(0, i - i, 3.0), x[1:].index_fill_(0, i, 3.0)),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", WRITES)
def test_a_write_in_place_that_fails_has_written_nothing(name: str, backend: str) -> None:
    x, compiled = weft.arange(12.0).view(4, 3), weft.compile(WRITES[name], backend=backend)
    compiled(x, weft.tensor([1, 0]))
    before = x.tolist()
    for bad in ([0, 4], [4, 0], [1, 100]):
        with pytest.raises(IndexError):
            compiled(x, weft.tensor(bad))
        assert x.tolist() == before
