"""The graph JIT: functions of Python compiled to graphs with control flow (TorchScript's programming model).

frontend/ goes from Python's syntax to a graph; program.py is a compiled function, interpreter.py runs it, functions.py
is what users call.
"""

from typing import Any

from weft.jit.batching.functions import BatchedFunction, batch
from weft.jit.batching.tensors import BatchTensor
from weft.jit.differentiation import differentiate
from weft.jit.errors import CompileError, Error
from weft.jit.executor.plans import last_executed_plan
from weft.jit.files.loading import load
from weft.jit.files.names import export_opnames
from weft.jit.files.saving import save
from weft.jit.freezing import freeze, optimize_for_inference, run_frozen_optimizations
from weft.jit.functions import CompilationUnit, ScriptFunction
from weft.jit.futures import Future, fork, wait
from weft.jit.graph import Graph
from weft.jit.graphs.from_text import create_function_from_graph, parse_ir
from weft.jit.hot import optimized_execution
from weft.jit.marks import Attribute, Final, annotate, export, ignore, interface, is_scripting, is_tracing, unused
from weft.jit.marks import isinstance_of as isinstance
from weft.jit.marks import unwrap_optional as _unwrap_optional  # noqa: F401  (TorchScript's name)
from weft.jit.matching import OperatorSet, schemas
from weft.jit.module import RecursiveScriptModule, ScriptMethod, ScriptModule, TopLevelTracedModule, script_method
from weft.jit.overloads import overload as _overload  # noqa: F401  (TorchScript's name)
from weft.jit.overloads import overload as _overload_method  # noqa: F401  (TorchScript's name)
from weft.jit.script import script
from weft.jit.shape_analysis import shape_analysis
from weft.jit.symbol import Symbol
from weft.jit.tracing.checking import TracingCheckError
from weft.jit.tracing.trace import script_if_tracing, trace, trace_module
from weft.jit.tracing.trace import script_if_tracing as _script_if_tracing  # noqa: F401  (TorchScript's name)
from weft.jit.tracing.values import TracerWarning
from weft.support.absent import refuse

__all__ = [
    "Attribute",
    "BatchTensor",
    "BatchedFunction",
    "CompilationUnit",
    "CompileError",
    "Error",
    "Final",
    "Future",
    "Graph",
    "OperatorSet",
    "RecursiveScriptModule",
    "ScriptFunction",
    "ScriptMethod",
    "ScriptModule",
    "Symbol",
    "TopLevelTracedModule",
    "TracerWarning",
    "TracingCheckError",
    "annotate",
    "batch",
    "create_function_from_graph",
    "differentiate",
    "export",
    "export_opnames",
    "fork",
    "freeze",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "last_executed_plan",
    "load",
    "optimize_for_inference",
    "optimized_execution",
    "parse_ir",
    "run_frozen_optimizations",
    "save",
    "schemas",
    "script",
    "script_if_tracing",
    "script_method",
    "shape_analysis",
    "trace",
    "trace_module",
    "unused",
    "wait",
]


def __getattr__(name: str) -> Any:
    refuse("module 'weft.jit'", name)
