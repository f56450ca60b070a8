"""weft.jit.save."""

from __future__ import annotations

import io
import linecache
from collections.abc import Mapping
from typing import Any, Final

import weft.nn
from weft.interop import files, streams
from weft.ir.printer import print_graph
from weft.jit.functions import ScriptFunction
from weft.jit.interpreter.running import run
from weft.jit.module import OWN, STATE, ScriptMethod, ScriptModule
from weft.jit.program import MISSING, Parameter, Program
from weft.jit.script.frontend.attributes import is_constant, type_of_attribute, type_of_object
from weft.jit.script.frontend.objects import GETSTATE, OBJECTS, SETSTATE
from weft.jit.script.frontend.outside import path_of
from weft.jit.script.marks import prepared
from weft.jit.torchscript.files.classes import ClassWriter
from weft.nn.modules.module import Module
from weft.nn.parameter import Parameter as Weight
from weft.ops.op import OPS
from weft.runtime.generator import Generator
from weft.support import pytree
from weft.support.errors import ArgumentError
from weft.tensor.tensor import Tensor
from weft.types.tensor_type import NONE

VERSION = 3  # 1 has no classes, 2 no states
KEY = "weft.jit"


def save(m: Any, f: streams.Target, _extra_files: Mapping[str, str | bytes] | None = None) -> None:
    """Write a scripted function or Module to a path or binary file. Raises ArgumentError for what it cannot hold:
    Python's functions, say.

    _extra_files: texts or bytes by names, which `load` gives back.
    """
    writer, m = _Writer(), prepared(m)
    if isinstance(m, ScriptFunction):
        root = {"function": writer.program(m.__weft_program__)}
    elif isinstance(m, ScriptModule):
        root = {"module": writer.module(m)}
    else:
        raise ArgumentError(f"weft.jit.save: a scripted function or Module can be saved, not a {type(m).__name__}")
    classes = writer.classes.stored
    content = {"root": root, "programs": writer.programs, "modules": writer.modules, "tensors": writer.tensors}
    version = VERSION if any(m["state"] for m in writer.modules) else 2 if classes else 1
    files.save({KEY: version, "version": version, **content, "classes": classes, "extra": _as_bytes(_extra_files)}, f)


def save_to_buffer(m: Any, _extra_files: Mapping[str, str | bytes] | None = None) -> bytes:
    """The bytes that `save` would write."""
    buffer = io.BytesIO()
    save(m, buffer, _extra_files)
    return buffer.getvalue()


_CALL_METHOD: Final = OPS["prim::CallMethod"]
_LONGEST = 200  # characters of a line that are kept


def _lines(program: Program) -> dict[str, str]:
    """The lines of the source that a program's nodes come from, as errors show them."""
    assert program.graph is not None
    lines: dict[str, str] = {}
    for where in (n.where for n in program.graph.walk()):
        if where is None or str(where) in lines:
            continue
        text = getattr(where, "text", "") or linecache.getline(where.file, where.line)
        if not text and where.file.startswith("<"):
            text = "".join(program.text.split("\n")[where.line - 1 : where.line])
        if text.strip():
            lines[str(where)] = text.strip()[:_LONGEST]
    return lines


def _as_bytes(extra: Mapping[str, str | bytes] | None) -> dict[str, bytes]:
    stored = {}
    for name, content in (extra or {}).items():
        if not isinstance(name, str) or not isinstance(content, (str, bytes)):
            raise ArgumentError("weft.jit.save: _extra_files are texts or bytes by names")
        stored[name] = content.encode() if isinstance(content, str) else content
    return stored


class _Writer:
    """Numbers programs and Modules, each once, however often it is referred to."""

    def __init__(self) -> None:
        self.programs: list[Any] = []
        self.modules: list[Any] = []
        self.tensors: list[Any] = []
        self._seen: dict[int, int] = {}
        self.classes = ClassWriter(self.program)

    def program(self, program: Program) -> int:
        """The number of a program."""
        earlier = self._seen.get(id(program))
        if earlier is not None:
            return earlier
        if program.python:
            raise ArgumentError(
                f"weft.jit.save: {program.name} calls {', '.join(program.python)}, which is Python's; a file holds "
                f"graphs only. "
                "Compile it, or mark it @weft.jit.unused"
            )
        held = [name for name, value in program.captured.items() if isinstance(value, Generator)]
        if held:
            raise ArgumentError(
                f"weft.jit.save: {program.name} draws from the generator {', '.join(held)}; a file holds no "
                "generators. Draw from the default one"
            )
        assert program.graph is not None
        for node in program.graph.walk():
            if node.op is _CALL_METHOD:
                self._refuse_python(node.args[0].type.name, node.args[1])
        number = self._seen[id(program)] = len(self.programs)
        self.programs.append(None)
        text = print_graph(program.graph)
        self.classes.note_types(text)
        others = {n: v for n, v in program.captured.items() if not isinstance(v, Tensor)}
        self.programs[number] = {
            "name": program.name, "document": program.document, "returns": str(program.returns), "graph": text,
            "parameters": [self._parameter(p) for p in program.parameters], "captured":
            {n: v for n, v in program.captured.items() if isinstance(v, Tensor)},
            "objects": {n: self.classes.named(v) for n, v in others.items() if not isinstance(v, ScriptModule)},
            "modules": {n: self.module(v) for n, v in others.items() if isinstance(v, ScriptModule)},
            "functions": {name: self.program(callee) for name, callee in program.functions.items()},
            "lines": _lines(program),
        }  # fmt: skip
        return number

    @staticmethod
    def _parameter(parameter: Parameter) -> Any:
        default = [] if parameter.default is MISSING else [parameter.default]
        plain = [parameter.name, str(parameter.type), default, parameter.keyword_only]
        return [*plain, parameter.repeats] if parameter.repeats else plain

    def module(self, module: ScriptModule) -> int:
        """The number of a Module."""
        earlier = self._seen.get(id(module))
        if earlier is not None:
            return earlier
        number = self._seen[id(module)] = len(self.modules)
        self.modules.append(None)
        fields = module.__dict__
        self.modules[number] = {
            "type": fields["_script_name"], "class": module.original_name, "training": module.training,
            "parameters": self._held(fields["_parameters"]),
            "buffers": self._held(fields["_buffers"]), "transient": sorted(fields["_non_persistent_buffers_set"]),
            "attributes": self._attributes(module, False), "objects": self._attributes(module, True),
            "modules": {n: None if m is None else self.module(m) for n, m in fields["_modules"].items()},
            "methods": {n: self.program(p) for n, p in fields["_programs"].items()}, "own": self._own(module),
            "own_functions": self._own_functions(module), "state": self._state(module),
        }  # fmt: skip
        return number

    @staticmethod
    def _state(module: ScriptModule) -> list[Any]:
        """What the program __getstate__ of a Module gives, if there is one that takes it: [it], or []."""
        programs = module.__dict__["_programs"]
        if GETSTATE not in programs or SETSTATE not in programs:
            return []
        state = run(programs[GETSTATE], (module,), {})
        if any(isinstance(leaf, Module) for leaf in pytree.flatten(state)[0]):
            raise ArgumentError(
                f"weft.jit.save: __getstate__ of {module.original_name} gives a Module; the Modules below one are "
                "saved as they are: give what else its state is"
            )
        return [state]

    def _held(self, table: dict[str, Any]) -> dict[str, Any]:
        """The numbers of tensors: one that has several names is one in the file."""
        numbers: dict[str, Any] = {}
        for name, tensor in table.items():
            if tensor is not None and id(tensor) not in self._seen:
                self._seen[id(tensor)] = len(self.tensors)
                self.tensors.append([tensor.detach(), isinstance(tensor, Weight), tensor.requires_grad])
            numbers[name] = None if tensor is None else self._seen[id(tensor)]
        return numbers

    def _attributes(self, module: ScriptModule, with_objects: bool) -> dict[str, Any]:
        """Types and values of the attributes that hold objects of classes, or of those that hold none."""
        attributes: dict[str, Any] = {}
        for name, value in module.__dict__.items():
            if name in OWN or isinstance(value, (ScriptMethod, Module)):
                continue
            kind = type_of_object(value) if is_constant(module, name) else type_of_attribute(module, name)
            kind = NONE if value is None and kind is None else kind
            if kind is not None and self.classes.holds_objects(value) is with_objects:
                attributes[name] = [str(kind), self.classes.value(value) if with_objects else value]
        return attributes

    @staticmethod
    def _own_functions(module: ScriptModule) -> dict[str, str]:
        """The functions of weft's that one of weft's own modules holds (an activation), by their paths."""
        original = module.__dict__["_original"]
        paths = {n: path_of(v) for n, v in vars(original).items() if n not in STATE} if original is not None else {}
        return {n: path for n, path in paths.items() if path is not None}

    def _refuse_python(self, name: str, method: str) -> None:
        """Raises ArgumentError for a method of weft's own that could not be compiled, of a class that a file does not
        name."""
        owner = OBJECTS.get(name)
        if isinstance(owner, ScriptModule) and method not in owner._programs and self._own(owner) is None:
            raise ArgumentError(
                f"weft.jit.save: {owner.original_name}.{method} is Python's; a file holds graphs only. Trace the Module"
            )

    def _own(self, module: ScriptModule) -> Any:
        """What makes one of weft's own modules again, of which programs may call the Python: its class, and its plain
        attributes.
        """
        cls = module._original_class()
        if getattr(weft.nn, cls.__name__, None) is not cls:
            return None
        original = module.__dict__["_original"] or module.__dict__
        held = {
            n: v for n, v in vars(original).items() if (n not in STATE and type_of_object(v) is not None) or v is None
        }
        return [cls.__name__, held]


