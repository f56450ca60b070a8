"""Steps of a program that make objects, read and write their attributes, and ask for their types."""

from __future__ import annotations

from weft.ir.graph import Node
from weft.jit.interpreter.steps import Registers, Step, StepMaker
from weft.jit.program import has_type
from weft.types.parse import parse_type


def get_attribute(code: StepMaker, node: Node) -> Step:
    source, name, _ = node.args
    out = code.place(node.output)
    if source is None:
        captured = code.program.captured

        def closed_over(registers: Registers) -> None:
            registers[out] = captured[name]

        return closed_over
    place = code.read(source)
    assert isinstance(place, int)

    def attribute(registers: Registers) -> None:
        registers[out] = getattr(registers[place], name)

    return attribute


def create_object(code: StepMaker, node: Node) -> Step:
    out, cls = code.place(node.output), code.program.captured[node.args[0]]

    def create(registers: Registers) -> None:
        registers[out] = cls.__new__(cls)

    return create


def set_attribute(code: StepMaker, node: Node) -> Step:
    read = code.reader([node.args[0], node.args[2]])

    def write(registers: Registers) -> None:
        owner, value = read(registers)
        assign = getattr(type(owner), "_assigned_by_program", setattr)  # (of a scripted Module: types are known to fit)
        assign(owner, node.args[1], value)

    return write


def is_instance(code: StepMaker, node: Node) -> Step:
    kind = parse_type(node.args[1])
    return code.calling(node, lambda value, _: has_type(value, kind))


# ---- with
def enter(code: StepMaker, node: Node) -> Step:
    """An object's `with` block begins."""
    program, place, entered = code.program.functions[node.args[0]], code.read(node.args[1]), _entered(code)
    assert isinstance(place, int)

    def note(registers: Registers) -> None:
        if registers[entered] is None:
            registers[entered] = []
        registers[entered].append((program, registers[place]))

    return note


def leave(code: StepMaker, node: Node) -> Step:
    """The block that began last ends."""
    entered = _entered(code)

    def forget(registers: Registers) -> None:
        registers[entered].pop()

    return forget


def _entered(code: StepMaker) -> int:
    if code.entered is None:
        code.entered = code.constant(None)
    return code.entered


def leave_entered(code: StepMaker, registers: Registers) -> None:
    """Call `__exit__` of the objects whose blocks an exception leaves, innermost first. It goes on."""
    for program, value in reversed((registers[code.entered] if code.entered is not None else None) or ()):
        code.of(program)([value, None, None, None])
