"""Planned calls: where plans are kept, and how a call finds its own.

A table holds the plans of one owner (an operator, a gradient's formula) for arguments of certain classes. Its key tells
the plans apart: dtypes, and which arrays are 0-dim, for a pointwise operator; dtypes, shapes and all other values for
another. What takes arguments to their key, their plan and its result is a function that is written for the table
(`_lookup`), so that a call asks nothing that the classes of its arguments have answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from weft.ops import compute
from weft.ops.op import Op
from weft.ops.plan import LARGE, Plan, builder
from weft.ops.pointwise_plan import plan_pointwise
from weft.ops.schema import Argument
from weft.ops.tracing import Traced, Untraceable, trace_rule
from weft.support import limits
from weft.support.generated import function_factory
from weft.support.knobs import knobs
from weft.support.memo import Memo
from weft.support.seams import standalone
from weft.types import dtype as dt
from weft.types.dtype import DType

ndarray = np.ndarray
NOT_PLANNED = object()  # what the long way must do, errors of operators included
Rule = Callable[..., Any]
_NUMBERS = frozenset((int, float, bool, complex))
_EXACT = frozenset((int, bool, str, type(None), DType))

# What the code of a table does with an argument.
HOLDER, ARRAY, LIST, NUMBER = "hold", "array", "list", "number"
DEFAULTED, FLOAT, VALUE, UNKNOWN = "defaulted", "float", "value", "unknown"


def sign(args: Sequence[Any], key: list[Any], arrays: list[Any]) -> None:
    """Add to `key` what a plan depends on: dtypes and shapes of arrays, types and values of everything else. Arrays,
    found in an attribute `_data` or as they are, go to `arrays`. Raises Untraceable.
    """
    for a in args:
        kind = type(a)
        if kind in _EXACT:
            key.append(kind)
            key.append(a)
            continue
        data = getattr(a, "_data", a)
        if type(data) is ndarray:
            key.append(data.dtype)
            key.append(data.shape)
            arrays.append(data)
        elif kind is tuple:
            key.append(len(a))
            sign(a, key, arrays)
        elif kind is float or kind is complex:
            key.append(repr(a))  # 0.0 equals -0.0, and a NaN nothing
        else:
            raise Untraceable(f"a {kind.__name__} among the arguments")


def _signed(value: Any, arrays: list[Any]) -> Any:
    """sign() for one argument of a written lookup: a key, or None."""
    for v in value:
        if type(v) is not int:
            break
    else:  # sizes
        return value
    key: list[Any] = []
    for v in value:
        data = getattr(v, "_data", None)
        if type(data) is not ndarray:
            break
        key.append(data.dtype)
        key.append(data.shape)
        arrays.append(data)
    else:  # tensors alone, as most lists are
        return tuple(key)
    key.clear()
    arrays.clear()
    try:
        sign((value,), key, arrays)
    except Untraceable:
        return None
    return tuple(key)


def bare(value: Any) -> Any:
    """A value with arrays in place of what holds them, through tuples."""
    return tuple([bare(v) for v in value]) if type(value) is tuple else getattr(value, "_data", value)


class Wrap(NamedTuple):
    """What stands around a lookup. lines: the code that returns something for the array `out`; built: for what the plan
    builds of several. gate: the code in front, in which `x0`, `x1`, ... are the arguments; a lookup with a gate is a
    function of (op, args), and gives what `walk(op, args)` does where there is no plan. names: those in the code.
    start: the code in front of a lookup without a gate.
    """

    lines: tuple[str, ...] = ("return out",)
    built: tuple[str, ...] = ("return plan.build(args, out, lambda array: array, lambda array, shown: array)",)
    names: tuple[tuple[str, Any], ...] = ()
    gate: tuple[str, ...] = ()
    start: tuple[str, ...] = ()


class Table:
    """The plans of one owner for arguments of some classes. `run(args)` gives what `wrap` makes of the result, or
    NOT_PLANNED.

    owner: the operator, or what a formula is known by. rule: what is traced; None for a pointwise operator. uses: what
    the code does with each argument.
    store: how a result is put into the first array, for plans that do (pointwise ones alone).
    shown: how many of the first arguments, tensors, may be shown by views among the results.
    """

    def __init__(
        self, owner: Any, rule: Rule | None, uses: Sequence[str], defaults: Sequence[Any], wrap: Wrap,
        store: Rule | None = None, shown: int = 0,
    ) -> None:
        self.owner, self.rule, self.store, self.shown = owner, rule, store, shown
        self.uses, self.defaults = tuple(uses), tuple(defaults)
        self.plans: Memo[Any, Plan | None] = Memo(limits.PLANS_OF_A_TABLE)
        self.large: Memo[Any, Callable[[Any, Any], Any]] = Memo(limits.PLANS_OF_A_TABLE)
        self.refusals = 0
        self.can_plan = UNKNOWN not in uses and (rule is not None or bool({HOLDER, ARRAY} & set(uses)))
        self.run: Callable[[tuple[Any, ...]], Any] = self.lookup(wrap) if self.can_plan else _nothing
        _tables.append(self)

    def lookup(self, wrap: Wrap) -> Callable[..., Any]:
        """A function of arguments that finds the plan and runs it."""
        defaults = {f"default{i}": v for i, v in enumerate(self.defaults)}
        names = {"planned": self.plans.get, "missing": self.missing, **defaults, **dict(wrap.names)}
        text = (wrap.lines, wrap.built, wrap.gate, wrap.start)
        make = _lookup(self.uses, self.rule is None, *text, tuple(names))
        return make(*names.values())  # type: ignore[no-any-return]

    def missing(self, key: Any, args: tuple[Any, ...]) -> Any:
        """(plan, what it gives) for a key that has no plan yet, or NOT_PLANNED. args: with arrays in place of what
        holds them.
        """
        plans: Any = {} if dt.is_within_some() else self.plans
        if key in plans:
            self.refusals += 1
            if self.refusals >= 32 and not any(plans.values()):  # its results are views, say, whatever the arguments
                self.run = _nothing
            return NOT_PLANNED
        if self.rule is None:
            plan = plans[key] = plan_pointwise(self.owner, args, self._run_long, self.store)
            return plan, plan.run(*args)
        arrays: list[Any] = []
        sign(args, [], arrays)
        try:
            if any([a.size >= LARGE for a in arrays]):
                plan = Plan(_filled(args, self._run_large), _by_layout)
                out = self._run_large(args)
            else:
                plan, out = trace_rule(self.rule, args, arrays, self.shown, isinstance(self.owner, Op))
        except Untraceable:
            plans[key] = None
            return NOT_PLANNED
        except Exception:  # an operator's refusal: the long way says it again, with what it knows of the call
            return NOT_PLANNED
        plans[key] = plan
        return plan, out

    def _run_long(self, *args: Any) -> Any:
        """A pointwise call on large arrays."""
        _, out = self._run_large(args)
        return out if self.store is None else self.store(args[0], out)

    def _run_large(self, args: tuple[Any, ...]) -> tuple[Any, Any]:
        """(what builds the result, results) of a call on large arrays: by a native program, or by NumPy in blocks that
        fit a cache.
        """
        key: list[Any] = []
        arrays: list[Any] = []
        sign(args, key, arrays)
        kinds = tuple([k for k in key if type(k) is not tuple])  # all but the shapes
        is_native = knobs.backend == "llvm"
        signature = (*key, is_native, *[a.flags.c_contiguous for a in arrays])
        run = self.large.get(signature)
        if run is None:
            native = standalone(self.owner, self.rule, args, kinds, arrays) if is_native else None
            run = self._by_numpy(args, arrays) if native is None else _by_program(native, args, len(arrays))
            self.large[signature] = run
        return run(args, arrays)  # type: ignore[no-any-return]

    def _by_numpy(self, args: tuple[Any, ...], arrays: list[Any]) -> Callable[[Any, Any], Any]:
        if self.rule is None:
            pointwise = plan_pointwise(self.owner, args).run
            return lambda args, arrays: (None, pointwise(*args))
        plan, _ = trace_rule(self.rule, args, arrays, 0, isinstance(self.owner, Op))
        return lambda args, arrays: (plan.build, plan.run(*arrays))


def _by_layout(args: Any, results: Any, wrap: Any, show: Any) -> Any:
    """A plan's `build` where its run gives it with the results."""
    build, values = results
    return wrap(values) if build is None else build(args, values, wrap, show)


_tables: list[Table] = []


def forget() -> None:
    """Drop all plans: what they were made from may not hold any more."""
    for table in _tables:
        table.plans.clear()
        table.large.clear()


dt.forget_by(forget)


def _nothing(args: tuple[Any, ...]) -> Any:
    return NOT_PLANNED


def _filled(args: tuple[Any, ...], run: Callable[[tuple[Any, ...]], Any]) -> Callable[..., Any]:
    """run(args) as a function of the arrays in args alone."""
    skeleton = _emptied(args)
    return lambda *arrays: run(_with(skeleton, iter(arrays)))


def _with(value: Any, arrays: Iterator[Any]) -> Any:
    if value is ndarray:
        return next(arrays)
    return tuple([_with(v, arrays) for v in value]) if type(value) is tuple else value


def _emptied(value: Any) -> Any:
    return ndarray if type(value) is ndarray else tuple([_emptied(v) for v in value]) if type(value) is tuple else value


def _by_program(native: Any, example: tuple[Any, ...], input_count: int) -> Callable[[Any, Any], Any]:
    build = None if native.outputs == input_count else builder(native.outputs, example)

    def run(args: Any, arrays: list[Any]) -> tuple[Any, Any]:
        registers = native.run(arrays)
        return (None, registers[input_count]) if build is None else (build, tuple(registers[input_count:]))

    return run


@lru_cache(maxsize=limits.RESULTS)
def _lookup(
    uses: tuple[str, ...], is_pointwise: bool, wrap: tuple[str, ...], built: tuple[str, ...], gate: tuple[str, ...],
    start: tuple[str, ...], names: tuple[str, ...],
) -> Callable[..., Any]:
    """What makes a table's lookup. args: a tuple of arguments of the classes that the table is for."""
    lines, key, bares, operands = [], [], [], []
    otherwise = "return walk(op, args)" if gate else "return NOT_PLANNED"
    for i, use in enumerate(uses):
        if use in (HOLDER, ARRAY):
            data = f"x{i}._data" if use == HOLDER else f"x{i}"
            lines += [f"d{i} = {data}", f"if type(d{i}) is not ndarray: {otherwise}"]
            key += [f"d{i}.dtype", f"d{i}.ndim == 0" if is_pointwise else f"d{i}.shape"]
            bares.append(f"d{i}")
            operands.append(f"d{i}")
            continue
        if use == LIST:
            lines += [f"d{i} = []", f"k{i} = signed(x{i}, d{i})", f"if k{i} is None: {otherwise}"]
            key.append(f"k{i}")
            bares.append(f"bare(x{i})")
            operands.append(f"*d{i}")
            continue
        if use == DEFAULTED:
            key.append(f"x{i} == default{i}")
        elif use != NUMBER:
            key.append(f"(x{i} or repr(x{i}))" if use == FLOAT else f"x{i}")
        bares.append(f"x{i}")
        if is_pointwise:
            operands.append(f"x{i}")
    find = [
        f"key = ({''.join(k + ', ' for k in key)})", "plan = planned(key)", "if plan is None:",
        f"    found = missing(key, ({''.join(b + ', ' for b in bares)}))",
        f"    if found is NOT_PLANNED: {otherwise}", "    plan, out = found",
        f"else: out = plan.run({', '.join(operands)})",
    ]
    if gate or not is_pointwise:  # (of other pointwise calls the caller wants to know what is wrong)
        # The walk says what is wrong, outside of the handler: its error is no consequence of this one.
        find = ["try:", *[f"    {line}" for line in find], "except Exception: plan = None"]
        find.append(f"if plan is None: {otherwise}")
    if not is_pointwise:
        find += ["if plan.build is not None:", *[f"    {line}" for line in built]]
    taken = [f"{''.join(f'x{i}, ' for i in range(len(uses)))}= args"] if uses else []
    lines = [*taken, *gate, *start, *lines, *find, *wrap]
    return function_factory("lookup", names, "run(op, args)" if gate else "run(args)", lines, _SCOPE)


_SCOPE = {"ndarray": ndarray, "NOT_PLANNED": NOT_PLANNED, "signed": _signed, "bare": bare}


# ---- operators
def uses_of(op: Op, kinds: Sequence[type]) -> tuple[str, ...]:
    """What a lookup does with an operator's arguments of these classes."""
    is_pointwise = op.scalar is not None
    return tuple([_use(a, k, is_pointwise) for a, k in zip(op.schema.arguments, kinds, strict=True)])


def _use(argument: Argument | None, kind: type, is_pointwise: bool = False) -> str:
    if kind is ndarray or hasattr(kind, "_data"):
        return ARRAY if kind is ndarray else HOLDER
    if is_pointwise and argument is not None and argument.kind in ("Tensor", "Scalar") and kind in _NUMBERS:
        return (
            DEFAULTED if argument.kind == "Scalar" and argument.default is not None and kind is not complex else NUMBER
        )
    if kind is tuple:
        return VALUE if argument is not None and argument.kind == "int" else LIST
    return FLOAT if kind is float else VALUE if kind in _EXACT else UNKNOWN


def table_of(op: Op, kinds: Sequence[type], wrap: Wrap, store: Rule | None = None) -> Table:
    """A new table for an operator's arguments of these classes. store: for pointwise calls that write into their first
    argument, see Table.
    """
    rule = None if op.scalar is not None else lambda *args: Traced.__weft_route__(op, args)
    # (what answers for itself is never run twice, nor by others)
    uses = uses_of(op, kinds) if op.enter is None else [UNKNOWN] * len(kinds)
    return Table(op, rule, uses, [a.default for a in op.schema.arguments], wrap, store)


def table_of_rule(owner: Any, rule: Rule, kinds: Sequence[type], wrap: Wrap, shown: int = 0) -> Table:
    """A new table for a formula's arguments of these classes; `shown` of them may be shown by views."""
    return Table(owner, rule, [_use(None, k) for k in kinds], (), wrap, shown=shown)


_OF_ARRAYS: dict[tuple[Any, ...], Table] = {}
_ARRAYS = Wrap()


def evaluate_scalar(op: Op, args: tuple[Any, ...]) -> Any:
    """A pointwise operator on arrays and numbers: an array; of numbers alone a number. Raises what the type rule
    raises.
    """
    kinds = tuple(map(type, args))
    table = _OF_ARRAYS.get((op, kinds))
    if table is None:
        table = _OF_ARRAYS[op, kinds] = table_of(op, kinds, _ARRAYS)
    try:
        out = table.run(args)
    except (ValueError, TypeError):
        op.type(*[compute.type_of(a) for a in args])  # type: ignore[misc]
        raise
    if out is not NOT_PLANNED:
        return out
    return plan_pointwise(op, args).run(*args) if ndarray in kinds else compute.evaluate_numbers(op, args)


compute.EVALUATE["scalar"] = evaluate_scalar
