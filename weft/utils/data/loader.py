"""DataLoader: batches of a data set, in order or shuffled, loaded ahead by threads if asked."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic

from weft.ops.packet import aten
from weft.runtime.generator import Generator
from weft.support.errors import StateError, ValueProblem
from weft.tensor.modes import modes
from weft.utils.data.collate import default_collate, default_convert
from weft.utils.data.dataset import Dataset, IterableDataset, T
from weft.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler

Collate = Callable[[Any], Any]
_END = object()
_FIXED = frozenset(("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"))


@dataclass(frozen=True)
class WorkerInfo:
    """Who a worker thread is: its number, how many there are, a seed of its own (another one in each iteration),
    and the data set."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


class _Local(threading.local):
    info: WorkerInfo | None = None


_local = _Local()


def get_worker_info() -> WorkerInfo | None:
    """The worker that runs on this thread; None outside of workers."""
    return _local.info


class DataLoader(Generic[T]):
    """Iterates over batches. num_workers > 0 loads on that many threads, `prefetch_factor` batches ahead each;
    the order stays the same."""

    def __init__(
        self, dataset: Dataset[T] | Sequence[T], batch_size: int | None = 1, shuffle: bool | None = None,
        sampler: Iterable[int] | None = None, batch_sampler: Iterable[list[int]] | None = None, num_workers: int = 0,
        collate_fn: Collate | None = None, pin_memory: bool = False, drop_last: bool = False, timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None, multiprocessing_context: Any = None,
        generator: Generator | None = None, *, prefetch_factor: int | None = None, persistent_workers: bool = False,
        pin_memory_device: str = "", in_order: bool = True,
    ) -> None:
        if num_workers < 0:
            raise ValueProblem(
                "num_workers option should be non-negative; use num_workers=0 to disable multiprocessing."
            )
        if timeout < 0:
            raise ValueProblem("timeout option should be non-negative")
        if sampler is not None and shuffle:
            raise ValueProblem("sampler option is mutually exclusive with shuffle")
        items: Any = dataset
        self.dataset = items
        self.num_workers, self.timeout, self.worker_init_fn, self.generator = (
            num_workers, timeout, worker_init_fn, generator
        )
        if num_workers == 0 and prefetch_factor is not None:
            raise ValueProblem(
                "prefetch_factor option could only be specified in multiprocessing. Let num_workers > 0 to enable "
                "multiprocessing, otherwise set prefetch_factor to None."
            )
        if prefetch_factor is not None and prefetch_factor < 0:
            raise ValueProblem("prefetch_factor option should be non-negative")
        if num_workers == 0 and persistent_workers:
            raise ValueProblem("persistent_workers option needs num_workers > 0")
        self.prefetch_factor = 2 if prefetch_factor is None and num_workers > 0 else prefetch_factor
        self.pin_memory, self.pin_memory_device, self.persistent_workers = (
            pin_memory, pin_memory_device, persistent_workers
        )
        self.multiprocessing_context, self.in_order = multiprocessing_context, in_order
        self.is_iterable = isinstance(dataset, IterableDataset)
        if self.is_iterable and (shuffle or sampler is not None or batch_sampler is not None):
            raise ValueProblem(
                "DataLoader with IterableDataset: expected unspecified shuffle, sampler and batch_sampler options"
            )
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
            raise ValueProblem(
                "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
            )
        if batch_size is None and drop_last:
            raise ValueProblem("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        self.drop_last = drop_last
        self.batch_size = None if batch_sampler is not None else batch_size
        if sampler is None and not self.is_iterable:
            sampler = RandomSampler(items, generator=generator) if shuffle else SequentialSampler(items)
        self.sampler = sampler
        if batch_sampler is None and batch_size is not None and sampler is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_sampler = batch_sampler
        self._batches = batch_sampler is not None or (self.is_iterable and batch_size is not None)
        self.collate_fn: Collate = collate_fn or (default_collate if self._batches else default_convert)
        self._is_set_up = True

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIXED and self.__dict__.get("_is_set_up"):
            raise ValueProblem(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        object.__setattr__(self, name, value)

    def __len__(self) -> int:
        if self.is_iterable:
            total = len(self.dataset)
            if self.batch_size is None:
                return total
            return total // self.batch_size if self.drop_last else -(-total // self.batch_size)
        return len(self._order)

    def __iter__(self) -> Iterator[Any]:
        # drawn also without workers: the order is the same with them. Only they ask for its value
        seed = aten.randint(0, 2**63 - 1, (), generator=self.generator)
        if self.is_iterable:
            return LoaderIterator(self, self._stream()) if self.num_workers == 0 else ThreadedIterator(
                self, self._streams_ahead(int(seed))
            )
        chosen = iter(self._order)
        return LoaderIterator(self, map(self._fetch, chosen)) if self.num_workers == 0 else ThreadedIterator(
            self, self._ahead(chosen, int(seed))
        )

    @property
    def _order(self) -> Any:
        """What says which items come next: one by one, or in batches."""
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def _fetch(self, chosen: Any) -> Any:
        if not self._batches:
            return self.collate_fn(self.dataset[chosen])
        if hasattr(self.dataset, "__getitems__"):
            return self.collate_fn(self.dataset.__getitems__(chosen))
        return self.collate_fn([self.dataset[i] for i in chosen])

    def _stream(self) -> Iterator[Any]:
        if self.batch_size is None:
            yield from map(self.collate_fn, self.dataset)
            return
        batch: list[Any] = []
        for sample in self.dataset:
            batch.append(sample)
            if len(batch) == self.batch_size:
                yield self.collate_fn(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.collate_fn(batch)

    # ---- threads
    def _ahead(self, chosen: Iterator[Any], seed: int) -> Iterator[Any]:
        """Batches in order; each worker has a queue of its own and takes every num_workers-th batch."""
        workers = [_Worker(self, i, seed + i) for i in range(self.num_workers)]
        try:
            sent = 0
            for _ in range((self.prefetch_factor or 1) * len(workers)):
                sent += self._send(workers, sent, chosen)
            taken = 0
            while taken < sent:
                batch = workers[taken % len(workers)].take(self.timeout)
                taken += 1
                sent += self._send(workers, sent, chosen)
                yield batch
        finally:
            for worker in workers:
                worker.stop()

    @staticmethod
    def _send(workers: list[_Worker], sent: int, chosen: Iterator[Any]) -> int:
        item = next(chosen, _END)
        if item is _END:
            return 0
        workers[sent % len(workers)].tasks.put(item)
        return 1

    def _streams_ahead(self, seed: int) -> Iterator[Any]:
        """Every worker iterates over the data set itself (see get_worker_info); their batches take turns."""
        workers = [_Worker(self, i, seed + i, streams=True) for i in range(self.num_workers)]
        live = list(workers)
        try:
            while live:
                for worker in list(live):
                    batch = worker.take(self.timeout)
                    if batch is _END:
                        live.remove(worker)
                    else:
                        yield batch
        finally:
            for worker in workers:
                worker.stop()


class LoaderIterator:
    """One pass over a loader."""

    def __init__(self, loader: DataLoader[Any], batches: Iterator[Any]) -> None:
        self._loader, self._batches = loader, batches

    def __iter__(self) -> LoaderIterator:
        return self

    def __next__(self) -> Any:
        return next(self._batches)

    def __len__(self) -> int:
        return len(self._loader)


class ThreadedIterator(LoaderIterator):
    """One pass whose batches threads load."""

    def _shutdown_workers(self) -> None:
        self._batches.close()  # type: ignore[attr-defined]  # a generator


class _Worker:
    """A thread that loads batches. Errors travel to whoever takes the batch."""

    def __init__(self, loader: DataLoader[Any], number: int, seed: int, streams: bool = False) -> None:
        self.loader, self.number, self.seed = loader, number, seed
        self.tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.done: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue(
            (loader.prefetch_factor or 1) if streams else 0
        )
        self.stopped = False
        self.grad_mode = modes.grad
        self.thread = threading.Thread(target=self._stream if streams else self._serve, daemon=True)
        self.thread.start()

    def _start(self) -> None:
        modes.grad = self.grad_mode
        _local.info = WorkerInfo(self.number, self.loader.num_workers, self.seed, self.loader.dataset)
        if self.loader.worker_init_fn is not None:
            self.loader.worker_init_fn(self.number)

    def _serve(self) -> None:
        error: BaseException | None = None
        try:
            self._start()
        except BaseException as caught:
            error = caught
        while (task := self.tasks.get()) is not _END:
            if error is not None:
                self.done.put((None, error))
                continue
            try:
                self.done.put((self.loader._fetch(task), None))
            except BaseException as caught:
                self.done.put((None, caught))

    def _stream(self) -> None:
        try:
            self._start()
            for batch in self.loader._stream():
                if not self._offer((batch, None)):
                    return
            self._offer((_END, None))
        except BaseException as caught:
            self._offer((None, caught))

    def _offer(self, result: tuple[Any, BaseException | None]) -> bool:
        while not self.stopped:
            try:
                self.done.put(result, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def take(self, timeout: float) -> Any:
        """The next batch. Raises what its loading raised, or StateError after the timeout."""
        try:
            batch, error = self.done.get(timeout=timeout or None)
        except queue.Empty:
            raise StateError(f"DataLoader timed out after {timeout} seconds") from None
        if error is not None:
            raise error
        return batch

    def stop(self) -> None:
        """Let the thread end."""
        self.stopped = True
        self.tasks.put(_END)
