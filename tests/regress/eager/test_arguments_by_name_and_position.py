"""Arguments that programs for PyTorch pass, by name and by position, and what they print."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft import nn


@pytest.mark.parametrize("compiled", [False, True])
def test_a_gradient_penalty_names_only_inputs(compiled: bool) -> None:
    def penalty(x: weft.Tensor) -> Any:
        out = (x * x).sum(1)
        slope = weft.autograd.grad(
            outputs=out, inputs=x, grad_outputs=weft.ones_like(out), create_graph=True, retain_graph=True,
            only_inputs=True,
        )[0]  # fmt: skip
        return weft.autograd.grad(((slope.norm(2, dim=1) - 1) ** 2).mean(), x)[0]

    x = weft.tensor([[3.0, 4.0], [0.0, 1.0]], requires_grad=True)
    found = (weft.compile(penalty) if compiled else penalty)(x)
    assert weft.allclose(found, weft.tensor([[10.8, 14.4], [0.0, 2.0]]))


def test_arguments_of_grad_by_position() -> None:
    x, other = weft.ones(2, requires_grad=True), weft.ones(1, requires_grad=True)
    found = weft.autograd.grad((x * 3).sum(), (x, other), None, None, False, True, True)
    assert found[0].tolist() == [3.0, 3.0] and found[1] is None
    with pytest.warns(FutureWarning, match="only_inputs argument is deprecated"):
        weft.autograd.grad((x * 3).sum(), x, only_inputs=False)


def test_gradients_by_name() -> None:
    model = nn.Linear(2, 1)
    named = dict(model.named_parameters())
    found = weft.autograd.grad(model(weft.ones(3, 2)).sum(), named)
    assert {k: g.tolist() for k, g in found.items()} == {"weight": [[3.0, 3.0]], "bias": [3.0]}
    weft.autograd.backward(model(weft.ones(3, 2)).sum(), inputs={"bias": model.bias})
    assert model.weight.grad is None and model.bias.grad.tolist() == [3.0]
    batched = weft.autograd.grad(
        model(weft.ones(1, 2)), named, weft.tensor([[[1.0]], [[2.0]]]), is_grads_batched=True
    )
    assert batched["bias"].tolist() == [[1.0], [2.0]]


@pytest.mark.parametrize("kind,shape", [(nn.LazyBatchNorm1d, (4, 3)), (nn.LazyInstanceNorm2d, (2, 3, 4, 4))])
def test_lazy_norms_without_a_bias(kind: Any, shape: tuple[int, ...]) -> None:
    layer = kind(bias=False)
    layer(weft.randn(*shape))
    assert layer.bias is None and layer.weight.shape == (3,) and "bias" not in layer.state_dict()


def test_what_was_not_loaded_prints() -> None:
    found = nn.Linear(1, 1).load_state_dict({"weight": weft.ones(1, 1), "x": weft.ones(1)}, strict=False)
    assert repr(found) == str(found) == "_IncompatibleKeys(missing_keys=['bias'], unexpected_keys=['x'])"


def test_activations_by_their_older_place() -> None:
    """`F.tanh` and `F.sigmoid`, as programs of some years write them."""
    x = weft.tensor([-1.0, 0.5])
    assert weft.equal(weft.nn.functional.tanh(x), x.tanh())
    assert weft.equal(weft.nn.functional.sigmoid(x), x.sigmoid())
