"""Nests: their text, phases, stashed values, and the weights of bodies."""

from __future__ import annotations

from typing import Any

import weft.catalogue  # noqa: F401
from weft.ir.builder import Builder
from weft.loops.build import build_nests
from weft.loops.nest import FULL, Nest
from weft.loops.text import nest_text
from weft.ops.cost import FUNCTION_WEIGHT, body_weight
from weft.ops.methods import install_methods
from weft.ops.op import OPS
from weft.ops.packet import aten
from weft.passes.alias import ProvingEnv
from weft.passes.group import Group
from weft.passes.grouping import group_nodes
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.tensor_type import tensor_type

install_methods()


def nests(fn: Any, *dims: tuple[Any, ...]) -> list[Nest]:
    b = Builder("f")
    s = b.env.fresh("s", 7)
    params = [
        b.param(tensor_type(dt.float32, tuple(s if d == "s" else d for d in each)), f"x{i}")
        for i, each in enumerate(dims)
    ]
    with b.active():
        out = fn(*map(b.handle, params))
    env = ProvingEnv(b.env)
    plan = group_nodes(b.nodes, [b.operand(o) for o in (out if isinstance(out, tuple) else (out,))], env)
    with shape_env.using(env):
        return [n for i in plan.items if isinstance(i, Group) for n in build_nests(i, plan.aliases, plan.stored)]


def softmax(x: Any) -> Any:
    e = (x - aten.amax(x, (1,), True)).exp()
    return e / e.sum(1, keepdim=True)


def test_text_of_a_row_nest() -> None:
    (nest,) = nests(softmax, ("s", 100))
    assert nest_text(nest, "softmax") == (
        "softmax(x0: f32[s0, 100]) -> _: f32[s0, 100]  # rows\n"
        "  for i0 in 0..s0 parallel:\n"
        "    for j0 in 0..100:  # phase 0\n"
        "      %0 = load x0[i0*100 + j0]\n"
        "    %1 = reduce max(%0): f32\n"
        "    for j0 in 0..100:  # phase 1\n"
        "      %2 = aten::sub.Tensor(%0, %1, None): f32\n"
        "      %3 = aten::exp(%2): f32  # stashed\n"
        "    %4 = reduce sum(%3): f32\n"
        "    for j0 in 0..100:  # phase 2\n"
        "      %5 = aten::div.Tensor(%3, %4): f32\n"
        "    b1[i0*100 + j0] = %5"
    )


def test_contiguous_operands_are_one_axis() -> None:
    (nest,) = nests(lambda x, y: x * y + 1, ("s", 3, 100), ("s", 3, 100))
    assert nest.form == "flat" and not nest.outer and len(nest.inner) == 1


def test_a_broadcast_row_keeps_two_axes() -> None:
    (nest,) = nests(lambda x, y: x * y, ("s", 3, 100), (100,))
    assert nest.form == "rows" and len(nest.outer) == 1 and nest.inner == (100,)


def test_a_column_sum_runs_down_the_columns() -> None:
    (nest,) = nests(lambda x: (x * x).sum(0), ("s", 100))
    assert nest.form == "columns" and nest.outer == (100,) and nest.chunks is None


def test_a_column_sum_beside_a_store_leaves_parts() -> None:
    main, combine = nests(lambda x: (x * x, (x * x).sum(0)), ("s", 100))
    assert main.form == "rows" and main.chunks is not None and combine.reads == [main.writes[1]]


def test_cheap_values_are_computed_again_and_dear_ones_stashed() -> None:
    (nest,) = nests(
        lambda x: (lambda c: c * aten.rsqrt((c * c).sum(1, keepdim=True)))(x - x.sum(1, keepdim=True)), ("s", 100)
    )
    assert nest.phases == 3 and not any(i.stashed for i in nest.instrs)
    (nest,) = nests(softmax, ("s", 100))
    assert [i.what.base for i in nest.instrs if i.stashed] == ["exp"]


def test_row_values_are_not_computed_per_element() -> None:
    (nest,) = nests(lambda x: x * (x.sum(1, keepdim=True) * 2).exp(), ("s", 100))
    assert [i.what.base for i in nest.instrs if i.kind == "apply" and i.level == FULL] == ["mul"]


def test_weights() -> None:
    assert body_weight(OPS["aten::mul.Tensor"], dt.float32) == 1
    assert body_weight(OPS["aten::exp"], dt.float32) == FUNCTION_WEIGHT
