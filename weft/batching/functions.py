"""`@weft.jit.batch`: a program for one example, called with many."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from weft.batching.code import BatchingCode
from weft.batching.graphs import batched
from weft.batching.masks import Mask
from weft.batching.rows import Rows
from weft.batching.tensors import BatchTensor
from weft.batching.values import Examples, PerExample, differs, in_form, of_example
from weft.jit.errors import CompileError
from weft.jit.functions import ScriptFunction
from weft.jit.interpreter.code import Code
from weft.jit.program import Program
from weft.jit.script.entry import script
from weft.jit.torchscript.graph import Graph
from weft.jit.torchscript.inlining import inlined
from weft.nn.modules.module import Module
from weft.support import limits
from weft.support.errors import ArgumentError
from weft.support.memo import Memo
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor
from weft.types.tensor_type import TensorType

Given = dict[int, tuple[Tensor, BatchTensor]]  # by the identity of the tensor that stands in for a BatchTensor


def batch(batch_size: int | None = None) -> Callable[[Any], BatchedFunction]:
    """Decorator: compile a function of one example, to be called with BatchTensors of many.

    A program is written for tensors with a batch of one in front: [1, ...]. It is scripted. Called with BatchTensors it
    gives BatchTensors: example by example what the function gives for the example, whatever its size, and whichever way
    it takes through branches and loops. Tensors and numbers among the arguments are the same for all.

    batch_size: how many examples each call has; None: as many as its arguments. Raises CompileError for what cannot be
    compiled, or done for each example on its own.

    >>> @weft.jit.batch(batch_size=2)
    ... def halved(x: weft.Tensor) -> weft.Tensor:
    ...     while x.sum() > 1:
    ...         x = x / 2
    ...     return x
    """
    if batch_size is not None and (type(batch_size) is not int or batch_size < 1):
        raise ArgumentError(
            f"weft.jit.batch: batch_size is a positive integer, not {batch_size!r}; write "
            "`@weft.jit.batch(batch_size=4)` above the function"
        )
    return lambda function: BatchedFunction(function, batch_size)


class BatchedFunction:
    """A program that runs for many examples. Made by `@weft.jit.batch`."""

    def __init__(self, function: Any, batch_size: int | None) -> None:
        self.batch_size = batch_size
        self._owner, program = _program_of(function)
        self._graph, self._whole = inlined(program)
        self._programs: Memo[frozenset[int], Program] = Memo(limits.PLANS_OF_A_SCRIPT)
        self.__name__ = self.__qualname__ = program.name.rpartition(".")[2]
        self.__doc__ = program.document
        self._code(self._tensors())  # what cannot be done is refused here, not when it is called

    @property
    def graph(self) -> Graph:
        """The program for many examples, where every tensor among the parameters is one for each example."""
        program = self._code(self._tensors()).program
        assert program.graph is not None
        return Graph(program.graph, program, runs=True)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The results for all examples: a BatchTensor for a tensor, a list of what each example gives for any other
        value. Raises what the function raises for an example.
        """
        count = self._count((*args, *kwargs.values()))
        stand_ins: Given = {}
        bound = self._whole.bind(
            (*self._owner, *_opened(args, stand_ins)),
            {name: _opened(value, stand_ins) for name, value in kwargs.items()},
        )
        values = [_entered(value, stand_ins) for value in bound]
        code = self._code(frozenset(at for at, value in enumerate(values) if differs(value)))
        before = modes.grad
        try:
            every: Any = Rows.all_of(count) if modes.capture is None else Mask(None, count)
            return _left(code([every, *values]), count)
        except BaseException:
            modes.grad = before  # what was raised has left `with no_grad()`
            raise

    def _count(self, args: tuple[Any, ...]) -> int:
        counts = [value.batch_size for value in _batches(args)]
        expected = self.batch_size if self.batch_size is not None else next(iter(counts), None)
        if expected is None:
            raise ArgumentError(f"{self.__name__}: no BatchTensor is given; say how many examples: batch(batch_size=n)")
        for count in counts:
            if count != expected:
                raise ArgumentError(
                    f"{self.__name__}: a BatchTensor of {count} examples is given where a batch has {expected}"
                )
        return expected

    def _tensors(self) -> frozenset[int]:
        """The positions of parameters that are tensors."""
        return frozenset(at for at, p in enumerate(self._whole.parameters) if isinstance(p.type, TensorType))

    def _code(self, parameters: frozenset[int]) -> Code:
        program = self._programs.get(parameters)
        if program is None:
            graph = batched(self._graph, parameters, self.batch_size)
            program = dataclasses.replace(self._whole, graph=graph, code=None, recording_code=None)
            self._programs[parameters] = program
        if modes.capture is None:
            program.code = program.code or BatchingCode(program)
            return program.code  # type: ignore[no-any-return]
        if program.recording_code is None:
            from weft.batching.recording import RecordedBatches  # (captures are of no use to most)

            program.recording_code = RecordedBatches(program)
        return program.recording_code  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"<weft.jit.BatchedFunction {self._whole.schema()}>"


def _program_of(function: Any) -> tuple[tuple[Any, ...], Program]:
    """What is given for `self`, and the program."""
    scripted = script(function)
    if isinstance(scripted, ScriptFunction):
        return (), scripted.__weft_program__
    if isinstance(scripted, Module):
        forward: Any = scripted.forward
        return (scripted,), forward.__weft_program__
    raise CompileError(f"weft.jit.batch: functions and Modules can be batched, not a {type(function).__name__}")


# ---- arguments and results
def _batches(value: Any) -> Iterator[BatchTensor]:
    if isinstance(value, BatchTensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from _batches(part)
    elif isinstance(value, dict):
        yield from _batches(tuple(value.values()))


def _opened(value: Any, stand_ins: Given) -> Any:
    """The arguments with a tensor in place of each BatchTensor, which `stand_ins` remembers."""
    if isinstance(value, BatchTensor):
        stand_in = value.data.detach()
        stand_ins[id(stand_in)] = (stand_in, value)
        return stand_in
    if isinstance(value, (tuple, list)) and next(_batches(value), None) is not None:
        return in_form(value, [_opened(part, stand_ins) for part in value])
    if isinstance(value, dict) and next(_batches(value), None) is not None:
        return {k: _opened(v, stand_ins) for k, v in value.items()}
    return value


def _entered(value: Any, stand_ins: Given) -> Any:
    if isinstance(value, Tensor):
        entry = stand_ins.get(id(value))
        return value if entry is None else entry[1]._values()
    if isinstance(value, (tuple, list)):
        parts = [_entered(part, stand_ins) for part in value]
        return value if all(a is b for a, b in zip(parts, value, strict=True)) else in_form(value, parts)
    if isinstance(value, dict):
        return {k: _entered(v, stand_ins) for k, v in value.items()} if stand_ins else value
    return value


def _left(value: Any, count: int) -> Any:
    if isinstance(value, Examples):
        return BatchTensor._of(value)
    if isinstance(value, Tensor):
        return BatchTensor(value, count)
    if isinstance(value, tuple) or (isinstance(value, list) and _has_tensors(value)):
        return in_form(value, [_left(part, count) for part in value])
    if isinstance(value, dict) and _has_tensors(value.values()):
        return {k: _left(v, count) for k, v in value.items()}
    if value is None:
        return None
    return value.values if isinstance(value, PerExample) else [of_example(value, at) for at in range(count)]


def _has_tensors(values: Iterable[Any]) -> bool:
    return any(isinstance(value, (Examples, Tensor)) for value in values)
