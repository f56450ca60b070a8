"""The operators of batched programs: which examples go on in a block, what they take there and bring back."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

from weft.batching import masks
from weft.batching.masks import Mask
from weft.batching.operators import drawn
from weft.batching.padding import replicated
from weft.batching.rows import Rows
from weft.batching.selecting import merged, put, taken
from weft.batching.values import Examples, PerExample, differs, of_example
from weft.catalogue.language.entries import language, type_of
from weft.jit.interpreter.recording.containers import containers
from weft.jit.interpreter.recording.values import NotRecorded
from weft.ops.op import OPS, Op
from weft.support.errors import StateError
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor
from weft.types.parse import parse_type
from weft.types.tensor_type import ANY, BOOL, INT, list_of


def _answers(condition: Any, count: int) -> list[bool]:
    if isinstance(condition, PerExample):
        return [bool(value) for value in condition.values]
    return [bool(condition)] * count


def _where(condition: Any, rows: Any) -> Any:
    if isinstance(rows, Mask):
        return masks.where(condition, rows)
    return rows.kept(_answers(condition, len(rows)))


def _where_not(condition: Any, rows: Any) -> Any:
    if isinstance(rows, Mask):
        return masks.where_not(condition, rows)
    return rows.kept([not answer for answer in _answers(condition, len(rows))])


def _going(condition: Any, trip: Any, step: Any, rows: Any) -> Any:
    if isinstance(rows, Mask):
        return masks.going(condition, trip, step, rows)
    trips = [trip.values[row] for row in rows.indices] if isinstance(trip, PerExample) else [trip] * len(rows)
    return rows.kept([
        goes and step + 1 < most for goes, most in zip(_answers(condition, len(rows)), trips, strict=True)
    ])


def _any(rows: Any) -> Any:
    return masks.any_of(rows) if isinstance(rows, Mask) else len(rows) > 0


def _inside(rows: Any) -> Any:
    if isinstance(rows, Mask):
        return Mask(None, rows.count)
    return rows if rows.is_all else Rows.all_of(len(rows))


def _take(self: Any, rows: Any) -> Any:
    return masks.taken(self, rows) if isinstance(rows, Mask) else taken(self, rows)


def _put(self: Any, rows: Any, value: Any) -> Any:
    return masks.put(self, rows, value) if isinstance(rows, Mask) else put(self, rows, value)


def _merge(rows: Any, value: Any, others: Any, other: Any) -> Any:
    if isinstance(rows, Mask):
        return masks.merged(rows, value, others, other)
    return merged([(rows, value), (others, other)])


def _separate(self: Any, rows: Any) -> Any:
    if isinstance(self, (PerExample, Examples)):
        return self
    if isinstance(self, Tensor):
        return replicated(self, rows.count if isinstance(rows, Mask) else len(rows))
    if isinstance(rows, Mask) and isinstance(self, (list, dict)):
        containers().of_each[id(self)] = self, self  # one of values that differ stands for one of each example
        return self
    if isinstance(rows, Mask):
        raise NotRecorded("an object that each example has for itself")
    if isinstance(self, (list, dict)):
        copies = [of_example(self, at) for at in range(len(rows))]
        return PerExample([example.copy() if example is self else example for example in copies])
    return PerExample([copy.copy(self) for _ in range(len(rows))])


def _owned(self: Any) -> Any:
    if isinstance(self, (list, dict)) and (modes.capture is None or id(self) not in containers().of_each):
        raise StateError(
            "batch: a list or dict that all examples share is written to where only some of them go; make it within "
            "the program"
        )
    return self


def _alone(self: Any) -> Any:
    if isinstance(self, Examples):
        self.has_met = False
    return self


def _sizes(self: Any, sizes: Sequence[Any], batch_size: int) -> Any:
    if not isinstance(self, Examples) or not self.leads or not sizes or differs(sizes) or sizes[0] != batch_size:
        return sizes
    rest = list(sizes[1:])
    if -1 in rest or math.prod(sizes) != math.prod(self.dims_of(0)):
        return [1, *rest]
    return sizes


def _draw(name: str, args: Sequence[Any], rows: Any) -> Any:
    return drawn(OPS[name], tuple(args), rows.count if isinstance(rows, Mask) else len(rows))


def _same_type(value: Any, *rest: Any) -> Any:
    return type_of(value)


def _rows(name: str, arguments: str, doc: str, kernel: Any, rule: Any = lambda *seen: ANY) -> Op:
    return language(f"batch::{name}", arguments, doc, kernel, rule=rule)


WHERE = _rows("where", "condition, rows", "The rows for which the condition holds.", _where)
WHERE_NOT = _rows("where_not", "condition, rows", "The rows for which the condition does not hold.", _where_not)
GOING = _rows(
    "going", "condition, trip, step, rows", "The rows that make the step behind this one: where the condition holds, "
    "and the trip count is not reached.", _going,
)
ANY_ROWS = _rows("any", "rows", "Whether there is a row.", _any, lambda rows: BOOL)
INSIDE = _rows(
    "inside", "rows", "All rows of a block that these rows run.", _inside,
)
TAKE = _rows("take", "self, rows", "What the rows have of a value.", _take, _same_type)
PUT = _rows("put", "self, rows, value", "A value with what the rows have now.", _put, _same_type)
MERGE = _rows(
    "merge", "rows, value, other_rows, other", "A value of what rows and the others have.",
    _merge, lambda rows, value, *rest: type_of(value),
)
SEPARATE = _rows(
    "separate", "self, rows", "A tensor, list, dict or object of its own for each row.", _separate, _same_type
)
OWNED = _rows(
    "owned", "self", "The list or dict itself, which every row has for itself. Raises StateError.", _owned, _same_type
)
ALONE = _rows("alone", "self", "The value itself, a tensor that no other name has.", _alone, _same_type)
SIZES = _rows(
    "sizes", "self, sizes, batch_size", "Sizes for a view of one example, where they may name the batch.", _sizes,
    lambda *seen: list_of(INT),
)
DRAW = _rows(
    "draw", "op, args, type, rows", "A draw of random numbers for each row.",
    lambda op, args, type, rows: _draw(op, args, rows), lambda op, args, type, rows: parse_type(type),
)
ROW_ENTRIES = frozenset(
    (WHERE, WHERE_NOT, GOING, ANY_ROWS, INSIDE, TAKE, PUT, MERGE, SEPARATE, OWNED, ALONE, SIZES, DRAW)
)
