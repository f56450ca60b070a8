"""Hooks of modules: before and after forward, and full backward hooks with their replacements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft import Tensor, nn
from weft.support.errors import StateError


class Double(nn.Module):
    def forward(self, x: Tensor, plus: float = 0.0) -> Tensor:
        return x * 2 + plus


class Sum(nn.Module):
    def forward(self, x: Tensor, y: Any, z: Tensor) -> tuple[Tensor, Tensor]:
        return x + z, x * z


def test_forward_hooks_run_in_order_and_replace() -> None:
    m = Double()
    seen: list[str] = []
    m.register_forward_pre_hook(lambda module, args: seen.append("second"))
    m.register_forward_pre_hook(lambda module, args: seen.append("first"), prepend=True)
    m.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    m.register_forward_hook(lambda module, args, out: out * 10)
    handle = m.register_forward_hook(lambda module, args, out: out + 1)
    assert m(weft.ones(())).item() == 41 and seen == ["first", "second"]
    handle.remove()
    handle.remove()
    assert m(weft.ones(())).item() == 40


def test_hooks_may_see_keyword_arguments() -> None:
    m = Double()
    m.register_forward_pre_hook(lambda module, args, kwargs: (args, {"plus": kwargs["plus"] + 1}), with_kwargs=True)
    m.register_forward_hook(lambda module, args, kwargs, out: out * kwargs["plus"], with_kwargs=True)
    assert m(weft.ones(()), plus=2.0).item() == (2 + 3) * 3
    m.register_forward_pre_hook(lambda module, args, kwargs: args, with_kwargs=True)
    with pytest.raises(StateError, match="forward pre-hook must return None or a tuple"):
        m(weft.ones(()), plus=2.0)


def test_always_called_hooks_see_failures() -> None:
    class Fails(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise ValueError("no")

    m = Fails()
    seen: list[Any] = []
    m.register_forward_hook(lambda module, args, out: seen.append(("plain", out)))
    m.register_forward_hook(lambda module, args, out: seen.append(("always", out)), always_call=True)
    with pytest.raises(ValueError, match="no"):
        m(weft.ones(1))
    assert seen == [("always", None)]


def test_full_backward_hooks_see_and_replace_gradients() -> None:
    m = Double()
    seen: list[Any] = []
    x = weft.ones(3, requires_grad=True)
    m.register_full_backward_hook(lambda module, gin, gout: seen.append((module, gin[0].tolist(), gout[0].tolist())))
    m.register_full_backward_hook(lambda module, gin, gout: (gin[0] * 5,))
    (m(x) * weft.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert seen == [(m, [2, 4, 6], [1, 2, 3])]
    assert x.grad.tolist() == [10, 20, 30]


def test_backward_pre_hooks_replace_grad_output() -> None:
    m = Double()
    x = weft.ones(2, requires_grad=True)
    m.register_full_backward_pre_hook(lambda module, gout: (gout[0] * 3,))
    seen: list[Any] = []
    m.register_full_backward_hook(lambda module, gin, gout: seen.append(gout[0].tolist()))
    m(x).sum().backward()
    assert x.grad.tolist() == [6, 6] and seen == [[3, 3]]


def test_backward_hooks_with_several_inputs_and_outputs() -> None:
    m = Sum()
    seen: list[Any] = []
    m.register_full_backward_hook(lambda module, gin, gout: seen.append((gin, gout)))
    x, z = weft.tensor(3.0, requires_grad=True), weft.tensor(4.0, requires_grad=True)
    a, b = m(x, "no tensor", z)
    (a + 2 * b).backward()
    (gin, gout), = seen
    assert gin[1] is None and gin[0].item() == 1 + 2 * 4 and gin[2].item() == 1 + 2 * 3
    assert [g.item() for g in gout] == [1, 2]


def test_backward_hooks_when_no_input_requires_grad() -> None:
    m = nn.Linear(2, 2)
    seen: list[Any] = []
    m.register_full_backward_hook(lambda module, gin, gout: seen.append((gin, gout[0].shape)))
    m(weft.ones(3, 2)).sum().backward()
    assert seen == [((None,), (3, 2))] and m.weight.grad is not None
    m.register_full_backward_hook(lambda module, gin, gout: (weft.ones(3, 2),))
    with pytest.raises(StateError, match="no input requires gradient"):
        m(weft.ones(3, 2)).sum().backward()


def test_a_hook_that_returns_the_wrong_number_is_refused() -> None:
    m = Double()
    m.register_full_backward_hook(lambda module, gin, gout: (gin[0], gin[0]))
    with pytest.raises(StateError, match=r"invalid number of grad_input, got 2, but expected 1"):
        m(weft.ones(1, requires_grad=True)).sum().backward()


def test_no_grad_calls_leave_no_hooks_behind() -> None:
    m = Double()
    m.register_full_backward_hook(lambda module, gin, gout: None)
    with weft.no_grad():
        assert not m(weft.ones(1, requires_grad=True)).requires_grad


def test_backward_hooks_do_not_change_values_or_second_derivatives() -> None:
    plain, hooked = nn.Sequential(nn.Linear(3, 3), nn.Tanh()), nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    hooked.load_state_dict(plain.state_dict())
    for module in hooked.modules():
        module.register_full_backward_hook(lambda module, gin, gout: None)
    data = weft.randn(2, 3)
    found = []
    for m in (plain, hooked):
        x = data.clone().requires_grad_()
        (g,) = weft.autograd.grad(m(x).pow(2).sum(), x, create_graph=True)
        (h,) = weft.autograd.grad(g.pow(2).sum(), x)
        found.append(h.numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)


def test_plain_backward_hooks_see_the_last_operator() -> None:
    m = Double()
    seen: list[Any] = []
    m.register_backward_hook(lambda module, gin, gout: seen.append(gout[0].tolist()))
    m(weft.ones(2, requires_grad=True)).sum().backward()
    assert seen == [[1, 1]]
    with pytest.raises(StateError, match="Cannot use both regular backward hooks and full backward hooks"):
        m.register_full_backward_hook(lambda module, gin, gout: None)
