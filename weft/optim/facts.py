"""What a captured step depends on besides numbers and the bytes of tensors, as a value that can be
compared at every call."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import chain
from operator import is_
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.support.generated import FunctionWriter
from weft.tensor.tensor import Tensor

if TYPE_CHECKING:
    from weft.optim.optimizer import Optimizer

Facts = list[Any]
MOST_WRITTEN_OUT = 600  # entries of states that are compared in lines of their own: twice as fast, but to be compiled


def group_facts(param_groups: list[dict[str, Any]]) -> Facts:
    """Identity and order of groups and parameters, options that are no numbers, and the types of those that are."""
    return [(id(group), list(map(
        id, group["params"]
    )), {key: _fact(value) for key, value in group.items() if key != "params"}) for group in param_groups]


def groups_check(param_groups: Callable[[], list[dict[str, Any]]]) -> Callable[[], bool]:
    """A function that says whether `group_facts` of the groups are what they are now. It is asked at every call of a
    captured step: what it compares stands in its lines."""
    groups = list(param_groups())
    code = FunctionWriter("optimizer guards", "holds()", param_groups=param_groups, same=_are_same, fact=_fact)
    code.lines += ["groups = param_groups()", f"if len(groups) != {len(groups)}: return False"]
    for i, (group, (_, _, facts)) in enumerate(zip(groups, group_facts(groups), strict=True)):
        code.lines += [
            f"g = groups[{i}]",
            f"if g is not {code.name(group)} or len(g) != {len(group)} or "
            f"not same(g['params'], {code.name(list(group['params']))}): return False",
        ]
        for key, captured in facts.items():
            code.lines += [
                f"if {key!r} not in g: return False",
                f"v = g[{key!r}]",
                f"if {_differs(code, group[key], captured)}fact(v) != {code.name(captured)}: return False",
            ]
    code.lines.append("return True")
    return code.function()


def _entries_check(states: Sequence[dict[str, Any]]) -> Callable[[], bool]:
    """A function that says whether the dicts have the entries that they have now."""
    if sum(map(len, states)) > MOST_WRITTEN_OUT:
        entries = _entries(states)
        return lambda: _are_same(_entries(states), entries)
    code = FunctionWriter("optimizer guards", "holds()")
    for state in states:
        name = code.name(state)
        same = [f"{name}[{key!r}] is {code.name(entry)}" for key, entry in state.items()]
        code.lines.append(f"if not ({' and '.join([f'len({name}) == {len(state)}', *same])}): return False")
    code.lines = ["try:", *[f"    {line}" for line in (*code.lines, "return True")], "except KeyError: return False"]
    return code.function()


def _differs(code: FunctionWriter, value: Any, fact: Any) -> str:
    """What of a group's option is asked first, since it is mostly answered with no."""
    if fact is float:
        return "type(v) is not float and "
    is_constant = value is None or type(value) in (bool, str) or (type(value) is tuple and _is_plain(fact))
    return f"v is not {code.name(value)} and " if is_constant else ""


def _is_plain(facts: Any) -> bool:
    """Whether what a tuple has cannot change while it is the same tuple."""
    return all(fact is float or fact is None or type(fact) in (bool, str) for fact in facts)


def _entries(states: Sequence[dict[str, Any]]) -> list[Any]:
    return list(chain.from_iterable(map(dict.values, states)))


def _are_same(objects: Collection[Any], captured: Sequence[Any]) -> bool:
    """Whether these are the same objects in the same order."""
    return len(objects) == len(captured) and all(map(is_, objects, captured))


def _fact(value: Any) -> Any:
    kind = type(value)
    if kind is float or kind is int:
        return float
    if kind is bool or kind is str or value is None:
        return value
    if isinstance(value, (int, float, np.number)):
        return float  # an input of the program, whatever its value
    if kind is tuple or kind is list:
        return [_fact(v) for v in value]
    return id(value)


def group_change(name: str, captured: list[dict[str, Any]], now: list[dict[str, Any]]) -> str:
    """How parameter groups differ from those that a captured step knows, in words."""
    if len(captured) != len(now):
        return f"the number of parameter groups of {name} was {len(captured)}, is now {len(now)}"
    for i, (old, new) in enumerate(zip(captured, now, strict=True)):
        if list(map(id, old["params"])) != list(map(id, new["params"])):
            return (
                f"param_groups[{i}]['params'] of {name} were {len(old['params'])} tensors, "
                f"are now {len(new['params'])} others"
            )
        for key in (*old, *new):
            if key != "params" and (key not in new or key not in old or _fact(old[key]) != _fact(new[key])):
                return (
                    f"param_groups[{i}][{key!r}] of {name} was {old.get(key, '(absent)')!r}, "
                    f"is now {new.get(key, '(absent)')!r}"
                )
    return f"the dicts in {name}.param_groups were those of the capture, are now others"


# By parameter and name: how an optimizer makes state that is missing.
Makers = dict[tuple[int, str], Callable[[Tensor], Tensor]]


class KnownState:
    """Hooks and state of an optimizer as a captured step knows them. Tensors of the state may be replaced by others
    like them, as load_state_dict does."""

    def __init__(
        self, optimizer: Optimizer, tables: Callable[[], list[Any]], makers: Makers,
    ) -> None:
        self.optimizer, self.tables, self.makers = optimizer, tables, makers
        self.settle()

    def settle(self) -> None:
        """Know what is there now."""
        self.hooks = self._hooks()
        self.known = {p: dict(state) for p, state in self.optimizer.state.items()}
        self._states = list(self.optimizer.state.values())
        self._has_entries = _entries_check(self._states)

    def holds(self) -> bool:
        """Whether everything is the same object. It is asked at every call of a captured step."""
        for table, hooks in zip(self.tables(), self.hooks, strict=True):
            if (table or hooks) and list(table.items()) != hooks:
                return False
        return _are_same(self.optimizer.state.values(), self._states) and self._has_entries()

    def _hooks(self) -> list[list[Any]]:
        return [list(table.items()) for table in self.tables()]

    def renewed(self) -> dict[int, Tensor] | None:
        """The tensors that take the places of those with these ids; None if the state is of another structure,
        or the hooks are others.

        A tensor that is None now, or gone, is made as the step would make it.
        """
        state = self.optimizer.state
        if self._hooks() != self.hooks or state.keys() != self.known.keys():
            return None
        missing = [
            (p, name) for p, before in self.known.items()
            for name, old in before.items() if isinstance(old, Tensor) and state[p].get(name) is None
        ]
        if any((id(p), name) not in self.makers for p, name in missing):
            return None
        remade = {(id(p), name): self.makers[id(p), name](p) for p, name in missing}
        taken: dict[int, Tensor] = {}
        for p, before in self.known.items():
            after = {**state[p], **{name: remade[id(p), name] for name in before if (id(p), name) in remade}}
            if (
                before.keys() != after.keys()
                or not all(_takes_place(taken, old, after[name]) for name, old in before.items())
            ):
                return None
        if len(set(map(id, taken.values()))) < len(taken):
            return None
        for p, name in missing:
            state[p][name] = remade[id(p), name]
        return taken

    def change(self) -> str:
        """How hooks or state differ from those that the step knows, in words."""
        name = type(self.optimizer).__name__
        for kind, before, after in zip((
            "global pre-step", "pre-step", "post-step", "global post-step"
        ), self.hooks, self._hooks(), strict=True):
            if before != after:
                return (
                    f"the number of {kind} hooks of {name} was {len(before)}, "
                    f"is now {len(after)}{'' if len(before) != len(after) else ' (others)'}"
                )
        if len(self.known) != len(self.optimizer.state):
            return (
                f"the number of parameters that {name} has state of was {len(self.known)}, "
                f"is now {len(self.optimizer.state)}"
            )
        for (_, was), (p, now) in zip(self.known.items(), self.optimizer.state.items(), strict=True):
            for key in (*was, *now):
                if was.get(key) is not now.get(key):
                    return (
                        f"{key!r} in the state that {name} has of a parameter of shape {list(p.shape)} was one object, "
                        "is now another"
                    )
        return f"the state of {name} was one dict for each parameter, is now others"


def _takes_place(taken: dict[int, Tensor], old: Any, new: Any) -> bool:
    """Whether a program that knows one value of a state holds for another; a tensor is noted."""
    if isinstance(old, Tensor) and isinstance(new, Tensor):
        return taken.setdefault(id(old), new) is new
    return old is new or (type(old) is type(new) and not isinstance(old, Tensor) and bool(old == new))
