"""What is read of objects that are never opened: tensors, whose facts others guard, and optimizers."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from weft.guards.class_reads import DESCRIPTORS, ClassReads
from weft.guards.hidden_guard import LeafGuard
from weft.guards.slots import AttributeSlot, ClassSlot, class_lookup, instance_dict
from weft.guards.values import MISSING
from weft.support.locations import Location


class LeafReads(ClassReads):
    """The part of Reads that knows tensors and optimizers."""

    def __init__(self) -> None:
        super().__init__()
        self.said: dict[tuple[int, str], LeafGuard] = {}
        # attributes looked up on tensors that are the call's arguments, or made of them
        self.names_of_leaves: set[str] = set()

    def of_optimizer(
        self, optimizer: Any, name: str, path: str, where: Location, read: bool, store: Location | None, sure: bool
    ) -> Any:
        """An optimizer's groups where the user's code reads them, and its methods;
        what its step goes by it guards itself."""
        if name in instance_dict(optimizer) and name != "state":
            return self.entry(AttributeSlot(optimizer, name, path), where, read, store, sure)
        raw = class_lookup(type(optimizer), name)[1]
        is_method = isinstance(raw, FunctionType) and store is None
        if is_method and self.entry(AttributeSlot(optimizer, name, path), where, read) is MISSING:
            self.class_value(type(optimizer), name, raw, where)
        return MISSING

    def of_leaf(self, leaf: Any, name: str, path: str, where: Location) -> Any:
        """An attribute of a tensor: what its class has is code of weft's or of the user's class,
        all else the user put there."""
        cls = type(leaf)
        owner, raw = class_lookup(cls, name)
        is_said = owner is not None and name in self.kinds.said_by_leaves  # (a Generator says nothing of gradients)
        if is_said and not self.kinds.is_recorded(leaf) and (id(leaf), name) not in self.said:
            self.said[id(leaf), name] = LeafGuard(leaf, name, self.kinds.says(leaf, name), where, path)
        if owner is not None and self.is_leafs_own(owner):
            return self.class_value(owner, name, raw, where)
        if overrides_instances(raw):
            return self.class_value(cls, name, raw, where)
        if self.kinds.is_recorded(leaf):
            self.names_of_leaves.add(name)
            value = instance_dict(leaf).get(name, MISSING)
        else:
            value = self.entry(AttributeSlot(leaf, name, path), where)
        if value is not MISSING or owner is None:
            if owner is None:
                self.lacks(cls, name, where)
            return value
        if isinstance(raw, DESCRIPTORS) or hasattr(type(raw), "__get__"):
            return self.class_value(cls, name, raw, where)
        self.lacks(cls, name, where, owner)
        return self.entry(ClassSlot(owner, name, path), where)

    def stored_on_leaf(self, leaf: Any, name: str, path: str, where: Location, store: Location, sure: bool) -> Any:
        """A line that gives a tensor from outside an attribute of the user's."""
        if self.kinds.is_recorded(leaf) or overrides_instances(class_lookup(type(leaf), name)[1]):
            return MISSING
        return self.entry(AttributeSlot(leaf, name, path), where, False, store, sure)

    def is_leafs_own(self, owner: type) -> bool:
        """Whether a class is one that leaves have in common: weft's Tensor, or something behind it."""
        return any(issubclass(leaf, owner) for leaf in self.kinds.leaves)

    def named(self, getter: Any) -> list[str]:
        """The attributes that an operator.attrgetter or methodcaller reads."""
        return [part for text in getter.__reduce__()[1] if isinstance(text, str) for part in text.split(".")]


def overrides_instances(raw: Any) -> bool:
    """Whether what a class has under a name comes before what its instances have."""
    return raw is not MISSING and hasattr(type(raw), "__set__")
