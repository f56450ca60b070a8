"""What a random program may say: each function adds one statement (or none where nothing fits) in its weft
and its NumPy form."""

from __future__ import annotations

from collections.abc import Callable

from tests.agree.generate import Maker, Variable, broadcast, product, size_at_least, tuple_text

UNARY = {
    "weft.relu($0)": "np.maximum($0, 0)", "weft.tanh($0)": "np.tanh($0)", "$0.neg()": "-$0",
    "weft.sigmoid($0)": "1 / (1 + np.exp(-$0))", "weft.sin($0)": "np.sin($0)", "$0.abs()": "np.abs($0)",
    "$0 * $0": "$0 * $0", "$0.clone()": "np.array($0)", "weft.exp(-$0.abs())": "np.exp(-np.abs($0))",
    "weft.where($0 > 0.1, $0, -0.5)": "np.where($0 > 0.1, $0, -0.5)", "$0.clamp(-0.7, 0.6)": "np.clip($0, -0.7, 0.6)",
    "weft.sqrt($0 * $0 + 1)": "np.sqrt($0 * $0 + 1)", "$0.contiguous().clone()": "np.array($0)",
}


def unary(m: Maker) -> None:
    """A pointwise operator."""
    v = m.variable()
    weft = str(m.pick(list(UNARY)))
    m.fresh(weft, UNARY[weft], [v], v.shape, v.is_fresh)


def number(m: Maker) -> None:
    """Arithmetic with a number."""
    v = m.variable()
    text = f"$0 {m.pick(['*', '+', '-'])} {m.number()}"
    m.fresh(text, text, [v], v.shape, v.is_fresh)


def binary(m: Maker) -> None:
    """Arithmetic of two tensors, broadcast."""
    v = m.variable()
    w = m.variable(lambda u: broadcast(u.shape, v.shape) is not None)
    text = f"$0 {m.pick(['+', '-', '*'])} $1"
    m.fresh(text, text, [v, w], broadcast(v.shape, w.shape), v.is_fresh and w.is_fresh and v.shape == w.shape)


def choose(m: Maker) -> None:
    """where on tensors."""
    v = m.variable()
    w = m.variable(lambda u: u.shape == v.shape)
    m.fresh("weft.where($0 < $1, $0 * 0.5, $1)", "np.where($0 < $1, $0 * 0.5, $1)", [v, w], v.shape)


def reduce(m: Maker) -> None:
    """A reduction over one dim or all."""
    v = m.variable()
    at = m.axis(v)
    name = str(m.pick(["sum", "mean", "amax", "amin"]))
    if at is None or m.rng.random() < 0.2:
        if name in ("sum", "mean"):
            m.fresh(f"$0.{name}()", f"$0.{name}()", [v], ())
        return
    keep = bool(m.rng.integers(2))
    shape = v.shape[:at] + (("1",) if keep else ()) + v.shape[at + 1 :]
    numpy_name = {"amax": "max", "amin": "min"}.get(name, name)
    m.fresh(f"$0.{name}({at}, keepdim={keep})", f"$0.{numpy_name}({at}, keepdims={keep})", [v], shape)


def along(m: Maker) -> None:
    """softmax and cumsum along a dim."""
    v = m.variable(lambda u: len(u.shape) > 0)
    at = m.axis(v)
    if m.rng.random() < 0.5:
        m.fresh(
            f"$0.softmax({at})",
            (
                f"np.exp($0 - $0.max({at}, keepdims=True)) / np.exp($0 - $0.max({at}, keepdims=True)).sum({at}, "
                "keepdims=True)"
            ),
            [v], v.shape,
        )
    else:
        m.fresh(f"$0.cumsum({at})", f"np.cumsum($0, {at})", [v], v.shape)


def matmul(m: Maker) -> None:
    """A matrix product."""
    v = m.variable(lambda u: len(u.shape) == 2)
    if v is None:
        return
    w = m.variable(lambda u: len(u.shape) in (1, 2) and u.shape[0] == v.shape[1])
    if w is None:
        m.fresh("$0 @ $0.t()", "$0 @ $0.T", [v], (v.shape[0], v.shape[0]))
    else:
        m.fresh("$0 @ $1", "$0 @ $1", [v, w], (v.shape[0], *w.shape[1:]))


DEFINITE = (
    "(weft.tanh($0) @ weft.tanh($0).mT + 2 * weft.eye($0.shape[-2], dtype=$0.dtype, device=$0.device))",
    "(np.tanh($0) @ np.swapaxes(np.tanh($0), -2, -1) + 2 * np.eye($0.shape[-2], dtype=$0.dtype))",
)
OF_MATRICES = {  # with the dims of the result behind the batch's: rows, columns
    "weft.linalg.cholesky(S)": ("np.linalg.cholesky(S)", "rr"),
    "weft.linalg.inv(S)": ("np.linalg.inv(S)", "rr"),
    "weft.linalg.solve(S, $0)": ("np.linalg.solve(S, $0)", "rc"),
    "weft.linalg.solve_triangular(S.mT, $0, upper=True)": ("np.linalg.solve(np.triu(S), $0)", "rc"),
    "weft.linalg.slogdet(S)[1]": ("np.linalg.slogdet(S)[1]", ""),
    "weft.linalg.det(S / 2).log()": ("np.log(np.linalg.det(S / 2))", ""),
}


def of_matrices(m: Maker) -> None:
    """A factor, an inverse, a solution or a determinant of matrices that have one."""
    v = m.variable(lambda u: len(u.shape) > 1)
    if v is None:
        return
    weft = str(m.pick(list(OF_MATRICES)))
    numpy, dims = OF_MATRICES[weft]
    *batch, rows, columns = v.shape
    shape = (*batch, *(rows if d == "r" else columns for d in dims))
    m.fresh(weft.replace("S", DEFINITE[0]), numpy.replace("S", DEFINITE[1]), [v], shape)


def join(m: Maker) -> None:
    """cat and stack."""
    v = m.variable(lambda u: len(u.shape) > 0)
    w = m.variable(lambda u: u.shape == v.shape)
    at = m.axis(v)
    if m.rng.random() < 0.5:
        size = str(2 * int(v.shape[at])) if v.shape[at].isdigit() else f"2*({v.shape[at]})"
        m.fresh(
            f"weft.cat([$0, $1], {at})", f"np.concatenate([$0, $1], {at})", [v, w],
            (*v.shape[:at], size, *v.shape[at + 1:]),
        )
    elif len(v.shape) < 4:
        m.fresh(f"weft.stack([$0, $1], {at})", f"np.stack([$0, $1], {at})", [v, w], (*v.shape[:at], "2", *v.shape[at:]))


def factory(m: Maker) -> None:
    """A new tensor of a size read from the arguments, which later statements may fill."""
    v = m.variable(lambda u: len(u.shape) > 0)
    shape = tuple_text(v.shape)
    m.fresh(f"weft.zeros({shape}, dtype=$0.dtype)", f"np.zeros({shape}, $0.dtype)", [v], v.shape, is_fresh=True)


# ---- views
def transpose(m: Maker) -> None:
    """Two dims exchanged, or all permuted."""
    v = m.variable(lambda u: len(u.shape) > 1)
    if v is None:
        return
    order = [int(i) for i in m.rng.permutation(len(v.shape))]
    if m.rng.random() < 0.5:
        i, j = order[:2]
        order = list(range(len(v.shape)))
        order[i], order[j] = order[j], order[i]
        weft, numpy = f"$0.transpose({i}, {j})", f"np.swapaxes($0, {i}, {j})"
    else:
        weft, numpy = f"$0.permute({', '.join(map(str, order))})", f"np.transpose($0, {order})"
    m.view(weft, numpy, v, tuple(v.shape[i] for i in order))


def select(m: Maker) -> None:
    """One index of a dim."""
    v = m.variable(lambda u: len(u.shape) > 0)
    at = m.axis(v)
    index = int(m.pick([0, -1]))
    if m.rng.random() < 0.5:
        m.view(f"$0.select({at}, {index})", f"$0[{':, ' * at}{index}, ...]", v, v.shape[:at] + v.shape[at + 1 :])
    else:
        text = f"$0[{':, ' * at}{index}]"
        m.view(text, f"$0[{':, ' * at}{index}, ...]", v, v.shape[:at] + v.shape[at + 1 :])


def cut(m: Maker) -> None:
    """A slice or narrow of a dim of known size, or a step through any."""
    v = m.variable(lambda u: len(u.shape) > 0)
    at = m.axis(v, lambda d: size_at_least(d, 2))
    if at is None:
        at = m.axis(v)
        size = v.shape[at]
        text = f"$0[{':, ' * at}::2]"
        m.view(text, text, v, (*v.shape[:at], f"(({size}) + 1) // 2", *v.shape[at + 1:]))
        return
    size = int(v.shape[at])
    start = int(m.rng.integers(0, size))
    length = int(m.rng.integers(1, size - start + 1))
    shape = (*v.shape[:at], str(length), *v.shape[at + 1:])
    text = f"$0[{':, ' * at}{start}:{start + length}]"
    m.view(f"$0.narrow({at}, {start}, {length})" if m.rng.random() < 0.5 else text, text, v, shape)


def halves(m: Maker) -> None:
    """The front of a dim, its length computed from a symbol."""
    v = m.variable(lambda u: any(d.isalpha() for d in u.shape))
    if v is None:
        return
    at = m.axis(v, str.isalpha)
    size = v.shape[at]
    text = f"$0[{':, ' * at}:({size} + 1) // 2]"
    m.view(text, text, v, (*v.shape[:at], f"({size} + 1) // 2", *v.shape[at + 1:]))


def flatten(m: Maker) -> None:
    """Dims joined: a view where strides allow it, else a copy (in both forms alike)."""
    v = m.variable(lambda u: len(u.shape) > 1)
    if v is None:
        return
    size = product(v.shape)
    if not m.is_certain(v):
        m.fresh(f"$0.reshape({size}).clone()", f"np.array($0.reshape({size}))", [v], (size,), is_fresh=True)
        return
    verb = "view" if v.is_fresh and m.rng.random() < 0.5 else "reshape"
    m.view(f"$0.{verb}({size})", f"$0.reshape({size})", v, (size,), is_fresh=v.is_fresh)


def regroup(m: Maker) -> None:
    """A dim of known size split, or two dims joined."""
    v = m.variable(lambda u: len(u.shape) > 1 and len(u.shape) < 5)
    if v is None:
        return
    i = int(m.rng.integers(len(v.shape) - 1))
    joined = product(v.shape[i : i + 2])
    shape = (*v.shape[:i], joined, *v.shape[i + 2 :])
    if not m.is_certain(v):
        m.fresh(
            f"$0.reshape({', '.join(shape)}).clone()", f"np.array($0.reshape({tuple_text(shape)}))", [v], shape,
            is_fresh=True,
        )
        return
    m.view(f"$0.reshape({', '.join(shape)})", f"$0.reshape({tuple_text(shape)})", v, shape, is_fresh=v.is_fresh)


def unsqueeze(m: Maker) -> None:
    """A dim of size 1 put in or taken out."""
    v = m.variable(lambda u: len(u.shape) < 4)
    if v is None:
        return
    ones = [i for i, d in enumerate(v.shape) if d == "1"]
    if ones and m.rng.random() < 0.5:
        at = ones[0]
        m.view(f"$0.squeeze({at})", f"np.squeeze($0, {at})", v, v.shape[:at] + v.shape[at + 1 :])
        return
    at = int(m.rng.integers(len(v.shape) + 1))
    m.view(f"$0.unsqueeze({at})", f"np.expand_dims($0, {at})", v, (*v.shape[:at], "1", *v.shape[at:]))


def expand(m: Maker) -> None:
    """A dim repeated without memory; never written."""
    v = m.variable(lambda u: "1" in u.shape or len(u.shape) < 3)
    if v is None:
        return
    size = str(m.pick(["2", *[d for u in m.variables for d in u.shape if d.isalpha()]]))
    if "1" in v.shape:
        at = v.shape.index("1")
        shape = (*v.shape[:at], size, *v.shape[at + 1:])
    else:
        shape = (size, *v.shape)
    m.view(f"$0.expand({', '.join(shape)})", f"np.broadcast_to($0, {tuple_text(shape)})", v, shape, can_write=False)


def diagonal(m: Maker) -> None:
    """The diagonal of two dims of one size."""
    v = m.variable(lambda u: len(u.shape) > 1 and u.shape[0] == u.shape[1])
    if v is None:
        return
    m.view("$0.diagonal(dim1=0, dim2=1)", "np.einsum('ii...->...i', $0)", v, (*v.shape[2:], v.shape[0]))


def windows(m: Maker) -> None:
    """as_strided over the memory of a fresh tensor of known size: overlapping windows when they are only read."""
    v = m.variable(lambda u: u.is_fresh and u.name == u.root and u.shape != () and all(d.isdigit() for d in u.shape))
    if v is None:
        return
    count = int(product(v.shape))
    rows = int(m.rng.integers(1, count + 1))
    columns = count - rows + 1
    step = "np.lib.stride_tricks.as_strided($0, {}, tuple(s * $0.itemsize for s in {}))"
    if m.rng.random() < 0.5:
        dims, strides = (rows, columns), (1, 1)
        m.view(
            f"$0.as_strided({dims}, {strides})", step.format(dims, strides), v, (str(rows), str(columns)),
            can_write=False,
        )
    else:
        dims, strides = (count // 2 + count % 2,), (2,)
        m.view(f"$0.as_strided({dims}, {strides})", step.format(dims, strides), v, (str(dims[0]),))


def pieces(m: Maker) -> None:
    """unbind, split and chunk of a dim of known size."""
    v = m.variable(lambda u: any(d.isdigit() and int(d) >= 2 for d in u.shape))
    if v is None:
        return
    at = m.axis(v, lambda d: d.isdigit() and int(d) >= 2)
    size = int(v.shape[at])
    kind = str(m.pick(["unbind", "split", "chunk"]))
    first = m.fresh_name()
    second = f"v{int(first[1:]) + 1}"
    rest = v.shape[:at], v.shape[at + 1 :]
    index = ":, " * at
    if kind == "unbind":
        weft = f"{first}, {second} = $0.unbind({at})[:2]"
        numpy = f"{first}, {second} = $0[{index}0, ...], $0[{index}1, ...]"
        shapes = [(*rest[0], *rest[1])] * 2
    else:
        length = (size + 1) // 2
        call = f"split({length}, {at})" if kind == "split" else f"chunk(2, {at})"
        weft = f"{first}, {second} = $0.{call}"
        numpy = f"{first}, {second} = $0[{index}:{length}], $0[{index}{length}:]"
        shapes = [(*rest[0], str(n), *rest[1]) for n in (length, size - length)]
    m.line(weft, numpy, [v], (first, second))
    for name, shape in zip((first, second), shapes, strict=True):
        m.variables.append(Variable(name, shape, v.root, False, v.can_write and not m.wants_grad))


# ---- writes
def _target(m: Maker) -> Variable | None:
    return m.variable(lambda u: u.can_write and not (m.wants_grad and u.root.startswith("w")))


def write(m: Maker) -> None:
    """An in-place operator with a tensor."""
    v = _target(m)
    w = m.variable(lambda u: v is not None and broadcast(u.shape, v.shape) == v.shape)
    if v is None or w is None:
        return
    weft, numpy = m.pick([
        ("$0.add_($1)", "np.add($0, $1, out=$0)"), ("$0.mul_($1)", "np.multiply($0, $1, out=$0)"),
        ("$0.copy_($1)", "np.copyto($0, $1)"),
        ("$0[...] = $1", "$0[...] = $1"), ("$0.sub_($1, alpha=0.5)", "np.subtract($0, 0.5 * $1, out=$0)"),
    ])
    m.line(str(weft), str(numpy), [v, w])


def write_number(m: Maker) -> None:
    """An in-place operator with a number."""
    v = _target(m)
    if v is None:
        return
    n = m.number()
    weft, numpy = m.pick([
        (f"$0.add_({n})", f"np.add($0, {n}, out=$0)"), (f"$0.mul_({n})", f"np.multiply($0, {n}, out=$0)"),
        ("$0.zero_()", "$0[...] = 0"),
        (f"$0.fill_({n})", f"$0[...] = {n}"), ("$0.relu_()", "np.maximum($0, 0, out=$0)"),
        ("$0.tanh_()", "np.tanh($0, out=$0)"),
        ("$0.clamp_(-0.5, 0.8)", "np.clip($0, -0.5, 0.8, out=$0)"),
    ])
    m.line(str(weft), str(numpy), [v])


def write_part(m: Maker) -> None:
    """Assignment to a part."""
    v = _target(m)
    if v is None or not v.shape:
        return
    at = m.axis(v)
    index = ":, " * at + str(m.pick(["0", "-1", "::2", ":1"]))
    rest = v.shape[at + 1 :]
    w = m.variable(lambda u: broadcast(u.shape, rest) == rest)
    if w is None or m.rng.random() < 0.3:
        n = m.number()
        m.line(f"$0[{index}] = {n}", f"$0[{index}] = {n}", [v])
        return
    m.line(f"$0[{index}] = $1", f"$0[{index}] = np.array($1)", [v, w])


READS: list[tuple[Callable[[Maker], None], float]] = [
    (unary, 3), (number, 1), (binary, 3), (choose, 1), (reduce, 2), (along, 1), (matmul, 2), (join, 1), (factory, 0.7),
    (of_matrices, 0.7),
]
VIEWS: list[tuple[Callable[[Maker], None], float]] = [
    (transpose, 1.5), (select, 1.2), (cut, 1.5), (halves, 1), (flatten, 1), (regroup, 1), (unsqueeze, 1), (expand, 1),
    (diagonal, 1), (windows, 0.7),
    (pieces, 1),
]
WRITES: list[tuple[Callable[[Maker], None], float]] = [(write, 3), (write_number, 2), (write_part, 2)]
STATEMENTS = [f for f, _ in (*READS, *VIEWS, *WRITES)]
WEIGHTS = [w for _, w in (*READS, *VIEWS, *WRITES)]
