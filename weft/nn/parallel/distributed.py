"""DistributedDataParallel: every rank trains on its part of a batch, and gradients are averaged on their way.

The parameters pass through operators that change nothing, one for each bucket of them, before the module sees them.
The gradient of such an operator is the average over ranks of the gradients that come in: so each bucket is reduced in
backward when its last gradient is there, in eager programs, compiled, split and lazy ones alike. A token goes from
bucket to bucket, so that their order is the same in every rank, whichever parameters a rank uses.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from weft.autograd.function import Function
from weft.distributed import collectives, objects
from weft.distributed.groups import ProcessGroup, the_group
from weft.distributed.names import DistError, ReduceOp
from weft.nn.modules.module import Module
from weft.nn.utils.stateless import functional_call
from weft.ops.packet import aten, namespace_of
from weft.support import pytree
from weft.support.errors import ValueProblem
from weft.tensor.modes import modes, no_grad
from weft.tensor.tensor import Tensor, tensor_around
from weft.types import dtype as dt

comm = namespace_of("comm")
_MEGABYTE = 2**20


class _Bucket(Function):
    """Parameters as they are, and a token. Backward averages their gradients over the ranks, as one message."""

    @staticmethod
    def forward(ctx: Any, owner: DistributedDataParallel, token: Tensor, *parameters: Tensor) -> Any:
        ctx.owner, ctx.parameters = owner, parameters
        return (token.clone(), *[p.view_as(p) for p in parameters])

    @staticmethod
    def backward(ctx: Any, token: Tensor, *grads: Tensor) -> Any:
        total = ctx.owner.with_unreduced(ctx.parameters, grads)
        flat = aten.cat([g.reshape(-1) for g in total])
        return (None, token, *_parts(ctx.owner.reduced(flat), grads))


class _Anchor(Function):
    """Results as they are, from which backward reaches every bucket though none of its parameters was used."""

    @staticmethod
    def forward(ctx: Any, token: Tensor, *results: Tensor) -> Any:
        return tuple([r.view_as(r) for r in results])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return (aten.zeros((), dtype=dt.float32), *grads)


class DistributedDataParallel(Module):
    """`module` in every rank, with the same weights: rank 0's to begin with, and the averaged gradients keep them so.

    bucket_cap_mb: how much of the gradients travels in one message.
    broadcast_buffers: whether rank 0's buffers go to all at the beginning of each forward call in training.
    find_unused_parameters: whether a rank may use parameters in forward that others do not. Those that a rank does not
        use count as zero there (so does the gradient of those that no rank uses).
    deterministic: whether sums are taken in the order of ranks: (g0 + g1) + g2 ..., then divided by their number. The
        gradients are those of one process that adds up the gradients of the same parts of the batch, in this order, to
        the last bit. Otherwise the order is MPI's.
    Other arguments of PyTorch's are taken where they mean nothing on a CPU. Names in the state_dict begin with
    "module.".
    Raises DistError where the ranks' modules differ, ValueProblem without a process group or parameters.
    """

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0,
        broadcast_buffers: bool = True, init_sync: bool = True, process_group: Any = None,
        bucket_cap_mb: float | None = None, find_unused_parameters: bool = False, check_reduction: bool = False,
        gradient_as_bucket_view: bool = False, static_graph: bool = False, *, deterministic: bool = False,
    ) -> None:
        super().__init__()
        if device_ids or output_device is not None:
            raise ValueProblem("DistributedDataParallel: there is one device; leave device_ids out")
        self.process_group: ProcessGroup = the_group(process_group)
        self.module, self.broadcast_buffers, self.deterministic = module, broadcast_buffers, deterministic
        self.find_unused_parameters = find_unused_parameters
        self.require_backward_grad_sync = True
        self._is_joining, self._unreduced = False, False
        named = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
        if not named:
            raise ValueProblem(
                "DistributedDataParallel is not needed when a module doesn't have any parameter that requires a "
                "gradient."
            )
        self._buckets = _in_buckets(named, (25.0 if bucket_cap_mb is None else bucket_cap_mb) * _MEGABYTE)
        if init_sync:
            self._check_modules()
            self._share(0, [*module.parameters(), *module.buffers()])

    # ---- state that all ranks have
    def _check_modules(self) -> None:
        mine = [(name, tuple(t.shape), str(t.dtype)) for name, t in self.module.state_dict().items()]
        others: list[Any] = [None] * self.process_group.size()
        objects.all_gather_object(others, mine, self.process_group)
        different = [r for r, theirs in enumerate(others) if theirs != others[0]]
        if different:
            raise DistError(
                f"DistributedDataParallel: the modules of ranks {different} have other names, sizes or dtypes than "
                "rank 0's"
            )

    def _share(self, source: int, tensors: Sequence[Tensor]) -> None:
        """One rank's values in all ranks, by one message for each dtype."""
        with no_grad():
            for same in _by_dtype(tensors):
                flat = aten.cat([t.detach().reshape(-1) for t in same])
                flat = comm.broadcast(flat, source, self.process_group.number)
                for t, part in zip(same, _parts(flat, same), strict=True):
                    t.copy_(part)

    # ---- a call
    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        if not modes.grad or not self.module.training:
            return self.module(*inputs, **kwargs)
        if self._is_joining:
            self._report(True)
        if not self.require_backward_grad_sync:
            self._unreduced = True
            return self.module(*inputs, **kwargs)
        if self.broadcast_buffers:
            self._share(0, list(self.module.buffers()))
        token: Any = aten.zeros((), dtype=dt.float32).requires_grad_()
        passed: dict[str, Tensor] = {}
        for bucket in reversed(self._buckets):
            token, *parameters = _Bucket.apply(self, token, *[p for _, p in bucket])
            passed.update(zip([name for name, _ in bucket], parameters, strict=True))
        out = functional_call(self.module, passed, inputs, kwargs)
        return self._anchored(out, token) if self.find_unused_parameters else out

    def _anchored(self, out: Any, token: Tensor) -> Any:
        leaves, spec = pytree.flatten(out)
        at = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor) and leaf.requires_grad]
        for i, result in zip(at, _Anchor.apply(token, *[leaves[i] for i in at]), strict=True):
            leaves[i] = result
        return pytree.unflatten(leaves, spec)

    def reduced(self, flat: Tensor) -> Tensor:
        """The average over ranks."""
        return comm.all_reduce(flat, "AVG", self.process_group.number, self.deterministic)

    def with_unreduced(self, parameters: Sequence[Tensor], grads: Sequence[Tensor]) -> Sequence[Tensor]:
        """Gradients with those that were accumulated under no_sync, which go out of `.grad`."""
        if not self._unreduced:
            return grads
        total = []
        for p, g in zip(parameters, grads, strict=True):
            total.append(g if p.grad is None else p.grad.detach() + g)
            p.grad = None
        if parameters[0] is self._buckets[-1][0][1]:  # the last bucket of this backward call
            self._unreduced = False
        return total

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within it, forward calls whose gradients are accumulated here, and averaged by the next backward call
        outside of it."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    # ---- uneven inputs
    @contextlib.contextmanager
    def join(
        self, divide_by_initial_world_size: bool = True, enable: bool = True, throw_on_early_termination: bool = False
    ) -> Iterator[None]:
        """Within it ranks may have different numbers of inputs, as they are: a rank that is through gives zeros until
        all are, then every rank gets the parameters of the last one. Each input is one forward and one backward call.
        """
        if not enable or self.process_group.size() == 1:
            yield
            return
        if not divide_by_initial_world_size or throw_on_early_termination:
            raise ValueProblem("join: sums are divided by the number of all ranks, and nothing is thrown early")
        self._is_joining, self._calls = True, 0
        try:
            yield
        finally:
            self._is_joining = False
        while True:
            active, synced = self._report(False)
            if not active:
                break
            if not synced:
                continue
            if self.broadcast_buffers:
                self._share(0, list(self.module.buffers()))
            for bucket in self._buckets:
                self.reduced(aten.zeros((sum(p.numel() for _, p in bucket),), dtype=bucket[0][1].dtype))
        longest = tensor_around(np.array([self._calls * self.process_group.size() + self.process_group.rank()]))
        collectives.all_reduce(longest, ReduceOp.MAX, self.process_group)
        last = int(longest.item()) % self.process_group.size()
        self._share(last, [*self.module.parameters(), *self.module.buffers()])

    def _report(self, is_active: bool) -> tuple[int, int]:
        """Tell the others whether this rank has an input; how many have, and how many of them are going to reduce."""
        self._calls += is_active
        flags = tensor_around(np.array([is_active, is_active and self.require_backward_grad_sync], np.int64))
        collectives.all_reduce(flags, ReduceOp.SUM, self.process_group)
        active, synced = flags.tolist()
        return active, synced


def _in_buckets(named: Sequence[tuple[str, Tensor]], limit: float) -> list[list[tuple[str, Tensor]]]:
    """Parameters in the order in which their gradients come, the last first, of one dtype in each bucket."""
    buckets: list[list[tuple[str, Tensor]]] = []
    filled = 0.0
    for name, p in reversed(named):
        size = p.numel() * p.element_size()
        if not buckets or filled + size > limit or buckets[-1][0][1].dtype is not p.dtype:
            buckets.append([])
            filled = 0.0
        buckets[-1].append((name, p))
        filled += size
    return buckets


def _parts(flat: Tensor, like: Sequence[Tensor]) -> Iterator[Tensor]:
    """The parts of a flat tensor, each with the shape of one of these."""
    at = 0
    for t in like:
        yield flat[at : at + t.numel()].view(t.shape)
        at += t.numel()


def _by_dtype(tensors: Sequence[Tensor]) -> list[list[Tensor]]:
    same: dict[Any, list[Tensor]] = {}
    for t in tensors:
        same.setdefault(t.dtype, []).append(t)
    return list(same.values())
