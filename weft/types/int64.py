"""Whether a number made of symbols is one of 64 bits, which is what the integers of machine code are."""

from __future__ import annotations

from weft.types import dims
from weft.types.dims import Atom, Dim, Expr
from weft.types.shape_env import ShapeEnv

LEAST, MOST = -(1 << 63), (1 << 63) - 1
_SMALL = 1 << 31  # what sizes are taken to be less than, where they are multiplied; integers are asked


def fits(d: Dim, env: ShapeEnv) -> bool:
    """Whether an integer is one of 64 bits. Of one that hangs on a call's numbers the answer is guarded; raises
    UnknownSize where only the run can say."""
    if isinstance(d, int):
        return LEAST <= d <= MOST
    return (_reach(d) <= MOST and _are_small(d, env)) or not (env.less(MOST, d) or env.less(d, LEAST))


def is_count(d: Expr) -> bool:
    """Whether a dim is made of sizes alone, with small numbers: what counts elements has less than 64 bits."""
    return all([abs(coef) < _SMALL and all(map(_is_count, mono)) for mono, coef in d.terms])


def _is_count(atom: Atom) -> bool:
    if atom.kind == "symbol":
        return atom.key[0] in "su"
    return all([is_count(a) if isinstance(a, Expr) else abs(a) < _SMALL for a in atom.args])  # type: ignore[arg-type]


def _are_small(d: Dim, env: ShapeEnv) -> bool:
    """Whether the integers in a dim are small. Asked once of each, whatever is made of it."""
    integers = {atom.key: dims.symbol(atom.key) for atom in dims.symbol_atoms(d) if atom.key[0] not in "su"}
    return all([env.less(n, _SMALL) and env.less(-_SMALL, n) for n in integers.values()])


def _reach(d: Dim) -> int:
    """How far from 0 a dim can be whose symbols are small."""
    if isinstance(d, int):
        return abs(d)
    total = 0
    for mono, coef in d.terms:
        part = abs(coef)
        for atom in mono:
            part *= _reach_of(atom)
        total += part
    return total


def _reach_of(atom: Atom) -> int:
    if atom.kind == "symbol":
        return _SMALL
    a, b = (_reach(x) for x in atom.args)  # type: ignore[arg-type]
    return {"floordiv": a, "mod": b}.get(atom.kind, max(a, b))
