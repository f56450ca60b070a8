"""Outside of weft/record, weft/programs and weft/compile, the active capture is asked for what its protocol offers
(weft/tensor/capture.py) alone."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.imports import tree_of
from weft.tensor import capture as protocol

ROOT = Path(__file__).parent.parent / "weft"
GROUPS = {
    "gradients": protocol.CapturedGradients, "outside": protocol.ConcreteTensors, "python_state": protocol.PythonState,
}
INSIDE = {ROOT / package for package in ("record", "programs", "compile")}
FILES = [p for p in sorted(ROOT.rglob("*.py")) if INSIDE.isdisjoint(p.parents) and p != ROOT / "tensor/capture.py"]


def members(kind: Any) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}


OFFERED = members(protocol.ActiveCapture)


def _is_capture(node: ast.AST, names: set[str]) -> bool:
    """`modes.capture`, `local.capture`, or a name that was given such a value."""
    if isinstance(node, ast.Attribute):
        return node.attr == "capture" and isinstance(node.value, ast.Name) and node.value.id in ("modes", "local")
    return isinstance(node, ast.Name) and node.id in names


def _bound(node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """(target, value) of what an assignment binds."""
    if isinstance(node, ast.NamedExpr):
        yield node.target, node.value
    for target in node.targets if isinstance(node, ast.Assign) else ():
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            yield from zip(target.elts, node.value.elts, strict=False)
        else:
            yield target, node.value


def asked(source: str) -> Iterator[tuple[int, str]]:
    """(line, what) of everything that a module reads of the active capture, as `outside.is_outside`."""
    if "capture" not in source.replace("capture import", ""):
        return
    nodes = list(ast.walk(ast.parse(source)))
    bound = [pair for node in nodes for pair in _bound(node)]
    names = {target.id for target, value in bound if isinstance(target, ast.Name) and _is_capture(value, set())}
    inner = {id(n.value): n.attr for n in nodes if isinstance(n, ast.Attribute)}
    for node in nodes:
        if isinstance(node, ast.Attribute) and _is_capture(node.value, names):
            member = inner.get(id(node)) if node.attr in GROUPS else None
            yield node.lineno, node.attr if member is None else f"{node.attr}.{member}"


def is_offered(what: str) -> bool:
    group, _, member = what.partition(".")
    return group in OFFERED and (group not in GROUPS or not member or member in members(GROUPS[group]))


@functools.cache
def everything_asked() -> list[tuple[str, str]]:
    return [
        (f"{path.relative_to(ROOT.parent)}:{line}", what)
        for path in FILES for line, what in asked(path.read_text(encoding="utf-8"))
    ]


def test_nothing_else_is_asked():
    found = [f"{where}: {what}" for where, what in everything_asked() if not is_offered(what)]
    assert not found, "\n".join(found)


def test_nobody_else_takes_a_capture_apart():
    """Front ends that record blocks of their own ask weft/record/blocks/front_ends.py."""
    inner = ("weft.record.capture", "weft.record.recorder", "weft.record.tensors")
    found = []
    for path in FILES:
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(tree_of(path)) if "capture" in source else ():
            names = [a.name for a in node.names] if isinstance(node, (ast.Import, ast.ImportFrom)) else []
            if "active_capture" in names or getattr(node, "module", None) in inner or set(names) & set(inner):
                found.append(f"{path.relative_to(ROOT.parent)}:{node.lineno}")
    assert not found, "\n".join(found)


def test_everything_offered_is_asked():
    """What nobody asks for is no part of the protocol."""
    inside = {f"{group}.{member}" for group, kind in GROUPS.items() for member in members(kind)}
    missing = (OFFERED - GROUPS.keys()) | inside
    missing -= {what for _, what in everything_asked()}
    assert not missing, sorted(missing)


@pytest.mark.parametrize("line", [
    "modes.capture.states", "capture = modes.capture\ncapture.builder", "if (c := modes.capture) is not None: c.env",
    "a, capture = 1, modes.capture\ncapture.outside.stand_ins", "modes.capture.python_state.numbers",
])
def test_the_measure_sees_what_is_not_offered(line):
    assert [what for _, what in asked(line) if not is_offered(what)]


@pytest.mark.parametrize("line", [
    "modes.capture.refuse('x')", "capture = modes.capture\ncapture.outside.is_outside(p)", "modes.capture is None",
    "self.capture.builder",
])
def test_the_measure_sees_nothing_else(line):
    assert not [what for _, what in asked(line) if not is_offered(what)]
