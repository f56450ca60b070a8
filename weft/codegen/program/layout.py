"""A lowered graph as a Layout plus the native functions it names: the frame's segments in order, and their code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from weft.codegen.emit import Module
from weft.codegen.program.control_flow import emit_if, emit_loop
from weft.codegen.program.functions import SegmentEmitter, emit_end, emit_plan
from weft.ir.graph import Value, values_in
from weft.ir.structure import STEPS
from weft.loops.kernel import HostCall, KernelCall, LoweredGraph
from weft.plan.frame import Frame, Launch
from weft.plan.items import BlockItem, CountStep, Item, NumberStep, early_numbers
from weft.runtime.segments import Layout, NativeSegment, Segment


def native_layout(
    lowered: LoweredGraph, module: Module, show: Callable[[Frame, Layout], None] = lambda frame, layout: None
) -> Layout:
    """Emit the program's functions into `module`, which has the kernels, and describe how to run them. show: is shown
    the plan and the layout, and may add functions that know both."""
    frame = Frame(lowered)
    module.keep(frame.functions)  # nobody calls the rest: numbers, and blocks that run as one node in NumPy
    layout = _Assembly(frame, module).layout()
    show(frame, layout)
    return layout


class _Assembly:
    """The native functions of one program, written as its segments are laid out."""

    def __init__(self, frame: Frame, module: Module) -> None:
        self.frame, self.module = frame, module
        self.storage, self.words = frame.storage, frame.words
        self.segments = self.scopes = 0
        # Functions for sizes that are known only while the program runs -> symbols found just before, and all known.
        # Emitted last, when every size is listed.
        self.late_plans: dict[str, tuple[frozenset[str], frozenset[str]]] = {}

    def layout(self) -> Layout:
        frame, words = self.frame, self.words
        params = frame.params()
        segments = tuple(self._segments())
        results = frame.results()
        plan = self._emit_main_plan()
        return Layout(
            params, results, segments, self.storage.roots, words.count, tuple(words.preset.items()), frame.symbols,
            frame.given, words.symbol_word, plan, tuple(sorted({p for _, p in frame.graph.writes})), (),
            tuple(frame.constants()), tuple(frame.checks), len(frame.kernels), frame.parallel,
            self.storage.needless, frame.notes(), self._emit_end())

    # ---- segments
    def _segments(self) -> Iterator[Segment]:
        run: list[Item] = []  # consecutive items that native code does in one go
        for item in self.frame.items:
            if not isinstance(item, HostCall):
                run.append(item)
                continue
            yield from self._native(run)
            run = []
            yield from self._host_call(item)
        yield from self._native(run, is_last=True)

    def _native(self, run: list[Item], is_last: bool = False) -> Iterator[Segment]:
        endings = [*self.storage.copies, *self.storage.commits] if is_last else []
        if not run and not endings:
            return
        self.segments += 1
        name = f"weft_segment_{self.segments}"
        emitter = SegmentEmitter(self.module, name, self.storage, self.words, self.frame.word_of)
        if self.segments == 1:
            if self.storage.placement.sizes:
                emitter.place_arena(self.frame.offsets)
            emitter.place_numbers(self.storage.numbers)
        self._emit_items(emitter, run)
        emitter.copies(endings)
        emitter.finish()
        yield NativeSegment(name, "", tuple(self.frame.late_buffers(run)))

    def _emit_items(self, emitter: SegmentEmitter, run: Sequence[Item]) -> None:
        """Steps in order, cut where a size is found: memory that hangs on it is made from there on."""
        start = 0
        for i, item in enumerate(run):
            if isinstance(item, CountStep):
                self._emit_part(emitter, run[start:i])
                self._count(emitter, item)
                start = i + 1
        self._emit_part(emitter, run[start:])

    def _count(self, emitter: SegmentEmitter, item: CountStep) -> None:
        """A size that is found within control flow, and the sizes that hang on it."""
        (symbol,) = item.symbols
        source = item.node.args[0]
        assert isinstance(source, Value)
        emitter.bind(self.words.symbol(symbol), source)
        before = frozenset(self.frame.known)
        self.frame.known.add(symbol)
        emitter.calculate(self._late_plan(before))

    def _emit_part(self, emitter: SegmentEmitter, run: Sequence[Item]) -> None:
        """Numbers as early as they can be, so that the kernels between them are one table."""
        self.scopes += 1
        emitter.make_room(self.frame.rooms_of(run))
        scope, calls = self.scopes, [item for item in run if isinstance(item, KernelCall)]
        roots = [self.storage.of(v) for call in calls for v in call.buffers]
        table = self.words.take(len(roots))
        if roots:
            emitter.gather(table, roots)
        early, waiting = early_numbers(run)
        for number in early:
            emitter.number(number.node)
        placed = set(map(id, early))
        launches: list[Launch] = []
        for item in run:
            if isinstance(item, KernelCall):
                if any(v in waiting for v in values_in(item.numbers)):
                    self._flush(emitter, launches)
                emitter.fill_numbers(item, scope)
                launches.append(self.frame.launch(item, table, scope))
                table += len(item.buffers)
            elif id(item) not in placed:
                self._flush(emitter, launches)
                self._emit_single(emitter, item)
        self._flush(emitter, launches)

    def _emit_single(self, emitter: SegmentEmitter, item: Item) -> None:
        """A number that kernels had to be run for, or control flow."""
        if isinstance(item, NumberStep):
            emitter.number(item.node)
        elif isinstance(item, BlockItem):
            emit = emit_if if item.is_if else emit_loop
            emit(emitter, item, lambda arm: self._emit_body(emitter, item.bodies[arm]))

    def _emit_body(self, emitter: SegmentEmitter, body: Sequence[Item]) -> None:
        """A block. What it finds is not known behind it."""
        before = set(self.frame.known)
        self._emit_items(emitter, body)
        self.frame.known = before

    def _flush(self, emitter: SegmentEmitter, launches: list[Launch]) -> None:
        if launches:
            emitter.launches(launches)
            launches.clear()

    def _host_call(self, item: HostCall) -> Iterator[Segment]:
        if item.node.op is STEPS:
            before = frozenset(self.frame.known)
            counts = self.frame.counts(item)
            yield NativeSegment("", self._late_plan(before), (), counts)
            return
        before = frozenset(self.frame.known)
        segment = self.frame.host_segment(item)
        yield segment
        if segment.binds:
            yield NativeSegment("", self._late_plan(before))

    def _late_plan(self, before: frozenset[str]) -> str:
        """The name of a function for the sizes that can be computed from here on, and not before."""
        name = f"weft_late_{len(self.late_plans)}"
        computable = frozenset(self.frame.known)
        self.late_plans[name] = computable - before, computable
        return name

    def _emit_end(self) -> str:
        """The name of a function that lets go of memory that native code made, or ""."""
        if not self.frame.rooms:
            return ""
        emit_end(self.module, "weft_end", self.frame.rooms)
        return "weft_end"

    # ---- plans
    def _emit_main_plan(self) -> str:
        sizes = {w: d for w, d in self.words.sizes.items() if not self.words.is_late(d)}
        slots = (self.frame.offsets, self.storage.placement.sizes)
        functions = (min(self.frame.functions.values(), default=0), tuple(self.frame.functions))
        emit_plan(self.module, "weft_plan", self.words, sizes, functions, slots)
        rest = {w: d for w, d in self.words.sizes.items() if w not in sizes}
        for name, (added, computable) in self.late_plans.items():
            ready = {w: d for w, d in rest.items() if d.symbols() <= computable and d.symbols() & added}
            emit_plan(self.module, name, self.words, ready)
        return "weft_plan"
