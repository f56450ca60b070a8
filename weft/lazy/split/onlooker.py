"""Other threads, while a split function runs: what they read of memory that it has written is put there first."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from weft.layers.dense import DENSE
from weft.layers.walk import inplace, walk_layers
from weft.lazy.split.device import SplitDevice
from weft.ops.op import Op
from weft.runtime.storage import root_of
from weft.tensor.backend import Args, tensors_in
from weft.tensor.dense import is_dense
from weft.tensor.modes import Floor, look_on, modes

_running: list[SplitDevice] = []
_lock = threading.Lock()


class Onlooker(Floor):
    """The interceptor of threads in which no split function runs, while one runs elsewhere."""

    backend = DENSE
    stays = False

    def intercept(self, op: Op, args: Args) -> Any:
        """The operator as usual, on memory that is up to date."""
        return self._as_usual(walk_layers, op, args)

    def intercept_inplace(self, op: Op, args: Args) -> Any:
        """The in-place operator, idem."""
        return self._as_usual(inplace, op, args)

    def lift(self, value: Any) -> Any:
        """The value as it is."""
        return value

    def settle(self, array: Any, what: str) -> None:
        for where in list(_running):
            home = where.homes.get(id(root_of(array)))
            if home is not None and home.is_written:
                where.cut_for(f"{what} in another thread")

    def lend(self, tensor: Any, what: str) -> None:
        if is_dense(tensor):
            self.settle(tensor._data, what)

    def beside(self, tensors: Sequence[Any], what: str) -> AbstractContextManager[None]:
        return nullcontext()

    def _as_usual(self, function: Callable[[Op, Args], Any], op: Op, args: Args) -> Any:
        for tensor in tensors_in(args):
            if is_dense(tensor):
                self.settle(tensor._data, op.base)
        with without():
            return function(op, args)


@contextmanager
def without() -> Iterator[None]:
    """Within the block this thread has no interceptors."""
    is_own = "special" in modes.__dict__
    before = modes.special
    modes.special = None
    try:
        yield
    finally:
        if is_own and _running:
            modes.special = before
        elif not is_own:
            del modes.special


@contextmanager
def running(where: SplitDevice) -> Iterator[None]:
    """Within the block, other threads look on."""
    with _lock:
        _running.append(where)
        look_on(_ONLOOKER)
    try:
        yield
    finally:
        with _lock:
            _running.remove(where)
            if not _running:
                look_on(None)


_ONLOOKER = Onlooker()
