"""Eight model families train to PyTorch's stored losses and weights: in eager mode, as compiled steps, as split ones,
and as lazy tensors, whose step is compiled at most three times: the first one makes the optimizer's state.

scripts/make_torch_families.py stored the numbers. A run of the suite computes programs node by node, for which nothing
is compiled to native code; WEFT_FAMILIES=native has them compiled.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.training.families import FAMILIES, Outcome, run
from weft import lazy
from weft.support.knobs import knobs

STORED = Path(__file__).parent / "data" / "torch_families.npz"
MODES = {
    "eager": {}, "compiled": {"wrap": weft.compile}, "lazy": {"device": "lazy", "after": lazy.mark_step},
    "split": {"wrap": lambda step: weft.compile(step, split=True)},
}


@pytest.fixture(scope="module")
def stored() -> dict[str, Outcome]:
    """PyTorch's outcome of each family."""
    with np.load(STORED) as file:
        arrays = dict(file)
    return {
        name: Outcome(arrays[f"{name}/losses"], {
            key.partition("/")[2]: value for key, value in arrays.items()
            if key.startswith(f"{name}/") and not key.endswith("/losses")
        })
        for name in FAMILIES
    }


@pytest.fixture(autouse=True)
def nothing_traced(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if os.environ.get("WEFT_FAMILIES") != "native":
        monkeypatch.setattr(knobs, "backend", "interpret")
    lazy.reset()
    lazy.metrics.reset()
    yield
    lazy.reset()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", FAMILIES)
def test_losses_and_weights_are_pytorch_s(stored: dict[str, Outcome], name: str, mode: str) -> None:
    outcome, wanted = run(FAMILIES[name], weft, **MODES[mode]), stored[name]
    np.testing.assert_allclose(outcome.losses, wanted.losses, rtol=1e-8, atol=1e-10)
    assert outcome.tensors.keys() == wanted.tensors.keys()
    for key, value in outcome.tensors.items():
        np.testing.assert_allclose(value, wanted.tensors[key], rtol=1e-6, atol=1e-9, err_msg=key)
    if mode == "lazy":
        assert not [c for c in lazy.metrics.counter_names() if c.startswith("aten::")]
        assert (lazy.metrics.counter_value("UncachedCompile") or 0) <= 3
