"""After a step was captured, every change that its Python can see must show in the next call:
compiled and eager twins stay equal."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import weft
from weft import Tensor, nn
from weft.compile.driver import CompiledFunction
from weft.nn import functional as F

SCALE = [1.0]
OFFSET = 0.5


@dataclass
class Config:
    gain: float = 1.5


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 6), nn.Linear(6, 3)
        self.drop = nn.Dropout(0.0)
        self.norm = nn.LayerNorm(6)
        self.act: nn.Module = nn.ReLU()
        self.temperature = 0.7
        self.config = Config()
        self.options = {"shift": 0.25}

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.drop(self.act(self.norm(self.first(x))))
        return self.second(hidden) * self.temperature * self.config.gain + OFFSET + self.options["shift"]


class Twin:
    """A model with its optimizer and step. `calls` of the step are the same for the eager and the compiled one."""

    def __init__(self, state: dict[str, Any], compiled: bool) -> None:
        self.model = Model()
        self.model.load_state_dict(state)
        self.opt = weft.optim.AdamW(
            [{"params": self.model.first.parameters()}, {"params": self.model.second.parameters()}], lr=0.01
        )
        self.log: list[int] = []
        self.step: Callable[[Tensor, Tensor], Tensor] = self._step()
        if compiled:
            self.step = CompiledFunction(self.step, backend="interpret")

    def _step(self) -> Callable[[Tensor, Tensor], Tensor]:
        model, opt = self.model, self.opt

        def step(x: Tensor, y: Tensor) -> Tensor:
            opt.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            opt.step()
            return loss

        return step


def _set_global(twin: Twin) -> None:
    globals()["OFFSET"] = 0.75


def _replace_linear(twin: Twin) -> None:
    fresh = nn.Linear(6, 3)
    with weft.no_grad():
        for p in fresh.parameters():
            p.fill_(0.125)
    twin.model.second = fresh


def _replace_parameter(twin: Twin) -> None:
    twin.model.second.weight = nn.Parameter(weft.full((3, 6), 0.25))


def _add_group(twin: Twin) -> None:
    twin.opt.add_param_group({"params": list(twin.model.norm.parameters()), "lr": 0.1})


def _add_hook(twin: Twin) -> None:
    twin.model.first.register_forward_hook(lambda module, args, out: out * 2)


def _add_pre_hook(twin: Twin) -> None:
    twin.model.second.register_forward_pre_hook(lambda module, args: (args[0] * 3,))


def _add_backward_hook(twin: Twin) -> None:
    twin.model.second.register_full_backward_hook(lambda module, gin, gout: (gin[0] * 0.5,))


def _patch_forward(twin: Twin) -> None:
    twin.model.act.forward = lambda x: x.tanh()


def _patch_class(twin: Twin) -> None:
    twin.model.act.__class__ = nn.Tanh


def _load_state(twin: Twin) -> None:
    twin.opt.load_state_dict(copy.deepcopy(twin.opt.state_dict()))


def _step_hook(twin: Twin) -> None:
    twin.opt.register_step_post_hook(lambda opt, args, kwargs: twin.model.norm.bias.detach().add_(0.01))


def _swap_params(twin: Twin) -> None:
    a, b = twin.opt.param_groups
    a["params"], b["params"] = b["params"], a["params"]


def _state_value(twin: Twin) -> None:
    with weft.no_grad():
        for p in list(twin.opt.state):
            twin.opt.state[p]["exp_avg"].zero_()


def _new_state_tensor(twin: Twin) -> None:
    for p in list(twin.opt.state):
        twin.opt.state[p]["exp_avg"] = weft.ones_like(twin.opt.state[p]["exp_avg"])


CHANGES: dict[str, Callable[[Twin], Any]] = {
    "global": _set_global,
    "temperature": lambda t: setattr(t.model, "temperature", 0.3),
    "config field": lambda t: setattr(t.model.config, "gain", 0.9),
    "dict item": lambda t: t.model.options.update(shift=-1.0),
    "Dropout.p": lambda t: setattr(t.model.drop, "p", 1.0),
    "eval": lambda t: (setattr(t.model.drop, "p", 1.0), t.model.eval()),
    "requires_grad_": lambda t: t.model.first.requires_grad_(False),
    "weight requires_grad": lambda t: t.model.second.weight.requires_grad_(False),
    "submodule": _replace_linear,
    "parameter": _replace_parameter,
    "activation": lambda t: setattr(t.model, "act", nn.GELU()),
    "LayerNorm.eps": lambda t: setattr(t.model.norm, "eps", 0.5),
    "weight_decay": lambda t: t.opt.param_groups[1].update(weight_decay=0.0),
    "lr": lambda t: t.opt.param_groups[0].update(lr=0.1),
    "betas": lambda t: t.opt.param_groups[0].update(betas=(0.5, 0.7)),
    "eps": lambda t: t.opt.param_groups[0].update(eps=0.01),
    "maximize": lambda t: t.opt.param_groups[0].update(maximize=True),
    "amsgrad": lambda t: t.opt.param_groups[0].update(amsgrad=True),
    "add_param_group": _add_group,
    "swapped groups": _swap_params,
    "optimizer loaded": _load_state,
    "optimizer state written": _state_value,
    "optimizer state replaced": _new_state_tensor,
    "step hook": _step_hook,
    "forward hook": _add_hook,
    "forward pre-hook": _add_pre_hook,
    "backward hook": _add_backward_hook,
    "patched forward": _patch_forward,
    "patched class": _patch_class,
    "parameter written": lambda t: t.model.first.weight.data.fill_(0.5),
    "parameter .data": lambda t: setattr(t.model.first.weight, "data", weft.full((6, 4), 0.5)),
}
NO_CAPTURE = {"lr", "betas", "eps", "optimizer state written", "parameter written"}


def _parameters(twin: Twin) -> dict[str, np.ndarray[Any, Any]]:
    return {name: value.detach().numpy().copy() for name, value in twin.model.named_parameters()}


@pytest.fixture(autouse=True)
def _keep_globals() -> Any:
    yield
    globals()["OFFSET"] = 0.5


@pytest.mark.parametrize("name", CHANGES)
def test_the_next_call_equals_eager(name: str) -> None:
    state = copy.deepcopy(Model().state_dict())
    eager, compiled = Twin(state, False), Twin(state, True)
    change = CHANGES[name]
    x, y = weft.randn(5, 4), weft.randn(5, 3)
    for _ in range(2):
        assert np.allclose(eager.step(x, y).item(), compiled.step(x, y).item(), rtol=1e-6)
    before = weft.counters.captures
    assert before and not compiled.step.misses
    globals()["OFFSET"] = 0.5
    change(eager)
    losses = [eager.step(x, y).item() for _ in range(3)]
    globals()["OFFSET"] = 0.5
    change(compiled)
    twins = [compiled.step(x, y).item() for _ in range(3)]
    np.testing.assert_allclose(twins, losses, rtol=1e-5)
    mine, theirs = _parameters(compiled), _parameters(eager)
    for key in theirs:
        np.testing.assert_allclose(mine[key], theirs[key], rtol=1e-5, atol=1e-6, err_msg=key)
    captures = weft.counters.captures - before
    assert captures == 0 if name in NO_CAPTURE else captures <= 1, compiled.step.misses
    assert all(SAYS.match(text) for text in compiled.step.misses), compiled.step.misses


SAYS = re.compile(r"test_nothing_goes_stale\.py:\d+: .+ (was|were) .+, (is|are) now .+")  # the line, old and new


def _made(x: Tensor) -> Tensor:
    return weft.zeros(2) + weft.tensor(0.5) + x.sum().to(weft.get_default_dtype())


def test_a_changed_default_dtype_is_a_miss_that_says_so() -> None:
    compiled = weft.compile(_made, backend="interpret")
    x, before = weft.randn(3), weft.counters.captures
    assert compiled(x).dtype is weft.float32
    try:
        weft.set_default_dtype(weft.float64)
        for _ in range(2):
            found = compiled(x)
            assert found.dtype is weft.float64 and weft.equal(found, _made(x))
    finally:
        weft.set_default_dtype(weft.float32)
    assert weft.equal(compiled(x), _made(x)) and weft.counters.captures == before + 2
    (text,) = compiled.misses
    assert SAYS.match(text) and text.endswith("the default dtype was weft.float32, is now weft.float64"), text


def test_an_enclosing_no_grad_is_a_miss_that_says_so() -> None:
    twins = [Twin(copy.deepcopy(Model().state_dict()), compiled) for compiled in (False, True)]
    x, y = weft.randn(5, 4), weft.randn(5, 3)
    assert isinstance(twins[1].step, CompiledFunction)
    forward = CompiledFunction(twins[1].model.forward, backend="interpret")
    assert forward(x).requires_grad and twins[1].step(x, y).item()
    captured = weft.counters.captures
    with weft.no_grad():
        found = forward(x)
        assert not found.requires_grad and found.grad_fn is None
        texts = []
        for twin in twins:
            with pytest.raises(RuntimeError) as caught:
                twin.step(x, y)
            texts.append(str(caught.value))
        assert texts[0] in texts[1]
    assert forward(x).requires_grad and twins[1].step(x, y).item()
    assert weft.counters.captures == captured + 1  # the step that is refused under no_grad is none
    for text in (*forward.misses, *twins[1].step.misses):
        assert SAYS.match(text) and text.endswith("grad mode was True, is now False"), text
    assert len(forward.misses) == 1


def test_misses_name_the_arguments() -> None:
    def mixed(x: Tensor, *rest: Tensor, scale: float = 1.0, extra: dict[str, Any] | None = None) -> Tensor:
        return x * scale + sum(rest) + (0 if extra is None else extra["bias"] * extra["gain"])

    compiled = weft.compile(mixed, backend="interpret")
    x = weft.randn(3)
    compiled(x, x + 1, scale=2.0, extra={"bias": x, "gain": 2})
    compiled(x, x + 1, scale=3.0, extra={"bias": x, "gain": 2})
    compiled(x, x + 1, scale=3.5, extra={"bias": x, "gain": "a"[:0] or 2})
    compiled(x, weft.arange(3), scale=3.0, extra={"bias": x, "gain": 2})
    compiled(x, x + 1, scale=3.0, extra={"bias": x.double(), "gain": 2})
    compiled(x, x + 1, extra={"bias": x, "gain": 2}, scale=3.0)
    compiled(x, x + 1, scale=3.0, extra={"gain": 2, "bias": x})
    compiled(x, x + 1, scale=3.0)
    told = [text.split(": ", 1)[1] for text in compiled.misses]
    assert [text.split(" was")[0] for text in told] == [
        "argument scale", "argument rest[0]", "argument extra['bias']", "the structure of the arguments",
        "the structure of the arguments",
    ]
    assert (
        all(SAYS.match(text) for text in compiled.misses) and "extra=dict(bias=_, gain=_)" in compiled.misses[-2]
    ), compiled.misses


def test_a_hook_on_every_module_is_noticed() -> None:
    model = Model()
    compiled = CompiledFunction(lambda x: model(x).sum(), backend="interpret")
    x = weft.randn(4, 4)
    plain = compiled(x)
    handle = nn.modules.module.register_module_forward_hook(lambda module, args, out: out * 2)
    try:
        for _ in range(2):
            weft.testing.assert_close(compiled(x), model(x).sum())
    finally:
        handle.remove()
    assert weft.equal(compiled(x), plain)
    (text,) = compiled.misses
    assert SAYS.match(text) and text.endswith("the number of hooks on every module was 0, is now 1")
