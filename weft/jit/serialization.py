"""Programs as files: graphs as text, tensors beside them. A file needs no source, and holds no code but graphs.

A file is one of weft.save's. Under "weft.jit" it has the version of the format; then programs, each with its
signature, graph and the programs
that it calls, and Modules, each with parameters, buffers, attributes, submodules and methods.
"""

from __future__ import annotations

from typing import Any

import weft.nn
from weft.interop import files, streams
from weft.ir.parser import parse_graph
from weft.ir.printer import print_graph
from weft.ir.verifier import verify
from weft.jit.frontend.objects import is_constant, type_of_attribute, type_of_object
from weft.jit.functions import ScriptFunction
from weft.jit.module import STATE, ScriptMethod, ScriptModule, loaded_module, restore_own
from weft.jit.names import check_names
from weft.jit.program import MISSING, Parameter, Program, accepted
from weft.nn.modules.module import Module
from weft.nn.parameter import Parameter as Weight
from weft.support.errors import ArgumentError, ParseError, Unsupported, VerifyError, WeftError
from weft.types.parse import parse_type
from weft.types.tensor_type import ClassType, Type

VERSION = 1
KEY = "weft.jit"


# ---- saving
def save(m: Any, f: streams.Target) -> None:
    """Write a scripted function or Module to a path or binary file. Raises ArgumentError for what it cannot hold:
    Python's functions, say.
    """
    writer = _Writer()
    if isinstance(m, ScriptFunction):
        root = {"function": writer.program(m.__weft_program__)}
    elif isinstance(m, ScriptModule):
        root = {"module": writer.module(m)}
    else:
        raise ArgumentError(f"weft.jit.save: a scripted function or Module can be saved, not a {type(m).__name__}")
    files.save(
        {KEY: VERSION, "root": root, "programs": writer.programs, "modules": writer.modules, "tensors": writer.tensors},
        f,
    )


class _Writer:
    """Numbers programs and Modules, each once, however often it is referred to."""

    def __init__(self) -> None:
        self.programs: list[Any] = []
        self.modules: list[Any] = []
        self.tensors: list[Any] = []
        self._seen: dict[int, int] = {}

    def program(self, program: Program) -> int:
        """The number of a program."""
        found = self._seen.get(id(program))
        if found is not None:
            return found
        if program.python:
            raise ArgumentError(
                f"weft.jit.save: {program.name} calls {', '.join(program.python)}, which is Python's; a file holds "
                f"graphs only. "
                "Compile it, or mark it @weft.jit.unused"
            )
        assert program.graph is not None
        number = self._seen[id(program)] = len(self.programs)
        self.programs.append(None)
        self.programs[number] = {
            "name": program.name, "document": program.document, "returns": str(program.returns), "graph":
            print_graph(program.graph),
            "parameters": [self._parameter(p) for p in program.parameters], "captured": dict(program.captured),
            "functions": {name: self.program(callee) for name, callee in program.functions.items()},
        }  # fmt: skip
        return number

    @staticmethod
    def _parameter(parameter: Parameter) -> Any:
        default = [] if parameter.default is MISSING else [parameter.default]
        return [parameter.name, str(parameter.type), default, parameter.keyword_only]

    def module(self, module: ScriptModule) -> int:
        """The number of a Module."""
        found = self._seen.get(id(module))
        if found is not None:
            return found
        number = self._seen[id(module)] = len(self.modules)
        self.modules.append(None)
        fields = module.__dict__
        self.modules[number] = {
            "type": fields["_script_name"], "class": module.original_name, "training": module.training,
            "parameters": self._held(fields["_parameters"]),
            "buffers": self._held(fields["_buffers"]), "transient": sorted(fields["_non_persistent_buffers_set"]),
            "attributes": self._attributes(module),
            "modules": {n: None if m is None else self.module(m) for n, m in fields["_modules"].items()},
            "methods": {n: self.program(p) for n, p in fields["_programs"].items()}, "own": self._own(module),
        }  # fmt: skip
        return number

    def _held(self, table: dict[str, Any]) -> dict[str, Any]:
        """The numbers of tensors: one that has several names is one in the file."""
        found: dict[str, Any] = {}
        for name, tensor in table.items():
            if tensor is not None and id(tensor) not in self._seen:
                self._seen[id(tensor)] = len(self.tensors)
                self.tensors.append([tensor.detach(), isinstance(tensor, Weight), tensor.requires_grad])
            found[name] = None if tensor is None else self._seen[id(tensor)]
        return found

    def _attributes(self, module: ScriptModule) -> dict[str, Any]:
        found = {}
        for name, value in module.__dict__.items():
            if name.startswith("_") or name == "training" or isinstance(value, (ScriptMethod, Module)):
                continue
            kind = type_of_object(value) if is_constant(module, name) else type_of_attribute(module, name)
            if kind is not None:
                found[name] = [str(kind), value]
        return found

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


# ---- loading
def load(f: Any, map_location: Any = None) -> Any:
    """The function or Module that `save` wrote. No code is run. Raises ParseError for a damaged file, Unsupported for a
    newer version.
    """
    content = files.load(f, map_location)
    if not isinstance(content, dict) or KEY not in content:
        raise ParseError("weft.jit.load: the file holds no program of weft.jit (weft.load reads tensors)")
    version = content[KEY]
    if type(version) is not int or version > VERSION:
        raise Unsupported(
            f"weft.jit.load: the file has version {version!r}, this weft reads up to {VERSION}; install a newer weft"
        )
    try:
        return _Reader(content).root()
    except (ParseError, VerifyError) as problem:
        raise ParseError(f"weft.jit.load: {problem}") from None
    except (LookupError, TypeError, ValueError, AttributeError, AssertionError, RecursionError, WeftError) as problem:
        raise ParseError(
            f"weft.jit.load: the file's parts do not fit: {type(problem).__name__}: {str(problem)[:200]}"
        ) from None


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
        self.types: dict[str, set[str]] = {}  # what the Modules of each type have

    def root(self) -> Any:
        root = self.content["root"]
        for i in range(len(self.content["modules"])):
            self._members(self.content["modules"][i])
        for i in range(len(self.content["programs"])):
            self.program(i)
        if "function" in root:
            return ScriptFunction(self.programs[root["function"]])
        return self.module(root["module"])

    def _members(self, stored: dict[str, Any]) -> None:
        tables = ("parameters", "buffers", "attributes", "modules", "methods")
        own = ("forward()",) if stored["own"] is not None else ()  # one of weft's modules has its own methods too
        self.types[stored["type"]] = {"training", *own, *(name for table in tables for name in stored[table])}

    def program(self, number: int) -> Program:
        """A program by its number."""
        found = self.programs.get(number)
        if found is not None:
            return found
        stored = self.content["programs"][number]
        graph = verify(parse_graph(stored["graph"]))
        parameters = tuple(_parameter(*p) for p in stored["parameters"])
        program = Program(stored["name"], parameters, parse_type(stored["returns"]), graph, document=stored["document"])
        if [p.type for p in parameters] != [p.type for p in graph.params] or len(graph.results) != 1:
            raise ParseError(f"the graph of {program.name} has other parameters than its signature")
        self.programs[number] = program
        program.captured = dict(stored["captured"])
        program.functions = {name: self.program(callee) for name, callee in stored["functions"].items()}
        check_names(program, self.types)
        return program

    def module(self, number: int) -> ScriptModule:
        """A Module by its number."""
        found = self.modules.get(number)
        if found is not None:
            return found
        stored = self.content["modules"][number]
        module = self.modules[number] = loaded_module(stored["type"], stored["class"])
        fields = module.__dict__
        fields["training"] = bool(stored["training"])
        for name, held in stored["parameters"].items():
            module.register_parameter(name, None if held is None else self.tensors[held])
        for name, held in stored["buffers"].items():
            tensor = None if held is None else self.tensors[held]
            module.register_buffer(name, tensor, persistent=name not in stored["transient"])
        for name, (kind, value) in stored["attributes"].items():
            fields[name] = _typed(name, value, parse_type(kind))
        for name, inner in stored["modules"].items():
            fields["_modules"][name] = None if inner is None else self.module(inner)
        for name, method in stored["methods"].items():
            self._method(module, name, self.program(method))
        if stored["own"] is not None:
            restore_own(module, *stored["own"])
        return module

    @staticmethod
    def _method(module: ScriptModule, name: str, program: Program) -> None:
        kind: Type = program.parameters[0].type
        if not isinstance(kind, ClassType) or kind.name != module.__dict__["_script_name"]:
            raise ParseError(f"method {name!r} of {module.original_name} belongs to {kind}")
        module._add(name, program)


def _parameter(name: str, kind: str, default: list[Any], keyword_only: bool) -> Parameter:
    type = parse_type(kind)
    return Parameter(name, type, _typed(name, default[0], type) if default else MISSING, bool(keyword_only))


def _typed(name: str, value: Any, kind: Type) -> Any:
    found = accepted(value, kind)
    if found is MISSING:
        raise ParseError(f"{name} should be of type {kind}, is {value!r}"[:200])
    return found
