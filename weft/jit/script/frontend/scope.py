"""Scope: the names that a block of statements sees, and those that it gives another value."""

from __future__ import annotations

from weft.jit.script.frontend.values import SugaredValue
from weft.types.tensor_type import Type


class Scope:
    """The names of one block, over those of the blocks around it."""

    def __init__(self, outer: Scope | None = None) -> None:
        self.outer = outer
        self.assigned: dict[str, SugaredValue] = {}  # what the block itself assigns, and its surroundings may see
        self.refined: dict[
            str, SugaredValue
        ] = {}  # what the block has found out about names: the same objects, of a narrower type
        self.stays: dict[str, Type] = {}  # narrower types of names, where nothing has left the block
        self.declared: dict[str, Type] = (
            outer.declared if outer is not None else {}
        )  # types that the user wrote, for the whole function

    def find(self, name: str) -> SugaredValue | None:
        """What a name stands for, or None."""
        scope: Scope | None = self
        while scope is not None:
            meaning = scope.refined.get(name) or scope.assigned.get(name)
            if meaning is not None:
                return meaning
            scope = scope.outer
        return None

    def names(self) -> list[str]:
        """Every name that stands for something here and is the user's."""
        names, scope = list[str](), self
        while scope is not None:
            names += [n for n in (*scope.refined, *scope.assigned) if n.isidentifier()]
            scope = scope.outer  # type: ignore[assignment]
        return names

    def assign(self, name: str, value: SugaredValue) -> None:
        """Give a name a value."""
        self.refined.pop(name, None)
        self.stays.pop(name, None)
        self.assigned[name] = value

    def refine(self, name: str, value: SugaredValue) -> None:
        """What a name stands for is known to be of a narrower type."""
        self.refined[name] = value
