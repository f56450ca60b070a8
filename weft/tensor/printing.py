"""repr: tensors printed as PyTorch prints them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.ops.overrides import WITHOUT_CLASSES, OverrideLevel, takes_over
from weft.support.errors import StateError
from weft.tensor.dense import payload_of
from weft.types import dtype as dt

if TYPE_CHECKING:
    from weft.tensor.tensor import Tensor


@dataclass
class PrintOptions:
    """How tensors print: digits, when to summarise, how many edge items, line width, scientific notation
    (None decides)."""

    precision: int = 4
    threshold: int = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


options = PrintOptions()


def set_printoptions(
    precision: int | None = None, threshold: int | None = None, edgeitems: int | None = None,
    linewidth: int | None = None, profile: str | None = None, sci_mode: bool | None = None,
) -> None:
    """Set print options; profile "default", "short" or "full" first, then the others."""
    chosen = {"default": (4, 1000, 3, 80), "short": (2, 1000, 2, 80), "full": (4, math.inf, 3, 80)}
    if profile is not None:
        options.precision, threshold_, options.edgeitems, options.linewidth = chosen[profile]
        options.threshold = threshold_  # type: ignore[assignment]
    for name, value in (("precision", precision), ("threshold", threshold), ("edgeitems", edgeitems), (
        "linewidth", linewidth
    )):
        if value is not None:
            setattr(options, name, value)
    options.sci_mode = sci_mode


class _Formatter:
    """One width and notation for all numbers of a tensor."""

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self.is_float = values.dtype.kind == "f"
        self.integral = True
        self.scientific = False
        self.width = 1
        if self.is_float:
            self._measure_floats(values[np.isfinite(values) & (values != 0)].astype(np.float64))
        else:
            self.width = max((len(str(v)) for v in values.reshape(-1).tolist()), default=1)

    def _measure_floats(self, ordinary: np.ndarray[Any, Any]) -> None:
        """Decide by the finite values that are not 0; the others follow (and may stick out of the column)."""
        if not ordinary.size:
            return
        size = np.abs(ordinary)
        high, low = float(size.max()), float(size.min())
        self.integral = bool(np.all(np.ceil(ordinary) == ordinary))
        self.scientific = high / low > 1000.0 or high > 1e8 or (not self.integral and low < 1e-4)
        if options.sci_mode is not None:
            self.scientific = options.sci_mode
        self.width = max(len(self.text(v)) for v in ordinary.tolist())

    def text(self, value: Any) -> str:
        if not self.is_float:
            return str(value)
        if self.scientific:
            return f"{value:.{options.precision}e}"
        if not self.integral:
            return f"{value:.{options.precision}f}"
        return f"{value:.0f}." if math.isfinite(value) else str(value)

    def padded(self, value: Any) -> str:
        return self.text(value).rjust(self.width)


class _ComplexFormatter:
    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self.real, self.imag = _Formatter(values.real), _Formatter(values.imag)

    @property
    def width(self) -> int:
        return self.real.width + self.imag.width + 2

    def padded(self, value: complex) -> str:
        imag = self.imag.text(value.imag)
        joined = self.real.padded(value.real) + (imag if imag.startswith("-") else "+" + imag) + "j"
        return joined


def _edges(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The values that will be shown when the middle is left out."""
    keep = options.edgeitems
    for axis in range(values.ndim):
        if values.shape[axis] > 2 * keep:
            index = np.r_[0:keep, values.shape[axis] - keep : values.shape[axis]]
            values = np.take(values, index, axis)
    return values


def _nested(values: np.ndarray[Any, Any], indent: int, summarize: bool, formatter: Any) -> str:
    if values.ndim == 0:
        text: str = formatter.padded(values.item())
        return text
    keep = options.edgeitems
    cut = summarize and values.shape[0] > 2 * keep
    if values.ndim == 1:
        return _row(values, indent, cut, formatter)
    parts = [_nested(v, indent + 1, summarize, formatter) for v in (values if not cut else values[:keep])]
    if cut:
        parts.append("...")
        parts.extend(_nested(v, indent + 1, summarize, formatter) for v in values[-keep:])
    return "[" + ("," + "\n" * (values.ndim - 1) + " " * (indent + 1)).join(parts) + "]"


def _row(values: np.ndarray[Any, Any], indent: int, cut: bool, formatter: Any) -> str:
    keep = options.edgeitems
    shown = values.tolist()
    texts = [formatter.padded(v) for v in (shown if not cut else shown[:keep])]
    if cut:
        texts = [*texts, " ...", *(formatter.padded(v) for v in shown[-keep:])]
    per_line = max(1, (options.linewidth - indent) // (formatter.width + 2))
    lines = [", ".join(texts[i : i + per_line]) for i in range(0, len(texts), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def tensor_text(tensor: Tensor) -> str:
    """`tensor([[1., 2.]], requires_grad=True)`; a subclass has its own name in front."""
    if takes_over(type(tensor)):
        with OverrideLevel(WITHOUT_CLASSES):
            text = _plain_text(tensor, f"{type(tensor).__name__}(")
        return f"Parameter({text})" if tensor._is_param else text
    start = "Parameter containing:\n" if tensor._is_param else ""
    return start + _plain_text(tensor, "tensor(")


def _plain_text(tensor: Tensor, prefix: str) -> str:
    suffixes = _suffixes(tensor)
    payload = payload_of(tensor)
    body = _body(payload.materialize("its text"), len(prefix)) if payload.has_bytes else "..."
    return payload.text() or _with_suffixes(prefix + body, suffixes, len(prefix)) + ")"


def _body(data: np.ndarray[Any, Any], indent: int) -> str:
    if data.size == 0:
        return "[]"
    values = data.astype(np.float32) if data.dtype.kind == "V" or data.dtype.name == "bfloat16" else data
    summarize = values.size > options.threshold
    formatter = (_ComplexFormatter if values.dtype.kind == "c" else _Formatter)(_edges(values) if summarize else values)
    return _nested(values, indent, summarize, formatter)


def _with_suffixes(text: str, suffixes: list[str], indent: int) -> str:
    """The text with `, dtype=...` and its like behind it, on a new line where the line would get too long."""
    used = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if used + len(suffix) + 2 > options.linewidth:
            text += ",\n" + " " * indent + suffix
            used = indent + len(suffix)
        else:
            text += ", " + suffix
            used += len(suffix) + 2
    return text


def _size_text(tensor: Tensor) -> str:
    return f"({', '.join(map(str, tensor.dims))}{',' if tensor.ndim == 1 else ''})"


def _suffixes(tensor: Tensor) -> list[str]:
    out = []
    dtype = tensor.dtype
    natural = dtype in (dt.get_default(), dt.int64, dt.bool_, dt.get_default().to_complex())
    if tensor.device != "cpu":
        out.append(f"device='{tensor.device}'")
    if not payload_of(tensor).has_bytes:
        out.append(f"size={_size_text(tensor)}")
        natural = dtype is dt.get_default()
    elif tensor.numel() == 0:
        if tensor.ndim != 1:
            out.append(f"size={_size_text(tensor)}")
        natural = dtype is dt.get_default()
    if not natural:
        out.append(f"dtype={dtype}")
    try:
        node = tensor._node
    except StateError:  # a view whose history cannot be told (made under no_grad, then written)
        out.append("grad_fn=<Invalid>")
        return out
    if node is not None:
        out.append(f"grad_fn=<{node.name()}>")
    elif tensor.requires_grad:
        out.append("requires_grad=True")
    return out
