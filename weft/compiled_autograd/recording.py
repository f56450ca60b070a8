"""The graph of a backward call: the engine's own walk, run over values of a graph in place of gradients.

The evaluator below takes what a node is from its form (structure.py) alone: no tensor, size or hook is at hand, so
that none of them can get into the graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from weft.autograd.evaluator import Evaluator, Step, Steps
from weft.autograd.node import Edge, Node, needs_per_argument
from weft.autograd.run_hooks import is_heard
from weft.compiled_autograd.evaluate import Question, epoch, question, undefined
from weft.compiled_autograd.forms import (
    AFTER_STAGE,
    BEFORE_STAGE,
    EDGE_SIZES,
    FLOAT,
    FLOATS,
    HANDS_ON,
    HOOKS,
    INT,
    INTS,
    INVALID,
    LEAF,
    OBJECTS,
    OF_PROGRAMS,
    ORDER,
    PART,
    PROGRAM,
    RETAIN_STAGE,
    RUN_STAGE,
    SIZE,
    SIZES,
    SLICES,
    TENSOR_STAGE,
    TENSORS,
    UNPACK,
    UNWRAP,
    WRAP,
    Constant,
    Copied,
    Form,
    HookForm,
    Kind,
    Slices,
    Stage,
)
from weft.compiled_autograd.inline import Copies
from weft.compiled_autograd.program_runs import Saved, is_size
from weft.compiled_autograd.structure import Structure
from weft.ir.backward_calls import (
    ACCUMULATE_LEAF,
    CALL_BACKWARD,
    CHECK_GRADIENT,
    EPILOGUE,
    INNER_TENSORS_CALL,
    MAKE_SUBCLASS_CALL,
    POST_HOOK_CALL,
    PRE_HOOK_CALL,
    PROLOGUE,
    RETAIN_GRAD,
    TENSOR_HOOK_CALL,
    UNPACK_HOOK,
)
from weft.ir.builder import Builder
from weft.ir.graph import Graph, Operand, Value
from weft.ir.opaque import VALIDATE, opaque_op
from weft.ops.backward import Plan, needed_slots
from weft.ops.op import Op
from weft.ops.packet import aten
from weft.types.tensor_type import FLOAT as FLOAT_TYPE
from weft.types.tensor_type import INT as INT_TYPE
from weft.types.tensor_type import NONE, OBJECT, TENSOR

Pattern = tuple[bool, ...]  # which results of a call of Python are there
# The parameters of a list of the structure: the first letter of their names, and their type.
_PARAMETERS = {
    TENSORS: ("t", TENSOR), SIZES: ("s", INT_TYPE), EDGE_SIZES: ("s", INT_TYPE),
    OF_PROGRAMS + INTS: ("n", INT_TYPE), INTS: ("i", INT_TYPE),
    FLOATS: ("f", FLOAT_TYPE), OBJECTS: ("o", OBJECT), HOOKS: ("o", OBJECT),
}


@dataclass(eq=False)
class Recording:
    """A graph, and how it stands to the nodes and lists of a structure.

    owners: beside the graph's nodes, whose each is, by place, and `stages` in which stage of it. order: the nodes
    in the order in which the walk comes to them; runs: those that run, and `ends` how many of the graph's nodes are
    done when each has.
    expected: which calls of Python were expected to give what, were nothing known of them, and the pattern gone by.
    programs: the runs of programs, as they were asked for, and their forms. without: of formulas that give no gradient
    where one is wanted, what was known. edges: of gradients that programs give, the edge by the number of the check.
    """

    graph: Graph
    owners: list[int]
    stages: list[Stage]
    order: list[int]
    runs: list[int]
    ends: list[int]
    taken: list[tuple[str, int]]
    expected: list[tuple[int, Pattern, Pattern]]
    programs: list[tuple[int, Pattern, Pattern, Any]]
    without: list[tuple[Op, Question, Pattern | None]]
    edges: dict[int, int]
    kind: Kind

    def __post_init__(self) -> None:
        self.epoch = epoch()
        self.tensors = [(name, at) for name, at in self.taken if name in (TENSORS, OF_PROGRAMS + TENSORS)]
        self._gather: list[int] | None = None
        self.takes_all = False

    def fits(self, structure: Structure, patterns: Mapping[int, Pattern]) -> bool:
        """Whether the graph is that of a structure with the same key, where calls of Python give these results."""
        for number, unknown, pattern in self.expected:
            if patterns.get(number, unknown) != pattern:
                return False
        if self.epoch != epoch():
            if any([undefined(op, asked) != there for op, asked, there in self.without]):
                return False
            self.epoch = epoch()
        structure.restart_programs()
        return all([structure.program(place, defined, needs) == form for place, defined, needs, form in self.programs])

    def inputs(self, structure: Structure) -> tuple[list[Any], list[Saved | None]]:
        """The graph's inputs, which the structure gives away; and where its tensors were saved."""
        if self._gather is None:  # (structures with this graph have lists of the same lengths)
            at, starts = 0, {}
            for name, values in zip(ORDER, structure.lists(), strict=True):
                starts[name] = at
                at += len(values)
            self._gather = [starts[name] + at for name, at in self.taken]
            self.takes_all = self._gather == list(range(at))
        saved = structure.saved if structure.programs is None else [*structure.saved, *structure.programs.saved]
        values = structure.take()
        if self.takes_all:
            return values, saved
        return [values[at] for at in self._gather], [saved[at] for at in self._gather[: len(self.tensors)]]


def record(structure: Structure, patterns: Mapping[int, Pattern]) -> Recording:
    """The graph of a structure. patterns: by the number of a call of Python, which of its results are there (all that
    are wanted, if not given)."""
    structure.restart_programs()
    recorder = _Recorder(structure, patterns)
    results = structure.walk.with_evaluator(recorder).run()
    return recorder.finished(results)


class At(NamedTuple):
    """An element of a list."""

    name: str
    at: int


class Unpack(NamedTuple):
    """A saved tensor that hooks unpack: it and its node are objects, one after the other."""

    at: int


class Located(NamedTuple):
    """What CopySlices has beside its edges, with the places of all in the lists."""

    path: tuple[tuple[Op, Any, int], ...]
    view: tuple[At, ...]
    saved: Any


def _count(hooks: HookForm | None) -> int:
    """How many hooks there are."""
    return 0 if hooks is None else sum([count for _, count in hooks[0]]) + len(hooks[1]) + hooks[2] + hooks[3]


class Places:
    """Where the values of each form are in the lists of its structure."""

    def __init__(self, forms: Sequence[Form]) -> None:
        self._next = dict.fromkeys(ORDER, 0)
        self.inputs: list[list[tuple[At, ...]]] = []  # the dims of what flows into each node
        self.edges: list[dict[int, tuple[At, ...]]] = []  # and along edges to nodes that have no turn
        self.objects: list[int] = []  # each node, if it is an object
        self.hooks: list[int] = []  # its first hook
        self.saved: list[Any] = []  # None where it is not to be had
        for form in forms:
            self._add(*form)

    def edge(self, place: int, index: int, target: int, slot: int) -> tuple[At, ...]:
        """The dims of what flows along an edge of a node."""
        return self.edges[place][index] if target < 0 else self.inputs[target][slot]

    def _add(
        self, kind: Any, counts: Any, inputs: Form, edges: Form, saved: Any, hooks: HookForm | None, flow: Any
    ) -> None:
        self.inputs.append([self._dims(SIZES, metadata) for metadata in inputs])
        self.edges.append({
            i: self._dims(EDGE_SIZES, edge[2]) for i, edge in enumerate(edges) if edge is not None and edge[0] < 0
        })
        is_object = hooks is not None or not isinstance(kind, Plan)
        self.objects.append(self._take(OBJECTS, 1) if is_object else -1)
        self.hooks.append(self._take(HOOKS, _count(hooks)))
        if kind is SLICES and saved is not None:
            path = tuple([(op, self._located(args), index) for op, args, index in saved.path])
            self.saved.append(Located(path, self._dims(SIZES, saved.view), self._located(saved.saved)))
        else:
            self.saved.append(self._located(saved) if isinstance(kind, Plan) else None)

    def _take(self, name: str, count: int) -> int:
        at = self._next[name]
        self._next[name] = at + count
        return at

    def _dims(self, name: str, metadata: Any) -> tuple[At, ...]:
        return () if metadata is None else tuple([At(name, self._take(name, 1)) for _ in range(metadata[0])])

    def _located(self, form: Any) -> Any:
        if form is INVALID:
            return None
        if form in (SIZE, INT, FLOAT):
            name = {SIZE: SIZES, INT: INTS, FLOAT: FLOATS}[form]
            return At(name, self._take(name, 1))
        if form is UNPACK:
            return Unpack(self._take(OBJECTS, 2))
        kind = type(form)
        if kind is int:
            return At(TENSORS, form)
        return tuple([self._located(part) for part in form]) if kind is tuple else form


class _Recorder(Evaluator):
    """Records what the engine would do. A gradient is a value of the graph."""

    def __init__(self, structure: Structure, patterns: Mapping[int, Pattern]) -> None:
        self.structure, self.patterns = structure, patterns
        self.builder = Builder("backward")
        self.copies = Copies(self.builder)
        self.parameters: dict[tuple[str, int], Value] = {}
        self.at = Places(structure.forms)
        self.seeds = iter([at for _, _, at in structure.roots])
        self.place = 0  # of the node whose turn it is
        self.stage: Stage = (RUN_STAGE, 0)
        self.has_run = False
        self.wholes: dict[int, frozenset[int]] = {}  # of programs that are copied: edges whose gradients Python makes
        self.owners: list[int] = []
        self.stages: list[Stage] = []
        self.order: list[int] = []
        self.runs: list[int] = []
        self.ends: list[int] = []
        self.expected: list[tuple[int, Pattern, Pattern]] = []
        self.programs: list[tuple[int, Pattern, Pattern, Any]] = []
        self.without: list[tuple[Op, Question, Pattern | None]] = []
        self.edges: dict[int, int] = {}

    def finished(self, results: Sequence[Operand]) -> Recording:
        """The recording; parameters stand in the order of the lists."""
        taken = sorted(self.parameters, key=lambda place: (ORDER.index(place[0]), place[1]))
        counts: dict[str, int] = {}
        builder = self.builder
        builder.params[:] = [self.parameters[place] for place in taken]
        for param in builder.params:
            letter = param.name
            counts[letter] = counts.get(letter, -1) + 1
            param.name = f"{letter}{counts[letter]}"
        return Recording(
            builder.graph(tuple(results)), self.owners, self.stages, self.order, self.runs, self.ends, taken,
            self.expected, self.programs, self.without, self.edges, self.structure.kind,
        )

    # ---- what the engine asks for
    def walk(self, steps: Steps, step: Step, roots: Sequence[Edge], wanted: Sequence[Edge] | None) -> None:
        """Each step's nodes are noted as those of the engine's node, and stand at its line."""

        def take(node: Node) -> Node | None:
            self._note()
            self.place, self.has_run = self.structure.places[node], False
            self.order.append(self.place)
            self._begin((RUN_STAGE, 0))
            self.builder.where = node.forward_line
            following = step(node)
            self._note()
            if self.has_run:
                self.runs.append(self.place)
                self.ends.append(len(self.builder.nodes))
            return following

        steps(take)

    def seed(self, node: Node, index: int, seed: Any, metadata: Any) -> Any:
        """A gradient that the call begins with."""
        self.place = self.structure.places.get(node, 0)
        return self._parameter(TENSORS, next(self.seeds))

    def add(self, a: Any, b: Any) -> Any:
        """A sum."""
        return self._emit(aten.add.Tensor.op, (a, b, 1))[0]

    def validate(self, node: Node, index: int, gradient: Any, metadata: Any) -> Any:
        """The check of an edge: of what formulas gave up to broadcasting, of what Python gave in all."""
        kind, _, _, edges, _, hooks, _ = self.structure.forms[self.place]
        if kind is PART:  # (it gives what it was given)
            return gradient
        place, slot = edges[index][:2]
        _, dtype = edges[index][2] if place < 0 else self.structure.forms[place][2][slot]
        dims = tuple([self._operand(at) for at in self.at.edge(self.place, index, place, slot)])
        args = (gradient, dims, dtype)
        wholes = self.wholes.get(self.place)
        is_typed = (wholes is not None and index not in wholes) or kind is SLICES or isinstance(kind, Plan)
        if is_typed and not (hooks is not None and hooks[3]):
            if wholes is not None:
                self.edges[len(self.builder.nodes)] = index
            return self._emit(VALIDATE, args)[0]
        return self._emit(CHECK_GRADIENT, (self._object(), index, *args))[0]

    def run(self, node: Node, grads: tuple[Any, ...], needs: tuple[bool, ...]) -> tuple[Any, ...]:
        """The gradients of a node's edges."""
        self.has_run = True
        self._begin((RUN_STAGE, 0))
        form = self.structure.forms[self.place]
        kind = form[0]
        if isinstance(kind, Plan):
            return self._formula(kind, form[1], self.at.saved[self.place], grads, needs)
        if kind is LEAF:
            if grads[0] is not None:
                calls = form[4] or self.place in self.structure.cut
                self._emit(ACCUMULATE_LEAF, (self._object(), grads[0], calls), 0)
            return ()
        if kind is SLICES:
            return self._copy_slices(node, form, grads[0], needs)
        if kind is PROGRAM:
            gradients = self._program(node, grads, needs)
            if gradients is not None:
                return gradients
        if kind is PART:
            return grads
        if kind is UNWRAP:
            return self._python(MAKE_SUBCLASS_CALL, (self._object(), grads), (True,))
        op = INNER_TENSORS_CALL if kind is WRAP else CALL_BACKWARD
        return self._python(op, (self._object(), grads, needs), (True,) * len(form[3]))

    def run_on_nothing(self, node: Node, grads: list[Any]) -> tuple[Any, ...]:
        """What is left of a node where nothing flows into it: hooks after it."""
        self.has_run = True
        form = self.structure.forms[self.place]
        if form[0] is LEAF and form[4]:
            self._emit(ACCUMULATE_LEAF, (self._object(), None, True), 0)
        return self.post_hooks(node, (None,) * len(form[3]), tuple(grads))

    # ---- hooks
    def tensor_hooks(self, node: Node, grads: list[Any], walk: Any) -> None:
        """Hooks on the tensors that a node made, then gradients that are kept. Changes `grads`."""
        hooks: HookForm | None = self.structure.forms[self.place][5]
        if hooks is None:
            return
        functions = self._hooks()
        on_tensors, retained, _, _ = hooks
        for at, (index, count) in enumerate(on_tensors):
            self._begin((TENSOR_STAGE, at))
            own = [next(functions) for _ in range(count)]
            if not is_heard(node, index, grads[index] if index < len(grads) else None, walk):
                continue
            for hook in own if index < len(grads) else ():
                there = (grads[index] is not None,)
                grads[index] = self._python(TENSOR_HOOK_CALL, (hook, grads[index]), there)[0]
        self._begin((RETAIN_STAGE, 0))
        for index in retained:
            retain = next(functions)
            if grads[index] is not None and is_heard(node, index, grads[index], walk):
                self._emit(RETAIN_GRAD, (retain, grads[index]), 0)

    def pre_hooks(self, node: Node, grads: list[Any]) -> None:
        """Hooks of a node before it runs. Changes `grads`."""
        hooks: HookForm | None = self.structure.forms[self.place][5]
        if hooks is None or not hooks[2]:
            return
        self._begin((BEFORE_STAGE, 0))
        functions = self._hooks(_count(hooks) - hooks[3] - hooks[2])
        for _ in range(hooks[2]):
            there = tuple([g is not None for g in grads])
            grads[:] = self._python(PRE_HOOK_CALL, (next(functions), tuple(grads)), there)

    def post_hooks(self, node: Node, out: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Hooks of a node after it ran."""
        hooks: HookForm | None = self.structure.forms[self.place][5]
        if hooks is None or not hooks[3]:
            return out
        self._begin((AFTER_STAGE, 0))
        functions = self._hooks(_count(hooks) - hooks[3])
        for _ in range(hooks[3]):
            there = tuple([g is not None for g in out])
            out = self._python(POST_HOOK_CALL, (next(functions), out, grads), there)
        return out

    # ---- nodes
    def _formula(
        self, plan: Plan, counts: tuple[int, ...], saved: tuple[Any, ...] | None, grads: tuple[Any, ...],
        needs: tuple[bool, ...]
    ) -> tuple[Any, ...]:
        if True not in needs:
            return (None,) * len(needs)
        if saved is None:
            self.structure.refuse(self.place)
            raise AssertionError  # (it raises)
        wanted = needs if len(counts) == len(needs) else needs_per_argument(counts, needs)
        read = needed_slots(plan, wanted)
        packed = tuple([self._operand(value) if i in read else self._unread(value) for i, value in enumerate(saved)])
        op = opaque_op(plan)
        asked = question(grads, wanted, packed)
        there = undefined(op, asked)
        self.without.append((op, asked, there))
        total = sum(count for count, is_wanted in zip(counts, wanted, strict=True) if is_wanted)
        results = iter(self._emit(op, (grads, wanted, packed), total if there is None else there))
        return tuple([
            next(results) if is_wanted else None for count, is_wanted in zip(counts, wanted, strict=True)
            for _ in range(count)
        ])

    def _copy_slices(self, node: Any, form: Form, grad: Any, needs: tuple[bool, ...]) -> tuple[Any, ...]:
        """The prologue (the part of the gradient that the view shows), the inner node, and the epilogue (its gradient
        in the place of that part)."""
        if grad is None:
            return (None,) * len(needs)
        slices: Slices = form[4]
        located: Located = self.at.saved[self.place]
        path = tuple([(op.name, self._operand(args), index) for op, args, index in located.path])
        shown = self._emit(PROLOGUE, (grad, path))[0]
        out = list(self._formula(slices.plan, slices.counts, located.saved, (shown,), node.inner_needs(needs)))
        into_self = out.pop(form[1]) if form[1] is not None else None
        if not needs[0]:
            return (None, *out)
        if into_self is not None:
            dims = tuple([self._operand(at) for at in located.view])
            into_self = self._emit(VALIDATE, (into_self, dims, slices.view[1]))[0]
        return (self._emit(EPILOGUE, (grad, shown, into_self, path))[0], *out)

    def _program(self, node: Any, grads: tuple[Any, ...], needs: tuple[bool, ...]) -> tuple[Any, ...] | None:
        """The gradients of a compiled forward; None where it is called."""
        arriving = tuple([g is not None for g in grads])
        assert self.structure.programs is not None
        starts = {name: len(values) for name, values in self.structure.programs.lists.items()}
        form = self.structure.program(self.place, arriving, needs)
        self.programs.append((self.place, arriving, needs, form))
        if form is HANDS_ON:
            self.wholes[self.place] = frozenset()
            return grads
        if True not in needs:
            return (None,) * len(needs)
        if not isinstance(form, Copied):
            return None

        def next_of(name: str) -> Value:
            starts[name] += 1
            return self._parameter(OF_PROGRAMS + name, starts[name] - 1)

        numbers = [next_of(SIZES if is_size(symbol) else INTS) for symbol in form.body.symbols]
        taken: list[Operand] = [
            next_of(FLOATS) if at is FLOAT
            else self._parameter(TENSORS, at) if at >= 0 else self._parameter(OF_PROGRAMS + TENSORS, -1 - at)
            for at in form.taken
        ]
        tangents = [grads[i] for i in form.tangents]
        results = self.copies.add(form.body, taken, tangents, numbers, self.builder.where)

        def gradient_of(part: Any) -> Any:
            if type(part) is not tuple:
                return results[part]
            inner = tuple([gradient_of(p) for p in part])
            return self._python(MAKE_SUBCLASS_CALL, (next_of(OBJECTS), inner), (True,))[0]

        gradients = {edge: gradient_of(part) for edge, part in form.edges}
        self.wholes[self.place] = frozenset(edge for edge, part in form.edges if type(part) is tuple)
        others = grads if node.hands_all_on else (None,) * len(needs)
        return tuple([gradients.get(i, other) for i, other in enumerate(others)])

    # ---- emission
    def _emit(self, op: Op, args: tuple[Operand, ...], results: int | Pattern = 1) -> tuple[Any, ...]:
        """A node, and its results; None for those that are not there."""
        types = (TENSOR,) * results if isinstance(results, int) else tuple([TENSOR if r else NONE for r in results])
        outputs = self.builder.emit_raw(op, args, types).outputs
        return tuple([None if v.type is NONE else v for v in outputs])

    def _python(self, op: Op, args: tuple[Operand, ...], unknown: Pattern) -> tuple[Any, ...]:
        """A call of Python. Which of its results are there is looked up, or taken to be as `unknown` says."""
        number = len(self.builder.nodes)
        pattern = self.patterns.get(number, unknown)
        self.expected.append((number, unknown, pattern))
        return self._emit(op, args, pattern)

    def _note(self) -> None:
        """The graph's nodes up to here are those of the node and stage that were."""
        missing = len(self.builder.nodes) - len(self.owners)
        self.owners += [self.place] * missing
        self.stages += [self.stage] * missing

    def _begin(self, stage: Stage) -> None:
        self._note()
        self.stage = stage

    # ---- parameters
    def _parameter(self, name: str, at: int) -> Value:
        """The parameter for an element of a list."""
        value = self.parameters.get((name, at))
        if value is None:
            letter, kind = _PARAMETERS.get(name) or _PARAMETERS[name.removeprefix(OF_PROGRAMS)]
            value = self.parameters[name, at] = self.builder.param(kind, letter)
        return value

    def _object(self) -> Value:
        """The node whose turn it is."""
        return self._parameter(OBJECTS, self.at.objects[self.place])

    def _hooks(self, skipped: int = 0) -> Iterator[Value]:
        """The hooks of the node whose turn it is."""
        at = self.at.hooks[self.place] + skipped
        while True:
            yield self._parameter(HOOKS, at)
            at += 1

    def _operand(self, saved: Any) -> Any:
        """The operand for a saved value. One that hooks unpack is unpacked here."""
        kind = type(saved)
        if kind is At:
            return self._parameter(saved.name, saved.at)
        if kind is Unpack:
            return self._python(UNPACK_HOOK, (
                self._parameter(OBJECTS, saved.at), self._parameter(OBJECTS, saved.at + 1)
            ), (True,))[0]
        if kind is tuple:
            return tuple([self._operand(part) for part in saved])
        return saved.value if kind is Constant else saved

    def _unread(self, saved: Any) -> Operand:
        """The operand, None, for a saved value that no formula reads: hooks unpack it all the same."""
        if type(saved) is tuple:
            for part in saved:
                self._unread(part)
        elif type(saved) is Unpack:
            self._operand(saved)
        return None
