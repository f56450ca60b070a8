"""DistributedSampler: every one of several processes visits its own part of a data set."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sized

from weft.ops.packet import aten
from weft.runtime.generator import Generator
from weft.support.errors import ValueProblem
from weft.utils.data.sampler import Sampler


class DistributedSampler(Sampler[int]):
    """The indices rank, rank + num_replicas, ... of an order that all replicas agree on: shuffled by seed + epoch
    (see set_epoch), or as it is.

    All parts have one length: some samples are visited twice, or left out with drop_last. Where the two numbers are not
    given, they are those of weft.distributed's process group.
    """

    def __init__(
        self, dataset: Sized, num_replicas: int | None = None, rank: int | None = None, shuffle: bool = True,
        seed: int = 0, drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            from weft.distributed.groups import get_rank, get_world_size  # only for who has several processes

            num_replicas = get_world_size() if num_replicas is None else num_replicas
            rank = get_rank() if rank is None else rank
        if not 0 <= rank < num_replicas:
            raise ValueProblem(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset, self.num_replicas, self.rank, self.epoch, self.drop_last = (
            dataset, num_replicas, rank, 0, drop_last
        )
        self.shuffle, self.seed = shuffle, seed
        count = len(dataset)
        self.num_samples = count // num_replicas if drop_last else math.ceil(count / num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        order = list(range(count))
        if self.shuffle:
            order = aten.randperm(count, generator=Generator().manual_seed(self.seed + self.epoch)).tolist()
        while len(order) < self.total_size:
            order += order[: self.total_size - len(order)]
        return iter(order[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Have the next iteration shuffle anew: every replica must be told the same number."""
        self.epoch = epoch
