"""The back end of plain tensors while a split function runs: a lazy device's, whose operands are plain tensors too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import weft.lazy.config as config
from weft.functionalizer.memory_format import order_like
from weft.functionalizer.views import refuse_write
from weft.guards.asides import is_in_between
from weft.layers.backends import backend_of
from weft.layers.dense import DENSE, check_writeable
from weft.layers.walk import inplace, inplace_untransformed, walk, walk_untransformed
from weft.lazy.arguments import has_value, is_settled_by
from weft.lazy.backend import Lazy
from weft.lazy.calls import NoValue
from weft.lazy.draws import drawn_numbers
from weft.lazy.split.device import LONGEST, SplitDevice
from weft.lazy.split.memory import order_in
from weft.lazy.split.payload import SplitPayload, let_wait
from weft.ops.op import Op
from weft.ops.rules import Pointwise
from weft.runtime.storage import Storage, root_of
from weft.support.asides import aside
from weft.support.errors import Unsupported
from weft.support.handlers import is_watched
from weft.tensor.backend import DENSE_RANK, Args
from weft.tensor.dense import is_dense
from weft.tensor.modes import Floor, by_itself, floor, modes
from weft.tensor.tensor import Tensor
from weft.tensor.views import view_of
from weft.types.unbacked import numbers_in

_NUMBERS = frozenset((int, float, bool))


class SplitFloor(Floor):
    """The interceptor of a thread in which a split function runs."""

    ends: frozenset[int] = frozenset()  # ids of the code that split functions begin with (set by function.py)

    def __init__(self, backend: Split) -> None:
        self.backend = backend

    def intercept(self, op: Op, args: Args) -> Any:
        """The layers below; plain tensors reach the back end. Code in between is no part of the split function."""
        if is_in_between(self.ends):
            with aside():
                return walk(op, args)
        return walk_untransformed(op, args)

    def intercept_inplace(self, op: Op, args: Args) -> Any:
        """The in-place operator, idem."""
        if is_in_between(self.ends):
            with aside():
                return inplace(op, args)
        return inplace_untransformed(op, args)

    def lift(self, value: Any) -> Any:
        """The value: plain tensors stay what they are."""
        return value

    def settle(self, array: Any, what: str) -> None:
        where: SplitDevice = self.backend.where
        home = where.homes.get(id(root_of(array)))
        if home is not None and home.is_written:
            where.cut_for(what)

    def lend(self, tensor: Any, what: str) -> None:
        where: SplitDevice = self.backend.where
        if type(tensor._data) is SplitPayload and tensor._data.waits:
            where.cut_for(what)
        elif is_dense(tensor):
            home = where.homes.get(id(root_of(tensor._data)))
            if home is not None and not home.is_lent:
                where.cut_for(what)

    @contextmanager
    def beside(self, tensors: Sequence[Any], what: str) -> Iterator[None]:
        where: SplitDevice = self.backend.where
        for tensor in tensors:
            if is_dense(tensor):
                if id(root_of(tensor._data)) in where.homes:
                    where.cut_for(what)
            else:
                _plain(tensor, what)
        special, modes.special = modes.special, (modes.special or ())[1:] or None
        try:
            yield
        finally:
            modes.special = special


class Split(Lazy):
    """Plain tensors within a split function, and those whose values wait, wherever they are met."""

    rank = DENSE_RANK + 5
    device = ""
    where: SplitDevice

    def __init__(self, where: SplitDevice) -> None:
        super().__init__(where)
        where.backend = self
        self.floor = SplitFloor(self)

    # ---- operators
    def run(self, op: Op, args: Args) -> Any:
        """The operator's results, which wait."""
        if floor() is not self.floor:
            return self._outside(op, args)
        where = self.where
        if len(where.trace.nodes) >= LONGEST:
            where.cut_for(f"a trace of {LONGEST} calls")
        if op.view is not None:
            return self._view(op, args)
        if (config.forced and config.is_forced(op)) or not has_value(op):
            return self.at_once(op, args)
        if op.effect == "raises" and is_watched():
            return self.at_once(op, args, "within try")
        if op.decompose is not None and (op.type is None or op.effect == "random" or is_settled_by(op, args)):
            with drawn_numbers() if op.effect == "random" else nullcontext():
                return self.open(op, args)
        try:
            out = where.trace.record(op, self._operands(op, args))
        except (NoValue, Unsupported):  # what it gives is not known beforehand
            return self.at_once(op, args)
        if op.effect == "raises":
            where.note_failing()
        orders = where.orders_of(op, args)
        if len(out) == 1 and not op.schema.returns_list:
            return where.fresh(out[0], orders[0] if orders else None)
        return tuple([where.fresh(v, orders[i] if orders else None) for i, v in enumerate(out)])

    def _operands(self, op: Op, args: Args) -> Args:
        return tuple([a if a is None or type(a) in _NUMBERS else self._operand(op, a) for a in args])

    def _operand(self, op: Op, value: Any) -> Any:
        """An argument as the trace takes it."""
        if isinstance(value, Tensor):
            if is_dense(value):
                home = self.where.homes.get(id(value._data)) or self.where.home_of(value)
                return home.read(value._data)
            data = value._data
            if type(data) is SplitPayload:
                if data.waits and data.storage.device is self.where:
                    return data.read()
                del data
                _plain(value, op.base)
                return self._operand(op, value)
        return super()._operand(op, value)

    def constants(self, args: Args) -> AbstractContextManager[None]:
        """Tensors that a rule makes go down the layers like any others."""
        return nullcontext()

    def at_once(self, op: Op, args: Args, why: str = "") -> Any:
        """The operator on the bytes of its operands, now."""
        self.where.cut_for(f"{op.base} {why}".rstrip())
        _plain(args, op.base)
        return DENSE.run(op, numbers_in(args))

    # ---- recorded rules
    def _is_plain(self) -> bool:
        if floor() is not self.floor or modes.special != (self.floor,) or config.forced:
            return False
        return len(self.where.trace.nodes) < LONGEST - 1

    def _repeat(self, rule: Any, args: Args) -> bool:
        rules = self._rules()
        if rules is None or not all([self._is_writable(a) for a in args if isinstance(a, Tensor)]):
            return False
        written = rules.update(rule, args)
        for tensor, data in written or ():
            family: Any = data.storage
            self.where.note_write(family)
            if type(tensor._storage) is Storage:
                let_wait(tensor._storage, family)
        return written is not None

    def _is_writable(self, tensor: Tensor) -> bool:
        """Whether the memory of a tensor may be written at the cut."""
        if not is_dense(tensor):
            return True
        return tensor._data.flags.writeable and not self.where.is_lent(tensor)

    def _outside(self, op: Op, args: Args) -> Any:
        """Tensors whose value waited, where their function does not run: another thread's, or not seen at the cut."""
        _plain(args, op.base)
        return backend_of(op, args).run(op, args)

    # ---- views
    def _view(self, op: Op, args: Args) -> Any:
        source, rest = args[0], tuple(args[1:])
        if type(source._data) is SplitPayload and not source._data.waits:
            _plain(source, op.base)
        if is_dense(source):
            home = self.where.home_of(source)
            if home.is_lent or (order_in(source._data, home.root) is None and not home.is_written):
                return DENSE.run(op, numbers_in(args))
            payload = home.view(source._data)
        else:
            payload = source._data
        results = self._shown(op, payload, rest)
        if not payload.waits:  # a size was asked for
            return self._view(op, args)
        if results is None:
            (value,) = self.where.trace.record(op, (payload.read(), *rest))
            return self.where.fresh(value)
        family, storage, note = payload.storage, source.storage(), self.where.note
        views = [
            note(view_of(source, storage, SplitPayload(family, path, kind, g), op, rest, i))
            for i, (path, kind, g) in enumerate(results)
        ]
        return tuple(views) if op.schema.gives_several else views[0]

    # ---- writes
    def write(self, op: Op, args: Args) -> None:
        """The operator's value takes the place of the target in its base."""
        target: Tensor = args[0]
        if floor() is not self.floor:
            _plain(args, op.base)
            backend_of(op, args).write(op, args)
            return
        if type(target._data) is SplitPayload and not target._data.waits:
            _plain(target, op.base)
        elif not is_dense(target) and target._data.path and target._data.env is not None:
            self._settle((target,), "a part of what is as large as values say")  # where it lies is asked for
        storage = target.storage()
        if is_dense(target):
            check_writeable(target._data)
            if self.where.is_lent(target):
                self._write_now(op, args)
                return
        refuse_write(op, self.where.home_of(target).view(target._data) if is_dense(target) else target._data)
        value = self.run(op, args)  # the trace may be cut for it
        payload = self.where.home_of(target).view(target._data) if is_dense(target) else target._data
        self.put(target, payload, self._operand(op, value), op.is_splat)
        self.where.note_write(payload.storage)
        if type(storage) is Storage:
            let_wait(storage, payload.storage)

    def _write_now(self, op: Op, args: Args) -> None:
        """Into memory that others see, too."""
        self.where.cut_for(f"{op.base}_() into memory that NumPy shares")
        _plain(args, op.base)
        with by_itself():  # what it is made of is not to wait
            DENSE.write(op, args)

    def fits(self, op: Op, args: Args) -> bool:
        """Whether it is a pointwise operator on tensors of one float dtype and shape, and numbers."""
        kind, dims = args[0].dtype, args[0].dims
        return isinstance(op.type, Pointwise) and kind.is_floating_point and all([
            a.dtype is kind and a.dims == dims if isinstance(a, Tensor) else type(a) in _NUMBERS for a in args
        ])

    # ---- memory
    def receive(self, tensor: Tensor) -> Tensor:
        """The values of a tensor of another device."""
        return DENSE.receive(tensor)

    def lay_out_like(self, tensor: Tensor, source: Tensor) -> Tensor:
        """What a `*_like` factory made, in its source's order of dims."""
        payload = tensor._data
        if type(payload) is not SplitPayload or not payload.waits:
            return DENSE.lay_out_like(tensor, source)
        order = order_like(source, None)
        return tensor if order is None else self.where.fresh(payload.read(), order)

    def resize(self, tensor: Tensor, dims: tuple[int, ...]) -> None:
        """As a plain tensor."""
        self._settle((tensor,), "resize_()")
        DENSE.resize(tensor, dims)

    def show(self, tensor: Tensor, source: Any, offset: int, size: Any, stride: Any) -> None:
        """As a plain tensor."""
        self._settle((tensor, source), "set_()")
        DENSE.show(tensor, source, offset, size, stride)

    def _settle(self, args: Args, what: str) -> None:
        self.where.cut_for(what)
        _plain(args, what)


def _plain(args: Any, what: str) -> None:
    """Make plain tensors of those whose value waits."""
    if isinstance(args, Tensor):
        if type(args._data) is SplitPayload:
            args._data = args._data.dense(what)
    elif type(args) in (tuple, list):
        for a in args:
            _plain(a, what)
