"""Module: attributes, registration, walking, state_dict and its messages, conversions, copies, repr."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

import weft
from weft import Tensor, nn
from weft.support.errors import ArgumentError, StateError


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3, bias=False)
        self.b.weight = self.a.weight
        self.register_buffer("count", weft.zeros(2))
        self.register_buffer("scratch", weft.ones(1), persistent=False)
        self.scale = nn.Parameter(weft.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.a(x)) * self.scale


def test_parameters_buffers_and_modules_are_found_once() -> None:
    m = Tied()
    assert [n for n, _ in m.named_parameters()] == ["scale", "a.weight", "a.bias"]
    assert [n for n, _ in m.named_parameters(remove_duplicate=False)] == ["scale", "a.weight", "a.bias", "b.weight"]
    assert [n for n, _ in m.named_buffers()] == ["count", "scratch"]
    assert [n for n, _ in m.named_modules()] == ["", "a", "b"]
    assert list(m.state_dict()) == ["scale", "count", "a.weight", "a.bias", "b.weight"]
    assert (
        m.get_submodule("a") is m.a and m.get_parameter("a.weight") is m.a.weight and m.get_buffer("count") is m.count
    )
    assert sum(p.numel() for p in m.parameters()) == 13


def test_attribute_assignment_moves_between_the_tables() -> None:
    m = Tied()
    m.scale = None
    assert m.scale is None and "scale" not in dict(m.named_parameters())
    m.scale = nn.Parameter(weft.ones(2))
    assert dict(m.named_parameters())["scale"].shape == (2,)
    m.count = weft.ones(5)
    assert m._buffers["count"].shape == (5,)
    m.plain = 3
    m.plain = nn.Linear(1, 1)
    assert "plain" in m._modules and "plain" not in m.__dict__
    del m.plain
    assert not hasattr(m, "plain")


@pytest.mark.parametrize(
    ("act", "error", "text"),
    [
        (
            lambda m: setattr(m, "scale", weft.ones(1)), ArgumentError,
            "cannot assign 'Tensor' object to parameter 'scale'",
        ),
        (lambda m: setattr(m, "a", 3), ArgumentError, "cannot assign 'int' object to child module 'a'"),
        (lambda m: setattr(m, "count", 3), ArgumentError, "cannot assign 'int' object to buffer 'count'"),
        (lambda m: m.register_parameter("x.y", None), KeyError, "name can.*t contain"),
        (lambda m: m.register_buffer("", None), KeyError, "empty string"),
        (lambda m: m.register_buffer("scale", None), KeyError, "attribute 'scale' already exists"),
        (
            lambda m: m.register_parameter("w", m.scale * 2), ArgumentError,
            "cannot assign 'Tensor' object to parameter 'w'",
        ),
        (lambda m: m.nothing, AttributeError, "'Tied' object has no attribute 'nothing'"),
        (lambda m: m.train("yes"), ValueError, "training mode is expected to be boolean"),
        (lambda m: nn.Module()(1), NotImplementedError, 'missing the required "forward" function'),
        (lambda m: m.to(weft.int64), ArgumentError, "only accepts floating point or complex dtypes"),
    ],
)
def test_bad_uses(act: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        act(Tied())


def test_assignment_before_init() -> None:
    class Bad(nn.Module):
        def __init__(self, value: Any) -> None:
            self.x = value

    with pytest.raises(AttributeError, match=r"cannot assign module before Module.__init__\(\) call"):
        Bad(nn.Linear(1, 1))
    with pytest.raises(AttributeError, match=r"cannot assign parameters before Module.__init__\(\) call"):
        Bad(nn.Parameter(weft.ones(1)))


def test_load_state_dict_names_everything_that_is_wrong_and_loads_nothing() -> None:
    m = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    before = {k: v.numpy().copy() for k, v in m.state_dict().items()}
    state = OrderedDict(m.state_dict())
    del state["0.bias"]
    state["1.weight"] = weft.ones(5, 5)
    state["extra.x"] = weft.ones(1)
    state["0.weight"] = weft.zeros(3, 2)
    with pytest.raises(StateError) as caught:
        m.load_state_dict(state)
    text = str(caught.value)
    assert text.startswith(
        "Error(s) in loading state_dict for Sequential:\n\tMissing key(s) in state_dict: \"0.bias\". \n"
        "\tUnexpected key(s) in"
    )
    assert (
        'state_dict: "extra.x". \n'
        '\tsize mismatch for 1.weight: copying a param with shape weft.Size([5, 5]) from checkpoint, the shape in'
        in text
    )
    for k, v in m.state_dict().items():
        np.testing.assert_array_equal(v.numpy(), before[k])
    del state["1.weight"]
    found = m.load_state_dict(state, strict=False)
    assert found.missing_keys == ["0.bias", "1.weight"] and found.unexpected_keys == ["extra.x"]
    assert (m[0].weight == 0).all()
    assert str(m.load_state_dict(m.state_dict())) == "<All keys matched successfully>"


def test_load_state_dict_copies_and_with_assign_takes_over() -> None:
    m, other = nn.Linear(2, 2), nn.Linear(2, 2)
    kept = m.weight
    m.load_state_dict(other.state_dict())
    assert m.weight is kept and (m.weight == other.weight).all()
    state = {"weight": weft.ones(2, 2), "bias": weft.zeros(2)}
    m.load_state_dict(state, assign=True)
    assert m.weight is not kept and isinstance(m.weight, nn.Parameter) and m.weight.requires_grad
    state["weight"].fill_(7)
    assert (m.weight == 7).all()


def test_state_dict_shares_bytes_unless_kept_as_variables() -> None:
    m = nn.Linear(2, 2)
    state = m.state_dict()
    assert not state["weight"].requires_grad and m.state_dict(keep_vars=True)["weight"] is m.weight
    state["weight"].fill_(3)
    assert (m.weight == 3).all()
    assert state._metadata[""] == {"version": 1}


def test_state_dict_hooks_and_extra_state() -> None:
    class Extra(nn.Module):
        note = "a"

        def get_extra_state(self) -> Any:
            return {"note": self.note}

        def set_extra_state(self, state: Any) -> None:
            self.note = state["note"]

    outer = nn.Sequential(Extra(), nn.Linear(1, 1))
    outer[0].note = "changed"
    state = outer.state_dict()
    assert state["0._extra_state"] == {"note": "changed"}
    fresh = nn.Sequential(Extra(), nn.Linear(1, 1))
    seen: list[Any] = []
    fresh.register_load_state_dict_pre_hook(lambda module, state, prefix, *rest: seen.append((module, prefix)))
    fresh.register_load_state_dict_post_hook(lambda module, keys: seen.append(keys.missing_keys))
    fresh.load_state_dict(state)
    assert fresh[0].note == "changed" and seen == [(fresh, ""), []]
    del state["0._extra_state"]
    with pytest.raises(StateError, match=r'Missing key\(s\) in state_dict: "0._extra_state"'):
        fresh.load_state_dict(state)


def test_an_older_batch_norm_state_loads() -> None:
    norm = nn.BatchNorm1d(2)
    state = {k: v for k, v in norm.state_dict().items() if k != "num_batches_tracked"}
    norm.load_state_dict(state)
    assert norm.num_batches_tracked.item() == 0


def test_conversions_keep_parameters_the_same_objects() -> None:
    m = Tied()
    weight = m.a.weight
    m(weft.randn(2, 3)).sum().backward()
    m.double()
    assert (
        m.a.weight is weight and m.b.weight is weight and weight.dtype is weft.float64
        and weight.grad.dtype is weft.float64
    )
    assert m.count.dtype is weft.float64
    m.to("cpu", weft.float32)
    assert weight.dtype is weft.float32 and m.half().scale.dtype is weft.float16
    assert m.float().to(weft.zeros(1, dtype=weft.float64)).scale.dtype is weft.float64


def test_modes_and_gradients() -> None:
    m = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Dropout(0.5)))
    m.eval()
    assert not m[1][0].training and m.train()[1][0].training
    m.requires_grad_(False)
    assert not any(p.requires_grad for p in m.parameters())
    m.requires_grad_()
    m(weft.ones(1, 2)).sum().backward()
    m.zero_grad(set_to_none=False)
    assert (m[0].weight.grad == 0).all()
    m.zero_grad()
    assert m[0].weight.grad is None
    names: list[str] = []
    m.apply(lambda module: names.append(type(module).__name__))
    assert names == ["Linear", "Dropout", "Sequential", "Sequential"]


@pytest.mark.parametrize("again", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_are_whole_and_apart(again: Any) -> None:
    m = Tied()
    other = again(m)
    assert other.b.weight is other.a.weight and other.a.weight is not m.a.weight
    x = weft.randn(2, 3)
    np.testing.assert_array_equal(other(x).detach().numpy(), m(x).detach().numpy())
    with weft.no_grad():
        other.a.weight.zero_()
    assert not (m.a.weight == 0).all()


def test_repr() -> None:
    m = nn.Sequential(
        OrderedDict(first=nn.Linear(2, 3), rest=nn.ModuleList([nn.ReLU(), nn.ReLU(), nn.Linear(1, 1, bias=False)]))
    )
    assert repr(m) == (
        "Sequential(\n  (first): Linear(in_features=2, out_features=3, bias=True)\n  (rest): ModuleList(\n"
        "    (0-1): 2 x ReLU()\n    (2): Linear(in_features=1, out_features=1, bias=False)\n  )\n)"
    )


def test_containers() -> None:
    a, b, c = (nn.Linear(1, 1) for _ in range(3))
    modules = nn.ModuleList([a, b])
    modules.insert(1, c)
    assert list(modules) == [a, c, b] and modules[-1] is b and list(modules[1:]) == [c, b]
    del modules[0]
    assert list(modules.state_dict())[:2] == ["0.weight", "0.bias"] and modules.pop(0) is c and len(modules) == 1
    with pytest.raises(IndexError, match="index 3 is out of range"):
        modules[3]
    named = nn.ModuleDict({"x": a})
    named["y"] = b
    assert list(named) == ["x", "y"] and named.pop("x") is a and "x" not in named
    parameters = nn.ParameterList([weft.ones(2), nn.Parameter(weft.ones(3))])
    parameters.append(weft.ones(4))
    assert [p.shape[0] for p in parameters] == [2, 3, 4] and all(isinstance(p, nn.Parameter) for p in parameters)
    table = nn.ParameterDict({"w": weft.ones(2)})
    table["v"] = nn.Parameter(weft.ones(1))
    assert (
        sorted(dict(table.named_parameters())) == ["v", "w"] and table.pop("w").shape == (2,) and list(table) == ["v"]
    )
    chain = nn.Sequential(a, nn.ReLU(), b)
    assert isinstance(chain[1:], nn.Sequential) and chain[0] is a and len(chain[1:]) == 2


def test_parameter() -> None:
    data = weft.ones(2)
    p = nn.Parameter(data)
    assert p.requires_grad and p.is_leaf and isinstance(p, Tensor)
    data.fill_(3)
    assert (p == 3).all() and repr(p).startswith("Parameter containing:\ntensor([3., 3.], requires_grad=True)")
    assert not nn.Parameter(data, requires_grad=False).requires_grad


def test_clipping(rng: np.random.Generator) -> None:
    params = [nn.Parameter(weft.zeros(n, dtype=weft.float64)) for n in (3, 4)]
    grads = [rng.standard_normal(n) * 5 for n in (3, 4)]
    for p, g in zip(params, grads, strict=True):
        p.grad = weft.from_numpy(g.copy())
    for order in (2.0, 1.0, float("inf")):
        norm = np.linalg.norm(np.concatenate(grads), order)
        found = nn.utils.clip_grad_norm_(params, 0.5, order)
        assert found.item() == pytest.approx(norm)
        for p, g in zip(params, grads, strict=True):
            np.testing.assert_allclose(p.grad.numpy(), g * (0.5 / (norm + 1e-6)))
            p.grad.copy_(weft.from_numpy(g))
    nn.utils.clip_grad_value_(params, 0.3)
    np.testing.assert_allclose(params[0].grad.numpy(), np.clip(grads[0], -0.3, 0.3))
    params[0].grad.fill_(float("nan"))
    with pytest.raises(StateError, match="non-finite"):
        nn.utils.clip_grad_norm_(params, 1.0, error_if_nonfinite=True)


def test_parameters_as_a_vector() -> None:
    m = nn.Linear(2, 3)
    vector = nn.utils.parameters_to_vector(m.parameters())
    assert vector.shape == (9,)
    nn.utils.vector_to_parameters(weft.arange(9.0), m.parameters())
    assert m.weight.tolist() == [[0, 1], [2, 3], [4, 5]] and m.bias.tolist() == [6, 7, 8]


def test_pytorchs_places_of_classes() -> None:
    assert (
        nn.modules.Linear is nn.Linear and nn.modules.loss.MSELoss is nn.MSELoss
        and nn.modules.container.Sequential is nn.Sequential
    )
    assert (
        isinstance(nn.BatchNorm2d(3), nn.modules.batchnorm._BatchNorm)
        and not isinstance(nn.InstanceNorm2d(3), nn.modules.batchnorm._BatchNorm)
    )
    assert isinstance(nn.ConvTranspose1d(1, 1, 1), nn.modules.conv._ConvNd)
    with pytest.raises(AttributeError, match="nothing"):
        nn.modules.nothing  # noqa: B018
