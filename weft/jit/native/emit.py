"""A loop over numbers as LLVM's text, with the functions of the program that it calls.

A value is an LLVM value, a tuple a tuple of them, a list a NativeList. Where an operation has to raise, or a block
surely does, the code leaves: it writes what the interpreter needs into the frame, and gives back the number of the
site.

The frame: the steps that inner loops have made; words for the sites of calls that are open, by how deep the function
called calls others; the lists that the code has made (made_lists.py); then the inputs, which make room for the results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from weft.catalogue.language.entries import NATIVE, NATIVE_OF_LISTS
from weft.codegen.emit import I64, NULL, PTR, Function, Module, Signature, const
from weft.codegen.emit import Value as Number
from weft.ir.graph import Block, Node, Operand, Value
from weft.ir.structure import IF, LOOP
from weft.jit.native.arithmetic import immediate
from weft.jit.native.elements import NativeList, load_words, store_words
from weft.jit.native.kinds import Unfit, has_form, is_native, llvm_type, scalars
from weft.jit.native.lists import COUNT, TRACE_WORDS
from weft.jit.native.made_lists import SOFT, MadeLists
from weft.jit.program import Program
from weft.ops.op import OPS
from weft.types.tensor_type import ListType, TupleType, Type, list_of

_CALL, _RAISE = OPS["prim::CallFunction"], OPS["prim::RaiseException"]
_NOTHING, _CAST = OPS["prim::Uninitialized"], OPS["prim::unchecked_cast"]
_RARELY = '!{!"branch_weights", i32 1, i32 1000}'


class Interpreted(Protocol):
    """What the emitter asks of a program's steps (interpreter.py)."""

    program: Program

    def of(self, program: Program) -> Interpreted:
        """The steps of another program."""


@dataclass(frozen=True, eq=False)
class Site:
    """Where the code leaves: the program, the block, how many of its nodes went before (None: all of it is
    interpreted), and which values the interpreter needs.
    """

    code: Interpreted
    block: Block
    index: int | None
    live: tuple[Value, ...]
    call: Node | None = None  # for a call that was left while it was open


@dataclass(eq=False)
class Unit:
    """What is compiled together: the module, the sites, and functions by their programs, each with the depth of its
    calls.
    """

    module: Module
    sites: list[Site] = field(default_factory=list)
    functions: dict[int, tuple[Signature, int]] = field(default_factory=dict)
    open: set[int] = field(default_factory=set)
    words: int = 0
    makes_lists: bool = False

    def site(self, site: Site) -> int:
        """The number of a new site, from 1."""
        self.sites.append(site)
        self.words = max(self.words, sum(len(scalars(v.type)) for v in site.live))
        return len(self.sites)


def outer_values(node: Node) -> list[Value]:
    """The numbers that a loop's body reads from outside."""
    return [v for v in node.blocks[0].free_values() if has_form(v.type)]


class FunctionEmitter(MadeLists):
    """Writes one function: a loop, or a program that it calls."""

    def __init__(self, unit: Unit, code: Interpreted, f: Function) -> None:
        self.unit, self.code, self.f = unit, code, f
        self.frame = f.params[0]
        self.values: dict[Value, Any] = {}
        self.depth = 0  # of calls
        self._at: list[tuple[Block, int]] = []
        self._leaves: dict[Any, tuple[str, int, Sequence[Value]]] = {}

    # ---- values
    def read(self, operand: Operand) -> Any:
        """An operand in machine code. Raises Unfit."""
        if isinstance(operand, Value):
            if operand not in self.values:
                raise Unfit(f"%{operand.name} : {operand.type}")
            return self.values[operand]
        if isinstance(operand, tuple):
            return tuple([self.read(part) for part in operand])
        return immediate(operand)

    def flat(self, value: Any, kind: Type) -> Iterator[Number]:
        """The numbers of a value, each as its type has it. Raises Unfit."""
        if isinstance(kind, TupleType):
            if not isinstance(value, tuple) or len(value) != len(kind.elements):
                raise Unfit(str(kind))
            for part, element in zip(value, kind.elements, strict=True):
                yield from self.flat(part, element)
            return
        if isinstance(value, NativeList) and kind is list_of(value.element):
            yield value.record
            return
        if type(value) in (bool, int, float):
            value = immediate(value)
        if not has_form(kind) or not isinstance(value, Number) or value.type is not llvm_type(kind):
            raise Unfit(str(kind))
        yield value

    def flat_all(self, operands: Sequence[Operand], kinds: Sequence[Type]) -> list[Number]:
        """The numbers of several operands."""
        return [n for o, k in zip(operands, kinds, strict=True) for n in self.flat(self.read(o), k)]

    def bind(self, values: Sequence[Value], numbers: Sequence[Number]) -> None:
        """Let values be made of numbers, in order."""
        rest = iter(numbers)
        for value in values:
            self.values[value] = self.built(rest, value.type)

    def built(self, numbers: Iterator[Number], kind: Type) -> Any:
        """A value of a type from its numbers."""
        if isinstance(kind, TupleType):
            return tuple([self.built(numbers, e) for e in kind.elements])
        return NativeList(next(numbers), kind.element) if isinstance(kind, ListType) else next(numbers)

    def word(self, index: int) -> Number:
        """The address of a word of the frame."""
        return self.f.gep(I64, self.frame, index)

    def load(self, kinds: Sequence[Type], base: Number, first: int = 0) -> list[Number]:
        """Numbers of these types from consecutive words."""
        return load_words(self.f, [s for k in kinds for s in scalars(k)], base, first)

    def store(self, numbers: Sequence[Number], base: Number, first: int = 0) -> None:
        """Numbers into consecutive words."""
        store_words(self.f, numbers, base, first)

    # ---- leaving
    def leave_if(self, condition: Number) -> None:
        block, index = self._at[-1]
        self._leave_if(condition, block, index, tuple(block.nodes[index].inputs()))

    def _leave_if(self, condition: Number, block: Block, index: int | None, live: tuple[Value, ...]) -> None:
        if condition.const == 0:
            return
        if (block, index) not in self._leaves:
            available = tuple([v for v in live if v in self.values])  # the interpreter has the others
            number = self.unit.site(Site(self.code, block, index, available))
            self._leaves[block, index] = self.f.block("leave"), number, available
        stays = self.f.block("stays")
        self.f.cond_br(
            condition, self._leaves[block, index][0], stays, f"!prof {self.f.module.metadata(_RARELY)}"
        )
        self.f.place(stays)

    def finish(self) -> None:
        """Write the ways out."""
        for label, number, live in self._leaves.values():
            self.f.place(label)
            self.store(self.flat_all(live, [v.type for v in live]), self.frame, TRACE_WORDS)
            self.f.ret(const(I64, number))

    # ---- nodes
    def block(self, block: Block) -> None:
        """Every node of a block. Raises Unfit."""
        for i, node in enumerate(block.nodes):
            self._at.append((block, i))
            self.node(node)
            self._at.pop()

    def node(self, node: Node) -> None:
        """One node. Raises Unfit."""
        if node.op is IF:
            self._if(node)
        elif node.op is LOOP:
            steps, _, *carried = self.loop(node, const(I64, 0), *self._begin(node))
            self.f.store(self.f.add(self.f.load(I64, self.frame), steps), self.frame)
            self.bind(node.outputs, carried)
        elif node.op is _CALL:
            self._call_program(node)
        elif node.op is _NOTHING:
            kinds = [s for v in node.outputs for s in self._native_scalars(v.type)]
            self.bind(node.outputs, [NULL if llvm_type(s) is PTR else const(llvm_type(s), 0) for s in kinds])
        elif node.op is _CAST:
            self._give(node, self.read(node.args[0]))
        else:
            self._compute(node)

    def _native_scalars(self, kind: Type) -> list[Type]:
        if not has_form(kind):
            raise Unfit(str(kind))
        return scalars(kind)

    def _compute(self, node: Node) -> None:
        is_of_list = bool(node.args) and isinstance(node.args[0], Value) and isinstance(node.args[0].type, ListType)
        is_of_list = is_of_list or (bool(node.args) and isinstance(node.args[0], tuple) and node.op in NATIVE_OF_LISTS)
        body, fits = (NATIVE_OF_LISTS.get(node.op), has_form) if is_of_list else (NATIVE.get(node.op), is_native)
        self.wanted = node.outputs[0].type if node.outputs else None
        if body is None or any(isinstance(a, Value) and not fits(a.type) for a in node.args):
            raise Unfit(node.op.name)
        results = body(self, *[self.read(a) if isinstance(a, (Value, tuple)) else a for a in node.args])
        if node.outputs and results is None:
            raise Unfit(node.op.name)
        self._give(node, results)

    def note_made(self) -> None:
        """Remember that the code makes lists."""
        self.unit.makes_lists = True

    def _give(self, node: Node, results: Any) -> None:
        parts = (results,) if len(node.outputs) == 1 else results or ()
        numbers = [n for part, v in zip(parts, node.outputs, strict=True) for n in self.flat(part, v.type)]
        self.bind(node.outputs, numbers)

    def _if(self, node: Node) -> None:
        test = self.to_bool(self.read(node.args[0]))
        raising = [_raises(b) for b in node.blocks]
        if any(raising):
            arm = raising.index(True)
            block = node.blocks[arm]
            last = next(i for i, n in enumerate(block.nodes) if n.op is _RAISE)
            live = Block((), block.nodes[: last + 1]).free_values()
            self._leave_if(test if arm == 0 else self.f.not_(test), block, None, live)
            other = node.blocks[1 - arm]
            self.block(other)
            self.bind(node.outputs, self.flat_all(other.results, [v.type for v in node.outputs]))
            return
        kinds = [v.type for v in node.outputs]
        with self.f.if_else(test) as branches:
            for place, block in zip((branches.then, branches.otherwise), node.blocks, strict=True):
                with place:
                    self.block(block)
                    branches.give(*self.flat_all(block.results, kinds))
        self.bind(node.outputs, branches.results)

    def _begin(self, node: Node) -> tuple[Number, Number, list[Number]]:
        trip, going, carried, xs, reverse = node.args
        if xs or reverse:
            raise Unfit("slices")
        assert isinstance(carried, tuple)
        kinds = [v.type for v in node.outputs]
        return self._wide(self.read(trip)), self.to_bool(self.read(going)), self.flat_all(carried, kinds)

    def loop(
        self, node: Node, start: Number, trip: Number, going: Number, first: Sequence[Number], outermost: bool = False
    ) -> list[Number]:
        """A loop from a step on: the step and the condition at its end, and the numbers that it carries. The outermost
        one ends where many lists have been made.
        """
        body, kinds = node.blocks[0], [v.type for v in node.outputs]
        begin = [(start, "step"), (going, "going"), *((n, "carried") for n in first)]
        with self.f.while_loop(begin) as loop:
            step, goes_on, *carried = loop.carried
            test = self.f.and_(self.f.icmp("slt", step, trip), goes_on)
            if outermost:
                test = self.f.and_(test, self.f.icmp("ult", self.f.load(I64, self.word(COUNT)), SOFT))
            loop.test(test)
            self.bind(body.params, [step, *carried])
            self.block(body)
            following = self.to_bool(self.read(body.results[0]))
            numbers = self.flat_all(body.results[1:], kinds)
            loop.next(self.f.add(step, 1, "step"), following, *numbers)
        return list(loop.results)

    # ---- calls
    def _call_program(self, node: Node) -> None:
        name, args, _ = node.args
        assert isinstance(name, str) and isinstance(args, tuple)
        callee = self.code.program.functions[name]
        signature, depth = _function(self.unit, self.code.of(callee))
        self.depth = max(self.depth, depth + 1)
        if self.depth >= COUNT:
            raise Unfit("calls that are too deep")
        kinds = [p.type for p in callee.parameters]
        results = [s for v in node.outputs for s in scalars(v.type)]
        out = self.f.alloca(I64, max(1, len(results)))
        status = self.f.call(signature, [self.frame, out, *self.flat_all(args, kinds)], "status")
        block, index = self._at[-1]
        number = self.unit.site(Site(self.code, block, index, (), node))
        failed, fine = self.f.block("failed"), self.f.block("fine")
        self.f.cond_br(
            self.f.icmp("ne", status, 0), failed, fine, f"!prof {self.f.module.metadata(_RARELY)}"
        )
        self.f.place(failed)
        self.f.store(const(I64, number), self.word(self.depth))
        self.f.ret(status)
        self.f.place(fine)
        self.bind(node.outputs, self.load(results, out))


def _raises(block: Block) -> bool:
    return any(node.op is _RAISE for node in block.nodes)


def _function(unit: Unit, code: Interpreted) -> tuple[Signature, int]:
    """A program of the unit: it takes the frame, where the results go, and numbers; it gives a site's number or 0."""
    program = code.program
    emitted = unit.functions.get(id(program))
    if emitted is not None:
        return emitted
    assert program.graph is not None
    block = program.graph.block
    if id(program) in unit.open or not all(has_form(p.type) for p in block.params):
        raise Unfit(program.name)
    unit.open.add(id(program))
    kinds = [s for p in block.params for s in scalars(p.type)]
    params = [(PTR, "frame"), (PTR, "out"), *((llvm_type(k), "a") for k in kinds)]
    f = unit.module.function(f"weft_call_{len(unit.open)}", I64, params, internal=True)
    emitter = FunctionEmitter(unit, code, f)
    emitter.bind(block.params, f.params[2:])
    emitter.block(block)
    results = _result_types(program, len(block.results))
    emitter.store(emitter.flat_all(block.results, results), f.params[1])
    f.ret(const(I64, 0))
    emitter.finish()
    unit.functions[id(program)] = f.signature, emitter.depth
    return unit.functions[id(program)]


def _result_types(program: Program, count: int) -> list[Type]:
    if count == 1:
        return [program.returns]
    if not isinstance(program.returns, TupleType) or len(program.returns.elements) != count:
        raise Unfit(program.name)
    return list(program.returns.elements)


def _may_make_lists(program: Program, block: Block, seen: set[int]) -> bool:
    """Whether something in a block, or in what it calls, results in a list."""
    for node in block.walk():
        if any(isinstance(v.type, ListType) for v in node.outputs):
            return True
        callee = program.functions.get(node.args[0]) if node.op is _CALL and isinstance(node.args[0], str) else None
        if callee is not None and callee.graph is not None and id(callee) not in seen:
            seen.add(id(callee))
            if _may_make_lists(callee, callee.graph.block, seen):
                return True
    return False


def emit_loop(unit: Unit, code: Interpreted, node: Node) -> str:
    """The function of a loop: its name. Inputs are the step to begin with, the trip count, the condition, the carried
    values and the outer numbers; results are the step, the condition and the carried values. Raises Unfit.
    """
    f = unit.module.function("weft_loop", I64, [(PTR, "frame")])
    emitter = FunctionEmitter(unit, code, f)
    outer = outer_values(node)
    head = emitter.load([node.blocks[0].params[0].type] * 2, emitter.frame, TRACE_WORDS)
    going = f.icmp("ne", f.load(I64, emitter.word(TRACE_WORDS + 2)), 0)
    kinds = [v.type for v in node.outputs]
    if not all(map(has_form, kinds)) or node.args[3] or node.args[4]:
        raise Unfit("values that are no numbers")
    carried = emitter.load(kinds, emitter.frame, TRACE_WORDS + 3)
    emitter.bind(outer, emitter.load([v.type for v in outer], emitter.frame, TRACE_WORDS + 3 + len(carried)))
    results = emitter.loop(node, head[0], head[1], going, carried, _may_make_lists(code.program, node.blocks[0], set()))
    emitter.store(results, emitter.frame, TRACE_WORDS)
    f.ret(const(I64, 0))
    emitter.finish()
    return f.name
