"""Modules that were read from a file, or frozen: their methods are graphs, and need no source."""

from __future__ import annotations

from typing import Any

import weft.nn
from weft.jit.interpreter.code import found_at
from weft.jit.module import STATE, ScriptMethod, ScriptModule
from weft.jit.script.frontend.objects import OBJECTS, compile_call_of
from weft.jit.torchscript.files.names import is_public
from weft.nn.modules.module import Module
from weft.support.errors import ParseError


class LoadedModule(ScriptModule):
    """A Module that was read from a file. It needs no source: its methods are graphs."""

    def __init__(self, name: str, original_name: str) -> None:
        Module.__init__(self)
        fields = self.__dict__
        fields["_programs"], fields["_original"], fields["_script_name"] = {}, None, name
        fields["_class_name"] = original_name
        OBJECTS[name] = self

    def _compile_stubs(self) -> None:
        """There are none."""

    @property
    def original_name(self) -> str:
        return str(self.__dict__["_class_name"])

    def extra_repr(self) -> str:
        return f"original_name={self.original_name}"


def restore_own(
    module: ScriptModule, class_name: str, held: dict[str, Any], functions: dict[str, str]
) -> None:
    """Make the module of weft's own behind a loaded one again. Raises ParseError for a class that weft.nn does not
    have, and for a function that programs may not call.
    """
    cls = getattr(weft.nn, class_name, None)
    if not isinstance(cls, type) or not issubclass(cls, Module):
        raise ParseError(f"weft.nn has no module {class_name!r}")
    original: Module = cls.__new__(cls)
    Module.__init__(original)
    vars(original).update({n: v for n, v in held.items() if n not in STATE})
    for name, path in functions.items():
        if name in STATE or not is_public(path):
            raise ParseError(f"the module {class_name} of the file holds {path!r}, no function of weft's for programs")
        vars(original)[name] = found_at(path)
    fields = module.__dict__
    for table in ("_parameters", "_buffers", "_non_persistent_buffers_set"):
        vars(original)[table] = fields[table]
    inner = {n: None if m is None else m.__dict__.get("_original") or m for n, m in fields["_modules"].items()}
    vars(original)["_modules"] = inner
    original.training = module.training
    fields["_original"] = original
    if "forward" not in fields["_programs"]:
        fields["forward"] = ScriptMethod(module, compile_call_of(module))


def loaded_module(name: str, original_name: str) -> LoadedModule:
    """An empty Module of this type."""
    return LoadedModule(name, original_name)
