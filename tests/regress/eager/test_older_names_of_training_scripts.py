"""Names that older training scripts use: torch.sparse.FloatTensor, a sampler of more draws than memory holds,
torch.distributed.rpc, which may be imported, classes in the namespace of a module of PyTorch's.

Found by pygcn's train.py, makemore.py (RandomSampler of 1e10 draws) and torch_geometric.loader;
torch_geometric's activation_resolver looks through vars(torch.nn.modules.activation).
"""

from __future__ import annotations

import importlib
from itertools import islice

import pytest

import weft
import weft.distributed.rpc
from weft.utils.data import DataLoader, RandomSampler


def test_older_constructors_of_sparse_tensors() -> None:
    n, m = (int(size) for size in weft.randint(2, 6, (2,)))
    dense = weft.rand(n, m).round()
    places = dense.nonzero().t()
    x = weft.sparse.FloatTensor(places, dense[tuple(places)], weft.Size([n, m]))
    assert weft.equal(x.to_dense(), dense) and x.layout is weft.sparse_coo
    assert isinstance(x, weft.sparse.FloatTensor) and not isinstance(x, weft.sparse.DoubleTensor)
    assert not isinstance(dense, weft.sparse.FloatTensor)
    assert weft.sparse.LongTensor(places, places[0], (n, m)).dtype is weft.int64
    empty = weft.sparse.DoubleTensor(n, m)
    assert (empty.shape, empty.dtype, empty._nnz()) == ((n, m), weft.float64, 0)
    assert weft.sparse.FloatTensor().shape == (0,)
    with pytest.raises(TypeError, match="indices, values, size"):
        weft.sparse.FloatTensor("x", 2)


def test_more_draws_than_memory_holds() -> None:
    sampler = RandomSampler(range(7), replacement=True, num_samples=10**10)
    assert len(sampler) == 10**10
    assert set(islice(sampler, 500)) == set(range(7))
    assert len(list(RandomSampler(range(7), replacement=True, num_samples=100))) == 100
    batches = DataLoader(list(range(7)), batch_size=4, sampler=sampler)
    assert all(batch.shape == (4,) for batch in islice(batches, 50))


def test_classes_are_in_the_namespace_of_their_module() -> None:
    held = vars(importlib.import_module("weft.nn.modules.activation"))
    kinds = {name for name, value in held.items() if isinstance(value, type) and issubclass(value, weft.nn.Module)}
    assert {"ReLU", "Tanh", "GELU", "Softmax", "PReLU"} <= kinds and held["ReLU"] is weft.nn.ReLU


def test_calls_of_other_processes_are_refused() -> None:
    assert not weft.distributed.rpc.is_available()
    with pytest.raises(NotImplementedError, match="other processes"):
        weft.distributed.rpc.init_rpc("worker")
    with pytest.raises(NotImplementedError, match="WorkerInfo"):
        weft.distributed.rpc.WorkerInfo("worker", 0)
