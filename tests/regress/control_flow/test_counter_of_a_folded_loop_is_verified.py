"""WEFT_CHECK refused a folded loop whose iterations compute with a number that grows evenly: an operator element by
element on integers."""

from __future__ import annotations

import weft


def counted(x: weft.Tensor) -> weft.Tensor:
    for i in range(10):
        x = (x + i).sin() + weft.randn(3)
    return x


def test_it_is_verified() -> None:
    results = []
    for fold in ("all", "off"):
        weft.manual_seed(3)
        with weft.knobs(fold=fold, check=2):
            step = weft.compile(counted)
            results.append(step(weft.ones(3)).numpy().tobytes())
            assert bool(weft.explain(step, weft.ones(3)).programs[0].loops) is (fold == "all")
    assert results[0] == results[1]
