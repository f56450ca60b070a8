"""Control flow: blocks and branches, and on them loops and conditionals as `with` statements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from .memory import MemoryOps
from .types import I1, VOID, EmitError, LType, Signature, Value, const

Carried = Sequence["tuple[Value, str]"]
TIGHT = 16  # instructions of an innermost loop in which a pointer that moves is faster than a base with an index


class Phi(Value):
    """A value that depends on the block control came from; complete it with `add`."""

    __slots__ = ("incoming",)

    def __init__(self, type: LType, text: str) -> None:
        super().__init__(type, text)
        self.incoming: list[tuple[Value, str]] = []

    def add(self, value: Value, block: str) -> None:
        """`value` arrives from `block`."""
        if value.type is not self.type:
            raise EmitError(
                f"phi {self.text}: has type {self.type}, but {value.type} ({value.text}) arrives from {block}"
            )
        self.incoming.append((value, block))

    @property
    def line(self) -> str:
        """The instruction's text."""
        pairs = ", ".join([f"[ {v.text}, %{b} ]" for v, b in self.incoming])
        return f"  {self.text} = phi {self.type.text} {pairs}"


class Loop:
    """What the body of a counted loop sees: `index`, `carried`; and `results`, the carried values after the loop."""

    def __init__(self, index: Value, carried: tuple[Value, ...]) -> None:
        self.index, self.carried = index, carried
        self.results: tuple[Value, ...] = ()
        self._following: tuple[Value, ...] | None = () if not carried else None

    def next(self, *values: Value) -> None:
        """The carried values of the next iteration."""
        if len(values) != len(self.carried):
            raise EmitError(f"loop: carries {len(self.carried)} values, next() got {len(values)}")
        self._following = values

    @property
    def following(self) -> tuple[Value, ...]:
        """What `next` was given."""
        if self._following is None:
            raise EmitError("loop: the body must call next() with the carried values")
        return self._following


class WhileLoop(Loop):
    """A loop that runs while a condition computed at its top holds."""

    def __init__(self, flow: ControlFlow, carried: tuple[Value, ...], exit: str) -> None:
        super().__init__(const(I1, 0), carried)
        self._flow, self._exit = flow, exit
        self.results = carried

    def test(self, cond: Value) -> None:
        """Leave the loop here unless `cond`; call it once, before the body's effects."""
        body = self._flow.block("body")
        self._flow.cond_br(cond, body, self._exit)
        self._flow.place(body)


class Branches:
    """The two arms of a conditional; `results` are the values that the taken arm yielded."""

    def __init__(self, flow: ControlFlow, labels: tuple[str, str, str]) -> None:
        self._flow, self._labels = flow, labels
        self._arrivals: list[tuple[str, tuple[Value, ...]]] = []
        self._values: tuple[Value, ...] = ()
        self.results: tuple[Value, ...] = ()

    @property
    @contextmanager
    def then(self) -> Iterator[None]:
        """The arm that runs if the condition holds."""
        with self._arm(self._labels[0]):
            yield

    @property
    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """The arm that runs if it does not."""
        with self._arm(self._labels[1]):
            yield

    def give(self, *values: Value) -> None:
        """The values of this arm; both arms give as many, of the same types."""
        self._values = values

    @contextmanager
    def _arm(self, label: str) -> Iterator[None]:
        flow = self._flow
        self._values = ()
        flow.place(label)
        yield
        if flow.is_open:
            self._arrivals.append((flow.current, self._values))
            flow.br(self._labels[2])

    def join(self) -> None:
        """Bring both arms together."""
        arrivals = self._arrivals
        if not arrivals:
            return
        self._flow.place(self._labels[2])
        if len({len(values) for _, values in arrivals}) > 1:
            raise EmitError("if_else: both arms must give the same number of values")
        if len(arrivals) == 1:
            self.results = arrivals[0][1]
            return
        self.results = tuple(
            self._flow.phi(a.type, [(a, arrivals[0][0]), (b, arrivals[1][0])])
            for a, b in zip(arrivals[0][1], arrivals[1][1], strict=True)
        )


class ControlFlow(MemoryOps):
    """Blocks are named by their labels; an instruction goes to the block placed last."""

    def __init__(self, declare: Callable[..., Signature], result: LType) -> None:
        super().__init__(declare)
        self.current = "entry"
        self._result = result
        self._names["entry"] = 1
        self._phis: list[tuple[int, Phi]] = []
        self._loops = 0  # how many have begun

    @property
    def is_open(self) -> bool:
        """Whether the current block still lacks its terminator."""
        return self._open

    def block(self, name: str = "block") -> str:
        """A new label; nothing is written until it is placed."""
        return self._fresh(name)

    def place(self, label: str) -> None:
        """Continue in block `label`, falling through from an open block."""
        if self._open:
            self.br(label)
        self._lines.append(f"{label}:")
        self.current, self._open = label, True

    def _end(self, text: str) -> None:
        self._do(text)
        self._open = False

    def br(self, label: str) -> None:
        """Go to a block."""
        self._end(f"br label %{label}")

    def cond_br(self, cond: Value, yes: str, no: str, meta: str = "") -> None:
        """Go to one of two blocks. `meta` is metadata text such as "!prof !1"."""
        if cond.type is not I1:
            raise EmitError(f"br: the condition must be {I1}, got {cond.type}")
        self._end(f"br i1 {cond.text}, label %{yes}, label %{no}{', ' + meta if meta else ''}")

    def switch(self, value: Value, default: str, cases: Sequence[tuple[int, str]]) -> None:
        """Go to the block of the matching case."""
        if value.type.kind != "int" or value.type.lanes:
            raise EmitError(f"switch: needs an integer, got {value.type}")
        arms = " ".join(f"{value.type.text} {number}, label %{label}" for number, label in cases)
        self._end(f"switch {value.type.text} {value.text}, label %{default} [ {arms} ]")

    def ret(self, value: Value | None = None) -> None:
        """Return from the function."""
        got = VOID if value is None else value.type
        if got is not self._result:
            raise EmitError(f"ret: the function returns {self._result}, got {got}")
        self._end("ret void" if value is None else f"ret {got.text} {value.text}")

    def phi(self, type: LType, incoming: Sequence[tuple[Value, str]] = (), name: str = "phi") -> Phi:
        """A phi at the current place, which must be the start of a block;
        more values may be added until the function is printed."""
        if not self._open:
            raise EmitError("phi: after the end of a block")
        phi = Phi(type, "%" + self._fresh(name))
        self._phis.append((len(self._lines), phi))
        self._lines.append("")
        for value, block in incoming:
            phi.add(value, block)
        return phi

    @contextmanager
    def loop(
        self,
        lo: Value | int,
        hi: Value,
        step: Value | int = 1,
        name: str = "i",
        carried: Carried = (),
        trip_at_least_one: bool = False,
        meta: str = "",
    ) -> Iterator[Loop]:
        """Count from lo up to hi (exclusive) by step; a negative constant step counts down. The test is at the bottom,
        behind a guard that is left out when constants or `trip_at_least_one` make it needless.
        hi + step must not overflow."""
        low = lo if isinstance(lo, Value) else const(hi.type, lo)
        by = step if isinstance(step, Value) else const(hi.type, step)
        if low.type is not hi.type or by.type is not hi.type:
            raise EmitError(f"loop: bounds and step differ in type: {low.type}, {hi.type} and {by.type}")
        goes_on = "sgt" if by.const is not None and by.const < 0 else "slt"
        head, exit = self.block(name + "_loop"), self.block(name + "_done")
        before = self.current
        enters = const(I1, 1) if trip_at_least_one else self.icmp(goes_on, low, hi)
        if enters.const:
            self.br(head)
        else:
            self.cond_br(enters, head, exit)
        self.place(head)
        counter = self.phi(low.type, [(low, before)], name)
        phis = [self.phi(init.type, [(init, before)], hint) for init, hint in carried]
        index, at, inside = Value(low.type, counter.text), len(self._lines), self._loops
        self._lines.append("")
        self._loops += 1
        loop = Loop(index, tuple(phis))
        yield loop
        if self._loops > inside + 1 or len(self._lines) - at > TIGHT:
            self._hide(counter, at)
        following = self.add(index, by, name + "_next", "nsw")
        latch = self.current
        counter.add(following, latch)
        for phi, value in zip(phis, loop.following, strict=True):
            phi.add(value, latch)
        again = self.icmp(goes_on, following, hi)
        self.cond_br(again, head, exit, meta)
        self.place(exit)
        if enters.const:
            loop.results = loop.following
            return
        pairs = zip(carried, loop.following, strict=True)
        loop.results = tuple(
            self.phi(init.type, [(init, before), (value, latch)], hint) for (init, hint), value in pairs
        )

    def _hide(self, counter: Phi, at: int) -> None:
        """Have LLVM not see through a loop's counter; the line at `at` is left for it.

        Otherwise loop strength reduction, a third of all compile time, tries other counters for every address in the
        loop. It finds better ones in tight loops only.
        """
        index, type = counter.text, counter.type
        counter.text = "%" + self._fresh("counter")
        name = f"llvm.expect.{type.suffix}"
        self._declare(name, type, (type, type))
        self._lines[at] = f"  {index} = call {type.text} @{name}({type.text} {counter.text}, {type.text} 0)"

    @contextmanager
    def while_loop(self, carried: Carried = (), name: str = "while") -> Iterator[WhileLoop]:
        """Repeat while the condition given to `test` holds. What is computed before `test` runs once
        more than the body."""
        head, exit, before = self.block(name), self.block(name + "_done"), self.current
        self._loops += 1
        self.place(head)
        phis = [self.phi(init.type, [(init, before)], hint) for init, hint in carried]
        loop = WhileLoop(self, tuple(phis), exit)
        yield loop
        for phi, value in zip(phis, loop.following, strict=True):
            phi.add(value, self.current)
        self.br(head)
        self.place(exit)

    @contextmanager
    def if_(self, cond: Value, name: str = "if") -> Iterator[None]:
        """Run the body only where `cond` holds."""
        then, after = self.block(name), self.block(name + "_done")
        self.cond_br(cond, then, after)
        self.place(then)
        yield
        if self._open:
            self.br(after)
        self.place(after)

    @contextmanager
    def if_else(self, cond: Value, name: str = "if") -> Iterator[Branches]:
        """Two arms: `with f.if_else(c) as b:`, inside it `with b.then:` and `with b.otherwise:`,
        each calling b.give(values)."""
        labels = (self.block(name + "_then"), self.block(name + "_else"), self.block(name + "_done"))
        self.cond_br(cond, labels[0], labels[1])
        branches = Branches(self, labels)
        yield branches
        branches.join()
