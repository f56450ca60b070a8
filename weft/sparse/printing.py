"""repr of sparse tensors, as PyTorch prints them."""

from __future__ import annotations

from weft.sparse.tensor import SparseTensor
from weft.tensor.modes import modes
from weft.tensor.printing import options, tensor_text
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt
from weft.types import formats

_NAMES = {
    formats.sparse_coo: ("indices",), formats.sparse_csr: ("crow_indices", "col_indices"),
    formats.sparse_csc: ("ccol_indices", "row_indices"),
}


def text_of(tensor: SparseTensor) -> str:
    """`tensor(indices=tensor([[0], [1]]), values=tensor([2.]), size=(2, 3), nnz=1, layout=weft.sparse_coo)`."""
    body = tensor._body
    if modes.capture is not None:
        return f"tensor(..., size={_sizes(tensor)}, layout={tensor.layout})"
    index = [t for t in (body.pattern.first, body.pattern.second) if t is not None]
    parts = [f"{name}={_inner(t, name)}" for name, t in zip(_NAMES[tensor.layout], index, strict=True)]
    values = f"values={_inner(body.values, 'values')}"
    suffixes = [f"size={_sizes(tensor)}", f"nnz={body.values.dims[body.pattern.batch_dim]}"]
    if tensor.dtype not in (dt.get_default(), dt.int64, dt.bool_, dt.get_default().to_complex()):
        suffixes.append(f"dtype={tensor.dtype}")
    suffixes.append(f"layout={tensor.layout}")
    if tensor.grad_fn is not None:
        suffixes.append(f"grad_fn=<{tensor.grad_fn.name()}>")
    elif tensor.requires_grad:
        suffixes.append("requires_grad=True")
    start = "Parameter containing:\n" if tensor._is_param else ""
    head = start + "tensor(" + ",\n       ".join(parts) + ",\n       " + values
    if body.pattern.is_coo:
        head += ",\n       " + suffixes.pop(0)
    return _joined(head, suffixes) + ")"


def _joined(text: str, suffixes: list[str]) -> str:
    used = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if used + len(suffix) + 2 > options.linewidth:
            text += ",\n       " + suffix
            used = 7 + len(suffix)
        else:
            text += ", " + suffix
            used += len(suffix) + 2
    return text


def _inner(tensor: Tensor, name: str) -> str:
    """The text of an inner tensor, without its dtype, indented to where it stands."""
    plain = Tensor.detach(tensor)
    text = tensor_text(plain)
    if plain.numel() == 0:
        text = f"tensor([], size={_sizes(plain)})"
    elif plain.dtype not in (dt.get_default(), dt.int64, dt.bool_):
        text = text.replace(f",\n       dtype={plain.dtype}", "").replace(f", dtype={plain.dtype}", "")
    indent = " " * (len("tensor(") + len(name) + 1)
    return text.replace("\n", "\n" + indent)


def _sizes(tensor: Tensor) -> str:
    return f"({', '.join(map(str, tensor.shape))}{',' if tensor.ndim == 1 else ''})"
