"""What a traced function sees: tensors that know their value in the graph, and numbers that the program computes."""

from __future__ import annotations

import operator
from typing import Any

from weft.jit.errors import CompileError
from weft.jit.frontend.attributes import type_of_object
from weft.jit.frontend.values import Simple, constant
from weft.jit.recorders import recording
from weft.ops.op import Op
from weft.ops.route import call
from weft.support.locations import user_location
from weft.support.warn import warn
from weft.tensor.size import Size
from weft.tensor.tensor import Tensor
from weft.types import tensor_type as tt
from weft.types.tensor_type import Type


class TracerWarning(UserWarning):
    """A value of a tensor that became Python's, and so a constant of the trace."""


class TracedTensor(Tensor):
    """A tensor of a trace. `plain` is the tensor itself; sizes are numbers of the program."""

    plain: Tensor

    @staticmethod
    def __weft_route__(op: Op, args: tuple[Any, ...]) -> Any:
        """A call of an operator within weft's own Python (a module's): recorded as one call."""
        recorder = recording()
        if recorder is None:
            return call(op, plain(args))
        return recorder.operator(op, args)

    @staticmethod
    def __weft_control__() -> Any:
        """What records weft.cond, weft.while_loop and weft.scan of traced tensors."""
        recorder = recording()
        return None if recorder is None else recorder.control

    @property
    def shape(self) -> Any:
        return tuple.__new__(Size, [self.size(i) for i in range(self.plain.ndim)])

    def size(self, dim: Any = None) -> Any:
        """The sizes, or one of them, as numbers of the program."""
        if dim is None:
            return self.shape
        recorder = recording()
        if recorder is None:
            return self.plain.shape[dim]
        op = recorder.ctx.op("aten::size.int")
        at = operator.index(dim)
        made = recorder.ctx.emit(op, (recorder.value_of(self).operand, at), PLACE)
        return TracedNumber.of(recorder, self.plain.shape[at], made)

    def numel(self) -> Any:
        """The number of elements, as a number of the program."""
        recorder = recording()
        if recorder is None:
            return self.plain.numel()
        made = recorder.ctx.emit(recorder.ctx.op("aten::numel"), (recorder.value_of(self).operand,), PLACE)
        return TracedNumber.of(recorder, self.plain.numel(), made)

    def __len__(self) -> int:
        _warned("The length of a tensor is asked for: the trace keeps it as a constant; `x.shape[0]` stays open")
        return int(self.plain.shape[0])

    @property
    def T(self) -> Any:
        return Tensor.permute(self, *reversed(range(self.plain.ndim)))

    def __iter__(self) -> Any:
        _warned("A tensor is gone over: the trace keeps the number of its elements as a constant")
        return iter(Tensor.unbind(self))

    def __bool__(self) -> bool:
        return bool(_told(self, "a bool"))

    def __int__(self) -> int:
        return int(_told(self, "an int"))

    def __float__(self) -> float:
        return float(_told(self, "a float"))

    def __index__(self) -> int:
        return operator.index(_told(self, "an int"))

    def item(self) -> Any:
        """The only element: a constant of the trace."""
        return _told(self, "a number").item()

    def tolist(self) -> Any:
        """The elements: constants of the trace."""
        return _told(self, "a list").tolist()


def plain(held: Any) -> Any:
    """Arguments with traced tensors and numbers as what they are."""
    if isinstance(held, (TracedTensor, TracedNumber)):
        return held.plain
    return tuple(plain(v) for v in held) if type(held) is tuple else held


def _told(tensor: TracedTensor, what: str) -> Tensor:
    _warned(
        f"Converting a tensor to {what} of Python's: the trace keeps it as a constant, and may be wrong for other "
        "inputs"
    )
    return tensor.plain


def _warned(text: str) -> None:
    if recording() is not None:
        warn(f"{user_location()}: {text}", TracerWarning)


class TracedNumber:
    """A number that the program computes. `plain` is what it is for the example."""

    recorder: Any
    plain: Any
    value: Simple

    @staticmethod
    def of(recorder: Any, plain: Any, value: Simple) -> Any:
        """The number as the traced function sees it: an int or float of Python's."""
        if value.is_constant or type(plain) not in (int, float):
            return plain
        made: Any = (TracedInt if type(plain) is int else TracedFloat)(plain)
        made.recorder, made.plain, made.value = recorder, plain, value
        return made


def _computed(name: str, function: Any, swapped: bool = False) -> Any:
    def method(self: Any, other: Any) -> Any:
        if not isinstance(other, (int, float)):
            return NotImplemented
        a, b = (other, self) if swapped else (self, other)
        plain = function(getattr(a, "plain", a), getattr(b, "plain", b))
        recorder = recording()
        if recorder is None:
            return plain
        operands = [v.value if isinstance(v, TracedNumber) else _constant(v) for v in (a, b)]
        return TracedNumber.of(recorder, plain, recorder.ctx.prim(name, PLACE, *operands))

    return method


def _constant(value: Any) -> Simple:
    return constant(value, {bool: tt.BOOL, int: tt.INT}.get(type(value), tt.FLOAT))


def _negated(self: Any) -> Any:
    recorder = recording()
    return (
        -self.plain
        if recorder is None
        else TracedNumber.of(recorder, -self.plain, recorder.ctx.prim("neg", PLACE, self.value))
    )


_METHODS: dict[str, Any] = {"__neg__": _negated}
for _name, _entry, _function in (
    ("add", "add", operator.add), ("sub", "sub", operator.sub), ("mul", "mul", operator.mul), ("truediv",
    "truediv", operator.truediv),
    ("floordiv", "floordiv", operator.floordiv), ("mod", "mod", operator.mod), ("pow", "pow", operator.pow),
):  # fmt: skip
    _METHODS[f"__{_name}__"] = _computed(_entry, _function)
    _METHODS[f"__r{_name}__"] = _computed(_entry, _function, True)

TracedInt: Any = type("TracedInt", (TracedNumber, int), {**_METHODS, "__weft_integer__": True})
TracedFloat: Any = type("TracedFloat", (TracedNumber, float), dict(_METHODS))


def type_of_example(value: Any) -> Type:
    """The type of an input. Raises CompileError for what no program takes."""
    found = tt.NONE if value is None else type_of_object(value)
    if found is None:
        raise CompileError(
            f"weft.jit.trace: an input of type {type(value).__name__} cannot be traced; give tensors, numbers, and "
            f"tuples, lists and dicts of them"
        )
    return found


class _Place:
    lineno, col_offset = 1, 0


PLACE: Any = _Place()
