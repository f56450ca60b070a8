"""Sparse tensors beside dense ones: values, gradients, duplicates, no values, several calls of a program."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft

F = Callable[[Any], Any]
LAYOUTS = ["sparse_coo", "sparse_csr", "sparse_csc"]


def matrix(rng: Any, n: int, m: int, dtype: Any = np.float64) -> Any:
    values = rng.standard_normal((n, m)) * (rng.random((n, m)) < 0.4)
    if np.dtype(dtype).kind == "c":
        values = values * (1 + 2j)
    return weft.from_numpy((values * 9).astype(dtype))


def same(sparse: Any, dense: Any) -> None:
    assert sparse.shape == dense.shape and sparse.dtype is dense.dtype
    np.testing.assert_allclose(sparse.to_dense().detach().numpy(), dense.detach().numpy(), rtol=1e-6, atol=1e-7)


@pytest.fixture
def sizes(rng: Any) -> tuple[int, int]:
    return int(rng.integers(2, 7)), int(rng.integers(2, 7))


UNARY: dict[str, F] = {
    "neg": lambda x: -x, "number": lambda x: x * 3, "half": lambda x: x / 2, "abs": lambda x: x.abs(),
    "sum": lambda x: x.sum(), "clone": lambda x: x.clone(), "transposed": lambda x: x.t(), "twice": lambda x: x + x,
    "square": lambda x: x * x, "less": lambda x: x - x.clone(), "row": lambda x: x[1], "product": lambda x: x @ x.t(),
    "chosen": lambda x: x.index_select(0, weft.tensor([1, 0, 1])), "joined": lambda x: weft.cat([x, x]),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128", "int64"])
def test_operators_give_what_they_give_on_dense_tensors(layout: str, dtype: str, rng: Any, sizes: Any) -> None:
    for dense in (matrix(rng, *sizes, dtype), matrix(rng, *sizes, dtype) * 0):
        sparse = dense.to_sparse(layout=getattr(weft, layout))
        assert sparse.layout is getattr(weft, layout)
        for name, function in UNARY.items():
            if name == "product" and layout == "sparse_csc":
                continue
            same(function(sparse), function(dense))
        other = matrix(rng, sizes[1], 3, dtype)
        same(sparse @ other, dense @ other)
        same(dense + sparse, dense + dense)
        same(sparse * dense, dense * dense)


def test_values_of_one_place_are_added(rng: Any) -> None:
    places, values = rng.integers(0, 3, (2, 12)), rng.standard_normal(12)
    sparse = weft.sparse_coo_tensor(places, values, (3, 3))
    dense = np.zeros((3, 3))
    np.add.at(dense, tuple(places), values)
    truth = weft.from_numpy(dense)
    for function in (lambda x: x, lambda x: x.sin(), lambda x: x * x, lambda x: x + x, lambda x: x @ x):
        same(function(sparse), function(truth))
    assert sparse.coalesce()._nnz() == len(set(zip(*places.tolist(), strict=True)))
    with pytest.raises(RuntimeError, match="uncoalesced"):
        sparse.indices()


def test_hybrid_tensors(rng: Any) -> None:
    dense = weft.from_numpy(rng.standard_normal((3, 4, 2)))
    dense[1] = 0
    for count in (1, 2, 3):
        sparse = dense.to_sparse(count)
        assert (sparse.sparse_dim(), sparse.dense_dim()) == (count, 3 - count)
        for function in (lambda x: x.sum(0), lambda x: x.sum((0, 2)), lambda x: x * 2, lambda x: x[2]):
            same(function(sparse), function(dense))


LOSSES: dict[str, Callable[[Any, Any], Any]] = {
    "mm": lambda s, d: (s @ d).sin().sum(), "spmm": lambda s, d: (s @ s.t()).to_dense().sin().sum(),
    "sum": lambda s, d: (s * s).sum(), "mul": lambda s, d: (s * d.t()).to_dense().cos().sum(),
    "tanh": lambda s, d: s.tanh().to_dense().pow(2).sum(),
    "softmax": lambda s, d: weft.sparse.softmax(s, 1).to_dense().pow(2).sum(),
    "chosen": lambda s, d: s.index_select(1, weft.tensor([1, 1, 0])).to_dense().sin().sum(),
}


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_by_central_differences(name: str, rng: Any) -> None:
    places = weft.tensor([[0, 1, 2, 2], [1, 0, 0, 3]])
    values = weft.from_numpy(rng.standard_normal(4)).requires_grad_()
    dense = weft.from_numpy(rng.standard_normal((4, 3))).requires_grad_()

    def loss(v: Any, d: Any) -> Any:
        return LOSSES[name](weft.sparse_coo_tensor(places, v, (3, 4), is_coalesced=True), d)

    assert weft.autograd.gradcheck(loss, (values, dense))
    assert weft.autograd.gradgradcheck(loss, (values, dense))


def test_the_gradient_of_a_sparse_leaf_is_sparse(rng: Any) -> None:
    dense = matrix(rng, 3, 4)
    leaf, other = dense.to_sparse().requires_grad_(), weft.ones(4, 2, dtype=weft.float64)
    for k in (1, 2):
        (leaf @ other).sum().backward()
        assert leaf.grad.layout is weft.sparse_coo
        same(leaf.grad, (dense != 0).double() * 2 * k)


def test_embeddings_have_sparse_gradients(rng: Any) -> None:
    for module in (weft.nn.Embedding, weft.nn.EmbeddingBag):
        table = weft.nn.Parameter(weft.from_numpy(rng.standard_normal((5, 2))))
        sparse, plain = (module(5, 2, sparse=s, _weight=table.detach().clone(), padding_idx=1) for s in (True, False))
        sparse.weight.requires_grad_(), plain.weight.requires_grad_()
        for _ in range(2):
            index = weft.from_numpy(rng.integers(0, 5, (3, 4)))
            for layer in (sparse, plain):
                layer(index).sin().sum().backward()
        assert sparse.weight.grad.layout is weft.sparse_coo
        same(sparse.weight.grad, plain.weight.grad)
        total = weft.nn.utils.clip_grad_norm_(plain.parameters(), 0.1)
        assert weft.allclose(weft.nn.utils.clip_grad_norm_(sparse.parameters(), 0.1), total)
        same(sparse.weight.grad, plain.weight.grad)


def test_other_optimizers_refuse_sparse_gradients() -> None:
    layer = weft.nn.Embedding(4, 2, sparse=True)
    double = weft.nn.Parameter(weft.ones(4, 2, dtype=weft.complex64))
    (layer(weft.tensor([1, 1, 3])) ** 2).sum().backward()
    weft.nn.functional.embedding(weft.tensor([1]), double, sparse=True).abs().sum().backward()
    for parameters in (layer.parameters(), [double]):
        params = list(parameters)
        for optimizer in (weft.optim.Adam(params), weft.optim.RMSprop(params)):
            with pytest.raises(RuntimeError, match="does not support sparse gradients"):
                optimizer.step()
    with pytest.raises(RuntimeError, match="weight_decay"):
        weft.optim.SGD(layer.parameters(), lr=0.1, weight_decay=0.1).step()
    with pytest.raises(RuntimeError, match="consider Adam instead"):
        layer.weight.grad = layer.weight.grad.to_dense()
        weft.optim.SparseAdam(layer.parameters()).step()


def test_one_program_serves_other_patterns(rng: Any) -> None:
    product = weft.compile(lambda a, b: a @ b)
    for n in (3, 4, 6):
        dense, other = matrix(rng, n, 5), matrix(rng, 5, 2)
        same(product(dense.to_sparse(), other), dense @ other)


def test_copies_and_files(rng: Any) -> None:
    for layout in LAYOUTS:
        dense = matrix(rng, 3, 4)
        sparse = dense.to_sparse(layout=getattr(weft, layout))
        for copied in (copy.deepcopy(sparse), pickle.loads(pickle.dumps(sparse))):
            assert copied.layout is sparse.layout
            same(copied, dense)


def test_what_has_no_meaning_is_refused() -> None:
    sparse = weft.eye(2).to_sparse()
    with pytest.raises(NotImplementedError, match=r"'aten::cos' with arguments of layout weft.sparse_coo"):
        sparse.cos()
    with pytest.raises(NotImplementedError, match="none of blocks"):
        weft.eye(2).to_sparse_bsr((1, 1))
    with pytest.raises(BufferError, match="strided"):
        sparse.__dlpack__()
    with pytest.raises(RuntimeError, match="to_dense"):
        sparse + 1


@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin"])
def test_products_that_are_reduced_otherwise(reduce: str, rng: Any) -> None:
    dense, right = matrix(rng, 5, 4), weft.from_numpy(rng.standard_normal((4, 3)))
    truth = np.zeros((5, 3))
    for i in range(5):
        columns = np.flatnonzero(dense[i].numpy())
        if len(columns):
            truth[i] = getattr(np, reduce)(dense[i].numpy()[columns, None] * right.numpy()[columns], 0)
    product = weft.sparse.mm(dense.to_sparse_csr(), right, reduce)
    np.testing.assert_allclose(product.numpy(), truth, 1e-9)
    values = dense.to_sparse().values().requires_grad_()
    places = dense.to_sparse().indices()
    assert weft.autograd.gradcheck(
        lambda v, r: weft.sparse.mm(weft.sparse_coo_tensor(places, v, (5, 4), is_coalesced=True), r, reduce),
        (values, right.requires_grad_()),
    )


def test_rows_as_starts_and_back(rng: Any) -> None:
    rows = np.sort(rng.integers(0, 5, 9))
    starts = weft._convert_indices_from_coo_to_csr(weft.from_numpy(rows), 5, out_int32=True)
    assert starts.tolist() == np.searchsorted(rows, np.arange(6)).tolist() and starts.dtype is weft.int32
    columns = weft.from_numpy(rng.integers(0, 4, 9))
    pair = weft._convert_indices_from_csr_to_coo(starts, columns, transpose=True)
    assert pair.tolist() == [columns.tolist(), rows.tolist()]


def test_assert_close_compares_layouts_and_elements() -> None:
    sparse = weft.eye(3).to_sparse()
    weft.testing.assert_close(sparse, (sparse + sparse) / 2)
    weft.testing.assert_close(sparse, weft.eye(3), check_layout=False)
    for other in (weft.eye(3), sparse * 2, sparse.to_sparse_csr()):
        with pytest.raises(AssertionError, match=r"'layout' do not match|not close"):
            weft.testing.assert_close(sparse, other)
