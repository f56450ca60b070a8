"""weft.utils.data: data sets, samplers, batches, the loader with and without threads."""

from __future__ import annotations

import threading
from collections import OrderedDict, UserDict, namedtuple
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import weft
from weft.support.errors import ValueProblem
from weft.utils import data
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
def test_batches_in_order(rng: np.random.Generator, workers: int, drop_last: bool) -> None:
    n, size = int(rng.integers(5, 30)), 4
    loader = DataLoader(_rows(n), batch_size=size, num_workers=workers, drop_last=drop_last)
    batches = [y.tolist() for _, y in loader]
    wanted = [list(range(i, min(i + size, n))) for i in range(0, n, size)]
    if drop_last and n % size:
        wanted.pop()
    assert batches == wanted and len(loader) == len(wanted)


def test_shuffling_is_a_permutation_that_the_seed_decides() -> None:
    def order(seed: int, workers: int = 0) -> list[int]:
        weft.manual_seed(seed)
        return [
            i for batch in DataLoader(Squares(50), batch_size=7, shuffle=True, num_workers=workers)
            for i in batch.tolist()
        ]

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
    assert (
        batch["b"][0].tolist() == [1.5, 2.5] and batch["b"][0].dtype is weft.float64
        and list(batch["b"][1]) == ["s", "t"]
    )
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


def test_replicas_visit_every_sample_together(rng: np.random.Generator) -> None:
    size, replicas = int(rng.integers(1, 30)), int(rng.integers(1, 6))
    for shuffle in (False, True):
        samplers = [data.DistributedSampler(range(size), replicas, rank, shuffle=shuffle) for rank in range(replicas)]
        parts = [list(s) for s in samplers]
        assert {len(p) for p in parts} == {len(samplers[0])} and {i for p in parts for i in p} == set(range(size))
        assert [list(s) for s in samplers] == parts
        if not shuffle and size >= replicas:
            assert [p[0] for p in parts] == list(range(replicas))
    cut = [list(data.DistributedSampler(range(size), replicas, rank, drop_last=True)) for rank in range(replicas)]
    assert len({i for p in cut for i in p}) == size // replicas * replicas
    again = data.DistributedSampler(range(100), 2, 0)
    first = list(again)
    again.set_epoch(1)
    assert list(again) != first
    for options in ({}, {"num_replicas": 2, "rank": 2}):
        with pytest.raises(ValueError):
            data.DistributedSampler(range(3), **options)


def test_a_sampler_of_ones_own_and_its_type() -> None:
    class Backwards(data.Sampler[int]):
        def __init__(self, size: int) -> None:
            self.size = size

        def __iter__(self) -> Iterator[int]:
            return iter(range(self.size - 1, -1, -1))

        def __len__(self) -> int:
            return self.size

    loader = data.DataLoader(range(5), 2, sampler=Backwards(5))
    assert [b.tolist() for b in loader] == [[4, 3], [2, 1], [0]] and len(loader) == 3
    assert (
        (loader.pin_memory, loader.persistent_workers, loader.prefetch_factor, loader.in_order)
        == (False, False, None, True)
    )
    for options in ({"prefetch_factor": 2}, {"persistent_workers": True}, {"num_workers": 1, "prefetch_factor": -1}):
        with pytest.raises(ValueError):
            data.DataLoader(range(5), **options)
    with pytest.raises(TypeError):
        data.RandomSampler(range(5), replacement=0)


def test_workers_have_seeds_of_their_own() -> None:
    class Seeds(data.Dataset[int]):
        def __getitem__(self, index: int) -> int:
            info = data.get_worker_info()
            return info.seed - info.id

        def __len__(self) -> int:
            return 4

    loader = data.DataLoader(Seeds(), num_workers=2, generator=weft.Generator().manual_seed(3))
    first, second = ({int(b) for b in loader} for _ in range(2))
    assert len(first) == len(second) == 1 and first != second


def test_a_batch_keeps_the_kind_of_mapping() -> None:
    ordered = data.default_collate([OrderedDict(b=1, a=2), OrderedDict(b=3, a=4)])
    assert type(ordered) is OrderedDict and list(ordered) == ["b", "a"] and ordered["b"].tolist() == [1, 3]
    assert type(data.default_convert(UserDict(a=np.ones(2)))) is UserDict
