"""Factories as users call them: the entries, with requires_grad=, device= and the options that PyTorch accepts and weft
has one value for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from weft.guards.asides import is_in_between
from weft.layers.backends import backend_for
from weft.layers.dense import DENSE
from weft.layers.inference import noted
from weft.layers.memory_formats import in_format
from weft.layers.outputs import computed_in, write_out
from weft.layers.walk import inplace, walk_layers
from weft.ops.op import OPS, Op, Out
from weft.ops.overrides import handle, override_classes, overriding
from weft.ops.packet import aten
from weft.ops.route import default_route, defaults, route_of
from weft.ops.shown import show
from weft.support.asides import aside
from weft.support.errors import Unsupported
from weft.tensor.backend import Args, Backend, backend_at
from weft.tensor.device import chosen, usable
from weft.tensor.modes import Floor, floor, modes
from weft.tensor.tensor import Tensor

_LAYOUTS = (None, "weft.strided")
Make = Callable[..., Tensor]


def on_device(device: Any) -> AbstractContextManager[None]:
    """Within the block, factories make tensors on this device; None: on the one that was chosen for all of them."""
    where = chosen.device if device is None else usable(device)
    backend = DENSE if where is None else backend_at(where)
    if backend is DENSE:
        return nullcontext()
    special = modes.special
    if special is None or modes.capture is not None or isinstance(special[-1], Floor):
        return default_route(backend.run)
    return default_route(partial(_run_above, backend))


def _run_above(backend: Backend, op: Op, args: Args) -> Any:
    """A factory's call that transforms and modes see first."""
    special, beneath = modes.special or (), floor()
    above = special if beneath is None else special[1:]
    modes.special = (_DeviceFloor(backend, beneath), *above)
    try:
        return walk_layers(op, args)
    finally:
        modes.special = special


class _DeviceFloor(Floor):
    """The lowest interceptor while one factory is called: what comes down without operands is made on its device."""

    def __init__(self, backend: Backend, beneath: Floor | None) -> None:
        self.backend = DENSE if beneath is None else beneath.backend
        self._maker, self._beneath = backend, beneath

    def intercept(self, op: Op, args: Args) -> Any:
        """The factory on the device; any other operator as it is run without this floor."""
        return self._below(self._maker.run if route_of(op, args) is None else walk_layers, op, args)

    def intercept_inplace(self, op: Op, args: Args) -> Any:
        """The in-place operator, idem."""
        return self._below(inplace, op, args)

    def lift(self, value: Any) -> Any:
        """The value as it is."""
        return value

    def settle(self, array: Any, what: str) -> None:
        if self._beneath is not None:
            self._beneath.settle(array, what)

    def lend(self, tensor: Any, what: str) -> None:
        if self._beneath is not None:
            self._beneath.lend(tensor, what)

    def beside(self, tensors: Sequence[Any], what: str) -> AbstractContextManager[None]:
        return nullcontext() if self._beneath is None else self._beneath.beside(tensors, what)

    def _below(self, function: Callable[[Op, Args], Any], op: Op, args: Args) -> Any:
        special = modes.special
        modes.special = None if self._beneath is None else (self._beneath,)
        try:
            return function(op, args)
        finally:
            modes.special = special


def factory(name: str) -> Make:
    """A factory by its operator, as users call it."""

    def function(
        *args: Any, requires_grad: bool = False, device: Any = None, layout: Any = None, pin_memory: bool = False,
        memory_format: Any = None, out: Any = None, **kwargs: Any,
    ) -> Tensor:
        if override_classes:
            keywords = _given(kwargs, requires_grad=requires_grad, device=device, out=out)
            asked = overriding(args, keywords)
            if asked is not None:
                return handle(function, asked, args, keywords)
        if defaults.stack and is_in_between(()):  # within a rule: a signal handler, say
            options = {"requires_grad": requires_grad, "device": device, "out": out}
            with aside():
                return function(*args, **options, **kwargs)
        _check_layout(name, layout)
        takes = None if out is None else _taken(name, args, kwargs)
        if takes is not None:
            kwargs = computed_in(takes, kwargs, out)
            device = out.device if device is None else device
        with on_device(device):
            tensor: Tensor = in_format(getattr(aten, name)(*args, **kwargs), memory_format)
        return _finished(tensor, requires_grad) if takes is None else write_out(name, takes, tensor, out)

    return _named(function, name, out=None)


def _like_factory(name: str) -> Make:
    def function(
        input: Tensor, *args: Any, requires_grad: bool = False, device: Any = None, layout: Any = None,
        pin_memory: bool = False, memory_format: Any = None, **kwargs: Any,
    ) -> Tensor:
        if override_classes:
            keywords = _given(kwargs, requires_grad=requires_grad, device=device)
            asked = overriding((input, *args), keywords)
            if asked is not None:
                return handle(function, asked, (input, *args), keywords)
        _check_layout(name, layout)
        source = _placed(input, device)
        tensor: Tensor = getattr(aten, name)(source, *args, **kwargs)
        is_kept = memory_format in (None, "preserve_format")
        tensor = laid_out_like(tensor, input) if is_kept else in_format(tensor, memory_format)
        return _finished(tensor, requires_grad)

    return _named(function, name, memory_format=None)


def _new_factory(name: str) -> Make:
    def function(
        self: Tensor, *args: Any, requires_grad: bool = False, device: Any = None, layout: Any = None,
        pin_memory: bool = False, **kwargs: Any,
    ) -> Tensor:
        if override_classes:
            keywords = _given(kwargs, requires_grad=requires_grad, device=device)
            asked = overriding((self, *args), keywords)
            if asked is not None:
                return handle(function, asked, (self, *args), keywords)
        _check_layout(name, layout)
        return _finished(getattr(aten, name)(_placed(self, device), *args, **kwargs), requires_grad)

    return _named(function, name, "self")


def _given(kwargs: dict[str, Any], **options: Any) -> dict[str, Any]:
    """The keyword arguments of a call, with the options that differ from their defaults."""
    return {**kwargs, **{name: value for name, value in options.items() if value is not None and value is not False}}


def _named(function: Make, name: str, first: str = "input", **options: Any) -> Make:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"See the entry of {name}; also takes requires_grad= and device=."
    show(function, lambda: getattr(aten, name).overloads, first, **_OPTIONS, **options)
    return function


_OPTIONS = {"dtype": None, "layout": None, "device": None, "pin_memory": False, "requires_grad": False}


def _check_layout(name: str, layout: Any) -> None:
    if layout not in _LAYOUTS:
        raise Unsupported(
            f"{name}: layout {layout} is not offered; it makes strided tensors, and weft.sparse_coo_tensor(size) or "
            ".to_sparse(layout=...) others"
        )


def _taken(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Out:
    """What out= takes: a factory that can be told a dtype makes that of out=; others draw in that of an argument."""
    schema = getattr(aten, name).calls.resolve(args, kwargs)[0].schema
    return Out("computed" if any(a.name == "dtype" for a in schema.arguments) else "castable")


def _finished(tensor: Tensor, requires_grad: bool) -> Tensor:
    tensor._view = None  # (the last step may have shown what another one made)
    return tensor.requires_grad_() if requires_grad else tensor


def _placed(source: Tensor, device: Any) -> Tensor:
    """A tensor with the source's type on the device (the value does not matter)."""
    if device is None or not isinstance(source, Tensor):
        return source
    where = usable(device)
    if where.type == source.device.type or (where.type == DENSE.device and not backend_for((source,)).device):
        return source
    with on_device(where):
        placed: Tensor = aten.empty(source.dims, dtype=source.dtype)
    return placed


def laid_out_like(tensor: Tensor, source: Any) -> Tensor:
    """What a `*_like` factory made, with its elements in the same order in memory as the source's."""
    return noted(backend_for((tensor,)).lay_out_like(tensor, source)) if isinstance(source, Tensor) else tensor


def _factories(place: str) -> list[Op]:
    """The operators there that make tensors: they take a device."""
    return [
        op for op in OPS.values()
        if op.schema.namespace == "aten" and place in op.public and any(a.name == "device" for a in op.schema.arguments)
    ]


FACTORIES: dict[str, Make] = {
    op.base: (_like_factory if op.like else factory)(op.base) for op in _factories("weft")
}


def install() -> None:
    """Put the factories that are methods on Tensor."""
    for op in _factories("Tensor"):
        method = _new_factory(op.base)
        method.asks = True  # type: ignore[attr-defined]
        setattr(Tensor, op.base, method)
