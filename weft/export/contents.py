"""A captured program as an entry point of C: which bytes of the state, which input and which output each of its
parameters and results is; and what is refused, for only Python could do it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from weft.codegen.program.entry_point import EntryPoint, FromResult, InInput, InState, Place
from weft.compile.driver import CompiledFunction
from weft.compile.program.calling_entry import CallingEntry
from weft.compile.program.entry import Entry
from weft.explanations.names import input_names
from weft.export.description import (
    ALIGNMENT,
    Array,
    Leaf,
    RandomPlace,
    Size,
    SizeArgument,
    StateNumber,
    StateTensor,
    tree_text,
)
from weft.functionalizer.steps import after
from weft.ir.graph import Value
from weft.ops.geometry import Geometry, contiguous
from weft.plan.frame import Frame
from weft.plan.words import double_bits
from weft.programs.program_io import (
    ArgumentSource,
    GradBuffer,
    GradFlag,
    NumberSource,
    ReturnArgument,
    ReturnConstant,
    ReturnFresh,
    ReturnGrad,
    ReturnNumber,
    ReturnState,
    ReturnView,
    Shown,
    StateSource,
)
from weft.record.gradients import present_grad
from weft.record.miss_text import leaf_name
from weft.record.numbers.lifted import LiftedNumbers, NumberGuard, NumberInput
from weft.runtime.segments import HostSegment, Layout, NativeSegment, ObjectSlot
from weft.support.errors import ExportError
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types.dims import Dim, Expr
from weft.types.parse import parse_dim
from weft.types.relation import ShapeGuard
from weft.types.settled import settled_guards, settled_sizes
from weft.types.shape_env import using
from weft.types.tensor_type import FLOAT, TensorType

Bounds = Mapping[str, Mapping[int, tuple[int, int]]]
MOST = 1 << 40  # of a size without a bound
_SYMBOL = re.compile(r"\b[siu]\d+\b")
_OTHER_DTYPES = ("aten::view.dtype", "aten::view_as_", "aten::view_bits", "aten::_conj", "aten::_neg_view")


class Contents:
    """What a program's entry point is made of. Raises ExportError where a program cannot do without Python."""

    def __init__(self, compiled: CompiledFunction, entry: Entry, bounds: Bounds) -> None:
        self.compiled, self.entry, self.bounds = compiled, entry, bounds
        self.env = entry.capture.env
        self.solved = settled_sizes(self.env)
        self.sizes: list[SizeArgument] = []
        self.inputs: list[Array] = []
        self.outputs: list[Array] = []
        self.tensors: list[StateTensor] = []
        self.numbers: list[StateNumber] = []
        self.random: list[RandomPlace] = []
        self.state = bytearray()
        self._params: list[Place] = []
        self._symbols: dict[str, Place | Dim] = {}
        self._gives: list[FromResult | Dim] = []
        self._updates: list[tuple[int, FromResult | Dim]] = []
        self._flags: list[tuple[int, bool]] = []
        self._storages: dict[int, int] = {}  # number of the state's tensor, by the id of a storage
        self._gradients: dict[int, int] = {}  # and of a gradient, by the id of its leaf
        self._places: dict[Any, tuple[NumberInput, int]] = {}
        self._arguments: dict[int, int] = {}  # number of the input, by leaf
        _refuse(compiled, entry)
        self._take_inputs()
        self._take_symbols()
        self._take_effects()
        self.argument_leaves = tuple(map(self._argument, range(entry.guards.spec.size)))
        self.arguments = tree_text(entry.guards.spec, "the call")
        self.results = tree_text(entry.outputs.spec, "the result")
        self.result_leaves = self._take_results()

    # ---- what the program is given
    def _take_inputs(self) -> None:
        entry = self.entry
        names = input_names(self.compiled.function, entry)
        for name, value, source in zip(names, entry.graph.params, entry.sources, strict=True):
            take = getattr(self, f"_take_{type(source).__name__}")
            self._params.append(take(name, value, source))

    def _take_ArgumentSource(self, name: str, value: Value, source: ArgumentSource) -> Place:
        if source.permutation is not None or source.strides is not None or source.expanded:
            raise ExportError(f"export: {name} is not row-major; call the step with {name}.contiguous(), then export")
        return self._input(name, value, source.leaf, source.written)

    def _take_StateSource(self, name: str, value: Value, source: StateSource) -> Place:
        slot = source.slot
        if slot.leaf is not None:
            return self._input(self._leaf_name(slot.leaf), value, slot.leaf, slot.written)
        self._storages[id(slot.storage)] = len(self.tensors)
        return self._tensor(name, slot.array)

    def _take_NumberSource(self, name: str, value: Value, source: NumberSource) -> Place:
        number = source.number
        if number.leaf is not None:
            self.inputs.append(Array(self._leaf_name(number.leaf), "float64", (), "number"))
            self._arguments[number.leaf] = len(self.inputs) - 1
            return InInput(len(self.inputs) - 1)
        return self._number(number.name, "float", number.getter(), number)

    def _take_GradBuffer(self, name: str, value: Value, source: GradBuffer) -> Place:
        self._refuse_argument(source.leaf, "accumulates the gradient of")
        data, present = source.tensor._data, present_grad(source.tensor)
        self._gradients[id(source.tensor)] = len(self.tensors)
        return self._tensor(name, np.zeros_like(data) if present is None else present._data)

    def _take_GradFlag(self, name: str, value: Value, source: GradFlag) -> Place:
        self._refuse_argument(source.leaf, "asks for the gradient of")
        place = self._number(f"has {name}", "flag", present_grad(source.tensor) is not None)
        for effect in self.entry.effects.grad_effects:
            if effect.tensor is source.tensor:
                self._flags.append((place.offset, effect.param is not None or effect.value is not None))
        return place

    def _refuse_argument(self, leaf: int | None, what: str) -> None:
        if leaf is not None:
            name = self._leaf_name(leaf)
            raise ExportError(f"export: the step {what} its argument {name}; return it from weft.autograd.grad instead")

    def _input(self, name: str, value: Value, leaf: int, written: bool) -> Place:
        kind = value.tensor_type
        assert kind.dtype is not None
        dims = tuple([self._size(d) for d in kind.shape])
        self.inputs.append(Array(name, kind.dtype.name, dims, "tensor", written))
        self._arguments[leaf] = len(self.inputs) - 1
        limits = self.bounds.get(name, {})
        for axis, d in enumerate(map(self.solved.settle, kind.shape)):
            if isinstance(d, Expr) and d.symbol_name is not None and d.symbol_name not in self._symbols:
                self._argument_size(f"{name}_{axis}", d.symbol_name, f"dim {axis} of {name}", 0, *limits.get(axis, ()))
        return InInput(len(self.inputs) - 1)

    def _argument_size(self, name: str, symbol: str, of: str, least: int, *limits: int) -> None:
        least, most = limits or (least, MOST)
        self.sizes.append(SizeArgument(_identifier(name), symbol, of, least, most, self.env.examples[symbol]))
        self._symbols[symbol] = dm.symbol(symbol)

    def _tensor(self, name: str, array: np.ndarray[Any, Any]) -> InState:
        self.state += bytes(-len(self.state) % ALIGNMENT)
        offset = len(self.state)
        self.tensors.append(StateTensor(name, dt.from_numpy(array.dtype).name, tuple(array.shape), offset))
        self.state += np.ascontiguousarray(array).tobytes()
        return InState(offset)

    def _number(self, name: str, kind: str, value: Any, number: NumberInput | None = None) -> InState:
        self.state += bytes(-len(self.state) % 8)
        offset = len(self.state)
        self.numbers.append(StateNumber(name, kind, offset))
        bits = double_bits(float(value)) if kind == "float" else int(value)
        self.state += (bits & (1 << 64) - 1).to_bytes(8, "little")
        if number is not None:
            self._places[number.place] = number, offset
        return InState(offset)

    # ---- symbols
    def _take_symbols(self) -> None:
        numbers = self.entry.capture.python_state.numbers
        for number in [n for n in numbers if n.param is None]:
            if number.leaf is None:
                self._symbols[number.key] = self._number(number.name, "int", number.getter(), number)
            elif number.element is None:
                self._argument_size(self._leaf_name(number.leaf), number.key, "a number", -MOST)
            else:
                raise ExportError(
                    f"export: Python reads the elements of an argument ({number.name}); pass them as numbers"
                )
        for state in self.entry.guards.random:
            self._take_generator(state)
        for name in self.env.examples:
            reduced = self.solved.settle(dm.symbol(name))
            if name not in self._symbols and dm.symbols(reduced) <= self._symbols.keys():
                self._symbols[name] = reduced

    def _take_generator(self, state: Any) -> None:
        stream = state.stream
        seed_symbol = None if stream.seed_symbol is None else str(stream.seed_symbol)
        is_default = not self.random
        name = "random" if is_default else f"random{len(self.random)}"
        now = state.generator.stream
        places = [self._number(name, "int", value) for value in (now.seed, now.key, now.offset)]
        seed, key, offset = [p.offset for p in places]
        del self.numbers[-3:]  # they have a record of their own
        self.random.append(RandomPlace(name, seed, key, offset))
        self._symbols[state.key], self._symbols[state.offset] = places[1], places[2]
        if seed_symbol is not None:
            self._symbols[seed_symbol] = places[0]
        if state.is_moved():
            self._updates.append((offset, stream.left()))
            if str(stream.key) != state.key:  # seeded by the function
                self._updates += [(key, stream.key), (seed, stream.seed)]

    # ---- what the program leaves
    def _take_effects(self) -> None:
        effects = self.entry.effects
        for write in effects.number_writes:
            number, offset = self._places.get(write.place, (None, 0))
            if number is None:
                raise ExportError(
                    "export: the step sets a number that it does not read as an input; call it once more, and export "
                    "the program of the later calls"
                )
            is_float = number.param is not None
            if write.position is not None:
                self._updates.append((offset, FromResult(write.position)))
            elif is_float and isinstance(write.dim, (int, float)):
                self._updates.append((offset, double_bits(float(write.dim))))
            elif is_float or type(write.dim) is float or write.dim is None:
                raise ExportError(f"export: {number.name} changes its type in the step")
            else:
                self._updates.append((offset, write.dim))
        self._refuse_other_presence()
        changed = {number.key for number, offset in self._places.values() if any(o == offset for o, _ in self._updates)}
        self.holds_while = []
        for guard in self.entry.guards.number_guards:
            if _names_read(guard, self.entry.capture.python_state) & changed:
                raise ExportError(
                    f"export: {guard.where}: what the step does depends on {guard.name}, which it changes; make it a "
                    "tensor, and use weft.where or weft.cond"
                )
            answer = f"the answer to a question about it stays {guard.answer}"
            self.holds_while.append(f"{guard.name}, now {guard.example}: {answer} ({guard.where})")

    def _refuse_other_presence(self) -> None:
        """A step that leaves gradients where it found none, or the other way round, is another program next time."""
        after = {
            id(e.tensor): e.param is not None or e.value is not None for e in self.entry.effects.grad_effects
        }
        for slot in self.entry.capture.leaf_gradients.slots.values():
            tensor = self.entry.capture.leaf_gradients.real(slot.tensor)
            if slot.present is not None and after.get(id(tensor), slot.present) is not slot.present:
                raise ExportError(
                    "export: this program is for a first call, after which gradients are "
                    f"{'there' if not slot.present else 'gone'}; call the step once more, and export it then"
                )

    # ---- the call
    def _argument(self, leaf: int) -> Leaf:
        if leaf in self._arguments:
            return Leaf("input", self._arguments[leaf])
        for i, size in enumerate(self.sizes):
            if size.of == "a number" and size.name == _identifier(self._leaf_name(leaf)):
                return Leaf("size", i)
        value = self.entry.guards.constants[leaf]
        if self.entry.guards.facts[leaf] is not None:
            return Leaf("unused")
        if value is None or type(value) in (bool, int, float, str):
            return Leaf("constant", 0, value)
        raise ExportError(
            f"export: the argument {self._leaf_name(leaf)} is an object of type {type(value).__name__}; let the "
            "function find it by itself"
        )

    def _leaf_name(self, leaf: int) -> str:
        """An argument as the function's code would write it."""
        return leaf_name(self.compiled.function, self.entry.guards.spec, leaf)

    def _take_results(self) -> tuple[Leaf, ...]:
        """The leaves of the result; behind them, those that only views among them show."""
        returns, leaves = self.entry.outputs.returns, dict[int, Leaf]()
        for i, (returned, _) in enumerate(returns):
            if not isinstance(returned, ReturnView):
                leaves[i] = self._leaf(returned)
        for i, (returned, _) in enumerate(returns):
            if isinstance(returned, ReturnView):
                leaves[i] = self._view(leaves[returned.root], returned)
        return tuple([replace(leaves[i], same=group) for i, (_, group) in enumerate(returns)])

    def _view(self, root: Leaf, returned: ReturnView) -> Leaf:
        """A view of another leaf, as what it shows of the leaf's array."""
        array = {"output": self.outputs, "input": self.inputs, "state": self.tensors}[root.kind][root.index]  # type: ignore[index]
        if root.dims is None:
            geometry = contiguous(tuple(map(_dim, array.dims)))
        else:
            geometry = Geometry(tuple(map(_dim, root.dims)), tuple(map(_dim, root.strides)), _dim(root.offset))
        dtype = dt.by_name(root.dtype or array.dtype).numpy
        for op, args, index in returned.path:
            if op.view is None or op.name.startswith(_OTHER_DTYPES):
                raise ExportError(f"export: the step returns a view by {op.name}; return its clone()")
            with using(self.env):
                shapes = after(op, geometry, args, self.env)
            geometry = shapes[index] if isinstance(shapes, tuple) else shapes
        return self._shown(replace(root, dims=None), Shown(geometry, dtype))

    def _leaf(self, returned: Any) -> Leaf:
        if isinstance(returned, ReturnConstant):
            if returned.value is None or type(returned.value) in (bool, int, float, str):
                return Leaf("constant", 0, returned.value)
        elif isinstance(returned, ReturnFresh):
            value = self.entry.graph.results[returned.position]
            assert isinstance(value, Value) and value.tensor_type.dtype is not None
            dims = tuple([self._size(d) for d in value.tensor_type.shape])
            leaf = self._output(FromResult(returned.position), value.tensor_type.dtype.name, dims, "tensor")
            return self._shown(leaf, returned.shown)
        elif isinstance(returned, ReturnNumber):
            return self._of_number(returned)
        elif isinstance(returned, ReturnArgument) and returned.leaf in self._arguments:
            return self._shown(Leaf("input", self._arguments[returned.leaf]), returned.shown)
        elif isinstance(returned, ReturnGrad) and id(returned.tensor) in self._gradients:
            return self._shown(Leaf("state", self._gradients[id(returned.tensor)]), returned.shown)
        elif isinstance(returned, ReturnState):
            return self._of_state(returned)
        raise ExportError(
            "export: the step returns an object of Python's, or memory of a tensor from outside; return tensors and "
            "numbers that it computes"
        )

    def _of_number(self, returned: ReturnNumber) -> Leaf:
        if returned.position is None:
            assert returned.dim is not None
            dim = self.solved.settle(returned.dim)
            return Leaf("constant", 0, dim) if isinstance(dim, int) else self._output(dim, "int64", (), "number")
        value = self.entry.graph.results[returned.position]
        assert isinstance(value, Value)
        if isinstance(value.type, TensorType):
            assert value.type.dtype is not None
            return self._output(FromResult(returned.position), value.type.dtype.name, (), "number")
        return self._output(FromResult(returned.position), "float64" if value.type is FLOAT else "int64", (), "number")

    def _of_state(self, returned: ReturnState) -> Leaf:
        if returned.tensor is None:
            assert returned.slot is not None
            return self._shown(Leaf("state", self._storages[id(returned.slot.storage)]), returned.shown)
        tensor = returned.tensor
        storage = tensor.storage()
        if id(storage) not in self._storages:
            self._storages[id(storage)] = len(self.tensors)
            self._tensor(f"returned{len(self.tensors)}", storage.row(tensor._data.dtype))
        data = tensor._data
        strides = tuple([s // data.itemsize for s in data.strides])
        index = self._storages[id(storage)]
        return Leaf("state", index, None, tuple(data.shape), strides, storage.offset_of(data), tensor.dtype.name)

    def _output(self, gives: FromResult | Dim, dtype: str, dims: tuple[Size, ...], kind: str) -> Leaf:
        if gives in self._gives:
            index = self._gives.index(gives)
        else:
            index = len(self.outputs)
            self._gives.append(gives)
            self.outputs.append(Array(f"out{index}" if index else "out", dtype, dims, kind))
        return Leaf("output", index)

    def _shown(self, leaf: Leaf, shown: Shown | None) -> Leaf:
        if shown is None:
            return leaf
        dims, strides = (tuple(map(self._size, d)) for d in (shown.geometry.dims, shown.geometry.strides))
        name = dt.from_numpy(shown.dtype).name
        return Leaf(leaf.kind, leaf.index, None, dims, strides, self._size(shown.geometry.offset), name)

    def _size(self, dim: Dim) -> Size:
        reduced = self.solved.settle(dim)
        return reduced if isinstance(reduced, int) else str(reduced)

    # ---- as an entry point
    def entry_point(self, name: str, frame: Frame, layout: Layout, has_pool: bool) -> EntryPoint:
        """The entry point, once the program is planned. Raises ExportError where Python has a part in it."""
        _refuse_python(frame, layout)
        for size in frame.storage.placement.sizes:
            if not self._is_of_sizes(size):
                raise ExportError(
                    "export: how much memory the step needs depends on a number of Python's state; pass it as an "
                    "argument"
                )
        reduced, guards = settled_guards(self.env).values(), self.env.guards.values()
        checks = [(guard, self._text(guard)) for guard in reduced if self._is_of_sizes(guard.relation.expr)]
        asked = [
            (guard, self._text(guard)) for guard in guards
            if not self._is_of_sizes(guard.relation.expr) and guard.relation.expr.symbols() <= self._symbols.keys()
        ]
        self.checks = tuple([text for _, text in (*checks, *asked)])
        late = dict(self.entry.outputs.late)
        bounds = {s.symbol: (s.least, s.most) for s in self.sizes}
        names = {s.symbol: s.name for s in self.sizes}
        return EntryPoint(
            name, tuple(self._params), bounds, names, self._symbols, tuple(checks), tuple(asked), tuple(self._gives),
            late, tuple(self._updates), tuple(self._flags), has_pool,
        )

    def _is_of_sizes(self, dim: Dim) -> bool:
        """Whether a size is known when the arguments are."""
        return dm.symbols(self.solved.settle(dim)) <= {s.symbol for s in self.sizes}

    def _text(self, guard: ShapeGuard) -> str:
        names = {s.symbol: s.name for s in self.sizes}
        text = _SYMBOL.sub(lambda m: names.get(m[0], m[0]), str(guard))
        return f"the step needs {text}" + (f" ({guard.where})" if guard.where else "")


class _Reads(dict[str, Any]):
    """The values of symbols and numbers, which notes the ones that were asked for."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.names.add(name)
        return super().__getitem__(name)


def _names_read(guard: NumberGuard, numbers: LiftedNumbers) -> set[str]:
    """The keys of the numbers that a guard asks about."""

    def names(values: Mapping[str, Any]) -> set[str]:
        reads = _Reads(values)
        guard.holds(reads)
        return reads.names

    return numbers.example_of(names)


def _dim(size: Size) -> Dim:
    return parse_dim(size) if isinstance(size, str) else size


def _identifier(name: str) -> str:
    """A name as C has them."""
    text = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
    return text if text and not text[0].isdigit() else f"_{text}"


def _refuse(compiled: CompiledFunction, entry: Entry) -> None:
    """Raises ExportError for a program of which Python has to do a part at every call."""
    if isinstance(entry, CallingEntry):
        raise ExportError(
            f"export: {compiled.name} calls Python on its way ({entry.boundaries[0].step.call.where}): hooks and "
            "custom Functions that cannot be traced are not part of an exported step"
        )
    outputs, guards = entry.outputs, entry.guards
    if outputs.joint is not None:
        raise ExportError(
            f"export: what {compiled.name} returns has a history, for a backward that comes later; export the whole "
            "step, backward included, or call it under weft.no_grad()"
        )
    if outputs.assigned or guards.bound.places:
        texts = [write.target.text for write in outputs.assigned] or [p.slot.text for p in guards.bound.places]
        raise ExportError(
            f"export: {compiled.name} assigns tensors to attributes or variables, or reads them anew at each call "
            f"({texts[0]}); write into a tensor in place (copy_), which is state then"
        )
    for effect in entry.effects.grad_effects:
        if effect.value is not None and effect.value is not present_grad(effect.tensor):
            raise ExportError(f"export: {compiled.name} sets a .grad to a tensor from outside of it")


def _refuse_python(frame: Frame, layout: Layout) -> None:
    """Raises ExportError for operators that run in NumPy, and for memory whose size the program itself determines."""
    nodes = [frame.graph.nodes[s.node] for s in layout.segments if isinstance(s, HostSegment)]
    if nodes:
        lines = [f"{node.op.name}{f' ({node.where})' if node.where else ''}" for node in nodes]
        shown: Sequence[str] = list(dict.fromkeys(lines))
        more = f", and {len(shown) - 4} more" if len(shown) > 4 else ""
        raise ExportError(f"export: these operators run in NumPy, not in native code: {', '.join(shown[:4])}{more}")
    if layout.end or any(isinstance(s, NativeSegment) and s.buffers for s in layout.segments):
        origins = frame.graph.env.origins
        late = [f" ({origins[name][0]})" for name in layout.symbols[layout.given :] if name in origins]
        raise ExportError(
            f"export: the step needs memory for sizes that it finds while it runs{','.join(late)}; "
            "give them a bound (a mask instead of a selection, a fixed number of rows)"
        )
    if any(isinstance(slot, ObjectSlot) for slot in layout.params):
        raise ExportError("export: an input of the program is an object of Python's")
