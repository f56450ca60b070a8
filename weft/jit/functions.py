"""Scripted functions and methods as Python calls them, and programs from text."""

from __future__ import annotations

import copy
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

from weft.jit.errors import Error
from weft.jit.interpreter.running import run
from weft.jit.program import Program
from weft.jit.script.frontend.compile import Linker, compile_python, names_in
from weft.jit.script.frontend.definitions import compile_definition
from weft.jit.script.frontend.outside_values import forget_if_changed
from weft.jit.script.marks import annotate
from weft.jit.script.source import by_use, text_source
from weft.jit.torchscript.code import code_with_constants
from weft.jit.torchscript.graph import Graph
from weft.ops.packet import aten, prim
from weft.tensor.modes import active_trace


class Scripted:
    """What compiled functions and methods have in common: their program, read off."""

    __weft_program__: Program
    __name__: str

    @property
    def name(self) -> str:
        """The function's name."""
        return self.__name__

    @property
    def graph(self) -> Graph:
        """The graph, for reading and changing: the program does not see it. A method's first parameter is the Module.
        Calls of other scripted functions are nodes; `graph.inlined()` has their bodies."""
        return _graph_of(self.__weft_program__).copy()

    @property
    def inlined_graph(self) -> Graph:
        """The graph with the bodies of the functions and methods that it calls."""
        return _graph_of(self.__weft_program__).inlined()

    def graph_for(self, *args: Any, **kwargs: Any) -> Graph:
        """The graph that runs for such arguments, with its groups; it is run once to find out."""
        from weft.jit.executor.plans import last_executed_plan  # plans run what functions call

        self(*args, **kwargs)  # type: ignore[operator]
        plan = last_executed_plan(self)
        return self.graph if plan is None else plan.graph

    @property
    def code(self) -> str:
        """The graph as lines that read like Python."""
        return self.code_with_constants[0]

    @property
    def code_with_constants(self) -> tuple[str, Constants]:
        """The code, and the tensors that it calls CONSTANTS."""
        program = self.__weft_program__
        code, names = code_with_constants(_graph_of(program).ir)
        return code, Constants({label: program.captured[name] for label, name in names.items()})


def _graph_of(program: Program) -> Graph:
    assert program.graph is not None
    return Graph(program.graph, program, runs=True)


class Constants:
    """The tensors from outside that a program's code names: `CONSTANTS.c0`."""

    def __init__(self, const_mapping: Mapping[str, Any]) -> None:
        self.const_mapping = dict(const_mapping)
        self.__dict__.update(const_mapping)


class ScriptFunction(Scripted):
    """A compiled function. It is called like the Python function that it was made of."""

    def __init__(self, program: Program, function: Callable[..., Any] | None = None) -> None:
        self.__weft_program__ = program
        self.__name__ = program.name.rpartition(".")[2]
        self.__qualname__, self.__doc__ = self.__name__, program.document
        if function is not None:
            self.__wrapped__ = function
            self.__module__ = function.__module__
            self.__signature__ = inspect.signature(function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        recorder = active_trace()
        if self.__weft_program__.outside is not None and forget_if_changed(self.__weft_program__):
            self.__weft_program__ = compile_python(self.__wrapped__)
        if recorder is not None:
            return recorder.scripted(self.__weft_program__, args, kwargs, self)
        return run(self.__weft_program__, args, kwargs)

    def save(self, f: Any, _extra_files: Any = None) -> None:
        """Write the function to a file that `weft.jit.load` reads without its source."""
        from weft.jit.torchscript.files.saving import save  # files know functions

        save(self, f, _extra_files)

    def save_to_buffer(self, _extra_files: Any = None) -> bytes:
        """The bytes that `save` would write."""
        from weft.jit.torchscript.files.saving import save_to_buffer  # files know what they hold

        return save_to_buffer(self, _extra_files)

    @property
    def qualified_name(self) -> str:
        """The function's name with its module's."""
        return self.__weft_program__.name

    @property
    def schema(self) -> str:
        """`f(Tensor x, int n=3) -> Tensor`."""
        return self.__weft_program__.schema()

    def __repr__(self) -> str:
        return f"<weft.jit.ScriptFunction {self.schema}>"


class ScriptMethod(Scripted):
    """A compiled method with its Module."""

    def __init__(self, owner: Any, program: Program) -> None:
        self.owner, self.__weft_program__ = owner, program
        self.__name__ = program.name.rpartition(".")[2]
        self.__doc__ = program.document

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        recorder = active_trace()
        if self.__weft_program__.outside is not None and forget_if_changed(self.__weft_program__):
            self.__weft_program__ = self.owner._compiled(self.__name__)
        if recorder is not None:
            return recorder.scripted_method(self, args, kwargs)
        return run(self.__weft_program__, (self.owner, *args), kwargs)

    @property
    def schema(self) -> str:
        """`forward(Net self, Tensor x) -> Tensor`."""
        return self.__weft_program__.schema()

    def __repr__(self) -> str:
        return f"<weft.jit.ScriptMethod {self.schema}>"

    def _of(self, owner: Any) -> ScriptMethod:
        """The same method of a copy of the Module."""
        return ScriptMethod(owner, self.__weft_program__)

    def __deepcopy__(self, memo: dict[int, Any]) -> ScriptMethod:
        return self._of(copy.deepcopy(self.owner, memo))


def script_function(function: Callable[..., Any]) -> ScriptFunction:
    """The scripted form of a Python function. Raises CompileError."""
    return ScriptFunction(compile_python(function), function)


class CompilationUnit:
    """Functions from source text, as attributes: `unit = CompilationUnit("def f(x): return x + 1"); unit.f(x)`."""

    def __init__(self, source: str | None = None, _frames_up: int = 0) -> None:
        self._functions: dict[str, ScriptFunction] = {}
        frame = sys._getframe(1 + _frames_up)
        self._names: tuple[Mapping[str, Any], ...] = (frame.f_locals, frame.f_globals)
        if source is not None:
            self.define(source)

    def define(self, source: str) -> None:
        """Compile the functions of a text. They can call those defined before, and each other. Raises CompileError."""
        definitions, text = text_source(source)
        compiled: dict[str, ScriptFunction] = {}
        for definition in by_use(definitions):
            program = Program(definition.name)
            functions = {**self._functions, **compiled}
            names = names_in({n: f.__weft_program__ for n, f in functions.items()}, *self._names, text_names())
            compile_definition(definition, text, Linker(program, names, compile_python))
            compiled[definition.name] = ScriptFunction(program)
        self._functions.update({d.name: compiled[d.name] for d in definitions})

    def __getattr__(self, name: str) -> ScriptFunction:
        try:
            return self.__dict__["_functions"][name]  # type: ignore[no-any-return]
        except KeyError:
            names = ", ".join(self.__dict__.get("_functions", {})) or "none"
            raise AttributeError(f"the CompilationUnit has no function {name!r}; it has {names}") from None

    def find_function(self, name: str) -> ScriptFunction | None:
        """A function by its name, or None."""
        return self._functions.get(name)

    def get_functions(self) -> list[ScriptFunction]:
        """All functions, in the order in which they were defined."""
        return list(self._functions.values())


def text_names() -> Mapping[str, Any]:
    """What a text may use without importing it."""
    import math

    import weft

    names = {"weft": weft, "math": math, "F": weft.nn.functional, "Tensor": weft.Tensor}
    return {**names, "annotate": annotate, "aten": aten, "prim": prim}  # (the last as in `.code`)


__all__ = ["CompilationUnit", "Error", "ScriptFunction", "ScriptMethod", "run", "script_function"]
