"""The values of operators in eager mode, beside those of a captured graph: the same operator on the same line, for the
same time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from weft.debug.state import array_of
from weft.debug.tolerance import Tolerance
from weft.debug.watched import ProgramRun, scale_of
from weft.ir.differences import Difference
from weft.ir.graph import Value
from weft.layers.watching import watch_operators
from weft.ops.op import Op
from weft.ops.route import Route
from weft.support import pytree
from weft.support.locations import Location, user_location
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor

Key = tuple[str, Location | None, int]  # an operator's name without its overload, the line, and for which time there


@contextmanager
def eager_values() -> Iterator[dict[Key, list[Any]]]:
    """What operators give within a block: the first tensors of their results."""
    values: dict[Key, list[Any]] = {}
    times: Counter[tuple[str, Location | None]] = Counter()

    def watcher(route: Route, inplace: bool) -> Route:
        def watched(op: Op, args: tuple[Any, ...]) -> Any:
            result = route(op, args)
            if modes.capture is None:
                place = op.schema.base, user_location(2)
                leaves = pytree.flatten(result)[0]
                key = (*place, times[place])
                values[key] = [array_of(v) for v in leaves if isinstance(v, Tensor)]
                times[place] += 1
            return result

        return watched

    watch_operators(watcher)
    try:
        yield values
    finally:
        watch_operators(None)


def first_other_value(
    run: ProgramRun, values: dict[Key, list[Any]], tolerance: Tolerance
) -> tuple[Value, Difference] | None:
    """The first value of a captured graph that is another one in eager mode."""
    reference, _ = run.reference
    times: Counter[tuple[str, Location | None]] = Counter()
    for node in run.graph.nodes:
        place = node.op.schema.base, node.where
        eager = values.get((*place, times[place]), [])
        times[place] += 1
        for output, expected in zip(node.outputs, eager, strict=False):
            gap = tolerance.difference(reference[output], expected, scale_of(output, reference))
            if gap is not None and not gap.text:
                return output, gap
    return None
