"""What a warm start needs besides the program: its key (the captured graph's canonical text) and the guards that its passes added."""

from __future__ import annotations

import hashlib
import itertools
import json
from typing import Any

from weft.codegen.program_key import compiler_stamp
from weft.ir.graph import Graph
from weft.ir.printer import print_graph
from weft.runtime.cache import Cache
from weft.support.errors import WeftError
from weft.types import dims
from weft.types.dims import Expr
from weft.types.shape_env import Relation, ShapeEnv, ShapeGuard


def program_key(graph: Graph) -> str:
    """The canonical text of a captured graph with the answers it was captured under. Two graphs with one key are the same program."""
    answers = sorted(f"{g.relation} is {g.answer}" for g in graph.env.guards.values())
    return "\n".join((print_graph(graph, locations=False, symbols=False), *answers))


def is_stampable(graph: Graph) -> bool:
    """Whether the compiler's stamp stands for all code behind the graph: an operator of the user's own may have changed since a program was kept."""
    return all(op.origin.startswith("weft.") for op in {node.op for node in graph.walk()})


def _name(key: str) -> str:
    return hashlib.sha256(f"guards\0{compiler_stamp()}\0{key}".encode()).hexdigest()


def store_guards(cache: Cache, key: str, env: ShapeEnv, before: frozenset[Relation]) -> None:
    """Keep the guards that were added after `before`."""
    added = [[g.relation.op, str(g.relation.expr), g.answer] for r, g in env.guards.items() if r not in before]
    cache.put(_name(key), json.dumps(added).encode())


def find_program(cache: Cache, key: str, env: ShapeEnv) -> tuple[str, bool]:
    """The key of the kept program that fits the example sizes, whose guards are added; or a free key and False.

    The passes ask questions that the captured graph does not settle, so one graph may have several programs: `key`, `key` variant 1, ...
    """
    for number in itertools.count():
        name = key if number == 0 else f"{key}\nvariant {number}"
        guards = _kept_guards(cache, name, env)
        if guards is None:
            return name, False
        if all(_holds(g, env) for g in guards):
            for guard in guards:
                env.guards.setdefault(guard.relation, guard)
            return name, True
    raise AssertionError("the search ends at the first free key")


def _kept_guards(cache: Cache, key: str, env: ShapeEnv) -> list[ShapeGuard] | None:
    data = cache.get(_name(key))
    if data is None:
        return None
    try:
        return [ShapeGuard(Relation(op, _expression(text, env)), bool(answer), None) for op, text, answer in json.loads(data)]
    except (ValueError, TypeError, NameError, SyntaxError, WeftError):
        return None


def _holds(guard: ShapeGuard, env: ShapeEnv) -> bool:
    return env.examples.keys() >= set(guard.relation.expr.symbols()) and guard.holds(env.examples)


def _expression(text: str, env: ShapeEnv) -> Expr:
    """A symbolic integer from its text, which is our own."""
    scope: dict[str, Any] = {name: dims.symbol(name) for name in env.examples}
    found = eval(text, {"__builtins__": {}, "max": dims.maximum, "min": dims.minimum}, scope)
    if not isinstance(found, Expr):
        raise ValueError(text)
    return found
