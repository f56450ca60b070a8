"""weft.onnx.export: a traced or scripted model as a file."""

from __future__ import annotations

import inspect
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import weft
from weft.jit.functions import ScriptFunction
from weft.jit.module import ScriptModule
from weft.jit.program import Program
from weft.jit.torchscript.inlining import inlined
from weft.jit.tracing.trace import trace
from weft.onnx.dependency import helper, onnx
from weft.onnx.dtypes import element_of
from weft.onnx.export_options import (
    OperatorExportTypes,
    TrainingMode,
    example_inputs,
    refuse_others,
    select_model_mode_for_export,
    shapes_by_input,
)
from weft.onnx.lists import Listed
from weft.onnx.onnx_program import ONNXProgram
from weft.onnx.operators import control as control  # the package fills the table
from weft.onnx.outputs import Output
from weft.onnx.program import Exporter
from weft.onnx.registry import under_way
from weft.onnx.writer import Writer
from weft.passes.scripted.tuples import lower_tuples
from weft.support.errors import ArgumentError, Unsupported, ValueProblem
from weft.tensor.tensor import Tensor
from weft.types import shape_env
from weft.types.dims import Dim
from weft.types.tensor_type import TensorType
from weft.version import __version__

Axes = Mapping[str, Any]
LEAST = 13


def export(
    model: Any, args: Any = (), path: str | os.PathLike[str] | Any = None, opset_version: int | None = 18,
    input_names: Sequence[str] | None = None, output_names: Sequence[str] | None = None,
    dynamic_axes: Axes | None = None, *, f: str | os.PathLike[str] | Any = None,
    kwargs: Mapping[str, Any] | None = None, dynamic_shapes: Mapping[str, Any] | Sequence[Any] | None = None,
    training: TrainingMode | None = None, export_params: bool = True, keep_initializers_as_inputs: bool = False,
    external_data: bool | None = None, verify: bool = False, verbose: bool | None = None,
    custom_opsets: Mapping[str, int] | None = None, do_constant_folding: bool = True, optimize: bool = True,
    dynamo: bool = True, autograd_inlining: bool = True, artifacts_dir: str | os.PathLike[str] = ".",
    operator_export_type: OperatorExportTypes = OperatorExportTypes.ONNX,
    custom_translation_table: Mapping[Any, Any] | None = None, report: bool = False, profile: bool = False,
    dump_exported_program: bool = False, export_modules_as_functions: bool | Collection[Any] = False,
) -> ONNXProgram:
    """The model as an ONNX program, which is also written to a file where one is named.

    model: a Module or function, which is traced with `args`, or a scripted or traced one, whose branches and loops
    become If and Loop where they hang on tensors. args: a tensor, or a tuple of arguments; numbers among them become
    constants of the model. kwargs: arguments by name; a dict at the end of args serves, too. path, or f as PyTorch
    calls it: a file's path, or a binary file. opset_version: 13 or more; None: 18. input_names, output_names: of the
    tensors in order. dynamic_axes: `{"x": {0: "batch"}}` or `{"x": [0]}`, the axes of inputs (and outputs) whose sizes
    differ from call to call; all others are fixed. dynamic_shapes: the same by the names or the order of parameters.
    Parameters and buffers become initializers under their names.

    training: the mode in which the model is exported; None: as it is. export_params=False and
    keep_initializers_as_inputs, external_data: as in ONNXProgram.save. verify: run what was written, and compare it
    with the model. verbose: print it. custom_opsets: versions of operator sets that users' symbolics write.
    do_constant_folding, optimize, dynamo and autograd_inlining choose ways of PyTorch's; there is one here.
    Raises Unsupported, which names the operator that cannot be exported and its line, and for other options of
    PyTorch's that are on.
    """
    refuse_others(
        operator_export_type=operator_export_type is not OperatorExportTypes.ONNX, report=report, profile=profile,
        custom_translation_table=custom_translation_table, dump_exported_program=dump_exported_program,
        export_modules_as_functions=export_modules_as_functions,
    )
    opset = 18 if opset_version is None else opset_version
    if not LEAST <= opset <= onnx.defs.onnx_opset_version():
        raise ValueProblem(f"onnx: opset_version is {opset}; weft writes {LEAST} to {onnx.defs.onnx_opset_version()}")
    arguments, by_name = example_inputs(_parameters(model), args, kwargs)
    drawn = weft.get_rng_state()
    under_way.append(True)
    try:
        with select_model_mode_for_export(model, training), weft.no_grad():
            program, owner = _program_of(model, arguments, by_name)
            export = _Export(program, owner, opset, dynamic_axes or {}, custom_opsets or {})
            written = export.model(arguments, by_name, input_names, output_names, dynamic_shapes)
            onnx.checker.check_model(written.model_proto)
            if verify:
                written.verify(list(_flat(model(*arguments, **by_name))), export.examples)
    finally:
        under_way.pop()
        weft.set_rng_state(drawn)
    if verbose:
        print(onnx.printer.to_text(written.model_proto))
    destination = path if f is None else f
    if destination is not None:
        written.save(
            destination, include_initializers=export_params, external_data=external_data,
            keep_initializers_as_inputs=keep_initializers_as_inputs,
        )
    return written


def _parameters(model: Any) -> list[str] | inspect.Signature:
    """Of a program the names of its parameters, without the Module; else the signature."""
    program = getattr(_source(model), "__weft_program__", None)
    if program is not None:
        return [p.name for p in program.parameters][isinstance(model, ScriptModule) :]
    if not callable(model):
        raise ArgumentError(f"onnx: a Module or function can be exported, not a {type(model).__name__}")
    return inspect.signature(model.forward if isinstance(model, weft.nn.Module) else model)


def _source(model: Any) -> Any:
    return model.forward if isinstance(model, ScriptModule) else model


def _program_of(model: Any, arguments: tuple[Any, ...], by_name: Mapping[str, Any]) -> tuple[Program, Any]:
    """The whole program without calls of others, and the Module that it belongs to."""
    if not isinstance(model, (ScriptFunction, ScriptModule)):
        if by_name:
            model = trace(model, example_kwarg_inputs=by_name, check_trace=False)
        else:
            model = trace(model, arguments, check_trace=False)
    program = getattr(_source(model), "__weft_program__", None)
    if program is None:
        raise ArgumentError(f"onnx: {type(model).__name__} has no compiled forward")
    graph, whole = inlined(program)
    whole.graph = lower_tuples(graph)  # what goes round in a loop of ONNX is a tensor
    return whole, model if isinstance(model, ScriptModule) else None


class _Export:
    """One export."""

    def __init__(self, program: Program, owner: Any, opset: int, axes: Axes, versions: Mapping[str, int]) -> None:
        self.writer, self.program, self.owner, self.axes = Writer(opset), program, owner, axes
        self.versions = versions
        self.inputs: list[Any] = []
        self.examples: list[Tensor] = []  # of the inputs, in order
        self.shapes: list[dict[int, str | None]] = []  # of the inputs, in order: what dynamic_shapes says
        self.unused = set(axes)
        self.symbols: dict[str, Dim] = {}  # by the names that dynamic axes are given

    def model(
        self, arguments: tuple[Any, ...], by_name: Mapping[str, Any], input_names: Sequence[str] | None,
        output_names: Sequence[str] | None, shapes: Mapping[str, Any] | Sequence[Any] | None,
    ) -> ONNXProgram:
        """The model as ONNX's object."""
        bound = self.program.bind(arguments if self.owner is None else (self.owner, *arguments), dict(by_name))
        if shapes is not None:
            first = int(self.owner is not None)
            labels = [p.name for p in self.program.parameters[first:]]
            self.shapes = shapes_by_input(shapes, labels, bound[first:])
        names = list(input_names or ())
        for name in (*names, *(output_names or ())):
            self.writer.name(name)
        entered = [
            value if value is self.owner and value is not None else self._entered(value, p.name, p.type, names)
            for value, p in zip(bound, self.program.parameters, strict=True)
        ]
        if names:
            raise ArgumentError(f"onnx: more input_names than input tensors: {', '.join(names)} are left over")
        with shape_env.using(self.writer.sizes.env):
            result = Exporter(self.writer, self.program).run(entered)
        outputs = [self._left(v, i, output_names) for i, v in enumerate(_flat(result))]
        if output_names is not None and len(output_names) != len(outputs):
            raise ArgumentError(f"onnx: {len(output_names)} output_names for {len(outputs)} output tensors")
        if self.unused:
            unknown = ", ".join(sorted(self.unused))
            raise ArgumentError(f"onnx: dynamic_axes names {unknown}, which is no input or output")
        return self._assembled(outputs)

    # ---- inputs
    def _entered(self, value: Any, label: str, kind: Any, names: list[str]) -> Any:
        if isinstance(value, Tensor):
            return self._input(value, label, kind, names)
        if isinstance(value, (tuple, list)):
            return type(value)(self._entered(v, f"{label}_{i}", None, names) for i, v in enumerate(value))
        if isinstance(value, dict):
            return {k: self._entered(v, f"{label}_{k}", None, names) for k, v in value.items()}
        return value

    def _input(self, value: Tensor, label: str, kind: Any, names: list[str]) -> Output:
        name = names.pop(0) if names else self.writer.name(label)
        dims: list[Any] = list(value.shape)
        if isinstance(kind, TensorType) and kind.dims is not None:
            named = zip(dims, kind.dims, strict=True)
            dims = [d if k is None or isinstance(k, int) else str(k) for d, k in named]
        dynamic = self._dynamic(name, value.ndim)
        if self.shapes:
            dynamic.update(_named(name, self.shapes[len(self.inputs)], value.ndim))
        for axis, symbol in dynamic.items():
            dims[axis] = symbol
        self.examples.append(value)
        self.inputs.append(helper.make_tensor_value_info(name, element_of(value.dtype), dims))
        sizes = [d if isinstance(d, int) else self.symbols.get(d) for d in dims]
        graph_input = Output(self.writer, name, value.detach(), sizes)
        self.symbols.update({d: s for d, s in zip(dims, graph_input.sizes, strict=True) if not isinstance(d, int)})
        return graph_input

    def _dynamic(self, name: str, rank: int) -> dict[int, str]:
        declared = self.axes.get(name, {})
        self.unused.discard(name)
        return _named(name, declared if isinstance(declared, Mapping) else dict.fromkeys(declared), rank)

    # ---- outputs
    def _left(self, value: Any, position: int, names: Sequence[str] | None) -> Any:
        if isinstance(value, Listed):
            return self._list_left(value, position, names)
        if not isinstance(value, Output):
            if not isinstance(value, (bool, int, float)):
                raise Unsupported(f"onnx: the model gives a {type(value).__name__}; ONNX has tensors")
            value = self.writer.number(value)
        self.writer.fresh((value,))
        name = self._output_name(value, position, names)
        dims: list[Any] = [d if type(d) is int else None for d in value.sizes]
        for axis, symbol in self._dynamic(name, value.ndim).items():
            dims[axis] = symbol
        return helper.make_tensor_value_info(name, element_of(value.dtype), dims)

    def _list_left(self, value: Listed, position: int, names: Sequence[str] | None) -> Any:
        return value.info(self._output_name(value, position, names))

    def _output_name(self, value: Any, position: int, names: Sequence[str] | None) -> str:
        is_named = names is not None and position < len(names)
        name = names[position] if is_named and names is not None else self.writer.name(f"output_{position}")
        self.writer.append(helper.make_node("Identity", [value.name], [name]))
        return name

    def _assembled(self, outputs: list[Any]) -> ONNXProgram:
        nodes = _needed(self.writer.scopes[0].nodes, {o.name for o in outputs})
        read = {name for node in nodes for name in _names_read(node)}
        kept = [t for name, t in self.writer.initializers.items() if name in read]
        name = self.program.name.rpartition(".")[2] or "model"
        graph = helper.make_graph(nodes, name, self.inputs, outputs, kept)
        imports = [helper.make_opsetid("", self.writer.opset)]
        imports += [helper.make_opsetid(d, self.versions.get(d, v)) for d, v in sorted(self.writer.domains.items())]
        version = helper.find_min_ir_version_for(imports, ignore_unknown=True)
        model = helper.make_model(
            graph, opset_imports=imports, ir_version=max(version, 8), producer_name="weft",
            producer_version=__version__,
        )  # fmt: skip
        return ONNXProgram(model, [t.name for t in kept if t.name in self.writer.weights])


def _named(name: str, axes: Mapping[int, str | None], rank: int) -> dict[int, str]:
    """The dynamic axes of an input or output, counted from the first, each with the name of its size."""
    symbols = {}
    for axis, symbol in axes.items():
        if not -rank <= axis < rank:
            raise ValueProblem(f"onnx: {name!r} has {rank} dims, there is no axis {axis}")
        symbols[axis % rank] = f"{name}_{axis}" if symbol is None else symbol
    return symbols


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, (tuple, list)):
        for part in value:
            yield from _flat(part)
    elif isinstance(value, dict):
        for part in value.values():
            yield from _flat(part)
    elif value is not None:
        yield value


def _names_read(node: Any) -> Iterator[str]:
    yield from (name for name in node.input if name)
    for attribute in node.attribute:
        if attribute.HasField("g"):
            for inner in attribute.g.node:
                yield from _names_read(inner)
            yield from (o.name for o in attribute.g.output)


def _needed(nodes: Sequence[Any], wanted: set[str]) -> list[Any]:
    """The nodes that a result hangs on."""
    kept = []
    for node in reversed(nodes):
        if wanted & set(node.output):
            kept.append(node)
            wanted.update(_names_read(node))
    return kept[::-1]
