"""What weft.onnx.export takes of PyTorch's options: modes of the model, example inputs by name, and dynamic shapes."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from weft.nn.modules.module import Module
from weft.support.errors import ArgumentError, Unsupported, ValueProblem
from weft.tensor.tensor import Tensor

Axes = Mapping[int, str]


class TrainingMode(enum.Enum):
    """In which mode a model is exported: as model.eval() or model.train() leaves it, or as it is."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(enum.Enum):
    """Which operators a file may have. weft writes those of ONNX, and those that users' symbolics write."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


@contextmanager
def select_model_mode_for_export(model: Any, mode: TrainingMode | None) -> Iterator[None]:
    """Within the block all parts of the model are in evaluation or in training mode; PRESERVE or None: as they are."""
    if not isinstance(model, Module) or mode in (None, TrainingMode.PRESERVE):
        yield
        return
    if not isinstance(mode, TrainingMode):
        raise ArgumentError(f"onnx: training is one of TrainingMode's values, not {mode!r}")
    before = [(part, part.training) for part in model.modules()]
    model.train(mode is TrainingMode.TRAINING)
    try:
        yield
    finally:
        for part, was_training in before:
            part.training = was_training


def refuse_others(**options: Any) -> None:
    """Raises Unsupported for options that are on and that weft has nothing for."""
    asked = [name for name, value in options.items() if value]
    if asked:
        raise Unsupported(f"onnx: export() has no {', '.join(asked)}; leave it out")


def example_inputs(
    names: Sequence[str] | inspect.Signature, args: Any, kwargs: Mapping[str, Any] | None
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The example inputs by position and by name. A dict at the end of `args` whose keys are parameters that no other
    argument fills has inputs by name, as PyTorch takes it.

    names: of the parameters, or the signature that has them.
    """
    arguments = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    by_name = dict(kwargs or {})
    parameters = list(names.parameters) if isinstance(names, inspect.Signature) else list(names)
    last = arguments[-1] if arguments else None
    if kwargs is None and isinstance(last, dict) and last and set(last) <= set(parameters[len(arguments) - 1 :]):
        arguments, by_name = arguments[:-1], dict(last)
    if by_name and isinstance(names, inspect.Signature):
        try:
            bound = names.bind(*arguments, **by_name)
        except TypeError as problem:
            raise ArgumentError(f"onnx: the example inputs do not fit the model: {problem}") from None
        return (), dict(bound.arguments)
    return arguments, by_name


def shapes_by_input(
    shapes: Mapping[str, Any] | Sequence[Any], names: Sequence[str], values: Sequence[Any]
) -> list[dict[int, str | None]]:
    """For each input tensor in order the axes whose sizes differ from call to call, with the name of the size (None:
    one of its own). shapes: PyTorch's dynamic_shapes: for each parameter (by name, or in order) a dict or sequence
    that says it of the axes, in the tree of a parameter that is no tensor.

    Raises ValueProblem for a parameter that is not there.
    """
    if isinstance(shapes, Mapping):
        unknown = sorted(set(shapes) - set(names))
        if unknown:
            raise ValueProblem(
                f"onnx: dynamic_shapes names {', '.join(unknown)}, and the parameters are {', '.join(names)}"
            )
        listed = [shapes.get(name) for name in names]
    else:
        listed = [*shapes, *[None] * (len(names) - len(shapes))]
    return [axes for value, shape in zip(values, listed, strict=False) for axes in _axes_of(value, shape)]


def _axes_of(value: Any, shape: Any) -> Iterator[dict[int, str | None]]:
    if isinstance(value, Tensor):
        sizes = shape.items() if isinstance(shape, Mapping) else enumerate(shape or ())
        yield {axis: _name_of(size) for axis, size in sizes if not _is_fixed(size)}
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from _axes_of(part, None if shape is None else shape.get(key))
    elif isinstance(value, (tuple, list)):
        for i, part in enumerate(value):
            yield from _axes_of(part, None if shape is None else shape[i])


def _is_fixed(size: Any) -> bool:
    return size is None or isinstance(size, int) or str(size).endswith("STATIC")


def _name_of(size: Any) -> str | None:
    """The name of a dynamic size: a text, or an object that has one (PyTorch's Dim); None for AUTO and DYNAMIC."""
    if isinstance(size, str):
        return size
    name = getattr(size, "__name__", None)
    return name if isinstance(name, str) else None
