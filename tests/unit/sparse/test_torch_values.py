"""Random programs and training loops with sparse tensors give what PyTorch gives (make_torch_values.py)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from tests.unit.sparse.programs import COUNT, OPTIMIZERS, Program, rows_of, table_of

STORED = json.loads(Path(__file__).with_name("torch_values.json").read_text())


@pytest.fixture(autouse=True)
def double() -> Iterator[None]:
    before = weft.get_default_dtype()
    weft.set_default_dtype(weft.float64)
    yield
    weft.set_default_dtype(before)


def test_random_programs() -> None:
    assert len(STORED["programs"]) == COUNT
    for seed, facts in STORED["programs"].items():
        program = Program(weft, int(seed))
        result, where = program.run(), f"program {seed}, {program.kind}: {' > '.join(program.names)}"
        assert (result["layout"], result["sizes"]) == (facts["layout"], facts["sizes"]), where
        np.testing.assert_allclose(result["value"], facts["value"], 1e-6, 1e-6, err_msg=where)
        assert ("gradients" in result) == ("gradients" in facts), where
        for ours, theirs in zip(result.get("gradients", ()), facts.get("gradients", ()), strict=True):
            size = max(len(ours), len(theirs))  # none is as good as zeros
            np.testing.assert_allclose(
                ours or [0] * size, theirs or [0] * size, 1e-6, 1e-6, err_msg=f"{where}, gradients"
            )


WAYS = [
    *[(i, "eager") for i in range(len(OPTIMIZERS))], *[(i, "compile") for i in (0, 1, 2, 5, 8)],
    *[(i, how) for how in ("split", "compiled autograd", "lazy") for i in (0, 7)],
]


@pytest.mark.parametrize(("i", "how"), WAYS)
def test_sparse_gradients_move_tables(i: int, how: str) -> None:
    name, options = OPTIMIZERS[i]
    with weft.device("lazy" if how == "lazy" else "cpu"):
        table, step = table_of(weft, name, options)
        losses = _compiled(step, how == "split") if how in ("compile", "split") else _called(step, how)
    np.testing.assert_allclose(losses, STORED["steps"][i]["losses"], 1e-6)
    np.testing.assert_allclose(table.weight.detach().cpu().numpy().ravel(), STORED["steps"][i]["weight"], 1e-6, 1e-7)


def _called(step: Any, how: str) -> list[float]:
    with weft.compiled_autograd.enable() if how == "compiled autograd" else nullcontext():
        return [float(step(rows_of(weft, i))) for i in range(4)]


def _compiled(step: Any, is_split: bool) -> list[float]:
    """The losses; two calls at most are captured (the first step of SGD with dampening is a program of its own)."""
    before = weft.counters.captures
    program = weft.compile(step, split=is_split)
    losses = [float(program(rows_of(weft, i))) for i in range(4)]
    assert weft.counters.captures - before <= 2
    return losses
