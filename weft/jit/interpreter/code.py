"""Running a program: the graph as steps over registers. Operators are called on Tensors, so gradients flow as in eager.

A register is emptied after the last use of its value. Steps are made once for a program and hold nothing of a call:
threads can run them together.
"""

from __future__ import annotations

import functools
import importlib
import operator
from collections.abc import Callable, Sequence
from typing import Any

from weft.ir.evaluate import last_uses
from weft.ir.graph import Block, Node, Operand, Value, values_in
from weft.ir.kinds import has_many_results
from weft.ir.structure import GRADIENTS_OF, GROUPS, HOOK, TRANSFORM, WITH_BACKWARD
from weft.jit.interpreter.hot import HotLoop
from weft.jit.interpreter.later.steps import hook, transform, with_backward
from weft.jit.interpreter.object_steps import (
    create_object,
    enter,
    get_attribute,
    is_instance,
    leave,
    leave_entered,
    set_attribute,
)
from weft.jit.interpreter.operators import function_of
from weft.jit.interpreter.steps import Registers, Step, Steps
from weft.jit.interpreter.whole_steps import gradients, group
from weft.jit.program import MISSING, Program, accepted
from weft.ops.op import OPS, Op
from weft.tensor.modes import modes
from weft.types.parse import parse_type


class Code:
    """The steps of one program."""

    def __init__(self, program: Program) -> None:
        assert program.graph is not None
        self.program = program
        self.places: dict[Value, int] = {}
        self.template: Registers = []
        self.blocks: dict[Block, Steps] = {}
        self.entered: int | None = None  # where the objects are whose `with` blocks have begun
        self.block = self.steps_of(program.graph.block)

    def __call__(self, args: Sequence[Any]) -> Any:
        """The result for arguments that have been checked."""
        registers = self.template.copy()
        for place, value in zip(self.block.params, args, strict=True):
            registers[place] = value
        del args
        try:
            self.block.run(registers)
        except BaseException:
            leave_entered(self, registers)
            raise
        results = self.block.results(registers)
        return results[0] if len(results) == 1 else tuple(results) or None

    def from_python(self, args: Sequence[Any]) -> Any:
        """The result of a call that Python makes."""
        return self(args)

    def of(self, program: Program) -> Code:
        """The steps of another program."""
        return code_of(program)

    # ---- places
    def place(self, value: Value) -> int:
        slot = self.places.get(value)
        if slot is None:
            slot = self.places[value] = len(self.template)
            self.template.append(None)
        return slot

    def constant(self, value: Any) -> int:
        self.template.append(value)
        return len(self.template) - 1

    def read(self, operand: Operand) -> int | list[Any]:
        """Where an operand is: a register, or a list of such for a tuple that holds values."""
        if isinstance(operand, Value):
            return self.place(operand)
        if isinstance(operand, tuple) and _holds_value(operand):
            return [self.read(part) for part in operand]
        return self.constant(operand)

    def reader(self, operands: Sequence[Operand]) -> Callable[[Registers], list[Any]]:
        """What reads the operands of a step."""
        return _reader([self.read(a) for a in operands])

    # ---- blocks
    def steps_of(self, block: Block) -> Steps:
        body = self.blocks[block] = Steps(params=[self.place(p) for p in block.params])
        for node, finished in zip(block.nodes, last_uses(block), strict=True):
            step = self.step_of(node)
            places = [self.place(v) for v in finished]
            body.steps.append(_emptying(step, places) if places else step)
            body.nodes.append(node)
        body.results = _reader([self.read(r) for r in block.results])
        return body

    def step_of(self, node: Node) -> Step:
        special = _SPECIAL.get(node.op)
        if special is not None:
            return special(self, node)
        return self.calling(node, function_of(node.op, node))

    def calling(self, node: Node, function: Callable[..., Any]) -> Step:
        """Call a function with the operands, and put its results into registers."""
        reads = [self.read(a) for a in node.args]
        outputs = [self.place(v) for v in node.outputs]
        spread = node.op.host and has_many_results(node.op)
        if len(outputs) == 1 and not spread and all(isinstance(r, int) for r in reads):
            return _simple(function, reads, outputs[0])  # type: ignore[arg-type]
        read = _reader(reads)
        if len(outputs) == 1 and not spread:
            out = outputs[0]

            def one(registers: Registers) -> None:
                registers[out] = function(*read(registers))

            return one

        def several(registers: Registers) -> None:
            results = function(*read(registers))
            for out, value in zip(outputs, results or (), strict=True):
                registers[out] = value

        return several


def _holds_value(operand: Operand) -> bool:
    return isinstance(operand, Value) or (isinstance(operand, tuple) and any(map(_holds_value, operand)))


def _reader(reads: Sequence[int | list[Any]]) -> Callable[[Registers], list[Any]]:
    if all(isinstance(read, int) for read in reads):
        if len(reads) > 1:
            return operator.itemgetter(*reads)
        places = list(reads)
        return lambda registers: [registers[p] for p in places]  # type: ignore[index]

    def value(registers: Registers, read: int | list[Any]) -> Any:
        return registers[read] if isinstance(read, int) else tuple([value(registers, part) for part in read])

    return lambda registers: [value(registers, read) for read in reads]


def _simple(function: Callable[..., Any], reads: Sequence[int], out: int) -> Step:
    """The commonest steps, without a list of arguments."""
    if len(reads) == 1:
        (a,) = reads

        def unary(registers: Registers) -> None:
            registers[out] = function(registers[a])

        return unary
    if len(reads) == 2:
        first, second = reads

        def binary(registers: Registers) -> None:
            registers[out] = function(registers[first], registers[second])

        return binary

    def step(registers: Registers) -> None:
        registers[out] = function(*[registers[r] for r in reads])

    return step


def _emptying(step: Step, places: Sequence[int]) -> Step:
    def then_empty(registers: Registers) -> None:
        step(registers)
        for place in places:
            registers[place] = None

    return then_empty


# ---- control flow
def _if(code: Code, node: Node) -> Step:
    asked = code.read(node.args[0])
    assert isinstance(asked, int)
    first, second = (code.steps_of(b) for b in node.blocks)
    outputs = [code.place(v) for v in node.outputs]

    def choose(registers: Registers) -> None:
        block = first if registers[asked] else second
        block.run(registers)
        for out, value in zip(outputs, block.results(registers), strict=True):
            registers[out] = value

    return choose


def _loop(code: Code, node: Node) -> Step:
    read = _reader([code.read(a) for a in node.args[:3]])
    body = code.steps_of(node.blocks[0])
    outputs = [code.place(v) for v in node.outputs]
    index, *carried = body.params
    hot = HotLoop(code, node)

    def repeat(registers: Registers) -> None:
        trip, going, values = read(registers)
        step, hands_over = 0, hot.after()
        while going and step < trip:
            if step == hands_over:
                step, going, values = hot.run(registers, step, trip, going, values)
                if not going or step >= trip:
                    break
            registers[index] = step
            for place, value in zip(carried, values, strict=True):
                registers[place] = value
            del values
            body.run(registers)
            going, *values = body.results(registers)
            step += 1
        hot.seen += step
        for out, value in zip(outputs, values, strict=True):
            registers[out] = value

    return repeat


# ---- calls
def code_of(program: Program) -> Code:
    """The steps of a program, made when it is first run; those that are recorded, where a capture is active."""
    if modes.capture is not None:
        if program.recording_code is None:
            from weft.jit.interpreter.recording.code import RecordingCode  # it derives from what is here

            program.recording_code = RecordingCode(program)
        return program.recording_code  # type: ignore[no-any-return]
    if program.code is None:
        program.code = Code(program)
    return program.code  # type: ignore[no-any-return]


def _call_function(code: Code, node: Node) -> Step:
    callee = code.program.functions[node.args[0]]
    return _with_args(code, node, lambda args: code_of(callee)(args))


def _call_method(code: Code, node: Node) -> Step:
    place, name = code.read(node.args[0]), node.args[1]
    assert isinstance(place, int)
    read = _reader([code.read(a) for a in node.args[2]])
    outputs = [code.place(v) for v in node.outputs]

    def step(registers: Registers) -> None:
        owner = registers[place]
        programs = owner.__dict__.get("_programs") or {}
        if name in programs:
            value = code_of(programs[name])([owner, *read(registers)])
        else:  # a module of weft's own, whose Python could not be compiled
            value = getattr(_plain(owner), name)(*read(registers))
        if outputs:
            registers[outputs[0]] = value

    return step


def _plain(owner: Any) -> Any:
    """The Module that was scripted, in the mode that its scripted form is in."""
    original = owner.__dict__.get("_original")
    if original is not None and original.training != owner.training:
        original.train(owner.training)
    return owner if original is None else original


def _call_python(code: Code, node: Node) -> Step:
    function, names, kind = code.program.python[node.args[0]], node.args[2], parse_type(node.args[3])
    graph = code.program.graph
    is_read = graph is None or any(v in reads for reads in map(Node.reads, graph.nodes) for v in node.outputs) or any(
        v in node.outputs for v in values_in(graph.results)
    )

    def run(args: list[Any]) -> Any:
        split = len(args) - len(names)
        returned = function(*args[:split], **dict(zip(names, args[split:], strict=True)))
        converted = accepted(returned, kind)
        if converted is MISSING and returned is None and not is_read:  # without annotation, called as a statement
            return None
        if converted is MISSING:
            raise TypeError(
                f"{node.args[0]} was annotated to return a value of type {kind}, and returned something else"
            )
        return converted

    return _with_args(code, node, run)


def _call_builtin(code: Code, node: Node) -> Step:
    names = node.args[2]

    def run(args: list[Any]) -> Any:
        split = len(args) - len(names)
        return found_at(node.args[0])(*args[:split], **dict(zip(names, args[split:], strict=True)))

    return _with_args(code, node, run)


@functools.cache
def found_at(path: str) -> Any:
    """The function of weft's with this path (`weft.nn.functional.pad`, `weft.Tensor.to`)."""
    parts = path.split(".")
    member: Any = importlib.import_module(parts[0])
    for i, part in enumerate(parts[1:], 1):
        try:
            member = getattr(member, part)
        except AttributeError:
            member = importlib.import_module(".".join(parts[: i + 1]))
    return member


def _with_args(code: Code, node: Node, run: Callable[[list[Any]], Any]) -> Step:
    read = _reader([code.read(a) for a in node.args[1]])
    outputs = [code.place(v) for v in node.outputs]

    def step(registers: Registers) -> None:
        value = run(read(registers))
        if outputs:
            registers[outputs[0]] = value

    return step


# ---- modes
def _set_grad_mode(code: Code, node: Node) -> Step:
    place, out = code.read(node.args[0]), code.place(node.output)
    assert isinstance(place, int)

    def switch(registers: Registers) -> None:
        registers[out] = bool(modes.grad)
        modes.grad = registers[place]

    return switch


_SPECIAL: dict[Op, Callable[[Code, Node], Step]] = {
    OPS["prim::If"]: _if,
    OPS["prim::Loop"]: _loop,
    **dict.fromkeys(GROUPS, group),
    GRADIENTS_OF: gradients,
    TRANSFORM: transform,
    WITH_BACKWARD: with_backward,
    HOOK: hook,
    OPS["prim::CallFunction"]: _call_function,
    OPS["prim::PythonOp"]: _call_python,
    OPS["prim::CallBuiltin"]: _call_builtin,
    OPS["prim::CallMethod"]: _call_method,
    OPS["prim::set_grad_enabled"]: _set_grad_mode,
    OPS["prim::isinstance"]: is_instance,
    OPS["prim::CreateObject"]: create_object,
    OPS["prim::Enter"]: enter,
    OPS["prim::Exit"]: leave,
    OPS["prim::GetAttr"]: get_attribute,
    OPS["prim::SetAttr"]: set_attribute,
}
