"""Settings that a step changes, and leaves so or puts back, under each setting of its caller: after each of four calls
the results and the settings are what they are in eager mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest

import weft
from weft.autograd.saved import default_hooks
from weft.tensor.modes import switch_inference

Step = Callable[[weft.Tensor], Any]
STEPS: dict[str, Step] = {}


def step(function: Step) -> Step:
    STEPS[function.__name__] = function
    return function


@step
def grad_off(x: weft.Tensor) -> Any:
    y = x * 2
    weft.set_grad_enabled(False)
    return y, x * 3


@step
def grad_on(x: weft.Tensor) -> Any:
    y = x * 2
    weft.set_grad_enabled(True)
    return y, x * 3


@step
def grad_within(x: weft.Tensor) -> Any:
    with weft.enable_grad():
        y = x * 2
    return y, x * 3


STEPS["grad as a decorator"] = weft.enable_grad()(lambda x: (x * 2, x * 3))
STEPS["no grad as a decorator"] = weft.no_grad()(lambda x: (x * 2, x * 3))
STEPS["inference as a decorator"] = weft.inference_mode()(lambda x: (x * 2, x * 3))


@step
def inference_within(x: weft.Tensor) -> Any:
    with weft.inference_mode():
        y = x * 2
    return y, x * 3


@step
def no_inference_within(x: weft.Tensor) -> Any:
    with weft.inference_mode(False):
        y = x * 2
    return y, x * 3


@step
def inference_entered(x: weft.Tensor) -> Any:
    weft.inference_mode().__enter__()
    return (x * 2,)


@step
def dtype_between_equal_calls(x: weft.Tensor) -> Any:
    first = weft.ones(2), weft.arange(3) / 2
    before = weft.get_default_dtype()
    weft.set_default_dtype(weft.float64)
    second = weft.ones(2), weft.arange(3) / 2
    weft.set_default_dtype(before)
    return (*first, *second)


@step
def dtype_left(x: weft.Tensor) -> Any:
    weft.set_default_dtype(weft.float64)
    return weft.ones(2), x * 2


@step
def anomalies_left(x: weft.Tensor) -> Any:
    weft.autograd.set_detect_anomaly(True, check_nan=False)
    return (x * 2,)


@step
def anomalies_off(x: weft.Tensor) -> Any:
    weft.autograd.set_detect_anomaly(False)
    return (x * 2,)


@step
def threads_left(x: weft.Tensor) -> Any:
    weft.set_num_threads(2)
    return (x * 2,)


@step
def multithreading_left(x: weft.Tensor) -> Any:
    weft.autograd.set_multithreading_enabled(False)
    return (x * 2,)


@step
def hooks_left(x: weft.Tensor) -> Any:
    weft.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t).__enter__()
    return (x * 2,)


def _settings() -> tuple[Any, ...]:
    return (
        weft.is_grad_enabled(), weft.is_inference_mode_enabled(), weft.get_default_dtype(), weft.is_anomaly_enabled(),
        weft.is_anomaly_check_nan_enabled(), weft.get_num_threads(), weft.autograd.is_multithreading_enabled(),
        len(default_hooks.stack), weft.ones(1).is_inference(),
    )


def _begin() -> None:
    switch_inference(False)
    weft.set_grad_enabled(True)
    weft.set_default_dtype(weft.float32)
    weft.autograd.set_detect_anomaly(False)
    weft.autograd.set_multithreading_enabled(True)
    weft.set_num_threads(1)
    default_hooks.stack = ()


@pytest.fixture(autouse=True)
def _keep() -> Iterator[None]:
    threads = weft.get_num_threads()
    yield
    _begin()
    weft.set_num_threads(threads)


def _calls(function: Step, caller: Callable[[], Any]) -> list[Any]:
    found = []
    for size in (2, 3, 5, 2):
        _begin()
        with caller():
            x = weft.ones(size, requires_grad=True)
            results = [
                (r.dtype, r.requires_grad, r.is_leaf, r.is_inference(), r.tolist(), r.grad_fn is None)
                for r in function(x)
            ]
            found.append((results, _settings()))
    return found


CALLERS = {
    "plain": nullcontext, "no_grad": weft.no_grad, "inference": weft.inference_mode,
    "anomalies": lambda: weft.autograd.detect_anomaly(check_nan=False),
}


@pytest.mark.filterwarnings("ignore:Anomaly")
@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("name", STEPS)
def test_results_and_settings_are_eager_ones(name: str, caller: str) -> None:
    expected = _calls(STEPS[name], CALLERS[caller])
    assert _calls(weft.compile(STEPS[name], backend="interpret"), CALLERS[caller]) == expected
    assert _calls(weft.compile(STEPS[name], split=True), CALLERS[caller]) == expected
