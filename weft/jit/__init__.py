"""The graph JIT: functions of Python compiled to graphs with control flow (TorchScript's programming model).

script/       from Python's source to a graph          torchscript/   graphs as users see them: text, code, files
program.py    a compiled function                      functions.py   what users call; module.py a scripted Module
interpreter/  runs it                                  executor/      runs it again and again, as plans
native/       loops over numbers as machine code       tracing/       programs from examples
autodiff/     the backward of a program as a program
"""

from typing import Any

from weft.batching.functions import BatchedFunction, batch
from weft.batching.tensors import BatchTensor
from weft.jit.autodiff.differentiation import differentiate
from weft.jit.errors import CompileError, Error
from weft.jit.executor.plans import last_executed_plan
from weft.jit.functions import CompilationUnit, ScriptFunction
from weft.jit.fusion import ScriptWarning, fuser, set_fusion_strategy, strict_fusion
from weft.jit.interpreter.futures import Future, fork, wait
from weft.jit.interpreter.hot import optimized_execution
from weft.jit.module import RecursiveScriptModule, ScriptMethod, ScriptModule, TopLevelTracedModule, script_method
from weft.jit.script.entry import script
from weft.jit.script.marks import (
    Attribute,
    Final,
    annotate,
    export,
    ignore,
    interface,
    is_scripting,
    is_tracing,
    unused,
)
from weft.jit.script.marks import isinstance_of as isinstance
from weft.jit.script.marks import unwrap_optional as _unwrap_optional  # noqa: F401  (TorchScript's name)
from weft.jit.script.overloads import overload as _overload  # noqa: F401  (TorchScript's name)
from weft.jit.script.overloads import overload as _overload_method  # noqa: F401  (TorchScript's name)
from weft.jit.torchscript.files.loading import load
from weft.jit.torchscript.files.names import export_opnames
from weft.jit.torchscript.files.saving import save
from weft.jit.torchscript.freezing import freeze, optimize_for_inference, run_frozen_optimizations
from weft.jit.torchscript.graph import Graph
from weft.jit.torchscript.graphs.from_text import create_function_from_graph, parse_ir
from weft.jit.torchscript.matching import OperatorSet, schemas
from weft.jit.torchscript.shape_analysis import shape_analysis
from weft.jit.torchscript.symbol import Symbol
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
    "ScriptWarning",
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
    "fuser",
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
    "set_fusion_strategy",
    "shape_analysis",
    "strict_fusion",
    "trace",
    "trace_module",
    "unused",
    "wait",
]


def __getattr__(name: str) -> Any:
    refuse("module 'weft.jit'", name)
