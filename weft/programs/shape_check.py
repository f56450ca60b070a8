"""The guards on sizes as one function of a call's symbols."""

from __future__ import annotations

from collections.abc import Callable

from weft.support.generated import expression_function
from weft.types.shape_env import ShapeEnv


def shape_check(env: ShapeEnv) -> tuple[Callable[..., bool], tuple[str, ...]]:
    """One Python function over the symbols that says whether every guard holds, and the symbols' names in its order."""
    names = sorted({s for g in env.guards.values() for s in g.relation.expr.symbols() if s in env.examples})
    tests = [f"{'' if g.answer else 'not '}({g.relation.expr} {g.relation.op} 0)" for g in env.guards.values()]
    text = " and ".join(tests) or "True"
    return expression_function("shape check", names, text, {"max": max, "min": min}), tuple(names)
