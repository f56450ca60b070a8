"""Where the nodes of a block repeat: runs of equal tokens at a fixed distance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from weft.ir.graph import Node, Operand, Value
from weft.ir.structure import ROWS, TABLE
from weft.passes.effects import ORDERED
from weft.types.dims import Expr

Tokens = np.ndarray[Any, np.dtype[np.int64]]
_NUMBERS = frozenset((int, float, complex, Expr))
_GRAM = 4  # nodes that are looked up together: one operator alone is everywhere
_CANDIDATES = 24  # distances that are tried, of each order
_ROUNDS = 8  # of looking for runs in what others have left
_MOST_LAG = 4  # iterations back from where a value may come


class Run(NamedTuple):
    """So many `iterations` of `period` nodes each, from node `start` on."""

    start: int
    period: int
    iterations: int

    @property
    def end(self) -> int:
        """The number after its last node."""
        return self.start + self.period * self.iterations


class Carries:
    """What an iteration of a run reads of earlier ones. number: of each node of the block.

    hands_on: whether iterations are made of what earlier ones have made. If not, and one reads of another, the run may
    begin in the middle of an iteration: `start` is where one does begin.
    """

    def __init__(self, run: Run, leaves: Sequence[list[Operand]], number: dict[Node, int]) -> None:
        first = run.start + min(_MOST_LAG, run.iterations - 1) * run.period
        reading: set[int] = set()  # places of what reads of an earlier iteration, by itself or through others
        last, read = 0, {run.period}  # the last place that does so by itself; places of what is read
        for place in range(run.period):
            for v in leaves[first + place]:
                source = number.get(v.node, -1) if type(v) is Value and v.node is not None else -1
                if run.start <= source < first:
                    read.add((source - run.start) % run.period)
                    last = place + 1
                if run.start <= source < first or source - first in reading:
                    reading.add(place)
        self.hands_on = not read.isdisjoint(reading)
        self.start = run.start + (last if last <= min(read) and not self.hands_on else 0)


def _split(operands: tuple[Operand, ...], varying: list[Operand], same: list[Any]) -> None:
    """Split operands into what may vary between two iterations, in order, values and numbers that are no flags, and
    what is the same in each."""
    for operand in operands:
        kind = type(operand)
        if kind is Value:
            varying.append(operand)
            same.append(operand.type)
        elif kind is tuple:
            same.append(~len(operand))  # (less than 0, which no flag is)
            _split(operand, varying, same)
        elif kind in _NUMBERS:
            varying.append(operand)
            same.append(kind)
        else:
            same.append(operand)


def with_operands(operand: Operand, leaves: Iterator[Operand]) -> Operand:
    """An operand with others for its values and numbers, in order."""
    kind = type(operand)
    if kind is tuple:
        return tuple([with_operands(part, leaves) for part in operand])
    return next(leaves) if kind is Value or kind in _NUMBERS else operand


def tokens_of(nodes: Sequence[Node], leaves: list[list[Operand]]) -> Tokens:
    """A number for each node: equal ones do the same with other values and numbers. leaves: gets these, of each node.
    """
    numbers: dict[Any, int] = {}
    tokens = []
    for at, node in enumerate(nodes):
        varying: list[Operand] = []
        same: list[Any] = [node.op]
        _split(node.args, varying, same)
        leaves.append(varying)
        key: Any = at  # a node with blocks, or with effects that others see, is like no other; nor are loops' tables
        if not node.blocks and node.op.effect not in ORDERED and node.op not in (TABLE, ROWS):
            same += [v.type for v in node.outputs]
            key = tuple(same)
        try:
            tokens.append(numbers[key])
        except KeyError:
            tokens.append(numbers.setdefault(key, len(numbers)))
        except TypeError:  # an immediate that is no key
            tokens.append(numbers.setdefault(at, len(numbers)))
    return np.array(tokens, np.int64)


def runs_of(tokens: Tokens, fewest: int, least: int) -> list[Run]:
    """Runs that do not overlap, of `fewest` iterations at least, which leave out `least` nodes at least when they are
    loops; the longest first."""
    free = np.ones(len(tokens), np.bool_)
    runs: list[Run] = []
    for _ in range(_ROUNDS):
        starts, ends = _stretches(free)
        if not (ends - starts > least).any():
            break
        new = _longest(tokens, free, fewest, least)
        if not new:
            break
        runs += new
    return runs


def _longest(tokens: Tokens, free: np.ndarray[Any, Any], fewest: int, least: int) -> list[Run]:
    """The longest runs of free nodes, which are free no more."""
    candidates: list[tuple[int, int, Run]] = []
    for period in _distances(tokens, free):
        starts, ends = _stretches((tokens[:-period] == tokens[period:]) & free[:-period] & free[period:])
        counts = (ends - starts) // period + 1
        is_enough = (counts >= fewest) & ((counts - 1) * period >= least)
        for start, count in zip(starts[is_enough].tolist(), counts[is_enough].tolist(), strict=True):
            candidates.append((-(count - 1) * period, period, Run(start, period, count)))
    runs = []
    for _, _, run in sorted(candidates):
        if free[run.start : run.end].all():
            free[run.start : run.end] = False
            runs.append(run)
    return runs


def _stretches(mask: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Where something holds: the first place of each stretch, and the one after its last."""
    edges = np.flatnonzero(np.diff(mask.view(np.int8), prepend=0, append=0))
    return edges[::2], edges[1::2]


def _distances(tokens: Tokens, free: np.ndarray[Any, Any]) -> list[int]:
    """Distances at which a few tokens in a row come again: those seen most often, and those that span most."""
    size = len(tokens) - _GRAM + 1
    if size < 2:
        return []
    grams = tokens[:size].copy()
    for i in range(1, _GRAM):
        grams = grams * np.int64(1_000_003) + tokens[i : i + size]
    grams = grams[free[:size]]
    places = np.flatnonzero(free[:size])
    order = np.argsort(grams, kind="stable")
    same = grams[order[1:]] == grams[order[:-1]]
    distances, counts = np.unique((places[order[1:]] - places[order[:-1]])[same], return_counts=True)
    often = np.argsort(-counts, kind="stable")[:_CANDIDATES]
    far = np.argsort(-counts * distances, kind="stable")[:_CANDIDATES]
    return sorted(set(distances[often].tolist()) | set(distances[far].tolist()))
