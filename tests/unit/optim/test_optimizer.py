"""The Optimizer base: groups, errors, state_dict, hooks, shared step counters, copies,
and what a captured step notices."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import weft
from weft import Tensor, nn, optim
from weft.compile.driver import CompiledFunction
from weft.support.errors import ArgumentError, CaptureError, ValueProblem


def _params(count: int) -> list[nn.Parameter]:
    return [nn.Parameter(weft.randn(3)) for _ in range(count)]


def _give_grads(params: list[nn.Parameter]) -> None:
    for p in params:
        p.grad = weft.randn(*p.shape)


def test_groups_take_defaults_and_options_of_their_own() -> None:
    a, b = _params(2)
    opt = optim.SGD([{"params": a}, {"params": [b], "lr": 0.5}], lr=0.1, momentum=0.9)
    assert [g["lr"] for g in opt.param_groups] == [0.1, 0.5]
    assert [g["momentum"] for g in opt.param_groups] == [0.9, 0.9]
    assert opt.param_groups[0]["params"] == [a]


def test_named_parameters_are_accepted() -> None:
    model = nn.Linear(2, 3)
    opt = optim.AdamW(model.named_parameters())
    assert opt.param_groups[0]["param_names"] == ["weight", "bias"]
    assert opt.state_dict()["param_groups"][0]["param_names"] == ["weight", "bias"]


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda p: optim.SGD([], lr=0.1), ValueProblem, "optimizer got an empty parameter list"),
        (lambda p: optim.SGD(p, lr=0.1), ArgumentError, "iterable of Tensors or dicts"),
        (
            lambda p: optim.SGD([{"params": [p]}, {"params": [p]}], lr=0.1), ValueProblem,
            "more than one parameter group",
        ),
        (lambda p: optim.SGD([p * 2], lr=0.1), ValueProblem, "can't optimize a non-leaf Tensor"),
        (
            lambda p: optim.SGD([1.0], lr=0.1), ArgumentError,
            "can only optimize Tensors, but one of the params is float",
        ),
        (lambda p: optim.SGD([{"params": {p}}], lr=0.1), ArgumentError, "ordered collections"),
        (lambda p: optim.SGD([p], lr=-1.0), ValueProblem, "Invalid learning rate: -1.0"),
        (
            lambda p: optim.SGD([p], lr=0.1, nesterov=True), ValueProblem,
            "Nesterov momentum requires a momentum and zero dampening",
        ),
        (lambda p: optim.Adam([p], betas=(1.0, 0.9)), ValueProblem, "Invalid beta parameter at index 0: 1.0"),
        (lambda p: optim.AdamW([p], eps=-1.0), ValueProblem, "Invalid epsilon value: -1.0"),
    ],
)
def test_bad_arguments(make: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        make(nn.Parameter(weft.ones(2)))


def test_parameters_without_gradient_are_skipped() -> None:
    a, b = _params(2)
    opt = optim.Adam([a, b], lr=0.1)
    a.grad = weft.ones(3)
    before = b.detach().clone()
    opt.step()
    assert (b == before).all() and b not in opt.state


def test_zero_grad() -> None:
    (p,) = _params(1)
    opt = optim.SGD([p], lr=0.1)
    p.grad = weft.ones(3)
    kept = p.grad
    opt.zero_grad(set_to_none=False)
    assert p.grad is kept and (kept == 0).all()
    opt.zero_grad()
    assert p.grad is None


def test_the_closure_runs_with_gradients_and_its_value_is_returned() -> None:
    (p,) = _params(1)
    opt = optim.SGD([p], lr=0.1)
    start = p.detach().numpy().copy()

    def closure() -> Tensor:
        opt.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with weft.no_grad():
        assert opt.step(closure).item() == pytest.approx(float((start**2).sum()), rel=1e-5)
    np.testing.assert_allclose(p.detach().numpy(), start * 0.8, rtol=1e-6)


def test_steps_count_per_parameter_also_after_parameters_part() -> None:
    a, b, c = params = _params(3)
    opt = optim.Adam(params, lr=0.1)
    for active in ((a, b), (a, b, c), (a,), (a, c), (b,)):
        opt.zero_grad()
        _give_grads(list(active))
        opt.step()
    assert [opt.state[p]["step"].item() for p in params] == [4.0, 3.0, 2.0]


def test_parameters_that_part_are_updated_as_alone() -> None:
    a, b = _params(2)
    twin_a, twin_b = copy.deepcopy(a), copy.deepcopy(b)
    together, one, two = optim.AdamW([a, b]), optim.AdamW([twin_a]), optim.AdamW([twin_b])
    for active in ("ab", "a", "ab", "b"):
        for name, p, q in (("a", a, twin_a), ("b", b, twin_b)):
            p.grad = q.grad = weft.randn(3) if name in active else None
        for opt in (together, one, two):
            opt.step()
    np.testing.assert_array_equal(a.detach().numpy(), twin_a.detach().numpy())
    np.testing.assert_array_equal(b.detach().numpy(), twin_b.detach().numpy())


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam"])
def test_state_dict_goes_on_bit_for_bit(name: str) -> None:
    options = {"momentum": 0.9} if name in ("SGD", "RMSprop") else {}
    params = _params(2)
    opt = getattr(optim, name)(params, lr=0.05, **options)
    for _ in range(2):
        _give_grads(params)
        opt.step()
    others = copy.deepcopy(params)
    saved = pickle.loads(pickle.dumps(opt.state_dict()))
    fresh = getattr(optim, name)(others, lr=1.0)
    fresh.load_state_dict(saved)
    assert fresh.param_groups[0]["lr"] == 0.05
    for _ in range(2):
        _give_grads(params)
        for p, q in zip(params, others, strict=True):
            q.grad = p.grad.clone()  # type: ignore[union-attr]
        opt.step()
        fresh.step()
    for p, q in zip(params, others, strict=True):
        np.testing.assert_array_equal(p.detach().numpy(), q.detach().numpy())


def test_state_dict_numbers_parameters_across_groups() -> None:
    a, b, c = params = _params(3)
    opt = optim.Adam([{"params": [b]}, {"params": [a, c]}])
    _give_grads(params)
    opt.step()
    state = opt.state_dict()
    assert [g["params"] for g in state["param_groups"]] == [[0], [1, 2]]
    assert sorted(state["state"]) == [0, 1, 2]
    assert state["state"][1]["exp_avg"] is opt.state[a]["exp_avg"]


def test_a_state_dict_that_does_not_match_changes_nothing() -> None:
    a, b = _params(2)
    opt = optim.Adam([a, b], lr=0.3)
    with pytest.raises(ValueProblem, match="different number of parameter groups"):
        opt.load_state_dict({"state": {}, "param_groups": []})
    with pytest.raises(ValueProblem, match="doesn't match the size of optimizer's group"):
        opt.load_state_dict(optim.Adam([a], lr=0.1).state_dict())
    assert opt.param_groups[0]["lr"] == 0.3


def test_loaded_state_takes_the_parameters_dtype() -> None:
    p = nn.Parameter(weft.randn(3, dtype=weft.float64))
    opt = optim.Adam([p])
    p.grad = weft.randn(3, dtype=weft.float64)
    opt.step()
    q = nn.Parameter(weft.randn(3))
    other = optim.Adam([q])
    other.load_state_dict(opt.state_dict())
    assert other.state[q]["exp_avg"].dtype is weft.float32
    assert other.state[q]["step"].dtype is weft.float32


def test_step_hooks() -> None:
    (p,) = _params(1)
    opt = optim.SGD([p], lr=0.1)
    seen: list[str] = []
    first = opt.register_step_pre_hook(lambda o, args, kwargs: seen.append("before"))
    opt.register_step_post_hook(lambda o, args, kwargs: seen.append("after"))
    opt.step()
    first.remove()
    opt.step()
    assert seen == ["before", "after", "after"]


def test_a_step_of_ones_own_has_the_hooks_too() -> None:
    class Sign(optim.Optimizer):
        def __init__(self, params: Any, lr: float) -> None:
            super().__init__(params, {"lr": lr})

        def step(self, closure: Any = None) -> Any:
            with weft.no_grad():
                for group in self.param_groups:
                    for p in group["params"]:
                        p.add_(p.grad.sign(), alpha=-group["lr"])

    p = nn.Parameter(weft.zeros(2))
    p.grad = weft.tensor([3.0, -2.0])
    opt = Sign([p], 0.5)
    seen: list[int] = []
    opt.register_step_post_hook(lambda o, args, kwargs: seen.append(1))
    opt.step()
    assert p.tolist() == [-0.5, 0.5] and seen == [1]


def test_an_optimizer_can_be_copied_and_pickled() -> None:
    model = nn.Linear(2, 2)
    opt = optim.Adam(model.parameters(), lr=0.1)
    _give_grads(list(model.parameters()))
    opt.step()
    for other_model, other in (copy.deepcopy((model, opt)), pickle.loads(pickle.dumps((model, opt)))):
        assert other.param_groups[0]["params"][0] is other_model.weight
        assert other.state[other_model.weight]["step"].item() == 1.0
        _give_grads(list(other_model.parameters()))
        other.step()
    assert opt.state[model.weight]["step"].item() == 1.0


def test_learning_rates_may_be_tensors() -> None:
    p = nn.Parameter(weft.ones(2))
    p.grad = weft.ones(2)
    opt = optim.SGD([p], lr=weft.tensor(0.25))
    opt.step()
    assert p.tolist() == [0.75, 0.75]


# ---- inside weft.compile
def _step(opt: optim.Optimizer, params: list[nn.Parameter]) -> Any:
    def step(x: Tensor) -> Tensor:
        opt.zero_grad()
        loss = sum(((p * x) ** 2).sum() for p in params)
        loss.backward()  # type: ignore[union-attr]
        opt.step()
        return loss  # type: ignore[return-value]

    return step


def test_numbers_of_groups_are_inputs_of_the_program(rng: np.random.Generator) -> None:
    params = _params(2)
    twins = copy.deepcopy(params)
    opt, other = optim.AdamW(params), optim.AdamW(twins)
    compiled, eager = CompiledFunction(_step(opt, params), backend="interpret"), _step(other, twins)
    for _ in range(4):
        numbers = {
            "lr": rng.random(), "betas": tuple(rng.random(2) * 0.9), "eps": rng.random() * 1e-3,
            "weight_decay": rng.random() + 0.1,
        }
        for o in (opt, other):
            o.param_groups[0].update(numbers)
        x = weft.randn(3)
        np.testing.assert_allclose(compiled(x).item(), eager(x).item(), rtol=1e-6)
    assert not compiled.misses
    for p, q in zip(params, twins, strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_a_failed_capture_leaves_no_state_behind() -> None:
    params = _params(1)
    opt = optim.Adam(params)

    def step(x: Tensor) -> Tensor:
        loss = (params[0] * x).sum()
        loss.backward()
        opt.step()
        return loss * loss.item()

    start = params[0].detach().numpy().copy()
    with pytest.raises(CaptureError):
        CompiledFunction(step, backend="interpret")(weft.ones(3))
    assert not opt.state and params[0].grad is None
    np.testing.assert_array_equal(params[0].detach().numpy(), start)


def test_a_failed_capture_leaves_older_state_as_it_was() -> None:
    params = _params(2)
    opt = optim.Adam(params)
    _give_grads(params)
    opt.step()
    before = {p: dict(opt.state[p]) for p in params}

    def step(x: Tensor) -> Tensor:
        opt.zero_grad()
        (params[0] * x).sum().backward()
        opt.step()
        return x * x.sum().item()

    with pytest.raises(CaptureError):
        CompiledFunction(step, backend="interpret")(weft.ones(3))
    for p in params:
        assert all(opt.state[p][name] is value for name, value in before[p].items())
    assert opt.state[params[0]]["step"].item() == 1.0


def test_lbfgs_is_refused_inside_a_compiled_function() -> None:
    params = _params(1)
    opt = optim.LBFGS(params)

    def step(x: Tensor) -> Any:
        return opt.step(lambda: (params[0] * x).sum())

    with pytest.raises(CaptureError, match="LBFGS"):
        CompiledFunction(step, backend="interpret")(weft.ones(3))
