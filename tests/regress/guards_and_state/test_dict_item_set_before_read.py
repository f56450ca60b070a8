"""An item that the call puts into an older dict or list is no older state for a frame that reads the whole container
later in the same call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft


class Model:
    """Containers older than the calls."""

    def __init__(self) -> None:
        self.named: dict[str, Any] = {"first": weft.ones(())}
        self.rows = [weft.ones(()), weft.ones(())]

    def latest(self) -> Any:
        return self.named.get("last", 0.0)

    def total(self) -> Any:
        return sum(self.named.values())

    def row_sum(self) -> Any:
        return sum(self.rows)


def with_new_key(x: weft.Tensor, m: Model) -> weft.Tensor:
    m.named["last"] = x.sum()
    return x + m.latest()


def with_old_key(x: weft.Tensor, m: Model) -> weft.Tensor:
    m.named["first"] = x.sum() * 0.5
    return x + m.total()


def with_rows(x: weft.Tensor, m: Model) -> weft.Tensor:
    m.rows[-1] = x.sum() * 0.25
    m.rows[0] = m.rows[-1] + 1
    return x + m.row_sum()


@pytest.mark.parametrize("step", [with_new_key, with_old_key, with_rows])
@pytest.mark.parametrize("split", [False, True])
def test_as_in_eager_mode_over_four_calls(step: Callable[..., weft.Tensor], split: bool) -> None:
    m, expected = Model(), Model()
    compiled = weft.compile(lambda x: step(x, m), split=split)
    for size in (5, 5, 3, 8):
        x = weft.linspace(0, 1, size)
        assert compiled(x).tolist() == pytest.approx(step(x, expected).tolist())
        assert list(m.named) == list(expected.named)
        for key, value in expected.named.items():
            assert m.named[key].item() == pytest.approx(value.item())
        assert [r.item() for r in m.rows] == pytest.approx([r.item() for r in expected.rows])
