"""Anomaly mode that is switched on between two calls names the NaN of a captured backward, as in eager mode."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import weft


@pytest.fixture(autouse=True)
def off_again() -> Iterator[None]:
    yield
    weft.autograd.set_detect_anomaly(False)


def step(x: weft.Tensor) -> weft.Tensor:
    w = x.detach().requires_grad_()
    return weft.autograd.grad(((w * 0).sqrt() * 0).sum(), w)[0]


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.filterwarnings("ignore:Error detected")
def test_each_call_goes_by_the_mode_of_its_time(split: bool) -> None:
    compiled = weft.compile(step, split=split)
    for is_on in (False, True, False, True):
        weft.autograd.set_detect_anomaly(is_on)
        if is_on:
            with pytest.raises(RuntimeError, match=r"returned nan values|\.py:\d+: aten::div.Tensor gives NaN"):
                compiled(weft.ones(3))
        else:
            assert compiled(weft.ones(3)).isnan().all()
