"""The reference's text of what is written in Python: classes, functions and objects of the public modules,
and the members of Tensor."""

from __future__ import annotations

import enum
import functools
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

import weft
from weft.layers import array_api
from weft.ops.op import PACKETS
from weft.types import unheld
from weft.types.dtype import ALL

MODULES = (
    "weft", "weft.nn", "weft.nn.functional", "weft.nn.init", "weft.nn.utils", "weft.nn.utils.rnn", "weft.nn.grad",
    "weft.nn.attention", "weft.nn.attention.flex_attention", "weft.nn.utils.prune", "weft.optim",
    "weft.optim.lr_scheduler", "weft.optim.swa_utils",
    "weft.autograd", "weft.autograd.functional", "weft.autograd.forward", "weft.autograd.graph", "weft.func",
    "weft.linalg", "weft.fft", "weft.special", "weft.random", "weft.utils.data", "weft.utils.checkpoint",
    "weft.interop", "weft.overrides", "weft.utils.dispatch", "weft.utils.pytree",
)
OBJECTS = ("knobs", "counters", "default_generator")  # instances that are part of the interface


@dataclass(frozen=True)
class Public:
    """An object that users name: every name, the first one first; and the module that defines it."""

    names: tuple[str, ...]
    value: Any
    home: str


def names_of(module: ModuleType) -> list[str]:
    """What a module shows: `__all__`, or without one what it lists and did not merely import for itself."""
    listed = [n for n in (getattr(module, "__all__", None) or dir(module)) if not n.startswith("_")]
    if module is weft:
        listed = [n for n in dir(weft) if not n.startswith("_")]
    return [n for n in listed if is_shown(module, n)]


def is_shown(module: ModuleType, name: str) -> bool:
    """Whether a listed name is an object for users: not a module, not a dtype, not what was imported for the module's
    own use."""
    try:
        value = getattr(module, name)
    except (AttributeError, ModuleNotFoundError):
        return False
    if name in OBJECTS:
        return True
    home = getattr(value, "__module__", None) or ""
    if (
        not home.startswith("weft") or not (inspect.isclass(value) or callable(value))
        or isinstance(value, (ModuleType, weft.dtype))
    ):
        return False
    if module is weft or hasattr(module, "__all__"):
        return True
    if module is weft.nn.functional:
        return name in module._COMPOSED or is_operator(module.__name__, name)
    return home == module.__name__ or home.startswith("weft.catalogue.")


def objects_of() -> list[Public]:
    """Every public object that is not an operator, with all its names."""
    found: dict[int, tuple[list[str], Any]] = {}
    for where in (*MODULES, *sorted(set(weft._LAZY.values()) - set(MODULES))):
        module = importlib.import_module(where)
        for name in names_of(module):
            value = getattr(module, name)
            if not is_operator(where, name):
                found.setdefault(id(value), ([], value))[0].append(f"{where}.{name}")
    return [Public(tuple(names), value, home_of(value)) for names, value in found.values()]


def is_operator(where: str, name: str) -> bool:
    """Whether a name is looked up among the entries."""
    place = where.removeprefix("weft").removeprefix(".")
    if place == "nn.functional":
        return f"nn::{name}" in PACKETS or (f"aten::{name}" in PACKETS and name not in weft.nn.functional._COMPOSED)
    if place == "special":
        return name in weft.special._functions.operators()
    return (
        f"aten::{place}_{name}" in PACKETS if place in ("linalg", "fft")
        else place == "" and _is_entry(name) and name not in array_api.__all__
    )


def _is_entry(name: str) -> bool:
    """Whether operators on tensors have a name (what scripted programs ask tensors has entries too)."""
    return any(not op.host and op.public for op in PACKETS.get(f"aten::{name}", ()))


def home_of(value: Any) -> str:
    """The module that defines an object."""
    if isinstance(value, FunctionType) or inspect.isclass(value) or hasattr(value, "__wrapped__"):
        return str(value.__module__)
    return type(value).__module__


def object_text(public: Public) -> str:
    """Names, signature, docstring, and the methods that a class adds."""
    value = public.value
    lines = [" ".join(f"`{name}`" for name in public.names), ""]
    if callable(value) and public.names[0].rpartition(".")[2] not in OBJECTS:
        signature = signature_of(value)
        shown = signature.removesuffix(" -> None") if inspect.isclass(value) else signature
        lines += [f"    {public.names[0].rpartition('.')[2]}{shown}", ""]
    lines.append(doc_of(value))
    members = list(members_of(value)) if inspect.isclass(value) else []
    return "\n".join([*lines, "", *members] if members else lines)


def signature_of(value: Any) -> str:
    """The parameters as they are annotated; nothing where there are none to know."""
    if isinstance(value, type) and issubclass(value, enum.Enum):
        return "(value)"  # what else makes one differs between versions of Python
    try:
        text = str(inspect.signature(value))
    except (TypeError, ValueError):
        return ""
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)  # annotations are strings
    return re.sub(r"<(?:function|class|built-in function) ?'?([\w.]+)'?[^>]*>", r"\1", text)


def doc_of(value: Any) -> str:
    """The docstring as Markdown: arguments as a list, columns as they are."""
    return "\n\n".join(map(part_text, (inspect.getdoc(value) or "").split("\n\n")))


def part_text(part: str) -> str:
    """One paragraph."""
    lines = part.splitlines()
    if len(lines) > 1 and lines[0] in ("Args:", "Returns:", "Raises:"):
        items = re.sub(r"\n {5,}", " ", textwrap.dedent("\n".join(lines[1:]))).splitlines()
        return "\n".join(re.sub(r"^(\w+):", r"- `\1`:", item) for item in items)
    if len(lines) > 1 and all(re.match(r"(\w+| )  +\S", line) for line in lines):
        return textwrap.indent(part, "    ")
    return part


def members_of(kind: type) -> Iterator[str]:
    """A line for each public method and property of a class that no page shows elsewhere: its own, and those of bases
    without a section."""
    elsewhere = [k for k in kind.__mro__[1:] if id(k) in shown_classes()]
    rooms = [
        k for k in kind.__mro__
        if k.__module__.startswith("weft.") and not any(issubclass(shown, k) for shown in elsewhere)
    ]
    members = {name: member for k in reversed(rooms) for name, member in vars(k).items()}
    is_module = issubclass(kind, weft.nn.Module) and kind is not weft.nn.Module
    for name, member in sorted(members.items()):
        if name.startswith("_") or not (callable(member) or isinstance(member, (property, classmethod, staticmethod))):
            continue
        if not (is_module and name in ("forward", "extra_repr")):  # the class says what it computes
            yield member_line(kind, name, member)


@functools.cache
def shown_classes() -> frozenset[int]:
    """The classes that have a section."""
    return frozenset(id(public.value) for public in objects_of() if inspect.isclass(public.value))


def member_line(kind: type, name: str, member: Any) -> str:
    text = property_doc(kind, name) if isinstance(member, property) else inspect.getdoc(member) or ""
    doc = " ".join(text.split("\n\n")[0].split())
    parameters = (
        "" if isinstance(member, property)
        else re.sub(r"^\((?:self|cls)(?:: [^,)]+)?(?:, )?", "(", signature_of(getattr(kind, name)))
    )
    return f"- `.{name}{parameters}`{': ' + doc if doc else ''}"


def property_doc(kind: type, name: str) -> str:
    """The docstring of a property, or of the nearest one that it stands for. (inspect also takes flags of bases, and
    gives the docstring of bool.)"""
    properties = [p for p in (vars(k).get(name) for k in kind.__mro__) if isinstance(p, property)]
    return next((inspect.cleandoc(p.__doc__) for p in properties if p.__doc__), "")


def tensor_members() -> dict[str, str]:
    """The attributes and methods of Tensor that are not operators: heading -> text."""
    operators = {op.base for ops in PACKETS.values() for op in ops if "Tensor" in op.public}
    operators |= {f"{op.base}_" for ops in PACKETS.values() for op in ops if "Tensor" in op.public and op.inplace}
    found: dict[str, str] = {}
    for name in dir(weft.Tensor):
        if name.startswith("_") or name in operators or not hasattr(weft.Tensor, name):
            continue
        member = inspect.getattr_static(weft.Tensor, name)
        signature = "" if isinstance(member, property) else f"    {name}{signature_of(getattr(weft.Tensor, name))}\n\n"
        doc = f"{member} for every tensor." if isinstance(member, bool) else doc_of(member)
        found[f"Tensor.{name}"] = f"`weft.Tensor.{name}`\n\n{signature}{doc}"
    return found


def dtype_table() -> str:
    """The element types with every name that shows them."""
    shown: dict[str, list[str]] = {}
    for name in dir(weft):
        value = getattr(weft, name, None)
        if isinstance(value, weft.dtype) and not name.startswith("_"):
            shown.setdefault(value.name, []).append(name)
    rows = [
        f"| {' '.join(f'`weft.{n}`' for n in sorted(shown[d.name], key=lambda n: (n != d.name, n)))} | {d.itemsize} |"
        for d in dict.fromkeys((*ALL, *(d for d in vars(unheld).values() if isinstance(d, weft.dtype))))
        if d.name in shown
    ]
    about = "The element types. Those after complex128 are names with limits: no tensor has one."
    return "\n".join([about, "", "| dtype | bytes |", "| --- | --- |", *rows])
