"""im2col: what slides over a tensor becomes matrix products and padded sums, which the back end knows.

The three bilinear operators of catalogue/nn/convolution.py are matrix products over windows. Windows are strided
views (`unfold`), so that the only work beside the product is one copy that lays them out as columns. The adjoint for
the input is itself a correlation: of the gradient, spread out by the stride and padded, with the kernel turned around.
The gradient of `unfold` is a sum of as many shifted pieces as windows overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from weft.ir.builder import Builder
from weft.ir.graph import Node, Operand, Value
from weft.ops.packet import Packet, aten
from weft.ops.rules import normalize_dim
from weft.passes.rebuild import Rewrites, results_of
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.dims import Dim, product

Dims = Sequence[Dim]


im2col = Rewrites()


@im2col.of(aten.unfold_backward)
def _rewrite_unfold(builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...] | None:
    first, sizes, dim, size, step = args
    if type(first) is not Value or not sizes or type(size) is not int or type(step) is not int:
        return None
    return results_of(
        builder, _unfold_back(builder.handle(first), sizes, normalize_dim("unfold", dim, len(sizes)), size, step)
    )


def _convolution(operator: Packet) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter what one of the three operators is in terms of others; half precisions are convolved in float32, as eager
    convolves them."""

    def enter(opened: Callable[..., Any]) -> Callable[..., Any]:
        @im2col.of(operator)
        def rewrite(builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...] | None:
            dtype = args[0].tensor_type.dtype if type(args[0]) is Value else None
            if dtype is None or not dtype.is_floating_point:
                return None
            pair, wide = [builder.handle(a) for a in args[:2]], dt.compute_dtype(dtype)
            if wide is dtype:
                return results_of(builder, opened(*pair, *args[2:]))
            out = opened(*(aten._to_copy(a, dtype=wide) for a in pair), *args[2:])
            return results_of(builder, aten._to_copy(out, dtype=dtype))

        return opened

    return enter


@_convolution(aten._convolve)
def _correlate(x: Any, w: Any, size: Dims, stride: Dims, padding: Dims, dilation: Dims, groups: int) -> Any:
    """Windows of x [n, c, ...] times w [o, c / groups, ...]: for each sample and group one product
    [o / groups, window] @ [window, places]."""
    n, o, kernel = x.dims[0], w.dims[0], w.dims[2:]
    shown = _windows(_padded(x, padding, padding), kernel, size, stride, dilation)
    rows = aten.reshape(w, (groups, dm.floordiv(o, groups), product(w.dims[1:])))
    return _times_columns(rows, shown, n, size, groups)


def _times_columns(rows: Any, shown: Any, n: Dim, size: Dims, groups: int) -> Any:
    """rows [groups, m, window] times windows [n, groups * c, *places, *kernel]: [n, groups * m, *places]."""
    rank = len(size)
    m, width, places = rows.dims[1], rows.dims[2], product(tuple(size))
    order = (0, 1, *range(2 + rank, 2 + 2 * rank), *range(2, 2 + rank))
    columns = aten.reshape(aten.permute(shown, order), (n * groups, width, places))
    each = aten.reshape(aten.expand(aten.unsqueeze(rows, 0), (n, groups, m, width)), (n * groups, m, width))
    return aten.reshape(aten.bmm(each, columns), (n, groups * m, *size))


@_convolution(aten._convolve_weight)
def _match(g: Any, x: Any, kernel: Dims, stride: Dims, padding: Dims, dilation: Dims, groups: int) -> Any:
    """Windows of x times g, summed over samples and places: for each group one product
    [window, n * places] @ [n * places, o / groups]."""
    n, o, c, size = g.dims[0], g.dims[1], x.dims[1], g.dims[2:]
    rank, places, window = len(size), product(tuple(size)), dm.floordiv(c, groups) * product(tuple(kernel))
    shown = _windows(_padded(x, padding, padding), kernel, size, stride, dilation)
    order = (1, *range(2 + rank, 2 + 2 * rank), 0, *range(2, 2 + rank))
    columns = aten.reshape(aten.permute(shown, order), (groups, window, n * places))
    rows = aten.reshape(
        aten.transpose(aten.reshape(g, (n, o, places)), 0, 1), (groups, dm.floordiv(o, groups), n * places)
    )
    sums = aten.bmm(columns, aten.transpose(rows, 1, 2))
    return aten.reshape(aten.transpose(sums, 1, 2), (o, dm.floordiv(c, groups), *kernel))


@_convolution(aten._convolve_input)
def _spread(g: Any, w: Any, size: Dims, stride: Dims, padding: Dims, dilation: Dims, groups: int) -> Any:
    """What _correlate's windows receive: g padded and correlated with w turned around, its channels swapped;
    or folded, where windows are apart."""
    n, o, c, kernel = g.dims[0], w.dims[0], w.dims[1], w.dims[2:]
    rank = len(size)
    if any(s != 1 for s in stride) and all(d == 1 for d in dilation) and all(type(k) is int for k in kernel):
        return _folded(g, w, size, stride, padding, groups)
    reach = [(k - 1) * d for k, d in zip(kernel, dilation, strict=True)]
    apart = _apart(g, stride)
    before = [r - p for r, p in zip(reach, padding, strict=True)]
    after = [s + r - have - b for s, r, have, b in zip(size, reach, apart.dims[2:], before, strict=True)]
    shown = _windows(_padded(apart, before, after), kernel, size, (1,) * rank, dilation)
    turned = aten.reshape(_turned(w, rank), (groups, dm.floordiv(o, groups), c, *kernel))
    rows = aten.reshape(aten.transpose(turned, 1, 2), (groups, c, dm.floordiv(o, groups) * product(kernel)))
    return _times_columns(rows, shown, n, size, groups)


def _folded(g: Any, w: Any, size: Dims, stride: Dims, padding: Dims, groups: int) -> Any:
    """The same by columns: w times g gives what each window receives, and the windows are added up.
    No work is done for zeros between elements of g."""
    n, kernel, out = g.dims[0], w.dims[2:], g.dims[2:]
    rank, m, places = len(size), dm.floordiv(w.dims[0], groups), product(tuple(out))
    rows = aten.transpose(aten.reshape(w, (groups, m, product(w.dims[1:]))), 1, 2)
    width = rows.dims[1]
    each = aten.reshape(aten.expand(aten.unsqueeze(rows, 0), (n, groups, width, m)), (n * groups, width, m))
    columns = aten.bmm(each, aten.reshape(g, (n * groups, m, places)))
    x = aten.reshape(columns, (n, groups * w.dims[1], *kernel, *out))
    x = aten.permute(x, (0, 1, *range(2 + rank, 2 + 2 * rank), *range(2, 2 + rank)))
    for i in reversed(range(rank)):
        sizes = (*x.dims[: 2 + i], size[i] + 2 * padding[i], *x.dims[3 + i : -1])
        x = _unfold_back(x, sizes, 2 + i, cast(int, kernel[i]), cast(int, stride[i]))
    for i, p in enumerate(padding):
        x = aten.narrow(x, 2 + i, p, size[i]) if p != 0 else x
    return x


def _unfold_back(g: Any, sizes: Dims, at: int, size: int, step: int) -> Any:
    """Windows added up where they came from. Piece j holds elements j * step to (j + 1) * step of every window;
    pieces do not overlap in themselves."""
    env = shape_env.current_env()
    assert env is not None  # a rebuild answers from its graph
    last = g.ndim - 1
    g = aten.permute(g, (*range(at + 1), last, *range(at + 1, last)))
    count, whole = g.dims[at], sizes[at]
    total: Any = None
    for j in range(-(-size // step)):
        end = min((j + 1) * step, size)
        piece = aten.slice(g, at + 1, j * step, end, 1)
        if end - j * step < step:
            piece = aten.constant_pad_nd(piece, [*[0, 0] * (last - at - 1), 0, step - end + j * step])
        piece = aten.reshape(piece, (*sizes[:at], count * step, *sizes[at + 1 :]))
        if j or not env.proves_equal(count * step, whole):
            piece = aten.constant_pad_nd(piece, [*[0, 0] * (last - at - 1), j * step, whole - (j + count) * step])
        total = piece if total is None else total + piece
    return total if total is not None else aten.zeros(tuple(sizes), dtype=g.dtype)


# ---- pieces


def _padded(x: Any, before: Dims, after: Dims) -> Any:
    """Zeros before and after along each spatial dim; a negative number cuts."""
    if all(p == 0 for p in (*before, *after)):
        return x
    return aten.constant_pad_nd(x, [p for i in reversed(range(len(before))) for p in (before[i], after[i])])


def _windows(x: Any, kernel: Dims, size: Dims, stride: Dims, dilation: Dims) -> Any:
    """The first `size` windows of x along each spatial dim, a view: [n, c, *size, *kernel]."""
    rank = len(kernel)
    for i, (k, s, d) in enumerate(zip(kernel, stride, dilation, strict=True)):
        x = aten.unfold(x, 2 + i, (k - 1) * d + 1, s)
        if not shape_env.equal(x.dims[2 + i], size[i]):
            x = aten.slice(x, 2 + i, 0, size[i], 1)
    for i, d in enumerate(dilation):
        if d != 1:
            x = aten.slice(x, 2 + rank + i, 0, x.dims[2 + rank + i], d)
    return x


def _apart(g: Any, stride: Dims) -> Any:
    """g with stride - 1 zeros between its elements."""
    for i, s in enumerate(stride):
        if s != 1:
            length = (g.dims[2 + i] - 1) * s + 1
            zeros = aten.zeros((*g.dims[: 2 + i], length, *g.dims[3 + i :]), dtype=g.dtype)
            g = aten.slice_scatter(zeros, g, 2 + i, 0, length, s)
    return g


def _turned(w: Any, rank: int) -> Any:
    """The kernel with its spatial dims reversed."""
    for i in range(2, 2 + rank):
        if w.dims[i] != 1:
            w = aten.index_select(w, i, -aten._iota(w.dims[i]) + (w.dims[i] - 1))
    return w
