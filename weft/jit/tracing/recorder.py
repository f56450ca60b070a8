"""weft.jit.trace: a program from what a function does with example inputs. Sizes that the function reads stay values
of the program.

The function runs on tensors that tell a function mode (weft.overrides) what is done with them; each public call
becomes what the front end makes of
the same call in a scripted function. Python's own branches and loops leave no trace: only what ran is recorded.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NoReturn

import numpy as np

from weft.ir.graph import Operand
from weft.jit.errors import CompileError
from weft.jit.interpreter.running import run
from weft.jit.module import ScriptModule
from weft.jit.program import Parameter, Program
from weft.jit.script.frontend.compile import compile_python, names_in
from weft.jit.script.frontend.context import Context
from weft.jit.script.frontend.functions import Operators, Scripted, call_builtin, overloads
from weft.jit.script.frontend.members import READABLE, SYNONYMS
from weft.jit.script.frontend.objects import ModuleLinker, promised_type
from weft.jit.script.frontend.outside import path_of
from weft.jit.script.frontend.python.foreign import ConstantDict
from weft.jit.script.frontend.values import ListValue, Simple, SugaredValue, TupleValue, constant
from weft.jit.script.source import Source
from weft.jit.tracing.casts import has_operators, is_casting, recorded_in_autocast
from weft.jit.tracing.control import Control
from weft.jit.tracing.later import Later
from weft.jit.tracing.structures import holds_tensor, is_plain_input, like, tuple_like, unwrapped
from weft.jit.tracing.values import NUMBERS, TracedNumber, TracedTensor, TracerWarning, plain
from weft.nn.modules.module import Module
from weft.ops.bind import in_newer_order
from weft.ops.op import Op
from weft.ops.route import call, run_as_usual
from weft.overrides import DisableWeftFunction, WeftFunctionMode, resolve_name
from weft.runtime.storage import Storage, UntypedStorage
from weft.support import pytree
from weft.support.locations import Location, is_internal, user_location
from weft.support.warn import warn
from weft.tensor.modes import is_grad_enabled, modes
from weft.tensor.tensor import Tensor
from weft.types import tensor_type as tt
from weft.types.tensor_type import class_of

_NOWHERE = ast.Pass(lineno=1, col_offset=0)


class _Lines(Source):
    """The lines of a trace are those of the user's that run."""

    def location(self, node: ast.AST) -> Location:
        return user_location(2) or Location(self.file, 1)

    def shown(self, node: ast.AST) -> str:
        where = self.location(node)
        return f'  File "{where.file}", line {where.line}'


class _Escape(Exception):
    """A function that is recorded operator by operator has made a tensor otherwise."""


_ESCAPED: Final = object()


def _tensors_in(values: Any) -> list[Tensor]:
    return [leaf for leaf in pytree.flatten(values)[0] if isinstance(leaf, Tensor)]


class Recorder(WeftFunctionMode):
    """The mode that sees public calls. `values` says which value of the graph a tensor is."""

    def __init__(self, name: str, root: ScriptModule | None) -> None:
        self.program = Program(name)
        linker = ModuleLinker(self.program, names_in({}), compile_python)
        self.ctx = Context(name.rpartition(".")[2], _Lines("<trace>", ""), lambda n, node: None, linker)
        self.values: dict[int, tuple[Tensor, Simple]] = {}
        self.outside: dict[int, Tensor] = {}  # tensors that are constants of the program
        self.shown: dict[int, TracedTensor] = {}
        self.members: dict[int, tuple[str, ...]] = {}
        self.modules: dict[int, tuple[str, ...]] = {}
        self.self_value: Simple | None = None
        self.control, self.later = Control(self), Later(self)
        self.transform, self.custom_function = self.later.transform, self.later.custom_function
        self.operands: set[int] | None = None  # the ids of what a function was given that is recorded by operators
        self.opens = False  # whether a composite is recorded operator by operator
        self.grad_mode = self.first_grad_mode = is_grad_enabled()
        self.mode_around: Simple | None = None  # whoever runs the program has this grad mode
        if root is not None:
            kind = class_of(root._script_name)
            self.self_value = Simple(self.ctx.builder.param(kind, "self"), kind)
            self.program.parameters = (Parameter("self", kind),)
            self._note_members(root, ())

    @property
    def is_paused(self) -> bool:
        """Whether what is done now is no part of the program."""
        return bool(self.ctx.paused)

    def as_they_are(self, held: Any) -> Any:
        """Arguments with the tensors and numbers of the trace as those of the example."""
        return unwrapped(held)

    def refuse(self, problem: str) -> NoReturn:
        """Raises CompileError at the user's line."""
        where = user_location()
        raise CompileError(f"weft.jit.trace: {'' if where is None else f'{where}: '}{problem}")

    def _note_members(self, module: ScriptModule, path: tuple[str, ...]) -> None:
        fields = module.__dict__
        self.modules.setdefault(id(module), path)
        self.modules.setdefault(id(fields["_original"]), path)
        for table in ("_parameters", "_buffers"):
            for name, tensor in fields[table].items():
                if tensor is not None:
                    self.members.setdefault(id(tensor), (*path, name))
        for name, inner in fields["_modules"].items():
            if inner is not None:
                self._note_members(inner, (*path, name))

    # ---- values
    def tensor(self, plain: Tensor, value: Simple) -> TracedTensor:
        """What the traced function sees of a tensor that is a value of the graph."""
        self.values[id(plain)] = (plain, value)
        return self.shown_as(plain)

    def shown_as(self, plain: Tensor) -> TracedTensor:
        """What the traced function sees of a tensor; which value it is, the graph says when it is used."""
        traced = self.shown.get(id(plain))
        if traced is None:
            with DisableWeftFunction():
                traced = Tensor._make_subclass(TracedTensor, plain)
            traced.plain = plain
            self.shown[id(plain)] = traced
        return traced

    def value_of(self, held: Any) -> SugaredValue:
        """What an argument is for the compiler."""
        if isinstance(held, TracedNumber):
            return held.value
        if isinstance(held, Tensor):
            return self._tensor_value(held.plain if isinstance(held, TracedTensor) else held)
        if isinstance(held, tuple):
            return tuple_like(held, [self.value_of(v) for v in held])
        if isinstance(held, list):
            return ListValue([self.value_of(v) for v in held])
        if isinstance(held, slice):
            parts = tuple(
                self.value_of(p).as_value(self.ctx, _NOWHERE).operand for p in (held.start, held.stop, held.step)
            )
            return self.ctx.emit(self.ctx.op("prim::make_slice"), parts, _NOWHERE)
        if type(held) is dict:
            return ConstantDict({k: self.value_of(v) for k, v in held.items()})
        if held is ...:
            return constant("...", tt.ANY)
        wrapped = self.ctx.program.wrap(self.ctx, held, "value")
        if wrapped is None:
            raise CompileError(f"weft.jit.trace: an argument of type {type(held).__name__} cannot be recorded")
        return wrapped  # type: ignore[no-any-return]

    def _tensor_value(self, held: Tensor) -> Simple:
        """What a tensor is for the compiler: a value of this trace, a member of the Module, or one from outside, which
        another trace may have left.
        """
        entry = self.values.get(id(held))
        if entry is not None:
            return entry[1]
        path = self.members.get(id(held))
        if path is None or self.self_value is None:
            if self.operands is not None and id(held) not in self.operands and id(held) not in self.outside:
                raise _Escape
            self.outside[id(held)] = held
            return self.ctx.program._tensor(self.ctx, held, "constant")  # type: ignore[no-any-return]
        return self._as_tensor(self._at(path))

    def _as_tensor(self, value: Simple) -> Simple:
        """A value that is a tensor, as the example has one, where its type says that it may be something else."""
        if isinstance(value.type, tt.TensorType):
            return value
        cast = self.ctx.op("prim::unchecked_cast")
        return self.ctx.emit(cast, (value.operand, "Tensor"), _NOWHERE, (tt.TENSOR,))

    def _at(self, path: Sequence[str]) -> Any:
        """What the traced Module has there."""
        value: Any = self.self_value
        for name in path:
            value = self.ctx.program.member(self.ctx, _NOWHERE, value, name)
        return value

    # ---- calls
    def __weft_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        plain = unwrapped((args, kwargs))
        if self.ctx.paused or modes.trace is None:
            return func(*plain[0], **plain[1])
        path = resolve_name(func) or path_of(func)
        if path == "weft.Tensor.register_hook":
            return self.later.hook(*args, **kwargs)
        if path == "weft.Tensor.register_post_accumulate_grad_hook":
            self.refuse("a hook behind an accumulation is no part of a trace; use Tensor.register_hook")
        if path is None and isinstance(args[0] if args else None, Module):
            as_it_is = self._called_as_it_is(args[0], args[1:], kwargs)
            if as_it_is is not None:
                return as_it_is
            with self:  # a module's own Python: what it calls is recorded
                return func.__wrapped__(*args, **kwargs)  # type: ignore[attr-defined]
        if is_casting() and path is not None and has_operators(path):
            by_operators = self._by_operators(func, args, kwargs)
            if by_operators is not _ESCAPED:
                return by_operators
        with DisableWeftFunction(), self.ctx.pause():
            result = func(*plain[0], **plain[1])
        if path is None or not holds_tensor(result) or path.startswith("weft.Tensor.grad_fn."):
            return self._number(path, args, kwargs, result)
        return self.record(path, func, args, kwargs, result)

    def _by_operators(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What a function gives that is recorded operator by operator, with the casts of their operands. _ESCAPED where
        it takes no tensors, or some of what it computes is no operator's: that would be a constant."""
        tensors = _tensors_in((args, kwargs))
        if not tensors:
            return _ESCAPED
        seen_args, seen_kwargs = pytree.map_leaves(self._seen, (tuple(args), dict(kwargs)))
        before, start = self.operands, len(self.ctx.builder.nodes)
        grad_modes = self.grad_mode, self.mode_around
        self.operands = {id(t.plain if isinstance(t, TracedTensor) else t) for t in tensors}
        try:
            with DisableWeftFunction(), self.opening():
                result = func(*seen_args, **seen_kwargs)
            if all(isinstance(t, TracedTensor) for t in _tensors_in(result)):
                return result
        except _Escape:
            pass
        finally:
            self.operands = before
        self.ctx.builder.take_back(start)
        self.grad_mode, self.mode_around = grad_modes
        return _ESCAPED

    def _seen(self, leaf: Any) -> Any:
        return self.shown_as(leaf) if isinstance(leaf, Tensor) and not isinstance(leaf, TracedTensor) else leaf

    def _called_as_it_is(self, module: Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """A call of one of weft's modules whose Python goes over the steps of its input (recurrent layers): a node, so
        that other lengths have other steps. None where the Module is no part of what is traced.
        """
        path = self.modules.get(id(module))
        if path is None or self.self_value is None or kwargs or is_casting() or not all(map(is_plain_input, args)):
            return None
        with DisableWeftFunction(), self.ctx.pause():
            result = module(*unwrapped(tuple(args)))
        values = [self.value_of(a).as_value(self.ctx, _NOWHERE) for a in args]
        operands = tuple(v.operand for v in values)
        kind = promised_type(type(module), "forward", [v.type for v in values]) or tt.TENSOR
        call_method = self.ctx.op("prim::CallMethod")
        emitted = self.ctx.emit(call_method, (self._at(path).operand, "__call__", operands, str(kind)), _NOWHERE)
        return self.bound(emitted, result)

    def _number(self, path: str | None, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> Any:
        """What a call gives that is no tensor. Numbers are the program's where a scripted function has them; that
        others stay what they are for the example, a warning says."""
        name = "" if path is None else path.removesuffix(".__get__").rpartition(".")[2]
        is_lasting = not name or name in _OF_TYPE or (name.startswith("__") and name not in _OF_VALUES)
        if is_lasting or not _is_of_elements(result) or not any(isinstance(a, TracedTensor) for a in args):
            return result
        if _is_counted(result) and any(op.host for op in overloads(f"aten::{SYNONYMS.get(name, name)}")):
            values, named = [self.value_of(a) for a in args], {k: self.value_of(v) for k, v in kwargs.items()}
            asked = values[0].attribute(self.ctx, _NOWHERE, name)
            return self.bound(asked.call(self.ctx, _NOWHERE, values[1:], named, 1), result)
        if _is_asked_by_users():
            _warn(f"{path} gives Python a {type(result).__name__}, which the trace keeps as a constant")
        return result

    def record(self, path: str, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> Any:
        """Emit what a scripted function would have for the call, and hand back the result as the function sees it."""
        ctx, name = self.ctx, path.rpartition(".")[2]
        self.follow_grad_mode(is_grad_enabled(), result)
        newer = in_newer_order(name, self._operators(path, func).candidates, tuple(args), kwargs)
        args, kwargs = (args, kwargs) if newer is None else newer
        numbers = any(isinstance(a, TracedNumber) for a in (*args, *kwargs.values()))
        if numbers and type(result) in (tuple, list) and holds_tensor(result):
            _warn(f"{path} gives {len(result)} tensors, and the trace keeps how many")
        try:
            values = [self.value_of(a) for a in args]
            named = {k: self.value_of(v) for k, v in kwargs.items()}
        except CompileError:
            if any(isinstance(a, (TracedTensor, TracedNumber)) for a in (*args, *kwargs.values())):
                raise
            _warn(f"what {path} makes is kept as a constant")
            return result
        if name == "__getitem__":
            emitted: SugaredValue = self._item(values)
        elif name == "__setitem__":
            index = self._places(values[1])
            ctx.emit(
                ctx.op("prim::tensor_setitem"), (_operand(ctx, values[0]), index, _operand(ctx, values[2])), _NOWHERE,
                (),
            )
            return None
        elif name == "__get__" and path.split(".")[-2] in READABLE:
            emitted = values[0].attribute(ctx, _NOWHERE, path.split(".")[-2])
        elif name in _REFLECTED:
            emitted = _REFLECTED[name](ctx, values[0], values[1])
        elif path == "weft.autograd.grad":  # as many gradients as the example has
            kinds = [tt.NONE if r is None else tt.TENSOR for r in result]
            emitted = call_builtin(ctx, _NOWHERE, path, func, values, named, tt.tuple_of(*kinds))
        else:
            emitted = self._called(path, func, values, named)
        if _is_in_place(name) and any(result is a for a in unwrapped(tuple(args))):
            return self.shown_as(result)
        return self.bound(emitted, result)

    def follow_grad_mode(self, mode: bool, result: Any = None) -> None:
        """What `no_grad` and `enable_grad` say around a call, the program says too; of a result that has no gradient
        in any case it does not matter.
        """
        if mode != self.grad_mode and not (isinstance(result, Tensor) and not result.dtype.is_differentiable):
            asked = self.mode_around if mode == self.first_grad_mode else None
            before = self.ctx.prim("set_grad_enabled", _NOWHERE, asked or constant(mode, tt.BOOL))
            self.grad_mode, self.mode_around = mode, self.mode_around or before

    def operator(self, op: Op, args: tuple[Any, ...], result: Any = None) -> Any:
        """A call of one operator with bound arguments: of traced tensors, or of none (a factory). result: what it gives
        on the example, where that is there."""
        if self.ctx.paused or modes.trace is None:
            return run_as_usual(op, plain(args))
        if is_casting():
            return recorded_in_autocast(self, op, args)
        with self.opening(False):
            return self._operator(op, args, result)

    @contextmanager
    def opening(self, opens: bool = True) -> Iterator[None]:
        """Within the block composites are recorded operator by operator, or are not."""
        before, self.opens = self.opens, opens
        try:
            yield
        finally:
            self.opens = before

    def _operator(self, op: Op, args: tuple[Any, ...], result: Any) -> Any:
        if result is None:
            with DisableWeftFunction(), self.ctx.pause():
                result = call(op, plain(args))
        self.follow_grad_mode(is_grad_enabled(), result)
        values, keywords = self._bound_values(op, args)
        emitted = Operators(op.name, [op]).call(self.ctx, _NOWHERE, values, keywords, 1)
        if _is_in_place(op.base) and any(result is a for a in plain(args)):
            return self.shown_as(result)
        return self.bound(emitted, result)

    def written(self, op: Op, args: tuple[Any, ...]) -> Any:
        """A call of one in-place operator with bound arguments. (Autocast leaves those as they are.)"""
        write = Tensor.__weft_inplace__  # type: ignore[attr-defined]
        if self.ctx.paused or modes.trace is None:
            return write(op, plain(args))
        with DisableWeftFunction(), self.ctx.pause():
            result = write(op, plain(args))
        self.follow_grad_mode(is_grad_enabled(), result)
        values, keywords = self._bound_values(op, args)
        Operators(f"{op.name}_", [op], None, in_place=True).call(self.ctx, _NOWHERE, values, keywords, 1)
        return self.shown_as(result)

    def _bound_values(self, op: Op, args: tuple[Any, ...]) -> tuple[list[SugaredValue], dict[str, SugaredValue]]:
        named = list(zip(op.schema.arguments, args, strict=True))
        return [self.value_of(a) for declared, a in named if not declared.keyword_only], {
            d.name: self.value_of(a) for d, a in named if d.keyword_only and a is not None
        }

    def _called(self, path: str, func: Any, values: list[SugaredValue], named: dict[str, SugaredValue]) -> SugaredValue:
        """A call of a function, or of a method with its object first."""
        operators = self._operators(path, func)
        if path.startswith("weft.Tensor.") and values and operators.candidates:
            operators.bound, values = values[0], values[1:]
        return operators.call(self.ctx, _NOWHERE, values, named, 1)

    def _operators(self, path: str, func: Any) -> Operators:
        space, _, name = path.rpartition(".")
        packet = getattr(func, "packet", None)
        candidates = (
            packet.overloads
            if packet is not None
            else overloads(f"aten::{name}")
            if space in ("weft", "weft.Tensor")
            else []
        )
        candidates = [op for op in candidates if not op.host]
        if not candidates and name.endswith("_") and not name.endswith("__"):
            written = [op for op in overloads(f"aten::{name[:-1]}") if op.inplace]
            if written:
                return Operators(path, written, None, in_place=True)
        return Operators(path, candidates, func)

    def _item(self, values: list[SugaredValue]) -> SugaredValue:
        ctx = self.ctx
        return ctx.emit(ctx.op("prim::tensor_getitem"), (_operand(ctx, values[0]), self._places(values[1])), _NOWHERE)

    def _places(self, index: SugaredValue) -> tuple[Operand, ...]:
        parts = index.items if type(index) is TupleValue else [index]
        return tuple(_operand(self.ctx, p) for p in parts)

    def bound(self, emitted: SugaredValue, result: Any) -> Any:
        """The result of a call, its tensors tied to the values of the graph. One that a call handed on as it was (which
        for another input may be a copy) is a tensor of its own: what it was handed keeps its value.
        """
        ctx = self.ctx
        if isinstance(result, Tensor):
            value = self._as_tensor(emitted.as_value(ctx, _NOWHERE))
            return self.tensor(self._alias(result) if self._is_value(result) else result, value)
        if isinstance(result, list) and not holds_tensor(result):
            return result  # as long as it is in this run: nothing of it is in the trace
        if isinstance(result, (tuple, list)):
            parts = emitted.elements(ctx, _NOWHERE, len(result))
            bound = [self.bound(p, r) for p, r in zip(parts, result, strict=True)]
            return like(result, bound)
        if isinstance(result, dict):
            held = emitted.as_value(ctx, _NOWHERE)
            return {k: self.bound(self._value_at(held, k), v) for k, v in result.items()}
        return self.number(result, emitted) if type(result) in NUMBERS else result

    def _is_value(self, tensor: Tensor) -> bool:
        return any(id(tensor) in table for table in (self.values, self.members, self.outside))

    def _alias(self, tensor: Tensor) -> Tensor:
        with DisableWeftFunction(), self.ctx.pause():
            return tensor.view_as(tensor)

    def _value_at(self, held: Simple, key: Any) -> Simple:
        """What a dict has for a key."""
        kind = held.type.key if isinstance(held.type, tt.DictType) else tt.ANY
        return self.ctx.prim("getitem", _NOWHERE, held, constant(key, kind))

    def scripted(
        self, program: Program, args: Sequence[Any], kwargs: Mapping[str, Any], run: Callable[..., Any]
    ) -> Any:
        """A call of a scripted function: a node that calls it, not what it did."""
        self.follow_grad_mode(is_grad_enabled())
        plain_args, plain_kwargs = unwrapped((tuple(args), dict(kwargs)))
        with DisableWeftFunction(), self.ctx.pause():
            result = run(*plain_args, **plain_kwargs)
        values = [self.value_of(a) for a in args]
        emitted = Scripted(program).call(
            self.ctx, _NOWHERE, values, {k: self.value_of(v) for k, v in kwargs.items()}, 1
        )
        return self.bound(emitted, result) if holds_tensor(result) else self.number(result, emitted)

    def scripted_method(self, method: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """A call of a scripted Module's method: a node that calls it where the Module belongs to what is traced."""
        path = self.modules.get(id(method.owner))
        program = method.__weft_program__
        if path is None or self.self_value is None:
            return run(program, (method.owner, *args), kwargs)
        self.follow_grad_mode(is_grad_enabled())
        plain_args, plain_kwargs = unwrapped((tuple(args), dict(kwargs)))
        with DisableWeftFunction(), self.ctx.pause():
            result = run(program, (method.owner, *plain_args), plain_kwargs)
        called = self.ctx.program.member(self.ctx, _NOWHERE, self._at(path), method.__name__)
        named = {k: self.value_of(v) for k, v in kwargs.items()}
        emitted = called.call(self.ctx, _NOWHERE, [self.value_of(a) for a in args], named, 1)
        return self.bound(emitted, result) if holds_tensor(result) else self.number(result, emitted)

    def number(self, result: Any, emitted: SugaredValue) -> Any:
        """A number that the program computes, as the traced function sees it."""
        return TracedNumber.of(self, result, emitted.as_value(self.ctx, _NOWHERE))

    def refuse_state(self, what: str) -> None:
        """Raises CompileError for what is done with a generator besides drawing from it."""
        if not self.ctx.paused:
            raise CompileError(
                f"{user_location(2)}: weft.jit.trace: the function {what}; the trace would draw on without it. Do so "
                "outside of the function, or use weft.compile"
            )

    # ---- the border
    def entered(self, held: Any, value: Simple) -> Any:
        """An input as the traced function sees it."""
        ctx, kind = self.ctx, value.type
        if isinstance(held, Tensor):
            return self.tensor(self._alias(held) if self._is_value(held) else held, value)
        if isinstance(held, (tuple, list)):
            parts = value.elements(ctx, _NOWHERE, len(held))
            entered = [self.entered(h, p.as_value(ctx, _NOWHERE)) for h, p in zip(held, parts, strict=True)]
            return like(held, entered)
        if isinstance(held, dict) and isinstance(kind, tt.DictType):
            return {k: self.entered(h, self._value_at(value, k)) for k, h in held.items()}
        return self.number(held, value) if type(held) in NUMBERS else held

    def finish(self, result: Any) -> Simple:
        """The result as a value of the graph, which ends here."""
        self.follow_grad_mode(self.first_grad_mode)
        return self.left(result)

    def left(self, result: Any) -> Simple:
        """The result as a value of the graph."""
        if isinstance(result, dict):
            keys = tuple(result)
            values = [self.left(v) for v in result.values()]
            op = self.ctx.op("prim::DictConstruct")
            return self.ctx.emit(op, (keys, tuple(v.operand for v in values), ""), _NOWHERE)
        if isinstance(result, (tuple, list)):
            parts = [self.left(r) for r in result]
            sequence: SugaredValue = ListValue(parts) if isinstance(result, list) else tuple_like(result, parts)
            return sequence.as_value(self.ctx, _NOWHERE)
        return self.value_of(result).as_value(self.ctx, _NOWHERE)


def _operand(ctx: Context, value: SugaredValue) -> Operand:
    return value.as_value(ctx, _NOWHERE).operand


def _is_in_place(name: str) -> bool:
    """Whether a function of this name writes into its first argument, and gives that back."""
    return name.startswith("__i") if name.endswith("__") else name.endswith("_")


def _reflected(name: str) -> Callable[[Context, SugaredValue, SugaredValue], SugaredValue]:
    from weft.jit.script.frontend.operations import compute  # the same steps as in a scripted function

    kinds = {"sub": ast.Sub, "truediv": ast.Div, "floordiv": ast.FloorDiv, "mod": ast.Mod, "pow": ast.Pow,
    "matmul": ast.MatMult,
             "lshift": ast.LShift, "rshift": ast.RShift}  # fmt: skip
    return lambda ctx, x, other: compute(ctx, _NOWHERE, kinds[name], other, x)


_REFLECTED = {
    f"__r{n}__": _reflected(n) for n in ("sub", "truediv", "floordiv", "mod", "pow", "matmul", "lshift", "rshift")
}
_REFLECTED["__rdiv__"] = _REFLECTED["__rtruediv__"]


def _warn(text: str) -> None:
    warn(f"{user_location()}: {text}; another input may need another one", TracerWarning)


def _is_asked_by_users() -> bool:
    """Whether it is the user's code that asks a mode, and not weft's own."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.endswith(_ASKING):
        frame = frame.f_back
    return not is_internal(frame.f_code.co_filename)


_ASKING = ("recorder.py", "overrides.py", "subclass.py", "variants.py", "methods.py")
# what hangs on the dtype, the number of dims, or how the tensor came to be, which are the example's
_OF_TYPE = frozenset((
    "dim", "ndim", "ndimension", "element_size", "itemsize", "get_device", "output_nr", "is_complex",
    "is_floating_point", "is_signed", "is_conj", "is_neg", "is_inference", "is_leaf", "retains_grad", "is_tensor",
    "is_storage", "is_pinned", "is_shared", "can_cast",
    *(n for n in dir(Tensor) if n.startswith("is_") and isinstance(getattr(Tensor, n, None), bool)),
))  # fmt: skip
_OF_VALUES = ("__array__", "__array_interface__", "__dlpack__", "__contains__")


def _is_counted(result: Any) -> bool:
    """Whether it is a number that a program computes, or several."""
    return all(map(_is_counted, result)) if type(result) is tuple else type(result) in NUMBERS


def _is_of_elements(result: Any) -> bool:
    """Whether it may be another one for other values or sizes: a number, or what shows memory."""
    if type(result) in (tuple, list):
        return any(map(_is_of_elements, result))
    return type(result).__name__ == "PyCapsule" or isinstance(
        result, (bool, int, float, complex, np.ndarray, Storage, UntypedStorage)
    )
