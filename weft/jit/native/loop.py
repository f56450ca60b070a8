"""A compiled loop: entered from the interpreter at any step, left where it ends or where the interpreter must go on."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any, Protocol

from weft.codegen.emit import Module
from weft.codegen.native import build, native_caller
from weft.codegen.target import host_target
from weft.ir.graph import Block, Node, Value
from weft.jit.errors import located
from weft.jit.native.elements import emit_free
from weft.jit.native.emit import Interpreted, Site, Unit, emit_loop, outer_values
from weft.jit.native.kinds import Unfit, built, flat, scalars, struct_format
from weft.jit.native.lists import COUNT, MADE, TRACE_WORDS, Lists
from weft.jit.native.made_lists import emit_free_made
from weft.jit.program import Program
from weft.support.counters import counters
from weft.support.errors import StateError
from weft.types.tensor_type import BOOL, INT

CHUNK = 1 << 24  # steps between two looks at signals
_MOST_VAIN = 3
_MOST_COPIED = 100  # elements of lists that are handed over, for a step
Registers = list[Any]


class Steps(Protocol):
    """A block as the interpreter has it."""

    steps: list[Any]

    def run(self, registers: Registers) -> None:
        """Every step."""


class Code(Interpreted, Protocol):
    """The steps of a program as a compiled loop uses them."""

    program: Program
    template: Registers
    blocks: dict[Block, Steps]
    places: dict[Value, int]


class NativeLoop:
    """The machine code of one prim::Loop. Raises Unfit where it has none."""

    def __init__(self, code: Code, node: Node) -> None:
        self.code, self.node = code, node
        target = host_target()
        unit = Unit(Module.for_target(target))
        names = [emit_loop(unit, code, node), emit_free(unit.module), emit_free_made(unit.module)]
        self._makes_lists = unit.makes_lists
        self.sites: list[Site] = unit.sites
        try:
            library = build(unit.module.text(), names, target)
        except StateError as problem:  # a function of the C library that this machine has not
            raise Unfit(str(problem)) from None
        self._call, *self._let_go = (native_caller().callable(library[n], library) for n in names)
        self.kinds = [v.type for v in node.outputs]
        outer = outer_values(node)
        self.outer = [(code.places[v], v.type) for v in outer]
        inputs = [INT, INT, BOOL, *self.kinds, *(kind for _, kind in self.outer)]
        self._given = struct.Struct(struct_format(inputs))
        self._results = struct.Struct(struct_format([INT, BOOL, *self.kinds]))
        words = max(sum(len(scalars(k)) for k in inputs), unit.words)
        self._frame = ctypes.c_int64 * (TRACE_WORDS + words)
        self._free: list[Any] = []
        self.vain = 0  # how often the interpreter was called in for nothing

    @property
    def is_worthwhile(self) -> bool:
        """Whether it does not leave for the interpreter again and again without an error."""
        return self.vain < _MOST_VAIN

    def run(
        self, registers: Registers, step: int, trip: int, going: bool, carried: Sequence[Any]
    ) -> tuple[int, bool, list[Any]]:
        """From a step on: the step and the condition where it ended, and the carried values. Where the interpreter must
        go on, these are some that the loop passed through. Raises what the program raises.
        """
        values, first = list(carried), step
        lists = Lists(*self._let_go)
        try:
            outer = [n for place, kind in self.outer for n in flat(registers[place], kind, lists)]
            while going and step < trip and self.is_worthwhile:
                inner = [n for value, kind in zip(values, self.kinds, strict=True) for n in flat(value, kind, lists)]
                results = self._chunk(registers, (step, min(trip, step + CHUNK), going, *inner, *outer), lists)
                if results is None:
                    break
                step, going = results[0], bool(results[1])
                rest = iter(results[2:])
                values = [built(rest, kind, lists) for kind in self.kinds]
                lists.bring_back()
                if self._makes_lists:
                    lists.close()
                    outer = [n for place, kind in self.outer for n in flat(registers[place], kind, lists)]
        except (TypeError, OverflowError, struct.error):  # a stand-in for a number: the interpreter knows what to do
            self.vain += 1
        finally:
            lists.close()
        self.vain += lists.copied > _MOST_COPIED * (step - first + lists.steps)
        return step, going, values

    def _chunk(self, registers: Registers, numbers: tuple[Any, ...], lists: Lists) -> tuple[Any, ...] | None:
        frame = self._free.pop() if self._free else self._frame()
        try:
            self._given.pack_into(frame, 8 * TRACE_WORDS, *numbers)
            counters.native_calls += 1
            frame[0] = frame[COUNT] = frame[MADE] = 0
            status = self._call(ctypes.addressof(frame))
            lists.made = frame[MADE]
            lists.steps += frame[0]
            if status == 0:
                return self._results.unpack_from(frame, 8 * TRACE_WORDS)
            self._leave(self.sites[status - 1], registers, frame, lists)
        finally:
            self._free.append(frame)
        self.vain += 1
        return None

    def _leave(self, site: Site, registers: Registers, frame: Any, lists: Lists) -> None:
        """Let the interpreter do what raises. If it does not raise after all, nothing has happened."""
        open_calls = [self.sites[n - 1].call for n in frame[1:COUNT] if n]
        frame[0:TRACE_WORDS] = [0] * TRACE_WORDS
        code: Any = site.code
        if code is not self.code:
            registers = code.template.copy()
        numbers = iter(struct.unpack_from(struct_format([v.type for v in site.live]), frame, 8 * TRACE_WORDS))
        for value in site.live:
            registers[code.places[value]] = built(numbers, value.type, lists)
        steps, written = code.blocks[site.block], lists.bring_back()
        try:
            if site.index is None:
                steps.run(registers)
            else:
                steps.steps[site.index](registers)
        except Exception as error:
            raise self._located(error, site, open_calls) from error.__cause__
        for items, before in written:
            items[:] = before

    def _located(self, error: Exception, site: Site, calls: Sequence[Node | None]) -> Exception:
        if site.index is not None:
            error = located(error, site.block.nodes[site.index].where)
        for call in calls:
            assert call is not None
            error = located(error, call.where)
        return error
