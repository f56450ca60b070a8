"""Back ends: what runs operators, below autograd. A payload names its back end, and a device the one
that makes its tensors.

A new device is one class and one registration: a Payload that says type, geometry and storage of a value, a Backend
that runs operators on tensors with such payloads, and `register(backend, payload)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from weft.ops.geometry import Geometry, is_contiguous
from weft.ops.layout import ROW_MAJOR, Orders
from weft.ops.op import Op
from weft.ops.packet import aten
from weft.ops.route import default_route
from weft.support.errors import Unsupported, ValuesThatWait
from weft.support.refusals import Caller, passes
from weft.tensor.device import Device, backends
from weft.tensor.modes import modes
from weft.tensor.payload import Payload
from weft.tensor.tensor import Tensor
from weft.tensor.views import forget_base

Args = tuple[Any, ...]

# Who answers a call whose operands have several back ends: the one of the highest rank.
DENSE_RANK, META_RANK, DEFERRED_RANK, CAPTURE_RANK, TRANSFORM_RANK, DISPATCH_RANK = range(0, 60, 10)


class Backend:
    """Where operators run. Operands are its own tensors, or those of back ends of lower rank.

    device: the type of the devices whose tensors it makes; "" where it makes none. Autograd has seen the call:
    nothing records history here.
    """

    rank = DEFERRED_RANK
    device = ""

    def at(self, where: Device) -> Backend:
        """The back end of one of several devices of the type: this one, where there is one device."""
        return self

    def run(self, op: Op, args: Args) -> Any:
        """The operator's results. A view is made by `view_of`; a call without tensors is a factory's,
        which makes one of its tensors."""
        raise NotImplementedError

    def walked(self, below: Callable[[Op, Args], Any], op: Op, args: Args) -> Any:
        """An operator call from the top of the walk, where no mode is on: `below(op, args)`, or what comes to the same.
        Asked for payloads that say so.
        """
        return below(op, args)

    def written(self, below: Callable[[Op, Args], Any], op: Op, args: Args) -> Any:
        """An in-place operator from the top of the walk, as in `walked`: the payload is that of args[0]."""
        return below(op, args)

    def write(self, op: Op, args: Args) -> None:
        """Put the operator's value into args[0] and raise the version of its storage.
        The walk has compared types and sizes."""
        raise NotImplementedError

    def open(self, op: Op, args: Args) -> Any:
        """A composite, by the operators that it is made of: its type rule speaks first, and tensors that it makes are
        this back end's too."""
        if op.type is not None:
            op.type(*[type_of(a) for a in args])
        with self.constants(args):
            return self.composed(op, args)

    def composed(self, op: Op, args: Args) -> Any:
        """What a composite's rule makes of its arguments, in memory as the entry says."""
        try:
            out = op.decompose(*args)  # type: ignore[misc]
        except BaseException as error:
            passes(error, Caller.COMPOSITE)
            raise
        if op.lies is None or not isinstance(out, Tensor):
            return out
        orders = () if op.lies is ROW_MAJOR else self.orders_of(op, args)
        return out if orders is None else _in_order(out, orders[0]) if orders else out.contiguous()

    def orders_of(self, op: Op, args: Args) -> Orders | None:
        """How the entry says that results for these operands lie, () for row-major ones; None where it is not known how
        the operands do."""
        return None

    def constants(self, args: Args) -> AbstractContextManager[None]:
        """Within the block, tensors that a rule on these arguments makes, which has no operand to say where,
        are made here."""
        return default_route(self.run)

    def compose(self, op: Op, args: Args) -> Any:
        """The value of a composite that no history is wanted of: opened, unless there is a shorter way."""
        return self.open(op, args)

    def apply(self, owner: Any, rule: Callable[..., Any], args: Args) -> Any:
        """A rule written with operators, on tensors of this back end. owner: what it is known by."""
        with self.constants(args):
            return rule(*args)

    def update_each(self, rule: Callable[..., None], rows: Sequence[Args], args: Args) -> None:
        """A rule on each row, and on what all have in common. It writes into tensors among its arguments, and hangs on
        nothing else than these."""
        for row in rows:
            rule(*row, *args)

    def backward(self, roots: Sequence[Any], seeds: Sequence[Tensor], keep: bool) -> bool:
        """Whether it ran a backward call as a whole, one that leaves take their gradients from and nobody listens to.
        roots: the edges where it begins; keep: whether what was saved is kept."""
        return False

    def ready(self, tensor: Tensor) -> None:
        """A tensor that was just made is to last: where it is the same whatever else is computed, its value may come
        now."""

    def fits(self, op: Op, args: Args) -> bool:
        """Whether the operator's result certainly has the type and sizes of args[0];
        False where the type rule must say."""
        return False

    def receive(self, tensor: Tensor) -> Tensor:
        """A tensor of another device, here, without history."""
        raise NotImplementedError

    def lay_out_like(self, tensor: Tensor, source: Tensor) -> Tensor:
        """What a `*_like` factory made, with its dims in the order in memory of its source's."""
        payload: Payload = tensor._data
        return payload.laid_out_like(tensor, source)

    def resize(self, tensor: Tensor, dims: tuple[int, ...]) -> None:
        """Let a tensor show its storage row-major with other sizes (resize_)."""
        raise Unsupported(f"resize_: a tensor on device {tensor.device} cannot be resized; make another one")

    def show(self, tensor: Tensor, source: Any, offset: int, size: Any, stride: Any) -> None:
        """Let a tensor show other storage (set_)."""
        raise Unsupported(f"set_: a tensor on device {tensor.device} cannot show other storage; make another one")


def register(backend: Backend, *payloads: type[Payload]) -> None:
    """Make a back end known: that of tensors with these payloads, and of its device."""
    for payload in payloads:
        payload.backend = backend
    if backend.device:
        backends[backend.device] = backend


def backend_at(where: Device) -> Backend:
    """The back end of a device. Raises CaptureError where a function is captured that runs on another one."""
    backend, capture = backends[where.type].at(where), modes.capture
    if capture is not None and backend.device != capture.backend.device:
        if backend.rank == DEFERRED_RANK:
            raise ValuesThatWait(f"a tensor is made on the {where.type} device: its values wait")
        raise capture.refuse(
            f"a compiled function makes a tensor on the {where.type} device, and its program runs on the "
            f"{capture.backend.device}; make it outside of the function, and take from it what the function "
            "needs to know"
        )
    return backend


def type_of(value: Any) -> Any:
    """What a type rule sees of an argument."""
    if isinstance(value, Tensor):
        return value.type_
    return tuple([type_of(v) for v in value]) if type(value) is tuple else value


def _in_order(tensor: Tensor, order: tuple[int, ...] | None) -> Tensor:
    """The tensor, or a copy of it that lies with its dims in this order."""
    if order is None:
        return tensor.contiguous()
    g = tensor.geometry()
    if is_contiguous(Geometry(tuple([g.dims[i] for i in order]), tuple([g.strides[i] for i in order]))):
        return tensor
    back = tuple(sorted(range(len(order)), key=order.__getitem__))
    return forget_base(aten.permute(aten._contiguous_copy(aten.permute(tensor, order)), back))  # type: ignore[no-any-return]


def tensors_in(args: Iterable[Any]) -> list[Tensor]:
    """The tensors among bound arguments, those in lists included."""
    tensors: list[Tensor] = []
    for a in args:
        if isinstance(a, Tensor):
            tensors.append(a)
        elif isinstance(a, (tuple, list)):
            tensors.extend(tensors_in(a))
    return tensors
