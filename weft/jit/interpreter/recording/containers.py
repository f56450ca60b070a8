"""Lists and dicts while blocks are recorded: what a block writes into those around it is noted, undone where the block
ends, and made again outside with what the branch or loop gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from weft.jit.interpreter.recording.values import NotRecorded
from weft.tensor.modes import modes

Container = Any  # a list or dict of the program's
_EITHER = "a list or dict is written to that may be one of two, as a branch or loop has it; write to a copy of it"


class OpenBlock:
    """What a block that is being recorded does to lists and dicts.

    made: those that came to be in it; before: what stood in those around it that it writes; seen: those around it that
    it reads; growing: those that only grow in it, for a loop stacks what it puts at their end.
    """

    def __init__(self, growing: Sequence[Container]) -> None:
        self.made: dict[int, Container] = {}
        self.before: dict[int, tuple[Container, Container]] = {}
        self.seen: dict[int, Container] = {}
        self.growing = {id(c): c for c in growing}

    def left(self) -> dict[int, tuple[Container, Container]]:
        """The containers that the block has written so far, and what stands in them now."""
        return {key: (container, container.copy()) for key, (container, _) in self.before.items()}

    def has_made(self, container: Container) -> bool:
        """Whether it came to be in the block."""
        return id(container) in self.made


class Containers:
    """The lists and dicts of one capture. either: those that may be one of two when the program runs; written: what is
    called after a write to one; of_each: those that stand for one of each example of a batched program, with those that
    they are parts of.
    """

    def __init__(self) -> None:
        self.blocks: list[OpenBlock] = []
        self.either: dict[int, Container] = {}
        self.written: dict[int, tuple[Container, Callable[[], None]]] = {}
        self.of_each: dict[int, tuple[Container, Container]] = {}

    def when_written(self, container: Container, then: Callable[[], None]) -> None:
        """Call `then` after each write to a container."""
        self.written[id(container)] = container, then

    @contextmanager
    def block(self, growing: Sequence[Container] = ()) -> Iterator[OpenBlock]:
        """While a block is recorded. Where it ends, everything is as it was before."""
        around = self.blocks[-1] if self.blocks else None
        opened = OpenBlock([*(around.growing.values() if around else ()), *growing])
        self.blocks.append(opened)
        try:
            yield opened
        finally:
            self.blocks.pop()
            for container, contents in opened.before.values():
                fill(container, contents)
            if around is not None:
                around.seen.update({k: c for k, c in opened.seen.items() if k not in around.made})

    def makes(self, container: Container) -> None:
        """A new one came to be."""
        if self.blocks:
            self.blocks[-1].made[id(container)] = container

    def reads(self, container: Container) -> None:
        """Its elements are about to be read. Raises NotRecorded."""
        if not self.blocks or self.blocks[-1].has_made(container):
            return
        self.blocks[-1].seen[id(container)] = container
        if id(container) in self.blocks[-1].growing:
            raise NotRecorded("a list is read in the loop that puts elements at its end")

    def writes(self, container: Container) -> None:
        """It is about to be written. Raises NotRecorded."""
        if id(container) in self.either:
            raise NotRecorded(_EITHER)
        if self.blocks and not self.blocks[-1].has_made(container):
            self.blocks[-1].before.setdefault(id(container), (container, container.copy()))

    def stands_for(self, container: Container, others: Sequence[Container]) -> None:
        """A new one came to be that may be one of others, as the program has it: none of them is written from here on.
        """
        self.makes(container)
        if others:
            self.either.update((id(c), c) for c in (container, *others))

    def replace(self, container: Container, contents: Container) -> None:
        """It has other elements from here on."""
        self.writes(container)
        fill(container, contents)

    # ---- operators
    def around(self, function: Callable[..., Any], args: Sequence[Any], writes: bool, at_end: bool) -> Any:
        """What an operator gives; what it does to the lists and dicts among its operands is noted. at_end: it only
        puts elements behind the last one.
        """
        operands = [a for a in args if type(a) in (list, dict)]
        for container in operands[1:] if at_end else operands:
            self.reads(container)
        if writes and operands and operands[0] is args[0]:
            self.writes(operands[0])
        returned = function(*args)
        if writes and operands and id(operands[0]) in self.written:
            self.written[id(operands[0])][1]()
        for result in returned if type(returned) is tuple else (returned,):
            if type(result) in (list, dict) and not any(_holds(a, result) for a in args):
                self.makes(result)
        return returned


_OF: WeakKeyDictionary[Any, Containers] = WeakKeyDictionary()


def containers() -> Containers:
    """Those of the capture that is active."""
    capture = modes.capture
    state = _OF.get(capture)
    if state is None:
        state = _OF[capture] = Containers()
    return state


def fill(container: Container, contents: Container) -> None:
    """Let a list or dict hold what another one holds."""
    if container is contents:
        return
    if isinstance(container, dict):
        container.clear()
        container.update(contents)
    else:
        container[:] = contents


def _holds(value: Any, wanted: Container) -> bool:
    """Whether a container is a value, or within it."""
    if value is wanted:
        return True
    if isinstance(value, dict):
        return any(_holds(v, wanted) for v in value.values())
    return isinstance(value, (list, tuple)) and any(_holds(v, wanted) for v in value)
