"""Convolutions and their two adjoints: calls of the native library (codegen/convolution) on operands as they lie."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from weft.codegen.convolution import declare_convolution
from weft.codegen.convolution.blocks import SLACK
from weft.codegen.convolution.planes import FEWEST, PLANES, RESULTS
from weft.codegen.convolution.prototypes import AXES, FIELDS, SHARES, UNIT, line_bytes
from weft.codegen.convolution.weights import MOST_LINES
from weft.codegen.emit import I64
from weft.codegen.gemm.tiles import GemmPlan, plan_gemm
from weft.codegen.lower.accumulate import whole_buffer
from weft.codegen.lower.loops import PARAMETERS
from weft.codegen.lower.lowering import BlockLowering, lowers
from weft.codegen.lower.product import MULTIPLY_WEIGHT
from weft.ir.graph import Node, Value
from weft.loops.kernel import KernelCall
from weft.ops.geometry import Geometry, contiguous, contiguous_strides
from weft.ops.packet import aten
from weft.passes.alias import dims_of, dtype_of
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types.dims import Dim
from weft.types.tensor_type import tensor_type

PARTS = 16  # parts of one kernel, where sizes allow: enough for the cores of most machines
CHUNKED = 320 * 1024  # elements of all chunks of sums

Dims = Sequence[Dim]


@dataclass(frozen=True)
class Operand:
    """A buffer, and how the operator's argument lies in it."""

    buffer: Value
    geometry: Geometry


@dataclass(frozen=True)
class Windows:
    """How windows slide: along each axis, the sizes of the result, the kernel and the image (the other way round for
    the adjoint, whose image is the cotangent), and the operator's settings."""

    size: tuple[Dim, ...]
    kernel: tuple[Dim, ...]
    image: tuple[Dim, ...]
    step: tuple[int, ...]
    padding: tuple[Dim, ...]
    dilation: tuple[int, ...]
    groups: int

    @property
    def periods(self) -> tuple[int, ...]:
        """Along each axis, from one tap to the next that reaches the same phase of the adjoint."""
        return tuple(s // math.gcd(s, d) for s, d in zip(self.step, self.dilation, strict=True))

    @property
    def is_pointwise(self) -> bool:
        """Whether each place reads one element, its own."""
        return all(k == 1 for k in self.kernel) and all(s == 1 for s in self.step) and all(p == 0 for p in self.padding)

    def flat(self) -> Windows:
        """Windows of one element over all places as along one axis."""
        size, image = dm.product(self.size), dm.product(self.image)
        return Windows((size,), (1,), (image,), (1,), (0,), (1,), self.groups)


class _Call:
    """Kernels of one node: its operands' buffers, the copies that make them, the fields of the library's integers."""

    def __init__(self, block: BlockLowering, node: Node, windows: Windows) -> None:
        self.is_pointwise = windows.is_pointwise
        self.windows = windows = windows.flat() if self.is_pointwise else windows
        self.block, self.node = block, node
        dtype = dtype_of(node.outputs[0])
        assert dtype is not None
        self.dtype, self.copies = dtype, list[KernelCall]()
        self.plan: GemmPlan = plan_gemm(dtype.name, block.lowering.target)
        rank = len(windows.size)
        self.fields: dict[str, Dim] = dict.fromkeys(FIELDS, 0)
        lists = (
            ("size", windows.size), ("kernel", windows.kernel), ("image", windows.image), ("step", windows.step),
            ("dilation", windows.dilation), ("period", windows.periods),
        )
        for name, values in lists:
            self.enter(name, [1] * (AXES - rank) + list(values))
        self.enter("padding", [0] * (AXES - rank) + list(windows.padding))
        self.fields["groups"] = windows.groups

    def enter(self, name: str, values: Sequence[Dim]) -> None:
        """Enter a field of all axes."""
        self.fields.update((f"{name}{axis}", value) for axis, value in enumerate(values))

    def operand(self, value: Value, is_dense: bool, others: Sequence[Operand] = ()) -> Operand:
        """An argument where it lies; a copy of it where rows of it (`is_dense`: or all its places of a channel) have
        gaps, or where its buffer is one of the others'."""
        root, geometry = self.block.aliases.of(value)
        spatial = geometry.dims[2:]
        rows = 2 if is_dense else geometry.ndim - 1
        is_plain = geometry.strides[rows:] == contiguous_strides(spatial)[rows - 2 :]
        if root in self.block.aliases.splats or not is_plain:
            root, copy = whole_buffer(self.block, value, self.node)
            geometry = contiguous(dims_of(value))
            self.copies += [] if copy is None else [copy]
        if any(root is other.buffer for other in others):
            copied = Value(value.type, value.name)
            self.copies.append(self.block.copy(copied, dims_of(value), root, geometry, self.node))
            root, geometry = copied, contiguous(dims_of(value))
        return Operand(root, geometry)

    def whole(self, value: Value) -> Value:
        """A buffer that holds all of an argument, row-major."""
        root, copy = whole_buffer(self.block, value, self.node)
        self.copies += [] if copy is None else [copy]
        return root

    def image(self, x: Operand) -> None:
        """Enter how the image lies."""
        strides, rank = x.geometry.strides, len(self.windows.size)
        self.fields["image_offset"] = x.geometry.offset
        self.fields["image_sample"], self.fields["image_channel"] = strides[:2]
        self.enter("image_stride", [0] * (AXES - rank) + ([] if self.is_pointwise else list(strides[2:-1])) + [1])

    def weight(self, w: Operand, is_spread: bool, rows: Dim) -> None:
        """Enter how the weight lies. rows: its first dim's share of a group."""
        strides, rank = w.geometry.strides, len(self.windows.size)
        self.fields["weight_offset"] = w.geometry.offset
        first, second = strides[:2]
        self.fields["weight_output"], self.fields["weight_channel"] = (second, first) if is_spread else (first, second)
        self.fields["weight_group"] = rows * first
        self.enter("weight_stride", [0] * (AXES - rank) + ([1] if self.is_pointwise else list(strides[2:])))

    def kernel(
        self, entry: str, buffers: tuple[Value, ...], extent: Dim, cost: Dim, scratch: Dim = 0, outputs: int = 1
    ) -> KernelCall:
        """The call of an entry of the library."""
        lowering, dtype = self.block.lowering, self.dtype

        def emit(name: str) -> None:
            f = lowering.module.function(name, I64, PARAMETERS)
            f.ret(f.call(declare_convolution(lowering.module, dtype.name).entries[entry], list(f.params)))

        name = lowering.function(("convolution", entry, dtype.short), f"{entry}_{dtype.short}", emit)
        ints = tuple(self.fields[field] for field in FIELDS)
        return KernelCall(name, buffers, outputs, ints, (), extent, cost, scratch, (), (self.node,))

    def temporary(self, *dims: Dim) -> Value:
        """A buffer of these dims that nobody else reads."""
        return Value(tensor_type(self.dtype, dims), "")


def _settings(node: Node) -> tuple[Value, Value, tuple[Any, ...]] | None:
    """The operands and settings of one of the operators, or None where it is not native."""
    first, second, size, stride, padding, dilation, groups = node.args
    dtype = dtype_of(node.outputs[0])
    numbers = (*stride, *dilation, groups)
    if dtype not in (dt.float32, dt.float64) or not 1 <= len(size) <= AXES or any(type(n) is not int for n in numbers):
        return None
    return first, second, (tuple(size), tuple(stride), tuple(padding), tuple(dilation), groups)


@lowers(aten._convolve)
def lower_convolve(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """Windows of an image times a weight."""
    settings = _settings(node)
    if settings is None:
        return None
    x, w, (size, stride, padding, dilation, groups) = settings
    kernel = dims_of(w)[2:]
    call = _Call(block, node, Windows(size, kernel, dims_of(x)[2:], stride, padding, dilation, groups))
    return _windows(call, x, w, dims_of(w)[1], dm.floordiv(dims_of(w)[0], groups), is_spread=False)


@lowers(aten._convolve_input)
def lower_convolve_input(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """The adjoint of windows for their image."""
    settings = _settings(node)
    if settings is None:
        return None
    g, w, (size, stride, padding, dilation, groups) = settings
    call = _Call(block, node, Windows(size, dims_of(w)[2:], dims_of(g)[2:], stride, padding, dilation, groups))
    return _windows(call, g, w, dm.floordiv(dims_of(w)[0], groups), dims_of(w)[1], is_spread=True)


def _windows(call: _Call, x: Value, w: Value, channels: Dim, outputs: Dim, is_spread: bool) -> list[KernelCall]:
    windows, fields = call.windows, call.fields
    image = call.operand(x, is_dense=call.is_pointwise)
    weight = call.operand(w, False, (image,))
    samples, groups = dims_of(x)[0], windows.groups
    fields.update(samples=samples, channels=channels, outputs=outputs)
    call.image(image)
    call.weight(weight, is_spread, channels if is_spread else outputs)
    phases = math.prod(windows.step) if is_spread else 1
    taps = [_up(k, p) for k, p in zip(windows.kernel, windows.periods, strict=True)] if is_spread else windows.kernel
    sizes = [_up(n, s) for n, s in zip(windows.size, windows.step, strict=True)] if is_spread else windows.size
    places, depth = dm.product(sizes), channels * dm.product(taps)
    weights = phases * groups * outputs * depth
    packed = call.temporary(weights)
    pack = call.kernel("pack_spread" if is_spread else "pack_windows", (weight.buffer, packed), SHARES, weights)
    cost = dm.floordiv(weights * samples * places, MULTIPLY_WEIGHT)
    cost += samples * groups * phases * (outputs + channels) * places
    multiply = call.kernel(
        "spread" if is_spread else "windows", (image.buffer, packed, call.node.outputs[0]), SHARES, cost,
        _scratch(call, channels, outputs, taps, is_spread),
    )
    return [*call.copies, pack, multiply]


def _scratch(call: _Call, channels: Dim, outputs: Dim, taps: Dims, is_spread: bool) -> Dim:
    """Bytes that hold the offsets, planes and results of any block (planes.BlockSizes, blocks.py)."""
    windows, plan = call.windows, call.plan
    size, window = plan.elem.bytes, dm.product(taps)
    steps = [1] * len(taps) if is_spread else windows.step
    spacing = [d * p // s for d, p, s in zip(windows.dilation, windows.periods, windows.step, strict=True)]
    spacing = spacing if is_spread else list(windows.dilation)
    reach = [dm.floordiv((t - 1) * d, s) for t, d, s in zip(taps, spacing, steps, strict=True)]
    most = max(plan.depth // window, 1) if type(window) is int and window else plan.depth
    span = dm.minimum(dm.maximum(channels, 1), most)
    above = reach[-2] if len(taps) > 1 else 0
    planes = (taps[0] if len(taps) == AXES else 1) * math.prod(steps[1 - AXES :]) * (above + 1)
    held = PLANES // size + span * (FEWEST + reach[-1])
    results = RESULTS // size + outputs * (FEWEST + reach[-1])
    offsets = dm.maximum(span * window, window) * I64.bytes
    return offsets + planes * held * size + results * size + (outputs + 2) * (SLACK + 128)


@lowers(aten._convolve_weight)
def lower_convolve_weight(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """The adjoint of windows for their weight."""
    settings = _settings(node)
    if settings is None:
        return None
    g, x, (kernel, stride, padding, dilation, groups) = settings
    call = _Call(block, node, Windows(dims_of(g)[2:], kernel, dims_of(x)[2:], stride, padding, dilation, groups))
    fields, plan = call.fields, call.plan
    image = call.operand(x, is_dense=call.is_pointwise)
    grad = call.operand(g, True, (image,))
    samples, channels = dims_of(x)[0], dm.floordiv(dims_of(x)[1], groups)
    outputs = dm.floordiv(dims_of(g)[1], groups)
    fields.update(samples=samples, channels=channels, outputs=outputs)
    fields["grad_offset"] = grad.geometry.offset
    fields["grad_sample"], fields["grad_channel"] = grad.geometry.strides[:2]
    call.image(image)
    depth, places = channels * dm.product(kernel), samples * dm.product(dims_of(g)[2:])
    width = _up(outputs, plan.lanes) * plan.lanes
    # sums are added up in chunks where they are few, for the sake of threads; none hangs on the vector width
    most = dm.floordiv(CHUNKED, dm.maximum(groups * depth * outputs, 1))
    fields["chunks"] = chunks = dm.maximum(1, dm.minimum(_up(PARTS, groups), most))
    sums = call.temporary(chunks, groups, depth, width)
    size = plan.elem.bytes
    scratch = dm.minimum(MOST_LINES, depth) * line_bytes(UNIT, size) + UNIT * plan.panel * size + 128
    first = call.kernel(
        "weight_sums", (image.buffer, grad.buffer, sums), SHARES,
        dm.floordiv(groups * outputs * depth * places, MULTIPLY_WEIGHT) + groups * (outputs + depth) * places,
        scratch,
    )
    total = call.kernel(
        "weight_total", (sums, node.outputs[0]), groups * outputs, chunks * groups * outputs * depth
    )
    return [*call.copies, first, total]


@lowers(aten._max_pool)
def lower_max_pool(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """The greatest element of each window."""
    x, kernel, stride, before, _, dilation = node.args
    call = _pooling(block, node, dims_of(node.outputs[0]), dims_of(x), kernel, stride, before, dilation)
    if call is None:
        return None
    buffers = (call.whole(x), *node.outputs)
    rows = dm.product([1, *call.windows.size[:-1]])
    call.fields["rows"] = dm.maximum(1, dm.minimum(rows, _up(rows * call.fields["samples"], 4 * PARTS)))
    extent = call.fields["samples"] * _up(rows, call.fields["rows"])
    cost = dm.product(dims_of(node.outputs[0])) * math.prod(kernel)
    return [*call.copies, call.kernel("maxima", buffers, extent, cost, outputs=2)]


@lowers(aten._max_pool_input)
def lower_max_pool_input(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """What was picked of each window, back to its place."""
    g, picked, _, *settings = node.args
    return _at_places(block, node, "maxima_back", (g, picked), dims_of(g), dims_of(node.outputs[0]), settings)


@lowers(aten._max_pool_picked)
def lower_max_pool_picked(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """What is picked of each window."""
    x, picked, *settings = node.args
    return _at_places(block, node, "picked", (x, picked), dims_of(picked), dims_of(x), settings)


def _at_places(
    block: BlockLowering, node: Node, entry: str, sources: Sequence[Value], places: Dims, image: Dims,
    settings: Sequence[Any],
) -> list[KernelCall] | None:
    call = _pooling(block, node, places, image, *settings)
    if call is None:
        return None
    buffers = (*(call.whole(v) for v in sources), node.outputs[0])
    table = AXES * I64.bytes * math.prod(settings[0])
    cost = dm.product(places) * 4 + dm.product(image)
    return [*call.copies, call.kernel(entry, buffers, call.fields["samples"], cost, table)]


def _pooling(
    block: BlockLowering, node: Node, places: Dims, image: Dims, kernel: Dims, stride: Any, before: Dims, dilation: Any
) -> _Call | None:
    """Windows over the last dims of an image, or None where they are not native."""
    rank = len(kernel)
    numbers = (*kernel, *stride, *before, *dilation)
    native = (dt.float32, dt.float64)
    if dtype_of(node.outputs[0]) not in native or not 1 <= rank <= AXES or any(type(n) is not int for n in numbers):
        return None
    windows = Windows(
        tuple(places[-rank:]), tuple(kernel), tuple(image[-rank:]), tuple(stride), tuple(before), tuple(dilation), 1
    )
    call = _Call(block, node, windows)
    strides = contiguous_strides(call.windows.image)
    call.enter("image_stride", [0] * (AXES - len(strides)) + list(strides))
    call.fields["samples"] = dm.product(image[:-rank])
    return call


def _up(a: Any, b: Any) -> Any:
    """a / b, rounded up."""
    return dm.floordiv(a + b - 1, b)
