"""The structure of a backward call, apart from what it is done with.

One pass over the nodes that the call comes to gives a form of each (which formula, which edges, what kinds of values it
saved, how many hooks; forms.py) and collects tensors, sizes, numbers, nodes and hooks in lists beside the forms. Calls
with equal forms are recorded as the same graph (recording.py), whose parameters are elements of the lists.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import chain
from operator import attrgetter
from typing import Any

from weft.autograd.accumulate import AccumulateGrad
from weft.autograd.anomaly import describe_failure
from weft.autograd.engine import Walk
from weft.autograd.node import Node, OpNode
from weft.autograd.saved import SavedTensor
from weft.autograd.validate import validate
from weft.autograd.views import CopySlices
from weft.compiled_autograd.collectors import COLLECTORS, collector_of
from weft.compiled_autograd.forms import (
    FLOAT,
    FLOATS,
    INT,
    INTS,
    INVALID,
    LEAF,
    OBJECTS,
    RETAIN_STAGE,
    RUN_STAGE,
    SIZE,
    SIZES,
    SLICES,
    STRUCTURED,
    TENSOR_STAGE,
    TENSORS,
    UNPACK,
    Constant,
    Copied,
    Form,
    HookForm,
    Key,
    Kind,
    Slices,
    Stage,
    Stages,
    forms_in,
    kind_of,
    slots_of,
    stages_of,
)
from weft.compiled_autograd.program_runs import NO_LISTS, ProgramRuns, Saved, identity_of
from weft.ops.backward import Plan
from weft.runtime.storage import root_of
from weft.support.errors import StateError, VersionError
from weft.tensor.dense import is_dense
from weft.tensor.wrapper import is_wrapper, wrapper_classes

_SEQUENCE = attrgetter("sequence")


class Structure:
    """The forms of the nodes of a backward call by place (the latest one first, then leaves), and the lists.

    `key` raises TypeError where a saved value has no hash.
    """

    def __init__(self, walk: Walk, is_careful: bool = False) -> None:
        """is_careful: what a node saved may not be to be had. Raises StateError and VersionError where that is so, and
        nobody said it."""
        self.walk = walk
        ordered = sorted(walk.dependencies, key=_SEQUENCE, reverse=True)
        leaves = 0
        while leaves < len(ordered) and type(ordered[leaves]) is AccumulateGrad:
            leaves += 1
        self.nodes: list[Node] = ordered[leaves:]  # leaves come behind them, in the order in which edges lead to them
        self.places = {node: place for place, node in enumerate(self.nodes)}
        self.tensors: list[Any] = []
        self.saved: list[Saved | None] = []  # beside the tensors
        self.sizes: list[int] = []
        self.edge_sizes: list[int] = []  # of gradients for nodes that have no turn
        self.ints: list[int] = []
        self.floats: list[float] = []
        self.objects: list[Any] = []  # nodes, and saved tensors that hooks unpack
        self.hooks: list[Any] = []
        self.programs: ProgramRuns | None = None
        self.positions: dict[Any, int] = {}  # of tensors, by payload and history
        self.hooked: dict[Node, Stages] = {}
        self.edges: dict[Node, Form] = {}  # of nodes that stand for many: where a hook is added they may be cut
        self._gradients: list[tuple[Any, int]] = []  # of leaves that have one, with their places
        self.roots = tuple([
            (self._place(node), index, self._seed(node, index, seed))
            for (node, index), seed in zip(walk.roots, walk.seeds, strict=True)
        ])
        self.flat: list[Any] = []
        self._forms: list[Form] | None = None
        if is_careful:
            self.flat += [self._form(node, True) for node in self.nodes]  # (leaves are added on the way)
        else:
            self._collect()
        self.kind = Kind(walk.create_graph, bool(wrapper_classes) and any(map(is_wrapper, self.tensors)))
        self.cut = self._cut_leaves() if self._gradients else ()
        self._key: Key | None = None

    @classmethod
    def of(cls, walk: Walk) -> Structure:
        """The structure of a backward call."""
        try:
            return cls(walk)
        except (StateError, VersionError):  # of a node that may not run after all
            return cls(walk, is_careful=True)

    @property
    def key(self) -> Key:
        """What decides which graph is recorded, but for what programs give."""
        if self._key is None:
            walk = self.walk
            wanted = None
            if walk.wanted is not None:
                wanted = (walk.accumulate, *[(self.places.get(node, -1), index) for node, index in walk.wanted])
            self._key = Key((tuple(self.flat), self.roots, wanted, self.cut, self.kind))
        return self._key

    # ---- nodes
    def _collect(self) -> None:
        """Take down the forms of all nodes. The most frequent ones are written out flat, without a call for each: a
        call that was captured before is as long in here as in all else that it does."""
        flat, sizes, objects, places, nodes = self.flat, self.sizes, self.objects, self.places, self.nodes
        is_whole = self.walk.needed is None
        for node in nodes:  # (leaves are added on the way)
            collect = COLLECTORS.get(type(node)) or collector_of(node)
            metadata = node.metadata_of_inputs
            if collect is STRUCTURED or not is_whole or len(metadata) != 1 or metadata[0] is None or (
                not isinstance(collect, str) and node.argument_counts is not node.plan.one_each  # type: ignore[attr-defined]
            ):  # (of a class nodes differ: one has no edges whose operands all lack gradients)
                flat.append(self._form(node))
                continue
            hooks = None if node.hook_tables is None else self._hook_form(node)
            if not isinstance(collect, str):
                if hooks is not None:
                    objects.append(node)
                collect(self, node, hooks, flat, sizes, places, nodes)
                continue
            objects.append(node)
            dims, dtype, _ = metadata[0]
            sizes += dims
            detail = self._leaf(node, places[node]) if collect is LEAF else len(node.edges)  # type: ignore[arg-type]
            flat += (collect, len(dims), dtype, hooks, detail)
            for edge in node.edges:
                flat += (None, None) if edge is None else (self._place(edge[0]), edge[1])

    @property
    def forms(self) -> list[Form]:
        """The form of each node, by place."""
        if self._forms is None:
            self._forms = list(forms_in(iter(self.flat)))
        return self._forms

    def _form(self, node: Any, is_careful: bool = False) -> Form:
        """The form of a node; what stands beside it is added to the lists. is_careful: what it saved may not be to be
        had."""
        inputs = tuple([self._metadata(m) for m in node.metadata_of_inputs])
        edges, flow = self._edges(node)
        is_run = flow is None or flow[0]
        hooks = None if node.hook_tables is None else self._hook_form(node)
        if isinstance(node, OpNode):
            if hooks is not None:
                self.objects.append(node)
            saved = self._saved(node, is_careful) if is_run else None
            return node.plan, node.argument_counts, inputs, edges, saved, hooks, flow
        self.objects.append(node)
        if node.stands_for_many:
            self.edges[node] = node.edges
            self.programs = self.programs or ProgramRuns(self.positions)
        if type(node) is AccumulateGrad:
            return LEAF, None, inputs, edges, self._leaf(node, self.places[node]), hooks, flow
        if type(node) is CopySlices and isinstance(node.inner, OpNode):
            slices = self._slices(node, is_careful) if is_run else None
            return SLICES, node.self_slot, inputs, edges, slices, hooks, flow
        return kind_of(node), None, inputs, edges, None, hooks, flow

    def _metadata(self, metadata: Any) -> tuple[int, Any] | None:
        if metadata is None:
            return None
        self.sizes += metadata.dims
        return len(metadata.dims), metadata.dtype

    def _place(self, node: Node) -> int:
        """The place of a node; -1 for one that has no turn."""
        place = self.places.get(node, -1)
        if place < 0 and node in self.walk.dependencies:  # a leaf
            place = self.places[node] = len(self.nodes)
            self.nodes.append(node)
        return place

    def _edges(self, node: Node) -> tuple[Form, Form | None]:
        """The edges of a node by place; of a call that leaves nodes out also whether the node runs, whether what flows
        into it is asked for, and which edges lead to what is wanted."""
        walk = self.walk
        if walk.needed is None:
            return tuple([edge and (self._place(edge[0]), edge[1]) for edge in node.edges]), None
        edges: list[Form | None] = []
        for edge in node.edges:
            place = -1 if edge is None else self._place(edge[0])
            if edge is None or place >= 0:
                edges.append(edge and (place, edge[1]))
            else:  # (nobody waits for this gradient, but it is looked at)
                inputs = edge[0].metadata_of_inputs
                metadata = inputs[edge[1]] if edge[1] < len(inputs) else None
                self.edge_sizes += () if metadata is None else metadata.dims
                edges.append((-1, edge[1], None if metadata is None else (len(metadata.dims), metadata.dtype)))
        leads = tuple([edge is not None and walk.leads_on(edge) for edge in node.edges])
        return tuple(edges), (walk.runs(node), leads)

    def _hook_form(self, node: Node) -> HookForm | None:
        """How many hooks a node has; the hooks themselves go to their list."""
        stages = self.hooked.get(node)
        if stages is None:
            stages = self.hooked[node] = stages_of(node)
        form: list[Any] = [(), (), 0, 0]
        for (stage, _), (index, hooks) in stages.items():
            self.hooks += hooks
            if stage == TENSOR_STAGE:
                form[0] += ((index, len(hooks)),)
            else:
                form[min(stage, 3)] = index if stage == RETAIN_STAGE else len(hooks)
        return tuple(form) if stages else None

    # ---- what nodes saved
    def _saved(self, node: Any, is_careful: bool) -> Any:
        """The forms of what a node saved."""
        if not is_careful:
            return self._forms_of_saved(node)
        positions = self.positions
        lists: tuple[list[Any], ...] = (
            self.tensors, self.saved, self.sizes, self.ints, self.floats, self.objects
        )
        marks, earlier_positions = [len(values) for values in lists], dict(positions)
        try:
            return self._forms_of_saved(node)
        except (StateError, VersionError):
            for values, mark in zip(lists, marks, strict=True):
                del values[mark:]
            positions.clear()
            positions.update(earlier_positions)
            return INVALID

    def _forms_of_saved(self, node: Any) -> Form:
        return tuple([
            self.form_of(value, node, is_size, decides)
            for value, (is_size, decides) in zip(node.raw_values(), slots_of(node.plan), strict=True)
        ])

    def form_of(self, value: Any, node: Any, is_size: bool, decides: Callable[[Any], bool] | None) -> Any:
        """The form of a value that a node saved. is_size: whether it is dims; decides: which values of a number decide
        what is computed."""
        if decides is not None and type(value) in (int, float) and decides(value):
            return Constant(type(value), value)  # (a formula takes another way for it)
        return self._sizes(value) if is_size else self._value(value, node)

    def refuse(self, place: int) -> None:
        """Raise the error for which a node's saved values are no longer to be had."""
        node: Any = self.nodes[place]
        node = node.inner if type(node) is CopySlices else node
        for value in node.raw_values():
            for saved in saved_in(value):
                if saved.unpack_hook is None:
                    unpacked(saved, node)
        raise StateError(f"{node.name()}: what it saved is not to be had")

    def _tensor_form(self, saved: SavedTensor, node: Node) -> Any:
        if saved.unpack_hook is not None:
            self.objects += (saved, node)
            return UNPACK
        return self._tensor(unpacked(saved, node), (saved, node))

    def _tensor(self, tensor: Any, saved: Saved | None) -> int:
        """The place of a tensor in its list: one for each payload and history, however often it was saved."""
        identity = identity_of(tensor)
        at = self.positions.get(identity)
        if at is None:
            at = self.positions[identity] = len(self.tensors)
            self.tensors.append(tensor)
            self.saved.append(saved)
        return at

    def _value(self, value: Any, node: Node) -> Any:
        """The form of a saved value that is no size."""
        kind = type(value)
        if kind is int:
            self.ints.append(value)
            return INT
        if kind is float:
            self.floats.append(value)
            return FLOAT
        if kind is tuple:
            return tuple([self._value(part, node) for part in value])
        if kind is SavedTensor:
            return self._tensor_form(value, node)
        return None if value is None else Constant(kind, value)

    def _sizes(self, value: Any) -> Any:
        """The form of the dims of one tensor, or of each of a list."""
        if type(value) is int:
            self.sizes.append(value)
            return SIZE
        return None if value is None else tuple([self._sizes(part) for part in value])

    def _slices(self, node: CopySlices, is_careful: bool) -> Slices:
        path = tuple([(op, self._value(args, node), index) for op, args, index in node.path])
        metadata = node.view_metadata
        self.sizes += metadata.dims
        inner: Any = node.inner
        saved = self._saved(inner, is_careful)
        return Slices(path, inner.plan, inner.argument_counts, saved, (len(metadata.dims), metadata.dtype))

    def _seed(self, node: Node, index: int, seed: Any) -> int:
        """The place of a gradient that the call begins with."""
        metadata = node.metadata_of_inputs[index] if index < len(node.metadata_of_inputs) else None
        return self._tensor(seed if metadata is None else validate("root", index, seed, metadata), None)

    def _leaf(self, node: AccumulateGrad, place: int) -> bool:
        """Whether hooks follow when a leaf has its gradient. One that is there is remembered."""
        variable = node.variable
        state = None if variable is None else variable._autograd
        if state is None:
            return False
        if state.grad is not None and is_dense(state.grad):
            self._gradients.append((state.grad, place))
        return bool(state.post_accumulate)

    def _cut_leaves(self) -> tuple[int, ...]:
        """Leaves whose gradient a node has saved, so that adding to it changes what the node will read: such a leaf
        takes its turn, as where hooks follow."""
        saved = {id(root_of(t._data)) for t in self.tensors if is_dense(t)}
        gradients, self._gradients = self._gradients, []
        return tuple([place for gradient, place in gradients if id(root_of(gradient._data)) in saved])

    # ---- programs
    def restart_programs(self) -> None:
        """The runs of programs are asked for from the first one on."""
        if self.programs is not None:
            self.programs.restart()

    def program(self, place: int, arriving: tuple[bool, ...], needs: tuple[bool, ...]) -> Copied | str | None:
        """The form of a program's run for gradients of some results, which gives those that are needed."""
        assert self.programs is not None
        return self.programs.form(self.nodes[place], arriving, needs)

    # ---- the inputs of a graph
    def lists(self) -> tuple[list[Any], ...]:
        """The lists, as ORDER names them."""
        of = NO_LISTS if self.programs is None else self.programs.lists
        return (
            self.tensors, of[TENSORS], self.sizes, self.edge_sizes, of[SIZES], of[INTS], self.ints, self.floats,
            of[FLOATS], self.objects, of[OBJECTS], self.hooks,
        )

    def take(self) -> list[Any]:
        """All lists one after the other. They keep neither tensors nor what holds some from now on."""
        values = [*chain.from_iterable(self.lists())]
        if self.programs is not None:
            self.programs.let_go()
        self.tensors, self.saved = [None] * len(self.tensors), [None] * len(self.saved)
        self.objects, self.hooks = [], []
        self.positions.clear()
        return values

    # ---- once some nodes have run
    def hooks_differ(self, finished: Collection[Node], running: Node, stage: Stage) -> bool:
        """Whether nodes that have not run have other hooks than the structure says. running: a node that is in the
        middle of its turn, and its stage."""
        return any([self._differs(node, running, stage) for node in self.nodes if node not in finished])

    def _differs(self, node: Node, running: Node, stage: Stage) -> bool:
        if node is not running or stage < (RUN_STAGE, 0):
            if node.stands_for_many and self.edges[node] != node.edges:
                return True
            if type(node) is AccumulateGrad and self.forms[self.places[node]][4] is not node.is_awaited:
                return True
        if node.hook_tables is None:
            return False
        recorded, now = self.hooked.get(node, {}), stages_of(node)
        if node is running:
            return any([recorded.get(s) != now.get(s) for s in {*recorded, *now} if s[0] > stage[0]])
        return recorded != now

    def resume(self, finished: Collection[Node], running: Node, stage: Stage) -> None:
        """Look again at what has not run: hooks as they are now, and what was saved; places stay. running: a node that
        is in the middle of its turn, and its stage."""
        self._key, forms = None, self.forms
        for node in self.nodes:
            if node not in finished and self._differs(node, running, stage):
                self._note_changes(node, running, stage)
        self.objects, self.hooks = [], []
        for place, node in enumerate(self.nodes):
            self._restore(self.forms[place], node, node in finished)
        more = [node for node in self.walk.dependencies if node not in self.places]  # parts of programs that were cut
        more.sort(key=_SEQUENCE, reverse=True)
        self.places.update((node, len(self.nodes) + i) for i, node in enumerate(more))
        self.nodes += more
        forms += [self._form(node) for node in more]
        self.edge_sizes.clear()
        for place, node in enumerate(self.nodes):  # (edges lead to new nodes too)
            if node.stands_for_many and node not in finished:
                self.edges[node] = node.edges
            kind, counts, inputs, edges, saved, hooks, flow = forms[place]
            if node not in finished:
                edges, flow = self._edges(node)
            else:
                self.edge_sizes += [0] * sum([e[2][0] for e in edges if e and e[0] < 0 and e[2]])
            forms[place] = (kind, counts, inputs, edges, saved, hooks, flow)
        self.flat = list(forms)
        if self.programs is not None:
            self.programs.keep_only(finished)

    def _note_changes(self, node: Node, running: Node, stage: Stage) -> None:
        """Take the hooks of a node's stages that are to come as they are now."""
        place = self.places[node]
        now = {} if node.hook_tables is None else stages_of(node)
        if node is running:
            recorded = self.hooked.get(node, {})
            now = {
                **{s: recorded[s] for s in recorded if s[0] <= stage[0]}, **{s: now[s] for s in now if s[0] > stage[0]},
            }
        kind, counts, inputs, edges, saved, _, flow = self.forms[place]
        if isinstance(node, AccumulateGrad) and (node is not running or stage < (RUN_STAGE, 0)):
            saved = node.is_awaited
        self.hooked[node] = now
        self.forms[place] = (kind, counts, inputs, edges, saved, self._hook_form(node), flow)

    def _restore(self, form: Form, node: Any, is_finished: bool) -> None:
        """Add a node's objects and hooks to the lists again, and put the tensors in their places that it saved."""
        kind, _, _, _, saved, hooks, _ = form
        if hooks is not None or not isinstance(kind, Plan):
            self.objects.append(node)
        if hooks is not None:
            self._hook_form(node)
        if kind is SLICES and saved is not None:
            kind, saved, node = saved.plan, saved.saved, node.inner
        if isinstance(kind, Plan) and type(saved) is tuple:
            self._restore_saved(saved, None if is_finished else node.raw_values(), node)

    def _restore_saved(self, form: Any, value: Any, node: Node) -> None:
        """value: None where the node has let go of it."""
        if form is UNPACK:
            self.objects += (value, node)
        elif type(form) is tuple:
            for i, part in enumerate(form):
                self._restore_saved(part, None if value is None else value[i], node)
        elif type(form) is int and value is not None and self.tensors[form] is None:
            tensor = self.tensors[form] = unpacked(value, node)
            self.saved[form] = (value, node)
            self.positions[identity_of(tensor)] = form


def saved_in(value: Any) -> Iterator[SavedTensor]:
    """The saved tensors in what a node keeps for an argument."""
    if type(value) is SavedTensor:
        yield value
    elif type(value) is tuple:
        for part in value:
            yield from saved_in(part)


def unpacked(saved: SavedTensor, node: Node) -> Any:
    """What a node saved. One that was written since is an error in the node's name, as where the node runs."""
    try:
        return saved.unpack(node)
    except VersionError as error:
        describe_failure(node, error)
        raise
