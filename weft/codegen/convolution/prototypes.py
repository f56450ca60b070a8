"""The native convolutions: the functions that a module may call, and what their integers mean.

Each function is a whole kernel (weft/loops/kernel.py): (buffers, integers, numbers, scratch, begin, end). The integers
are `FIELDS`, those of spatial axes three times: an operator of fewer axes has leading axes of one element.

    pack_windows     weight -> packed: the rows of every strip side by side, for `windows`
    windows          image, packed -> out: windows of the image times the weight
    pack_spread      weight -> packed, for `spread`
    spread           image, packed -> out: the adjoint for the image of `windows`; here `image` is the cotangent
    weight_sums      image, grad -> sums: for each chunk of places, what the gradient of the weight adds up
    weight_total     sums -> weight
    maxima           image -> values, places: the greatest element of each window, and its number in the window
    picked           image, places -> out: the elements of windows that have these numbers
    maxima_back      grad, places -> out: its adjoint

Sums run over places or over (channel, tap) in an order that hangs on sizes alone: neither on the vector width nor on
how parts are cut.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.codegen.emit import I64, PTR, Module, Signature, Value, const
from weft.codegen.emit import Function as Emitter
from weft.codegen.gemm.tiles import DTYPES, GemmPlan

KERNEL = ((PTR, "bufs"), (PTR, "ints"), (PTR, "numbers"), (PTR, "scratch"), (I64, "begin"), (I64, "end"))
PARAMETERS = KERNEL
AXES = 3
ENTRIES = (
    "pack_windows", "windows", "pack_spread", "spread", "weight_sums", "weight_total", "maxima", "picked",
    "maxima_back",
)
# of all axes: samples, groups, channels of a group in the image and in the result; strides in elements; chunks: parts
# of a sum over places; rows: rows of a part of `maxima`
SCALARS = (
    "samples", "groups", "channels", "outputs", "image_offset", "image_sample", "image_channel", "weight_offset",
    "weight_group", "weight_output", "weight_channel", "grad_offset", "grad_sample", "grad_channel",
    "chunks", "rows",
)  # fmt: skip
# of each axis: sizes of the result, kernel and image; step, padding and dilation of windows; strides of image and
# weight; `period`: taps from one that reads a phase of `spread` to the next
OF_AXES = ("size", "kernel", "image", "step", "padding", "dilation", "image_stride", "weight_stride", "period")
FIELDS = (*SCALARS, *(f"{name}{axis}" for name in OF_AXES for axis in range(AXES)))

SHARES = 16  # parts of a kernel, each with scratch memory of its own; each has its share of the items, whose number is
# known when it runs
UNIT = 112  # places of a block of lines: 7 cache lines (an odd number spreads them over the sets), most widths fit


@dataclass(frozen=True)
class ConvolutionLibrary:
    """Signatures of the functions, to be called from the module that they were declared in."""

    entries: dict[str, Signature]

    @property
    def symbols(self) -> list[str]:
        """The exported names."""
        return [signature.name for signature in self.entries.values()]


def convolution_symbol(entry: str, dtype: str) -> str:
    """The exported name of an entry: weft_convolution_windows_f32, ..."""
    return f"weft_convolution_{entry}_{DTYPES[dtype].suffix}"


def declare_convolution(module: Module, dtype: str) -> ConvolutionLibrary:
    """Prototypes of the library in a module that is linked with it."""
    types = [type for type, _ in KERNEL]
    return ConvolutionLibrary({
        entry: module.declare(convolution_symbol(entry, dtype), I64, types) for entry in ENTRIES
    })


def line_bytes(unit: int, size: int) -> int:
    """From one line of a packed block to the next: an odd number of cache lines."""
    return ((unit * size + 63) // 64 | 1) * 64


class Fields:
    """The integers of a kernel, loaded where they are asked for first: before any branch."""

    def __init__(self, f: Emitter, table: Value) -> None:
        values = [f.load(I64, f.gep(I64, table, i), name=name) for i, name in enumerate(FIELDS)]
        self._values = dict(zip(FIELDS, values, strict=True))

    def __getitem__(self, name: str) -> Value:
        return self._values[name]

    def axes(self, name: str) -> list[Value]:
        """A field of all axes."""
        return [self._values[f"{name}{axis}"] for axis in range(AXES)]


def product_of(f: Emitter, values: list[Value]) -> Value:
    """The product of integers."""
    total: Value = const(I64, 1)
    for value in values:
        total = f.mul(total, value)
    return total


def padded(f: Emitter, plan: GemmPlan, outputs: Value) -> Value:
    """Channels of a row of sums: whole vectors."""
    return f.mul(f.udiv(f.add(outputs, plan.lanes - 1), plan.lanes), plan.lanes)
