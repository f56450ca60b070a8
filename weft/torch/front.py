"""The module `torch`: weft's names, but for those that mean something else in PyTorch (names.py)."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import weft
from weft.torch import missing
from weft.torch.hook import ROOT, elsewhere, weft_name
from weft.torch.names import ATTRIBUTES


def _answer(name: str) -> Any:
    """A name of the module, which it has from now on."""
    where, _, attribute = ATTRIBUTES.get(name, "").partition(":")
    if where:
        return vars(torch).setdefault(name, getattr(importlib.import_module(where), attribute))
    if name.startswith("__"):
        return getattr(weft, name)
    if weft_name(f"{ROOT}.{name}") is not None:
        return importlib.import_module(f"{ROOT}.{name}")  # (which puts it here)
    try:
        value = getattr(weft, name)
    except AttributeError as error:
        return elsewhere(torch, ROOT, name, str(error).replace("'weft'", f"{ROOT!r}", 1), missing.is_from_import())
    if isinstance(value, ModuleType):  # one of weft's own, which PyTorch has not
        return elsewhere(torch, ROOT, name, "", missing.is_from_import())
    return vars(torch).setdefault(name, value)


torch = ModuleType(ROOT, "weft, under the names of PyTorch.")
vars(torch).update(
    __getattr__=_answer, __dir__=lambda: sorted({*vars(torch), *ATTRIBUTES, *dir(weft)}), __path__=[],
    __file__=weft.__file__, __package__=ROOT, torch=torch,  # (PyTorch imports itself: `torch.torch.Tensor` is used)
)
