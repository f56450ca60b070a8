"""Grouping: what fuses, what must not, and that a group never waits for itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft.catalogue  # noqa: F401
from weft.ir.builder import Builder
from weft.ops.methods import install_methods
from weft.ops.packet import aten
from weft.passes.alias import ProvingEnv
from weft.passes.group import Group
from weft.passes.grouping import MAX_NODES, Plan, group_nodes
from weft.types import dtype as dt
from weft.types.tensor_type import tensor_type

install_methods()


def plan(fn: Callable[..., Any], *dims: tuple[Any, ...]) -> Plan:
    """The plan for a function of f32 tensors; sizes that are strings become symbols."""
    b = Builder("f")
    symbols: dict[str, Any] = {}

    def size(d: Any) -> Any:
        return symbols.setdefault(d, b.env.fresh("s", 7)) if isinstance(d, str) else d

    params = [b.param(tensor_type(dt.float32, tuple(map(size, d)))) for d in dims]
    with b.active():
        out = fn(*map(b.handle, params))
    out = out if isinstance(out, tuple) else (out,)
    return group_nodes(b.nodes, [b.operand(o) for o in out], ProvingEnv(b.env))


def groups(found: Plan) -> list[list[str]]:
    """Operator names of each group, in order."""
    return [[n.op.base for n in i.nodes] for i in found.items if isinstance(i, Group)]


def test_a_chain_with_its_reductions_is_one_group() -> None:
    def softmax(x: Any) -> Any:
        e = (x - aten.amax(x, (1,), True)).exp()
        return e / e.sum(1, keepdim=True)

    assert groups(plan(softmax, ("n", 40))) == [["amax", "sub", "exp", "sum", "div"]]


def test_readers_of_a_total_wait_for_it() -> None:
    found = groups(plan(lambda x: x * 2 - (x * 2).sum(), ("n", 40)))
    assert found == [["mul", "sum"], ["sub"]]


def test_a_product_in_between_splits() -> None:
    found = groups(plan(lambda x, y: aten.mm(x * 2, y) + 1, ("n", 4), (4, 4)))
    assert found == [["mul"], ["add"]]


def test_values_from_both_sides_of_a_product_do_not_close_a_cycle() -> None:
    found = groups(plan(lambda x, y: (lambda a: a + aten.mm(a, y))(x * 2), (4, 4), (4, 4)))
    assert found == [["mul"], ["add"]]


def test_independent_groups_merge_when_one_node_reads_both() -> None:
    found = groups(plan(lambda x, y: (x * 2) * (y.exp() + 1), ("n", 40), ("n", 40)))
    assert len(found) == 1 and sorted(found[0]) == ["add", "exp", "mul", "mul"]


def test_a_group_is_put_off_until_a_late_operand_is_there() -> None:
    found = groups(plan(lambda x, y, w: x.exp() * (1 + aten.mm(y, w).sum()), ("n", 40), (4, 4), (4, 4)))
    assert ["exp", "mul"] in found


def test_equal_unrelated_groups_stay_apart() -> None:
    found = groups(plan(lambda *xs: tuple(x * 2 + 1 for x in xs), *[(64, 64)] * 5))
    assert found == [["mul", "add"]] * 5


def test_constants_are_computed_by_their_readers() -> None:
    found = plan(lambda x: x * (aten.expand(aten.ones((1,)), (40,)) / 3), ("n", 40))
    assert groups(found) == [["mul"]] and not found.stored - {i.nodes[-1].outputs[0] for i in found.items}


def test_a_view_that_moves_elements_ends_a_group() -> None:
    assert len(groups(plan(lambda x: aten.t(x * 2) + 1, (5, 6)))) == 2
    assert len(groups(plan(lambda x: (x * 2).unsqueeze(1) + 1, (5, 6)))) == 1


def test_sums_over_rows_and_columns_share_a_group() -> None:
    found = groups(plan(lambda x: (x * x, (x * x).sum(0), (x * x).sum(1), (x * x).sum()), ("n", "m")))
    assert len(found) == 1


@pytest.mark.parametrize("turn", range(10))
def test_items_come_after_what_they_read(rng: np.random.Generator, turn: int) -> None:

    def program(*xs: Any) -> Any:
        values = list(xs)
        for _ in range(30):
            a, b = (values[int(i)] for i in rng.integers(0, len(values), 2))
            values.append((a + b, aten.mm(a, b), a.exp() * b.sum(0, keepdim=True), aten.t(a) * b, a - b.sum())[
                int(rng.integers(0, 5))
            ])
        return tuple(values[-3:])

    found = plan(program, (6, 6), (6, 6))
    made = {v: n for n, i in enumerate(found.items) for node in i.nodes for v in node.outputs}
    for number, item in enumerate(found.items):
        for node in item.nodes:
            for value in node.inputs():
                root = found.aliases.of(value)[0]
                assert root not in made or made[root] <= number
                if root in made and made[root] < number:
                    assert root in found.stored


def test_groups_stay_small_enough_to_compile() -> None:
    def chain(x: Any) -> Any:
        for _ in range(3 * MAX_NODES):
            x = x + 1
        return x

    found = groups(plan(chain, ("n", 4)))
    assert max(map(len, found)) <= MAX_NODES and sum(map(len, found)) == 3 * MAX_NODES
