"""What a program computes under `no_grad` has no derivative in the graphs of `differentiate`, and what was there before
keeps its history, also through a branch that is recorded there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
import weft.jit
from weft import Tensor
from weft.support.errors import StateError


def in_a_branch(x: Tensor, y: Tensor) -> Tensor:
    if x.sum() > 0:
        with weft.no_grad():
            z = x * y
    else:
        z = y
    return z * x


def in_a_loop(x: Tensor, y: Tensor) -> Tensor:
    for _ in range(3):
        with weft.no_grad():
            z = x * y
        x = x + z * y
    return x


def around_a_loop(x: Tensor, y: Tensor) -> Tensor:
    with weft.no_grad():
        for _ in range(3):
            x = x * y
        with weft.enable_grad():
            w = x * y
        v = w * x
    return x * y + w + v


def writing(x: Tensor, y: Tensor) -> Tensor:
    z = x.clone()
    with weft.no_grad():
        z[0] = y[0]
        z.mul_(3)
    return z * y


def in_a_list(x: Tensor, y: Tensor) -> Tensor:
    with weft.no_grad():
        held = [x, x * 2]
        first = x[0]
    return held[0] * y + held[1] * y + first * x


def handed_on_by_a_branch(x: Tensor, y: Tensor) -> Tensor:
    with weft.no_grad():
        if x.sum() > 100:
            return x * y
        a = x
    return a * y


PROGRAMS = [in_a_branch, in_a_loop, around_a_loop, writing, in_a_list, handed_on_by_a_branch]


def arguments() -> list[Tensor]:
    return [weft.tensor([0.5, 1.5], requires_grad=True), weft.tensor([1.25, 0.75], requires_grad=True)]


def gradients(function: Callable[..., Tensor]) -> list[Any]:
    args = arguments()
    found = weft.autograd.grad(function(*args).sum(), args, allow_unused=True)
    return [None if g is None else g.tolist() for g in found]


def by_graphs(program: Any) -> list[Any]:
    """The gradients that `differentiate` gives."""
    made = weft.jit.differentiate(program.graph)
    args = [a.detach() for a in arguments()]
    out = weft.jit.create_function_from_graph("f", made.f)(*args)
    results = out if isinstance(out, tuple) else (out,)
    given = [weft.ones(2) if i == 0 else None for i in made.df_input_vjps]
    given += [args[i] for i in made.df_input_captured_inputs] + [results[i] for i in made.df_input_captured_outputs]
    found = weft.jit.create_function_from_graph("df", made.df)(*given)
    flows = dict(zip(made.df_output_vjps, found if isinstance(found, tuple) else (found,), strict=True))
    return [None if flows.get(i) is None else flows[i].tolist() for i in range(2)]


@pytest.mark.parametrize("function", PROGRAMS)
def test_graphs_of_gradients(function: Callable[..., Tensor]) -> None:
    wanted = gradients(function)
    for found, one in zip(by_graphs(weft.jit.script(function)), wanted, strict=True):
        assert found == (None if one is None else pytest.approx(one))


@pytest.mark.parametrize("function", PROGRAMS)
def test_compiled_programs(function: Callable[..., Tensor]) -> None:
    zeros = [0.0, 0.0]  # in place of an undefined one
    compiled = weft.compile(weft.jit.script(function))
    for found, wanted in zip(gradients(compiled), gradients(function), strict=True):
        assert (found or zeros) == pytest.approx(wanted or zeros)
    assert not compiled.misses


def test_a_mode_that_hangs_on_a_value_is_refused() -> None:
    graph = weft.jit.parse_ir("""
graph @f(%x: Tensor, %on: bool) {
  %0: bool = prim::set_grad_enabled(%on)
  %1: Tensor = aten::mul.Tensor(%x, %x)
  return %1
}
""")
    with pytest.raises(StateError, match=r"history is recorded is only known when the program runs"):
        weft.jit.differentiate(graph)
