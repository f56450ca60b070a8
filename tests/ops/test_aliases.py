"""What the schemas say of memory is so: each entry is traced, and its results show the memory of the arguments that
they name, or none. A composite is what it is made of; a program holds neither views nor writes."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from sampling import NoSample, cases, mine, tensors

import weft
from weft.functionalizer.operators import copy_of
from weft.layers.transforms.functional import FunctionalLevel
from weft.lazy.backend import lazy_at
from weft.lazy.recorded import Opened
from weft.ops.op import OPS, Op
from weft.ops.route import call

PARTS = 4  # that the entries are looked at in
VIEWS = {op.name for op in OPS.values() if op.view is not None}


def on(device: str, value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return weft.from_numpy(value.copy()).to(device)
    return tuple(on(device, v) for v in value) if isinstance(value, tuple) else value


def kind_of(op: Op) -> str:
    """How an entry is tagged."""
    return "view" if op.view is not None else "functional" if op.decompose is None else "composite"


def shown(op: Op, args: tuple[Any, ...], out: Any) -> tuple[tuple[int, ...], ...]:
    """For each tensor among the results the tensors among the arguments, by place, whose memory it shows."""
    given = [t.storage() for t in tensors(args)]
    return tuple(tuple(i for i, s in enumerate(given) if s is t.storage()) for t in tensors(out))


def named(op: Op, args: tuple[Any, ...]) -> set[int]:
    """The tensors among the arguments, by place, of which the schema says that results may show them."""
    marks = [bool(a.alias) for a, v in zip(op.schema.arguments, args, strict=True) for _ in tensors(v)]
    return {i for i, mark in enumerate(marks) if mark}


@pytest.mark.parametrize("part", range(PARTS))
def test_results_show_memory_as_tagged_and_alike_everywhere(rng, part):
    wrong, seen = set(), {"view": 0, "functional": 0, "composite": 0}
    for op in [op for op in mine() if not op.base.startswith("_")][part::PARTS]:  # (machinery's know who calls them)
        try:
            samples = list(cases(op, rng))[:3]
        except NoSample:
            continue
        showed = None
        for sample in samples:
            found = []
            for mode in ("cpu", "lazy", "functionalize"):
                weft.manual_seed(0)
                args = on("cpu" if mode == "functionalize" else mode, sample)
                versions = [t._version for t in tensors(args)]
                with FunctionalLevel() if mode == "functionalize" else nullcontext() as level:
                    try:
                        args = args if level is None else level.lift(args)
                        found.append(shown(op, args, call(op, args)))
                    except Exception:
                        break  # a sample that was made up may mean nothing
                if [t._version for t in tensors(args)] != versions:
                    wrong.add(f"{op.name}: it writes into an argument")
            if len(found) < 3:
                continue
            plain = found[0]
            if any(f != plain for f in found):
                wrong.add(f"{op.name}: what results show, eager, lazy and functionalized: {found}, of {sample}")
            places = {i for result in plain for i in result}
            if kind_of(op) == "functional" and places:
                wrong.add(f"{op.name}: it is no view, and a result shows memory of an argument")
            if kind_of(op) == "view" and not places <= named(op, args):
                wrong.add(f"{op.name}: a result shows memory of an argument that the schema does not name")
            showed = bool(showed or places)
        if kind_of(op) == "view" and showed is False:
            wrong.add(f"{op.name}: a view that shows nothing of its arguments")
        seen[kind_of(op)] += showed is not None
    assert not wrong, "\n".join(sorted(wrong))
    assert min(seen.values()) > 2, seen


def test_traces_hold_neither_views_nor_writes(rng):
    """What waits is named by copies and scatters; a composite without a type rule of its own is opened."""
    trace = lazy_at(0).where.trace
    wrong = []
    for op in mine():
        try:
            samples = list(cases(op, rng))[:1]
        except NoSample:
            continue
        for sample in samples:
            weft.lazy.mark_step()
            try:
                out = call(op, on("lazy", sample))
            except Exception:
                continue
            names = [node.op for node in Opened(trace).nodes]
            wrong += [f"{op.name}: {n.name} writes" for n in names if n.writes is not None]
            wrong += [f"{op.name}: {n.name} has no copy" for n in names if n.view is not None and not copy_of(n)]
            if kind_of(op) == "composite" and op.type is None and op in names:
                wrong.append(f"{op.name}: it is not opened")
            del out
    weft.lazy.reset()
    assert not wrong, "\n".join(sorted(set(wrong)))
