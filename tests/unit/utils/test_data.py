"""weft.utils.data: data sets, samplers, batches, the loader with and without threads."""

from __future__ import annotations

import threading
from collections import namedtuple
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import weft
from weft.support.errors import ValueProblem
from weft.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    StackDataset,
    Subset,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    get_worker_info,
    random_split,
)


class Squares(Dataset[int]):
    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> int:
        if i >= self.n:
            raise IndexError(i)
        return i * i


def _rows(n: int) -> TensorDataset:
    return TensorDataset(weft.arange(n).reshape(n, 1).float(), weft.arange(n))


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("drop_last", [False, True])
def test_batches_in_order(workers: int, drop_last: bool) -> None:
    n, size = int(np.random.default_rng().integers(5, 30)), 4
    loader = DataLoader(_rows(n), batch_size=size, num_workers=workers, drop_last=drop_last)
    batches = [y.tolist() for _, y in loader]
    wanted = [list(range(i, min(i + size, n))) for i in range(0, n, size)]
    if drop_last and n % size:
        wanted.pop()
    assert batches == wanted and len(loader) == len(wanted)


def test_shuffling_is_a_permutation_that_the_seed_decides() -> None:
    def order(seed: int, workers: int = 0) -> list[int]:
        weft.manual_seed(seed)
        return [i for batch in DataLoader(Squares(50), batch_size=7, shuffle=True, num_workers=workers) for i in batch.tolist()]

    assert sorted(order(1)) == [i * i for i in range(50)]
    assert order(1) == order(1, 2) != order(2)
    generator = weft.Generator().manual_seed(5)
    loader = DataLoader(Squares(50), batch_size=50, shuffle=True, generator=generator)
    first, second = (next(iter(loader)).tolist() for _ in range(2))
    assert first != second


def test_no_batches() -> None:
    assert list(DataLoader(Squares(3), batch_size=None)) == [0, 1, 4]
    array = DataLoader([np.ones(2)], batch_size=None)
    assert isinstance(next(iter(array)), weft.Tensor)


def test_errors_in_workers_reach_the_caller_and_threads_end() -> None:
    class Broken(Squares):
        def __getitem__(self, i: int) -> int:
            if i == 5:
                raise ValueError("sample 5 is broken")
            return i

    before = threading.active_count()
    taken: list[int] = []
    with pytest.raises(ValueError, match="sample 5 is broken"):
        for batch in DataLoader(Broken(20), batch_size=2, num_workers=2):
            taken += batch.tolist()
    assert taken == [0, 1, 2, 3]
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and thread.daemon:
            thread.join(2)
    assert threading.active_count() <= before


def test_workers_know_themselves() -> None:
    class Shares(IterableDataset[int]):
        def __iter__(self) -> Iterator[int]:
            info = get_worker_info()
            start, step = (0, 1) if info is None else (info.id, info.num_workers)
            return iter(range(start, 10, step))

    assert [b.tolist() for b in DataLoader(Shares(), batch_size=4)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    batches = [b.tolist() for b in DataLoader(Shares(), batch_size=3, num_workers=2)]
    assert batches == [[0, 2, 4], [1, 3, 5], [6, 8], [7, 9]]
    numbers: set[int] = set()
    list(DataLoader(Squares(8), num_workers=2, worker_init_fn=numbers.add))
    assert numbers == {0, 1} and get_worker_info() is None


def test_random_split() -> None:
    data = Squares(11)
    parts = random_split(data, [5, 6], generator=weft.Generator().manual_seed(1))
    assert sorted(i for part in parts for i in part.indices) == list(range(11))
    assert [len(p) for p in random_split(data, [0.5, 0.25, 0.25])] == [6, 3, 2]
    with pytest.raises(ValueProblem, match="Sum of input lengths"):
        random_split(data, [5, 5])


def test_datasets() -> None:
    joined = ConcatDataset([Squares(3), Squares(2)])
    assert [joined[i] for i in range(5)] == [0, 1, 4, 0, 1] and joined[-1] == 1 and len(joined) == 5
    assert len(Squares(3) + Squares(4)) == 7
    with pytest.raises(IndexError):
        joined[5]
    assert [Subset(Squares(9), [8, 2])[i] for i in range(2)] == [64, 4]
    assert StackDataset(a=Squares(3), b=Squares(3))[2] == {"a": 4, "b": 4}
    with pytest.raises(ValueProblem, match="Size mismatch between tensors"):
        TensorDataset(weft.ones(2), weft.ones(3))


def test_samplers() -> None:
    drawn = list(RandomSampler(range(5), replacement=True, num_samples=100))
    assert len(drawn) == 100 and set(drawn) <= set(range(5))
    assert sorted(RandomSampler(range(3), num_samples=6)) == [0, 0, 1, 1, 2, 2]
    assert set(WeightedRandomSampler([0.0, 1.0, 0.0, 2.0], 50)) == {1, 3}
    assert list(BatchSampler(range(5), 2, False)) == [[0, 1], [2, 3], [4]]
    with pytest.raises(ValueProblem, match="batch_size should be a positive integer"):
        BatchSampler(range(5), 0, False)


def test_collation() -> None:
    Pair = namedtuple("Pair", "x y")
    batch: Any = default_collate([{"a": 1, "b": (1.5, "s")}, {"a": 2, "b": (2.5, "t")}])
    assert batch["a"].tolist() == [1, 2] and batch["a"].dtype is weft.int64
    assert batch["b"][0].tolist() == [1.5, 2.5] and batch["b"][0].dtype is weft.float64 and list(batch["b"][1]) == ["s", "t"]
    pairs = default_collate([Pair(weft.ones(2), np.zeros(3)), Pair(weft.zeros(2), np.ones(3))])
    assert pairs.x.shape == (2, 2) and pairs.y.shape == (2, 3)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"shuffle": True, "sampler": [0]}, "mutually exclusive"),
        ({"batch_size": None, "drop_last": True}, "mutually exclusive"),
        ({"batch_sampler": [[0]], "batch_size": 2}, "mutually exclusive"),
        ({"num_workers": -1}, "non-negative"),
    ],
)
def test_options_that_contradict(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueProblem, match=text):
        DataLoader(Squares(3), **options)


def test_what_is_fixed_once_a_loader_is_made() -> None:
    loader = DataLoader(TensorDataset(weft.arange(4)), batch_size=2, pin_memory_device="")
    for name in ("batch_size", "sampler", "batch_sampler", "drop_last", "dataset"):
        with pytest.raises(ValueError, match="should not be set after DataLoader is initialized"):
            setattr(loader, name, None)


def test_stacked_data_sets_give_several_samples_at_once() -> None:
    class Many:
        def __len__(self) -> int:
            return 4

        def __getitem__(self, i: int) -> int:
            raise AssertionError("one by one")

        def __getitems__(self, indices: Any) -> list[int]:
            return [10 * i for i in indices]

    one, many = TensorDataset(weft.arange(4)), Many()
    assert StackDataset(one, many).__getitems__([1, 3]) == [((weft.tensor(1),), 10), ((weft.tensor(3),), 30)]
    assert [sorted(row) for row in StackDataset(a=one, b=many).__getitems__([0])] == [["a", "b"]]
