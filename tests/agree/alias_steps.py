"""The steps of random programs over aliases: kinds of views, and kinds of writes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.agree.alias_programs import Array, Maker, is_small, place_of, repeats, root_of

VIEWS: list[Callable[[Maker], None]] = []
WRITES: list[Callable[[Maker], None]] = []


def view(step: Callable[[Maker], None]) -> Callable[[Maker], None]:
    """Enter a kind of view."""
    VIEWS.append(step)
    return step


def write(step: Callable[[Maker], None]) -> Callable[[Maker], None]:
    """Enter a kind of write."""
    WRITES.append(step)
    return step


# ---- views
def _axis(m: Maker, a: Array, least: int = 1) -> int | None:
    found = [i for i, n in enumerate(a.shape) if n >= least]
    return m.pick(found) if found else None


def _index(ndim: int, axis: int, text: str) -> str:
    return ", ".join([text if i == axis else ":" for i in range(ndim)])


@view
def flat(m: Maker) -> None:
    n = m.alias(lambda a: a.flags.c_contiguous and a.size > 0)
    if n:
        m.view(n, f"{n}.view(-1)", f"viewed({n}, (-1,))")


@view
def split_dims(m: Maker) -> None:
    n = m.alias(lambda a: a.flags.c_contiguous and is_small(a) and any(d in (4, 6) for d in a.shape))
    if n:
        at = m.pick([i for i, d in enumerate(m.of(n).shape) if d in (4, 6)])
        dims = (*m.of(n).shape[:at], 2, m.of(n).shape[at] // 2, *m.of(n).shape[at + 1 :])
        m.view(n, f"{n}.view({dims})", f"viewed({n}, {dims})")


def _shows(a: Array, dims: tuple[int, ...]) -> bool:
    try:
        a.reshape(dims, copy=False)
    except ValueError:
        return False
    return True


@view
def reshape_that_looks(m: Maker) -> None:
    n = m.alias(lambda a: a.size > 0 and a.ndim > 1 and _shows(a, (a.shape[0], -1)))
    if n:
        dims = (m.of(n).shape[0], m.of(n).size // m.of(n).shape[0])
        m.view(n, f"{n}.reshape({dims})", f"viewed({n}, {dims})")


@view
def flatten(m: Maker) -> None:
    n = m.alias(lambda a: a.size > 0 and a.flags.c_contiguous and a.ndim > 1)
    if n:
        m.view(n, f"{n}.flatten()", f"viewed({n}, (-1,))")


@view
def unflatten(m: Maker) -> None:
    n = m.alias(lambda a: is_small(a) and a.ndim > 0 and a.shape[0] in (4, 6))
    if n:
        a = m.of(n)
        dims = (2, a.shape[0] // 2, *a.shape[1:])
        if _shows(a, dims):
            m.view(n, f"{n}.unflatten(0, {dims[:2]})", f"viewed({n}, {dims})")


@view
def permute(m: Maker) -> None:
    n = m.alias(lambda a: a.ndim > 1)
    if n:
        order = tuple(int(i) for i in m.rng.permutation(m.of(n).ndim))
        m.view(n, f"{n}.permute({order})", f"{n}.transpose({order})")


@view
def transpose(m: Maker) -> None:
    n = m.alias(lambda a: a.ndim > 1)
    if n:
        first, second = m.rng.choice(m.of(n).ndim, 2, replace=False)
        m.view(n, f"{n}.transpose({first}, {second})", f"{n}.swapaxes({first}, {second})")


@view
def t(m: Maker) -> None:
    n = m.alias(lambda a: a.ndim == 2)
    if n:
        m.view(n, f"{n}.{m.pick(('t()', 'T', 'mT'))}", f"{n}.T")


@view
def movedim(m: Maker) -> None:
    n = m.alias(lambda a: a.ndim > 1)
    if n:
        m.view(n, f"{n}.movedim(0, -1)", f"np.moveaxis({n}, 0, -1)")


@view
def whole(m: Maker) -> None:
    n = m.alias()
    if n:
        m.view(n, f"{n}[...]", f"{n}[...]")


@view
def view_as(m: Maker) -> None:
    n = m.alias(lambda a: a.flags.c_contiguous)
    if n:
        m.view(n, f"{n}.view_as({n})", f"{n}[...]")


@view
def expand(m: Maker) -> None:
    n = m.alias(is_small)
    if n:
        dims = (2, *m.of(n).shape)
        m.view(n, f"{n}.expand({dims})", f"expanded({n}, {dims})")


@view
def unsqueeze(m: Maker) -> None:
    n = m.alias(is_small)
    if n:
        at = m.integer(0, m.of(n).ndim)
        m.view(n, f"{n}.unsqueeze({at})", f"np.expand_dims({n}, {at})")


@view
def squeeze(m: Maker) -> None:
    n = m.alias(lambda a: 1 in a.shape)
    if n:
        m.view(n, f"{n}.squeeze()", f"np.squeeze({n})")


@view
def squeeze_dim(m: Maker) -> None:
    n = m.alias(lambda a: 1 in a.shape)
    if n:
        at = m.of(n).shape.index(1)
        m.view(n, f"{n}.squeeze({m.pick((at, (at,)))})", f"np.squeeze({n}, {at})")


@view
def select(m: Maker) -> None:
    n = m.alias(lambda a: any(d > 0 for d in a.shape))
    if n:
        a = m.of(n)
        at = _axis(m, a)
        assert at is not None
        i = m.integer(-a.shape[at], a.shape[at] - 1)
        m.view(n, f"{n}.select({at}, {i})", f"{n}[{_index(a.ndim, at, str(i))}, ...]")


@view
def slice_steps(m: Maker) -> None:
    n = m.alias(lambda a: any(d > 1 for d in a.shape))
    if n:
        a = m.of(n)
        at = _axis(m, a, 2)
        assert at is not None
        text = m.pick(("1:", ":-1", "::2", "1::2", ":1", "-2:"))
        index = _index(a.ndim, at, text)
        m.view(n, f"{n}[{index}]", f"{n}[{index}]")


@view
def narrow(m: Maker) -> None:
    n = m.alias(lambda a: any(d > 1 for d in a.shape))
    if n:
        a = m.of(n)
        at = _axis(m, a, 2)
        assert at is not None
        start = m.integer(0, a.shape[at] - 1)
        size = m.integer(1, a.shape[at] - start)
        m.view(n, f"{n}.narrow({at}, {start}, {size})", f"{n}[{_index(a.ndim, at, f'{start}:{start + size}')}]")


@view
def split(m: Maker) -> None:
    n = m.alias(lambda a: any(d > 1 for d in a.shape))
    if n:
        a = m.of(n)
        at = _axis(m, a, 2)
        assert at is not None
        size = m.integer(1, a.shape[at] - 1)
        i = m.integer(0, -(-a.shape[at] // size) - 1)
        m.view(n, f"{n}.split({size}, {at})[{i}]", f"{n}[{_index(a.ndim, at, f'{i * size}:{i * size + size}')}]")


@view
def split_sizes(m: Maker) -> None:
    n = m.alias(lambda a: any(d > 1 for d in a.shape))
    if n:
        a = m.of(n)
        at = _axis(m, a, 2)
        assert at is not None
        first = m.integer(1, a.shape[at] - 1)
        m.view(n, f"{n}.split([{first}, {a.shape[at] - first}], {at})[1]", f"{n}[{_index(a.ndim, at, f'{first}:')}]")


@view
def chunk(m: Maker) -> None:
    n = m.alias(lambda a: any(d in (2, 4, 6) for d in a.shape))
    if n:
        a = m.of(n)
        at = m.pick([i for i, d in enumerate(a.shape) if d in (2, 4, 6)])
        name = m.pick(("chunk", "tensor_split"))
        m.view(n, f"{n}.{name}(2, {at})[1]", f"{n}[{_index(a.ndim, at, f'{a.shape[at] // 2}:')}]")


@view
def unbind(m: Maker) -> None:
    n = m.alias(lambda a: a.ndim > 1 and a.shape[0] > 0)
    if n:
        i = m.integer(0, m.of(n).shape[0] - 1)
        m.view(n, f"{n}.unbind(0)[{i}]", f"{n}[{i}]")


@view
def diagonal(m: Maker) -> None:
    n = m.alias(lambda a: a.ndim > 1 and min(a.shape) > 1)
    if n:
        first, second = (int(i) for i in m.rng.choice(m.of(n).ndim, 2, replace=False))
        offset = m.integer(-1, 1)
        m.view(n, f"{n}.diagonal({offset}, {first}, {second})", f"diagonal({n}, {offset}, {first}, {second})")


@view
def unfold(m: Maker) -> None:
    n = m.alias(lambda a: is_small(a) and any(d > 1 for d in a.shape))
    if n:
        a = m.of(n)
        at = _axis(m, a, 2)
        assert at is not None
        size, step = m.integer(1, 2), m.integer(1, 2)
        m.view(n, f"{n}.unfold({at}, {size}, {step})", f"unfolded({n}, {at}, {size}, {step})")


def _geometry(m: Maker, a: Array) -> tuple[tuple[int, ...], tuple[int, ...], int | None] | None:
    """A geometry within the memory of an alias."""
    total = root_of(a).nbytes // a.dtype.itemsize
    start = place_of(a)
    offset = m.pick((None, 0, 1, m.integer(0, max(total - 1, 0))))
    size = tuple(m.integer(1, 3) for _ in range(m.integer(1, 2)))
    stride = m.pick([(1,), (2,), (3,)] if len(size) == 1 else [(3, 1), (1, 3), (2, 1), (1, 2), (size[1], 1)])
    last = (start if offset is None else offset) + sum((d - 1) * s for d, s in zip(size, stride, strict=True))
    return (size, stride, offset) if last < total else None


def _strided_text(name: str, g: tuple[tuple[int, ...], tuple[int, ...], int | None]) -> str:
    size, stride, offset = g
    return f"{name}as_strided({size}, {stride}{'' if offset is None else f', {offset}'})"


@view
def as_strided(m: Maker) -> None:
    n = m.alias(lambda a: a.size > 0)
    g = _geometry(m, m.of(n)) if n else None
    if n and g is not None:
        m.view(n, _strided_text(f"{n}.", g), f"strided({n}, {g[0]}, {g[1]}, {g[2]})")


@view
def as_strided_of_detached(m: Maker) -> None:
    n = m.alias(lambda a: a.size > 0 and a.base is not None)
    g = _geometry(m, m.of(n)) if n else None
    if n and g is not None:
        m.view(n, _strided_text(f"{n}.detach().", g), f"strided({n}, {g[0]}, {g[1]}, {g[2]})")


@view
def detach(m: Maker) -> None:
    n = m.alias()
    if n:
        m.view(n, f"{n}.detach()", f"{n}[...]")


@view
def data(m: Maker) -> None:
    n = m.alias()
    if n:
        m.view(n, f"{n}.data", f"{n}[...]")


_SAME_SIZE = {"float32": "int32", "int32": "float32", "float64": "int64", "int64": "float64"}


@view
def other_dtype(m: Maker) -> None:
    n = m.alias(lambda a: a.dtype.name in _SAME_SIZE)
    if n:
        kind = _SAME_SIZE[m.of(n).dtype.name]
        m.view(n, f"{n}.view(weft.{kind})", f"{n}.view(np.{kind})")


@view
def smaller_dtype(m: Maker) -> None:
    n = m.alias(lambda a: a.dtype in (np.float32, np.int32) and a.flags.c_contiguous and 0 < a.size < 30)
    if n and m.of(n).ndim and m.of(n).shape[-1] > 1:
        m.view(n, f"{n}.view(weft.int16)", f"{n}.view(np.int16)")


@view
def view_as_real(m: Maker) -> None:
    n = m.alias(lambda a: a.dtype == np.complex64 and a.ndim < 4)
    if n:
        m.view(n, f"weft.view_as_real({n})", f"real_parts({n})")


@view
def view_as_complex(m: Maker) -> None:
    n = m.alias(
        lambda a: a.dtype == np.float32 and a.shape[-1:] == (2,) and not {0, 1} & set(a.shape)
        and a.flags.c_contiguous and place_of(a) % 2 == 0
    )
    if n:
        m.view(n, f"weft.view_as_complex({n})", f"viewed({n}.view(np.complex64), {m.of(n).shape[:-1]})")


@view
def real_part(m: Maker) -> None:
    n = m.alias(lambda a: a.dtype == np.complex64)
    if n:
        part = m.pick(("real", "imag"))
        m.view(n, f"{n}.{part}", f"{n}.{part}")


def _own(m: Maker) -> str | None:
    """An alias that the program made: how an argument lies is its caller's business."""
    found = [n for n in m.names if n.startswith("v") and 1 < m.of(n).ndim < 4]
    return m.pick(found) if found else None


@view
def transpose_in_place(m: Maker) -> None:
    n = _own(m)
    if n:
        m.add(f"{n}.transpose_(0, 1)", f"{n} = {n}.swapaxes(0, 1)", (n,))


@view
def unsqueeze_in_place(m: Maker) -> None:
    n = _own(m)
    if n:
        m.add(f"{n}.unsqueeze_(1)", f"{n} = np.expand_dims({n}, 1)", (n,))


@view
def resize_in_place(m: Maker) -> None:
    n = _own(m)
    if n and m.of(n).size > 1:
        dims = m.pick(((1,), (2,), (m.of(n).size // 2,), (1, 2)))
        strides = (1,) if len(dims) == 1 else (2, 1)
        there = root_of(m.of(n)).nbytes // m.of(n).itemsize - place_of(m.of(n))
        if dims != m.of(n).shape and int(np.prod(dims)) <= there:
            m.add(f"{n}.resize_({dims})", f"{n} = strided({n}, {dims}, {strides}, None)", (n,))


@view
def set_in_place(m: Maker) -> None:
    n = _own(m)
    other = m.alias(lambda a: n is not None and a.dtype == m.of(n).dtype)
    if n and other:
        m.add(f"{n}.set_({other})", f"{n} = {other}[...]", (n, other))


@view
def fresh(m: Maker) -> None:
    n = m.alias(lambda a: not repeats(a))
    if n:
        m.view(n, f"{n} * 2", f"np.array({n} * 2, {m.of(n).dtype.name!r})")


# ---- writes
def _target(m: Maker, test: Callable[[Array], bool] = lambda a: True) -> str | None:
    return m.alias(lambda a: a.size > 0 and not repeats(a) and test(a))


def _real(a: Array) -> bool:
    return a.dtype.kind == "f"


def _plain(name: str, weft: str, numpy: str, test: Callable[[Array], bool] = lambda a: True) -> None:
    """A write of an alias by itself; `$` is its name."""

    def step(m: Maker) -> None:
        n = _target(m, test)
        if n:
            number = str(m.integer(1, 3))
            value = numpy.replace("$", n).replace("#", number)
            m.write(n, weft.replace("$", n).replace("#", number), f"put({n}, {value})")

    step.__name__ = name
    WRITES.append(step)


_plain("add", "$.add_(#)", "$ + #")
_plain("sub", "$ -= #", "$ - #")
_plain("mul", "$.mul_(2)", "$ * 2", lambda a: abs(a.astype(complex)).max() < 1e3)
_plain("neg", "$.neg_()", "-$")
_plain("halve", "$.div_(2)", "$ / 2", _real)
_plain("clamp", "$.clamp_(-#, #)", "np.clip($, -#, #)", _real)
_plain("relu", "$.relu_()", "np.maximum($, 0)", _real)
_plain("absolute", "$.abs_()", "np.abs($)", _real)
_plain("floor", "$.floor_()", "np.floor($)", _real)
_plain("masked_fill", "$.masked_fill_($ > 0, #)", "np.where($ > 0, #, $)", _real)
_plain("mask_written", "$[$ > 1] = #", "np.where($ > 1, #, $)", _real)
_plain("compare", "$.gt_(0)", "$ > 0", _real)
_plain("where", "$.copy_(weft.where($ > 0, $, 1 - $))", "np.where($ > 0, $, 1 - $)", _real)
_plain("out", "weft.add($, #, out=$)", "$ + #", _real)
_plain("flipped", "$.copy_($.flip(0))", "np.flip($, 0)", lambda a: a.ndim > 0)
_plain("tril", "$.tril_()", "np.tril($)", lambda a: a.ndim == 2)
_plain("cumsum", "$.cumsum_(0)", "np.cumsum($, 0, np.float64)",
       lambda a: a.ndim > 0 and _real(a) and abs(a).max() < 1e3)
_plain("row", "$[0] = #", "np.where(at($, 0), #, $)", lambda a: a.ndim > 0)
_plain("rows", "$[1:] += #", "np.where(~at($, 0), $ + #, $)", lambda a: a.ndim > 0)
_plain("index_fill", "$.index_fill_(0, weft.tensor([0]), #)", "np.where(at($, 0), #, $)", lambda a: a.ndim > 0)
_plain("index_put", "$[weft.tensor([0])] = #", "np.where(at($, 0), #, $)", lambda a: a.ndim > 0)
_plain(
    "index_add", "$.index_add_(0, weft.tensor([0, 0]), weft.ones((2, *$.shape[1:]), dtype=$.dtype))",
    "np.where(at($, 0), $ + 2, $)", lambda a: a.ndim > 0)
_plain("addcmul", "$.addcmul_($, $, value=0.5)", "$ + $ * $ / 2", lambda a: _real(a) and abs(a).max() < 50)
_plain("rsub", "$.copy_(2 - $)", "2 - $", _real)
_plain("scatter", "$.scatter_(0, weft.zeros((1, *$.shape[1:]), dtype=weft.int64), #)",
       "np.where(at($, 0), #, $)", lambda a: a.ndim > 0)


@write
def fill(m: Maker) -> None:
    n = m.alias()
    if n:
        value = m.integer(-3, 3)
        m.write(n, f"{n}.fill_({value})", f"{n}[...] = {value}")


@write
def zero(m: Maker) -> None:
    n = m.alias()
    if n:
        m.write(n, f"{n}.zero_()", f"{n}[...] = 0")


def _pair(m: Maker) -> tuple[str, str] | None:
    """Two aliases, the second of which broadcasts to the first."""
    n = _target(m)
    if n is None:
        return None
    a = m.of(n)

    def fits(b: Array) -> bool:
        if b.dtype != a.dtype or b.ndim > a.ndim:
            return False
        return all(x in (1, y) for x, y in zip(reversed(b.shape), reversed(a.shape), strict=False))

    other = m.alias(fits)
    return None if other is None else (n, other)


def _of_two(name: str, weft: str, numpy: str) -> None:
    def step(m: Maker) -> None:
        pair = _pair(m)
        if pair is not None and all(np.abs(m.of(n).astype(complex)).max() < 1e3 for n in pair):
            n, o = pair
            m.write(n, weft.replace("$", n).replace("@", o), f"put({n}, {numpy.replace('$', n).replace('@', o)})", o)

    step.__name__ = name
    WRITES.append(step)


_of_two("copy", "$.copy_(@)", "np.broadcast_to(@, $.shape)")
_of_two("set_item", "$[...] = @", "np.broadcast_to(@, $.shape)")
_of_two("add_other", "$.add_(@, alpha=2)", "$ + 2 * @")
_of_two("sub_other", "$ -= @", "$ - @")
_of_two("swap_sign", "$.copy_(-@)", "np.broadcast_to(-@, $.shape)")
