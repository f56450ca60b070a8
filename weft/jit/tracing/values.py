"""What a traced function sees: tensors that know their value in the graph, and numbers that the program computes."""

from __future__ import annotations

import operator
import sys
from types import FrameType
from typing import Any

import numpy as np

from weft.jit.errors import CompileError
from weft.jit.script.frontend.attributes import type_of_object
from weft.jit.script.frontend.values import Simple, constant
from weft.jit.tracing.lifted import asking_frame, note_conversion, note_length, note_question
from weft.ops.op import OPS, Op
from weft.ops.route import call
from weft.support.locations import is_internal, user_location
from weft.support.warn import warn
from weft.tensor.modes import active_trace
from weft.tensor.size import Size
from weft.tensor.tensor import Tensor
from weft.types import tensor_type as tt
from weft.types.numbers import NumberMethods, NumberOperation, are_numbers
from weft.types.sym import SymInt
from weft.types.tensor_type import Type

NUMBERS = (int, float, SymInt)  # types of what a program can compute as a number


class TracerWarning(UserWarning):
    """A value of a tensor that became Python's, and so a constant of the trace."""


class TracedTensor(Tensor):
    """A tensor of a trace. `plain` is the tensor itself; sizes are numbers of the program."""

    plain: Tensor

    @staticmethod
    def __weft_route__(op: Op, args: tuple[Any, ...]) -> Any:
        """A call of an operator within weft's own Python (a module's): recorded as one call."""
        recorder = active_trace()
        if recorder is None:
            return call(op, plain(args))
        return recorder.operator(op, args)

    @classmethod
    def __weft_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """A public call that no mode was asked about: the recorder answers it, else the tensors are what they are."""
        recorder = active_trace()
        if recorder is not None:
            return recorder.__weft_function__(func, types, args, kwargs)
        return func(*plain(tuple(args)), **{k: plain(v) for k, v in (kwargs or {}).items()})

    @staticmethod
    def __weft_inplace__(op: Op, args: tuple[Any, ...]) -> Any:
        """The same for an in-place operator."""
        recorder = active_trace()
        if recorder is None:
            return Tensor.__weft_inplace__(op, plain(args))  # type: ignore[attr-defined]
        return recorder.written(op, args)

    @staticmethod
    def __weft_control__() -> Any:
        """What records weft.cond, weft.while_loop and weft.scan of traced tensors."""
        recorder = active_trace()
        return None if recorder is None else recorder.control

    @staticmethod
    def __weft_refuse_class__(cls: type[Tensor]) -> None:
        """A tensor of another class would be a constant of the trace. Raises CompileError."""
        recorder = active_trace()
        if recorder is not None:
            recorder.refuse(
                f"a tensor seen as {cls.__name__} is no part of a trace, which knows plain tensors; keep to plain "
                "tensors there, or use weft.compile"
            )

    def __weft_become__(self, new: Tensor) -> None:
        """Let a new object, which `weft.Tensor(x)` is to be, be this tensor. Raises CompileError for other classes."""
        if type(new) is not Tensor:
            self.__weft_refuse_class__(type(new))
        new.__class__ = TracedTensor
        new.plain = self.plain  # type: ignore[attr-defined]

    def as_subclass(self, cls: type[Tensor]) -> Any:
        """As a plain tensor it is another view. Raises CompileError for other classes."""
        return Tensor.view_as(self, self) if cls is Tensor else super().as_subclass(cls)

    @property
    def dims(self) -> Any:
        """The sizes; as numbers of the program for a composite that is recorded operator by operator."""
        recorder = active_trace()
        return self.plain.dims if recorder is None or not recorder.opens else self.shape

    @property
    def shape(self) -> Any:
        return tuple.__new__(Size, [self.size(i) for i in range(self.plain.ndim)])

    def size(self, dim: Any = None) -> Any:
        """The sizes, or one of them, as numbers of the program."""
        if dim is None:
            return self.shape
        recorder = active_trace()
        if recorder is None:
            return self.plain.shape[dim]
        op = recorder.ctx.op("aten::size.int")
        at = operator.index(dim)
        size = recorder.ctx.emit(op, (recorder.value_of(self).operand, at), PLACE)
        return TracedNumber.of(recorder, self.plain.shape[at], size)

    def numel(self) -> Any:
        """The number of elements, as a number of the program."""
        recorder = active_trace()
        if recorder is None:
            return self.plain.numel()
        number = recorder.ctx.emit(recorder.ctx.op("aten::numel"), (recorder.value_of(self).operand,), PLACE)
        return TracedNumber.of(recorder, self.plain.numel(), number)

    @property
    def nbytes(self) -> Any:
        """Bytes of all elements, as a number of the program."""
        return self.numel() * self.plain.itemsize

    def storage(self) -> Any:
        """The memory of the example's tensor."""
        _warned_of_memory(sys._getframe(1))
        return self.plain.storage()

    def untyped_storage(self) -> Any:
        """The memory of the example's tensor, as bytes."""
        _warned_of_memory(sys._getframe(1))
        return self.plain.untyped_storage()

    def __len__(self) -> int:
        if active_trace() is not None:
            note_length(sys._getframe(1))
        _warned("The length of a tensor is asked for: the trace keeps it as a constant; `x.shape[0]` stays open")
        return int(self.plain.shape[0])

    @property
    def T(self) -> Any:
        return Tensor.permute(self, *reversed(range(self.plain.ndim)))

    def __iter__(self) -> Any:
        _warned("A tensor is gone over: the trace keeps the number of its elements as a constant")
        return iter(Tensor.unbind(self))

    def __bool__(self) -> bool:
        return bool(_reported(self, "a bool"))

    def __int__(self) -> int:
        return int(_reported(self, "an int"))

    def __float__(self) -> float:
        return float(_reported(self, "a float"))

    def __index__(self) -> int:
        return operator.index(_reported(self, "an int"))

    def item(self) -> Any:
        """The only element: a constant of the trace."""
        return _reported(self, "a number").item()

    def tolist(self) -> Any:
        """The elements: constants of the trace."""
        return _reported(self, "a list").tolist()


def plain(held: Any) -> Any:
    """Arguments with traced tensors and numbers as what they are."""
    if isinstance(held, (TracedTensor, TracedNumber)):
        return held.plain
    return type(held)(plain(v) for v in held) if type(held) in (tuple, list) else held


def _reported(tensor: TracedTensor, what: str) -> Tensor:
    _warned(
        f"Converting a tensor to {what} of Python's: the trace keeps it as a constant, and may be wrong for other "
        "inputs"
    )
    return tensor.plain


def _warned(text: str) -> None:
    if active_trace() is not None:
        warn(f"{user_location()}: {text}", TracerWarning)


def _warned_of_memory(asker: FrameType) -> None:
    if not is_internal(asker.f_code.co_filename):
        _warned("The memory of a tensor is asked for: what the trace is told of it is that of the example")


def _active() -> Any:
    """What records the operations of numbers; None where nothing does."""
    recorder = active_trace()
    return None if recorder is None or recorder.ctx.paused else recorder


class TracedNumber(NumberMethods):
    """A number that the program computes. `plain` is what it is for the example; what Python makes a plain number of is
    a constant of the trace, and a warning says so."""

    __slots__ = ("plain", "recorder", "value")
    kind: type

    def __init__(self, recorder: Any, plain: Any, value: Simple) -> None:
        self.recorder, self.plain, self.value = recorder, plain, value

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """int or float, so that `isinstance(n, int)` says what it says outside of a trace."""
        return self.kind

    @staticmethod
    def of(recorder: Any, plain: Any, value: Simple) -> Any:
        """The number as the traced function sees it: an int or float of Python's. A size that waits is found."""
        if type(plain) is SymInt:
            plain = int(plain)
        if value.is_constant or type(plain) not in NUMBERS:
            return plain
        return (TracedInt if type(plain) is int else TracedFloat)(recorder, plain, value)

    @property
    def is_live(self) -> bool:
        """Whether its trace is being recorded."""
        return _active() is not None

    def as_float(self) -> Any:
        """The number as a float."""
        return self._recorded("prim::float", float(self.plain), (self,)) if self.kind is int else self

    def extreme(self, operation: NumberOperation, a: Any, b: Any) -> Any:
        """`max` or `min` of two numbers."""
        return self._operation(operation, a, b) if are_numbers((a, b)) else operation(a, b)

    def _operation(self, operation: NumberOperation, *operands: Any) -> Any:
        if not are_numbers(operands):
            return NotImplemented
        result = operation(*map(plain, operands))
        if _active() is None:
            return result
        entry = operation.entry
        if operation.result == "bool":
            asker = asking_frame(sys._getframe(2))
            note_question(asker)
            if not is_internal(asker.f_code.co_filename):
                _warned("A question about a number that the program computes: the trace keeps the answer as a constant")
            return result
        if entry == "prim::pow" and type(result) is int:
            entry = "prim::int_pow" if type(operands[1]) is int else ""
        return self._recorded(entry, result, operands)

    def _recorded(self, entry: str, result: Any, operands: tuple[Any, ...]) -> Any:
        """What the program computes there, where it is a number of the example's type."""
        recorder = _active()
        assert recorder is not None
        if entry and type(result) in (int, float):
            values = [x.value if isinstance(x, TracedNumber) else _constant(x) for x in operands]
            op = OPS[entry]
            left = tuple(a.default for a in op.schema.arguments[len(values) :])
            emitted = recorder.ctx.emit(op, (*[v.operand for v in values], *left), PLACE)
            if emitted.type is (tt.INT if type(result) is int else tt.FLOAT):
                return TracedNumber.of(recorder, result, emitted)
        _warned(f"A number that no program computes as Python does ({result!r} here): the trace keeps it as a constant")
        return result

    def _reported(self, what: str) -> Any:
        if _active() is not None:
            note_conversion(sys._getframe(2))
            _warned(f"A number that the program computes becomes {what} of Python's: the trace keeps it as a constant")
        return self.plain

    def __int__(self) -> int:
        return int(self._reported("an int"))

    def __float__(self) -> float:
        return float(self._reported("a float"))

    def __complex__(self) -> complex:
        return complex(self._reported("a number"))

    def __bool__(self) -> bool:
        if _active() is not None and not is_internal(sys._getframe(1).f_code.co_filename):
            self._reported("a bool")
        return bool(self.plain)

    def __hash__(self) -> int:
        return hash(self.plain)

    def __repr__(self) -> str:
        return repr(self.plain)

    def __str__(self) -> str:
        return str(self._reported("a text"))

    def __format__(self, spec: str) -> str:
        return format(self._reported("a text"), spec)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self._reported("an array"), dtype)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.kind, (self._reported("a number"),)

    def __getattr__(self, name: str) -> Any:
        """What else a number has (bit_length, is_integer, ...), of the example's."""
        if name.startswith("__") or not hasattr(self.kind, name):
            raise AttributeError(f"'{self.kind.__name__}' object has no attribute '{name}'")
        return getattr(self._reported("a number"), name)


class TracedInt(TracedNumber):
    """An int that the program computes."""

    __slots__ = ()
    __weft_integer__ = True
    kind = int

    def __index__(self) -> int:
        return int(self._reported("an int"))

    def __trunc__(self) -> Any:
        return self

    __floor__ = __ceil__ = __pos__ = __trunc__

    def __round__(self, digits: int | None = None) -> Any:
        return self if digits is None or digits >= 0 else round(int(self), digits)


class TracedFloat(TracedNumber):
    """A float that the program computes."""

    __slots__ = ()
    kind = float


def _constant(value: Any) -> Simple:
    return constant(value, {bool: tt.BOOL, int: tt.INT, type(None): tt.NONE}.get(type(value), tt.FLOAT))


def type_of_example(value: Any) -> Type:
    """The type of an input. Raises CompileError for what no program takes."""
    kind = tt.NONE if value is None else tt.INT if type(value) is SymInt else type_of_object(value)
    if kind is None:
        raise CompileError(
            f"weft.jit.trace: an input of type {type(value).__name__} cannot be traced; give tensors, numbers, and "
            f"tuples, lists and dicts of them"
        )
    return kind


class _Place:
    lineno, col_offset = 1, 0


PLACE: Any = _Place()
