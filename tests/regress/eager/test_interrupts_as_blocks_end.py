"""An interrupt that comes as a block of a mode ends, before its `__exit__` has done anything: functions whose blocks
are weft's own leave the modes of the thread as they were. (Of a `with` statement of the caller nobody can say so.)"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft.layers.transforms.level import Level
from weft.tensor.modes import modes

X = weft.ones(3)


def doubled(x: weft.Tensor) -> weft.Tensor:
    return x * 2


def with_gradient() -> weft.Tensor:
    p = weft.ones(3, requires_grad=True)
    p.grad = weft.ones(3)
    return p


PARAMETER = with_gradient()
LINEAR = weft.nn.Linear(3, 3)
CALLS: dict[str, Callable[[], Any]] = {
    "no_grad": lambda: weft.no_grad()(doubled)(X), "set_grad_enabled": lambda: weft.set_grad_enabled(False)(doubled)(X),
    "inference_mode": lambda: weft.inference_mode()(doubled)(X),
    "autocast": lambda: weft.autocast("cpu", dtype=weft.bfloat16)(doubled)(X),
    "zero_grad": lambda: weft.optim.SGD([PARAMETER], 0.1).zero_grad(set_to_none=False),
    "clip_grad_norm_": lambda: weft.nn.utils.clip_grad_norm_([PARAMETER], 0.5),
    "init": lambda: weft.nn.init.normal_(LINEAR.weight), "vmap": lambda: weft.vmap(doubled)(X),
    "grad": lambda: weft.func.grad(lambda x: doubled(x).sum())(X), "jacrev": lambda: weft.func.jacrev(doubled)(X),
    "jvp": lambda: weft.func.jvp(doubled, (X,), (X,)), "vjp": lambda: weft.func.vjp(doubled, X)[1](X),
    "jacfwd of jacrev": lambda: weft.func.jacfwd(weft.func.jacrev(doubled))(X),
    "compiled vmap": lambda: weft.compile(weft.vmap(doubled))(X),
    "step": lambda: weft.optim.SGD([PARAMETER], 0.1).step(),
    "backward": lambda: (PARAMETER * 2).sum().backward(),
}
BLOCKS = (weft.no_grad, weft.enable_grad, weft.set_grad_enabled, weft.inference_mode, weft.autocast, Level)


def now() -> tuple[Any, ...]:
    return modes.grad, modes.inference, modes.special, modes.capture, modes.autocast


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("skipped", range(4))
def test_modes_are_as_they_were(name: str, skipped: int, monkeypatch: pytest.MonkeyPatch) -> None:
    before, ends = now(), [0]

    for block in BLOCKS:
        def interrupted(self: Any, *error: Any, exit_: Any = block.__exit__) -> Any:
            ends[0] += 1
            if ends[0] == skipped + 1:
                raise KeyboardInterrupt
            return exit_(self, *error)

        monkeypatch.setattr(block, "__exit__", interrupted)
    try:
        CALLS[name]()
    except KeyboardInterrupt:
        pass
    finally:
        after = now()
        modes.grad, modes.inference, modes.special, modes.capture, modes.autocast = before
    assert after == before


def test_a_call_that_returns_sets_what_it_sets() -> None:
    @weft.no_grad()
    def set_within() -> None:
        weft.set_grad_enabled(True)

    set_within()
    assert weft.is_grad_enabled()


def test_one_object_around_blocks_of_its_own() -> None:
    block = weft.no_grad()
    with weft.enable_grad():
        with block:
            with weft.enable_grad(), block:
                assert not weft.is_grad_enabled()
            assert not weft.is_grad_enabled()
        assert weft.is_grad_enabled()
    inference = weft.inference_mode()
    with inference, weft.inference_mode(False), inference:
        assert weft.is_inference_mode_enabled()
    assert not weft.is_inference_mode_enabled() and modes.special is None
