"""einsum: sums of products named by subscripts, as permutes, reshapes and batched matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.catalogue.samples import F, case, draw
from weft.ops.op import define
from weft.ops.packet import aten
from weft.support.errors import ShapeError
from weft.types import dims as dm
from weft.types import shape_env
from weft.types.dims import Dim, is_one

Labels = list[Any]  # a letter, or ("...", k) for the k-th dim (from the right) that an ellipsis covers


def _einsum(equation: str, tensors: Sequence[Any], path: Any = None) -> Any:
    if not tensors:
        raise ShapeError("einsum(): must provide at least one operand")
    inputs, output = _parse(equation, tensors)
    operands = [_with_distinct(t, labels) for t, labels in zip(tensors, inputs, strict=True)]
    sizes = _sizes(operands)
    operands = [(_expanded(t, labels, sizes), labels) for t, labels in operands]
    joined, labels = operands[0]
    for i, (other, other_labels) in enumerate(operands[1:], 1):
        later = {label for _, rest in operands[i + 1 :] for label in rest} | set(output)
        joined, labels = _contract(joined, labels, other, other_labels, later)
    summed = [i for i, label in enumerate(labels) if label not in output]
    if summed:
        joined = aten.sum(joined, summed)
        labels = [label for label in labels if label in output]
    return aten.permute(joined, [labels.index(label) for label in output])


# ---- reading the equation


def _parse(equation: str, tensors: Sequence[Any]) -> tuple[list[Labels], Labels]:
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(tensors):
        count = "more" if len(terms) < len(tensors) else "fewer"
        raise ShapeError(f"einsum(): {count} operands were provided than specified in the equation")
    inputs = [_labels(term, t.ndim, i) for i, (term, t) in enumerate(zip(terms, tensors, strict=True))]
    return inputs, _output(right, inputs) if arrow else _implied(inputs)


def _letters(term: str, where: str) -> list[Any]:
    before, dots, after = term.partition("...")
    letters: list[Any] = [*before, *([...] if dots else []), *after]
    for c in letters:
        if c is not ... and not c.isalpha():
            if c == ".":
                raise ShapeError(f"einsum(): found '.' for {where} that is not part of any ellipsis")
            raise ShapeError(
                "einsum(): invalid subscript given at index in the equation string, "
                f"subscripts must be in [a-zA-Z], got {c!r}"
            )
    return letters


def _labels(term: str, ndim: int, index: int) -> Labels:
    letters = _letters(term, f"operand {index}")
    named = sum(c is not ... for c in letters)
    if ... not in letters and named != ndim:
        raise ShapeError(
            f"einsum(): the number of subscripts in the equation ({named}) does not match the number of dimensions "
            f"({ndim}) for operand {index} and no ellipsis was given"
        )
    if named > ndim:
        raise ShapeError(
            f"einsum(): the number of subscripts in the equation ({named}) is more than the number of dimensions "
            f"({ndim}) for operand {index}"
        )
    return _with_ellipsis(letters, ndim - named)


def _with_ellipsis(letters: Sequence[Any], covered: int) -> Labels:
    out: Labels = []
    for c in letters:
        out.extend([("...", k) for k in range(covered - 1, -1, -1)] if c is ... else [c])
    return out


def _implied(inputs: list[Labels]) -> Labels:
    """Without an arrow: the ellipsis' dims, then letters that occur once, in alphabetical order."""
    flat = [label for labels in inputs for label in labels]
    return _covered(inputs) + sorted(label for label in set(flat) if isinstance(label, str) and flat.count(label) == 1)


def _covered(inputs: list[Labels]) -> Labels:
    ellipses = {label for labels in inputs for label in labels if not isinstance(label, str)}
    return sorted(ellipses, key=lambda label: -label[1])


def _output(term: str, inputs: list[Labels]) -> Labels:
    letters = _letters(term, "the output")
    input_labels = {label for labels in inputs for label in labels}
    for c in letters:
        if c is ...:
            continue
        if letters.count(c) > 1:
            raise ShapeError(f"einsum(): output subscript {c} appears more than once in the output")
        if c not in input_labels:
            raise ShapeError(f"einsum(): output subscript {c} does not appear in the equation for any input operand")
    return _with_ellipsis(letters, len(_covered(inputs)))


# ---- one operand


def _with_distinct(tensor: Any, labels: Labels) -> tuple[Any, Labels]:
    """A label that occurs twice in one operand means its diagonal."""
    labels = list(labels)
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            a = labels.index(label)
            b = labels.index(label, a + 1)
            if not shape_env.equal(tensor.dims[a], tensor.dims[b]):
                raise ShapeError(
                    f"einsum(): subscript {label} is repeated for an operand but the sizes don't match, "
                    f"{tensor.dims[b]} != {tensor.dims[a]}"
                )
            tensor = aten.diagonal(tensor, 0, a, b)
            labels = [x for i, x in enumerate(labels) if i not in (a, b)] + [label]
    return tensor, labels


def _sizes(operands: Sequence[tuple[Any, Labels]]) -> dict[Any, Dim]:
    sizes: dict[Any, Dim] = {}
    for tensor, labels in operands:
        for label, size in zip(labels, tensor.dims, strict=True):
            seen = sizes.get(label, 1)
            if is_one(seen):
                sizes[label] = size
            elif is_one(size) or shape_env.equal(seen, size) or shape_env.equal(size, 1):
                continue
            elif shape_env.equal(seen, 1):
                sizes[label] = size
            else:
                raise ShapeError(
                    f"einsum(): operands do not broadcast with remapped shapes: subscript {label} has size {size} "
                    f"which does not broadcast with previously seen size {seen}"
                )
    return sizes


def _expanded(tensor: Any, labels: Labels, sizes: dict[Any, Dim]) -> Any:
    wanted = [sizes[label] for label in labels]
    return tensor if list(tensor.dims) == wanted else aten.expand(tensor, wanted)


# ---- two operands


def _contract(a: Any, a_labels: Labels, b: Any, b_labels: Labels, later: set[Any]) -> tuple[Any, Labels]:
    """Multiply two operands and sum over what nobody needs any more, as one batched matrix product."""
    a, a_labels = _sum_out(a, a_labels, later | set(b_labels))
    b, b_labels = _sum_out(b, b_labels, later | set(a_labels))
    shared = [label for label in a_labels if label in b_labels]
    batch = [label for label in shared if label in later]
    inner = [label for label in shared if label not in later]
    rows = [label for label in a_labels if label not in shared]
    columns = [label for label in b_labels if label not in shared]
    if not inner:
        return _multiplied(a, a_labels, b, b_labels, batch, rows, columns)
    size = {label: d for t, labels in ((a, a_labels), (b, b_labels)) for label, d in zip(labels, t.dims, strict=True)}

    def many(labels: Labels) -> Dim:
        return dm.product(size[label] for label in labels)

    left = _arranged(a, a_labels, batch + rows + inner, [many(batch), many(rows), many(inner)])
    right = _arranged(b, b_labels, batch + inner + columns, [many(batch), many(inner), many(columns)])
    labels = batch + rows + columns
    product = aten.bmm(left, right) if batch else aten.mm(aten.squeeze(left, 0), aten.squeeze(right, 0))
    return aten.reshape(product, [size[label] for label in labels]), labels


def _sum_out(t: Any, labels: Labels, needed: set[Any]) -> tuple[Any, Labels]:
    summed = [i for i, label in enumerate(labels) if label not in needed]
    return (aten.sum(t, summed), [label for label in labels if label in needed]) if summed else (t, labels)


def _arranged(t: Any, labels: Labels, order: Labels, dims: list[Dim]) -> Any:
    return aten.reshape(aten.permute(t, [labels.index(label) for label in order]), dims)


def _multiplied(
    a: Any, a_labels: Labels, b: Any, b_labels: Labels, batch: Labels, rows: Labels, columns: Labels
) -> tuple[Any, Labels]:
    left = aten.permute(a, [a_labels.index(label) for label in batch + rows])
    right = aten.permute(b, [b_labels.index(label) for label in batch + columns])
    for _ in columns:
        left = aten.unsqueeze(left, left.ndim)
    for _ in rows:
        right = aten.unsqueeze(right, len(batch))
    return left * right, batch + rows + columns


define(
    "aten::einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor",
    "Sums of products: `bij,bjk->bik`. Letters name dims, letters missing from the output are summed, "
    "`...` broadcasts.",
    decompose=_einsum,
    public=("weft",),
    samples=draw(
        case("ij,jk->ik", (F(2, 3), F(3, 4))), case("bij,bkj,k->bi", (F(2, 3, 4), F(2, 5, 4), F(5))),
        case("...ii->...i", (F(2, 3, 3),)), case("ij,kl", (F(2, 2), F(1, 3))),
    ),
    reference=lambda equation, tensors, path: np.einsum(equation, *tensors),
)
define(
    "aten::einsum.one(str equation, Tensor tensor, *, int[]? path=None) -> Tensor",
    "Sums, diagonals and reorderings of one tensor: `ii->i`.",
    decompose=lambda equation, tensor, path: _einsum(equation, (tensor,), path),
    public=("weft",),
    samples=draw(case("ii->i", F(3, 3)), case("...ij->...ji", F(2, 3, 4))),
    reference=lambda equation, tensor, path: np.einsum(equation, tensor),
)
