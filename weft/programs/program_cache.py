"""What a warm start needs besides the program: its key (the captured graph's canonical text) and the guards
that its passes added."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

from weft.codegen.program_key import compiler_stamp
from weft.ir.graph import Graph
from weft.ir.printer import print_graph
from weft.runtime.cache import Cache
from weft.support.errors import WeftError
from weft.support.knobs import knobs
from weft.types.dims import Expr
from weft.types.parse import parse_dim
from weft.types.relation import Relation, ShapeGuard
from weft.types.shape_env import ShapeEnv


def program_key(graph: Graph) -> str:
    """The canonical text of a captured graph with the answers it was captured under, and how its loops are compiled.
    Two graphs with one key are the same program.
    """
    answers = sorted(f"{g.relation} is {g.answer}" for g in graph.env.guards.values())
    return "\n".join((knobs.fold, print_graph(graph, locations=False, symbols=False), *answers))


def is_stampable(graph: Graph) -> bool:
    """Whether the compiler's stamp stands for all code behind the graph: an operator of the user's own may have changed
    since a program was cached."""
    return all(op.origin.startswith("weft.") for op in graph.block.operators())


def _name(key: str) -> str:
    return hashlib.sha256(f"guards\0{compiler_stamp()}\0{key}".encode()).hexdigest()


def store_guards(cache: Cache, key: str, added: list[ShapeGuard]) -> None:
    """Keep the guards that the passes added."""
    cache.put(_name(key), guards_text(added).encode())


def guards_text(added: Sequence[ShapeGuard]) -> str:
    """Guards as the cache keeps them."""
    return json.dumps([[g.relation.op, str(g.relation.expr), g.answer] for g in added])


def carry_guards(cache: Cache, key: str, texts: Sequence[str]) -> Iterator[str]:
    """Have guards of programs of one graph, as `guards_text` wrote them, in this process alone; gives the key of each
    one's code."""
    for number, text in enumerate(texts):
        name = _variant(key, number)
        cache.carried.carry(_name(name), text.encode())
        yield with_answers(name, [_guard(*fields) for fields in json.loads(text)])


def _variant(key: str, number: int) -> str:
    return key if number == 0 else f"{key}\nvariant {number}"


def with_answers(key: str, added: Sequence[ShapeGuard]) -> str:
    """The key of the program that was made under these answers. Guards and program are two entries:
    each is of use only beside the other."""
    return "\n".join((key, *sorted(f"{g.relation} is {g.answer}" for g in added)))


def added_since(env: ShapeEnv, before: frozenset[Relation]) -> list[ShapeGuard]:
    """The guards that are not among `before`: what passes asked, of no line in particular, as they are when they come
    from the cache."""
    return [replace(guard, where=None) for relation, guard in env.guards.items() if relation not in before]


def find_program(cache: Cache, key: str, env: ShapeEnv) -> tuple[str, list[ShapeGuard] | None]:
    """The key of the cached program that fits the example sizes, and the guards that its passes added;
    or a free key and None.

    The passes ask questions that the captured graph does not settle, so one graph may have several programs: `key`,
    `key` variant 1, ...
    """
    for number in itertools.count():
        name = _variant(key, number)
        guards = _cached_guards(cache, name)
        if guards is None or all(_holds(g, env) for g in guards):
            return name, guards
    raise AssertionError("the search ends at the first free key")


def _cached_guards(cache: Cache, key: str) -> list[ShapeGuard] | None:
    """The guards of an entry, or None if there is none that makes sense."""
    data = cache.get(_name(key))
    if data is None:
        return None
    try:
        return [_guard(*fields) for fields in json.loads(data)]
    except (ValueError, TypeError, RecursionError, WeftError):
        return None


def _guard(op: str, text: str, answer: bool) -> ShapeGuard:
    """A guard from its parts, which are data: the text is read by the parser of sizes, and nothing in it is run."""
    expr = parse_dim(text)
    if op not in ("==", "<") or type(answer) is not bool or not isinstance(expr, Expr):
        raise ValueError(f"no guard: {op} {text} {answer}")
    return ShapeGuard(Relation(op, expr), answer, None)


def _holds(guard: ShapeGuard, env: ShapeEnv) -> bool:
    """Whether the example answers as the guard does."""
    try:
        return env.examples.keys() >= set(guard.relation.expr.symbols()) and guard.holds(env.examples)
    except ZeroDivisionError:  # a quotient by a size that is 0 in this example
        return False
