"""weft.jit.load. Nothing of a file is run while it is read, and every graph is checked before anything is given out.
Then the programs run, if there are any, by which Modules take their state (__setstate__)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from weft.interop import files, streams, torch_files
from weft.ir.parser import parse_graph
from weft.ir.verifier import verify
from weft.jit.errors import CompileError, Quoted
from weft.jit.functions import ScriptFunction
from weft.jit.interpreter.running import run
from weft.jit.module import ScriptModule
from weft.jit.program import MISSING, Parameter, Program, accepted
from weft.jit.script.frontend.objects import OBJECTS, SETSTATE
from weft.jit.torchscript.files.classes import ClassReader
from weft.jit.torchscript.files.modules import loaded_module, restore_own
from weft.jit.torchscript.files.names import CALLS_BY_NAME, check_names
from weft.jit.torchscript.files.saving import KEY, VERSION
from weft.nn.parameter import Parameter as Weight
from weft.support.errors import ParseError, Unsupported, VerifyError, WeftError
from weft.types.parse import parse_type
from weft.types.tensor_type import ClassType, Type


def load(f: Any, map_location: Any = None, _extra_files: dict[str, Any] | None = None) -> Any:
    """The function or Module that `save`, or torch.jit.save, wrote. No code of the file is run: the text of a
    TorchScript archive is compiled as any scripted program is. Raises ParseError for a damaged file, Unsupported for a
    newer version, CompileError, with the archive's line, for an operator that weft does not have.

    _extra_files: a dict whose names are filled with the bytes that were stored under them.
    """
    stored = streams.read(f)
    if torch_files.is_program(stored):
        return _of_torch(stored, map_location, _extra_files)
    content = files.load_bytes(stored, map_location)
    if not isinstance(content, dict) or KEY not in content:
        raise ParseError("weft.jit.load: the file holds no program of weft.jit (weft.load reads tensors)")
    version = content.get("version", content[KEY])  # (files of earlier versions have the second alone)
    if type(version) is not int or version > VERSION:
        raise Unsupported(
            f"weft.jit.load: the file has version {version!r}, this weft reads up to {VERSION}; install a newer weft"
        )
    with _parts_fit():
        try:
            root = _Reader(content).root()
        except (ParseError, VerifyError) as problem:
            raise ParseError(f"weft.jit.load: {problem}") from None
        for name in _extra_files or ():
            assert _extra_files is not None
            _extra_files[name] = bytes(content.get("extra", {}).get(name, b""))
        return root


@contextmanager
def _parts_fit() -> Iterator[None]:
    """Whatever a file's content makes this block raise is a ParseError; a CompileError shows the line already."""
    try:
        yield
    except (ParseError, CompileError, Unsupported):
        raise
    except (LookupError, TypeError, ValueError, AttributeError, AssertionError, RecursionError, WeftError) as problem:
        raise ParseError(
            f"weft.jit.load: the file's parts do not fit: {type(problem).__name__}: {str(problem)[:200]}"
        ) from None


def _of_torch(stored: bytearray, map_location: Any, extra_files: dict[str, Any] | None) -> Any:
    """The Module of an archive that torch.jit.save wrote."""
    from weft.jit.torchscript.archives.loading import load_archive  # (few programs come from elsewhere)
    from weft.jit.torchscript.archives.reading import read_parts

    parts = read_parts(stored)
    with _parts_fit():
        module = load_archive(parts)
    for name in extra_files or ():
        assert extra_files is not None
        extra_files[name] = parts.extra.get(name, b"")
    return module if map_location is None else module.to(map_location)


class _Reader:
    """Makes programs and Modules again. Every graph is checked before anything is given out."""

    def __init__(self, content: dict[str, Any]) -> None:
        self.content = content
        self.tensors = [
            Weight(t, requires_grad=flag) if is_weight else t.requires_grad_(flag)
            for t, is_weight, flag in content["tensors"]
        ]
        self.programs: dict[int, Program] = {}
        self.modules: dict[int, ScriptModule] = {}
        self.states: list[tuple[ScriptModule, Any]] = []
        self.names = _own_names(content["modules"])
        self.types: dict[str, set[str]] = {}  # what the Modules and objects of each type have
        self.classes = ClassReader(content.get("classes", []), self.program)

    def root(self) -> Any:
        root = self.content["root"]
        self.types.update(self.classes.members())
        for i in range(len(self.content["modules"])):
            self._members(self.content["modules"][i])
        for i in range(len(self.content["programs"])):
            self.program(i)
        if "function" in root:
            return ScriptFunction(self.programs[root["function"]])
        module = self.module(root["module"])
        self._give_states()
        return module

    def _members(self, stored: dict[str, Any]) -> None:
        tables = ("parameters", "buffers", "attributes", "objects", "modules", "methods")
        own = ("forward()",) if stored["own"] is not None else ()  # one of weft's modules has its own methods too
        held = (name for table in tables for name in stored.get(table, ()))
        self.types[self.names[stored["type"]]] = {"training", *own, *held}

    def program(self, number: int) -> Program:
        """A program by its number."""
        loaded = self.programs.get(number)
        if loaded is not None:
            return loaded
        stored = self.content["programs"][number]
        graph = verify(parse_graph(self._named(stored["graph"])))
        lines = {str(place): str(text) for place, text in stored.get("lines", {}).items()}
        for node in graph.walk():
            if node.where is not None:
                node.where = Quoted.at(node.where, lines.get(str(node.where), ""))
            if node.op in CALLS_BY_NAME:
                node.args = (self._method_name(str(node.args[0])), *node.args[1:])
        parameters = tuple(_parameter(n, self._named(kind), *rest) for n, kind, *rest in stored["parameters"])
        returns = parse_type(self._named(stored["returns"]))
        program = Program(self._method_name(stored["name"]), parameters, returns, graph, document=stored["document"])
        if [p.type for p in parameters] != [p.type for p in graph.params] or len(graph.results) != 1:
            raise ParseError(f"the graph of {program.name} has other parameters than its signature")
        self.programs[number] = program
        program.captured = dict(stored["captured"])
        program.captured.update({n: self.classes.named(v) for n, v in stored.get("objects", {}).items()})
        program.captured.update({n: self.module(held) for n, held in stored.get("modules", {}).items()})
        program.functions = {self._method_name(n): self.program(callee) for n, callee in stored["functions"].items()}
        check_names(program, self.types)
        return program

    def module(self, number: int) -> ScriptModule:
        """A Module by its number."""
        loaded = self.modules.get(number)
        if loaded is not None:
            return loaded
        stored = self.content["modules"][number]
        module = self.modules[number] = loaded_module(self.names[stored["type"]], stored["class"])
        fields = module.__dict__
        kinds = {n: kind for table in ("attributes", "objects") for n, (kind, _) in stored.get(table, {}).items()}
        fields["_given_types"] = {n: parse_type(kind) for n, kind in kinds.items()}
        fields["training"] = bool(stored["training"])
        for name, held in stored["parameters"].items():
            module.register_parameter(name, None if held is None else self.tensors[held])
        for name, held in stored["buffers"].items():
            tensor = None if held is None else self.tensors[held]
            module.register_buffer(name, tensor, persistent=name not in stored["transient"])
        for name, (kind, value) in stored["attributes"].items():
            fields[name] = _typed(name, value, parse_type(kind))
        for name, (kind, value) in stored.get("objects", {}).items():
            fields[name] = _typed(name, self.classes.value(value), parse_type(kind))
        for name, inner in stored["modules"].items():
            fields["_modules"][name] = None if inner is None else self.module(inner)
        for name, method in stored["methods"].items():
            self._method(module, name, self.program(method))
        if stored["own"] is not None:
            class_name, held = stored["own"]
            restore_own(module, class_name, held, stored.get("own_functions", {}))
        self.states += [(module, state) for state in stored.get("state", ())]
        return module

    def _give_states(self) -> None:
        """Run the programs that take the states of Modules: those below one before its own."""
        for module, state in self.states:
            program = module.__dict__["_programs"][SETSTATE]
            run(program, (module, _typed(SETSTATE, state, program.parameters[1].type)), {})

    def _named(self, text: str) -> str:
        """A text with the names that the types of Modules have in this process."""
        return _TYPE.sub(lambda m: f"Class({self.names.get(m[1], m[1])})", text)

    def _method_name(self, name: str) -> str:
        owner, dot, method = name.partition(".")
        return f"{self.names.get(owner, owner)}{dot}{method}"

    @staticmethod
    def _method(module: ScriptModule, name: str, program: Program) -> None:
        kind: Type = program.parameters[0].type
        if not isinstance(kind, ClassType) or kind.name != module.__dict__["_script_name"]:
            raise ParseError(f"method {name!r} of {module.original_name} belongs to {kind}")
        module._add(name, program)


_TYPE = re.compile(r"Class\((\w+)\)")


def _own_names(modules: list[dict[str, Any]]) -> dict[str, str]:
    """For the types of a file's Modules names that no other Module of this process has."""
    own_names: dict[str, str] = {}
    for name in [m["type"] for m in modules]:
        count, unique = 0, name
        while unique in OBJECTS or unique in own_names.values():
            count += 1
            unique = f"{name}_{count}"
        own_names[name] = unique
    return own_names


def _parameter(name: str, kind: str, default: list[Any], keyword_only: bool, repeats: int = 0) -> Parameter:
    type = parse_type(kind)
    default_value = _typed(name, default[0], type) if default else MISSING
    return Parameter(name, type, default_value, bool(keyword_only), int(repeats))


def _typed(name: str, value: Any, kind: Type) -> Any:
    converted = accepted(value, kind)
    if converted is MISSING:
        raise ParseError(f"{name} should be of type {kind}, is {value!r}"[:200])
    return converted
