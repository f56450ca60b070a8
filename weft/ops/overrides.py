"""FUNCTION, the top layer: classes and modes that take a public call over (`__weft_function__`),
and who is asked first.

Public functions ask `overriding` before they do anything else, but only once `override_classes` says that such a class
or mode was ever seen in this process;
calls on plain tensors that their call signature answers (ops/call_signatures.py) are not slowed at all,
since none is cached for an overriding class.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from weft.support.errors import ArgumentError

F = TypeVar("F", bound=Callable[..., Any])

NAME, PYTORCHS = "__weft_function__", "__torch_function__"  # the handler; its name in programs for PyTorch
ENABLED, WITHOUT_CLASSES, DISABLED = 0, 1, 2  # who is asked: everybody, modes alone, nobody

override_classes: list[type] = []  # the first class (or mode) that was met; empty means that no call needs to look
plain_kinds: set[type] = set()  # tensor classes that take nothing over: what the short ways of layers/fast.py serve
plain_numbers: set[type] = {int, float}  # idem for numbers, and for indices;
plain_integers: set[type] = {int}  # all three sets are empty while a function mode is on in any thread
_ordinary: set[type] = {int, float, bool, complex, str, type(None)}
_lock = threading.RLock()
_tensor_classes: dict[type, Any] = {}  # that take nothing over, and the handlers that they have
_tables: weakref.WeakSet[Any] = weakref.WeakSet()  # call signatures, emptied when a mode comes


class _Local(threading.local):
    modes: tuple[Any, ...] = ()
    level: int = ENABLED


_local = _Local()
_running = [0]  # function modes on in all threads
_put_away: list[tuple[dict[Any, Any], dict[Any, Any]]] = []  # call signatures while there are any


class FirstOverride(ArgumentError):
    """A call met the first class with `__weft_function__`: public functions make it again,
    now that `override_classes` is set."""


def disabled_weft_function(func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """The `__weft_function__` of classes that take nothing over: never asked; called by a derived class,
    it runs the function and asks no class."""
    with OverrideLevel(WITHOUT_CLASSES):
        return func(*args, **(kwargs or {}))


def handler_of(owner: Any) -> Any:
    """The handler that a class has under either name; None for others."""
    handler = getattr(owner, NAME, None)
    return getattr(owner, PYTORCHS, None) if handler is None else handler


def _handler_for(value: Any) -> Any:
    """The handler that an object has by its class: what its __getattr__ answers is that of what it stands for."""
    kind = type(value)
    held = (vars(owner)[name] for name in (NAME, PYTORCHS) for owner in kind.__mro__ if name in vars(owner))
    handler: Any = next((h for h in held if h is not None), None)
    return handler.__get__(value, kind) if hasattr(handler, "__get__") else handler


def takes_over(kind: type) -> bool:
    """Whether instances of a class are asked before public functions run."""
    if kind in _ordinary:
        return False
    method = handler_of(kind)
    if method is not None and method is not disabled_weft_function and kind not in _tensor_classes:
        return True
    if kind is not list and kind is not tuple:  # in these one has to look
        _ordinary.add(kind)
    return False


def is_plain_tensor_class(kind: type) -> None:
    """Declare a tensor class that takes nothing over."""
    with _lock:
        _tensor_classes[kind] = getattr(kind, NAME, None)
        _ordinary.add(kind)
        if not _running[0]:
            plain_kinds.add(kind)


def takes_over_by_now(kind: type) -> bool:
    """Whether a tensor class that took nothing over has got a handler since. It counts as one that does from now on."""
    if kind not in _tensor_classes or getattr(kind, NAME, None) == _tensor_classes[kind]:
        return False
    with _lock:
        _tensor_classes.pop(kind, None)
        _ordinary.discard(kind)
        plain_kinds.discard(kind)
    return True


def note_class(kind: type) -> None:
    """From now on public functions look for classes that take calls over."""
    if not override_classes:
        override_classes.append(kind)


def overriding(args: Iterable[Any], kwargs: Mapping[str, Any] | None = None) -> tuple[Any, ...] | None:
    """The arguments to ask, in order (one per class, subclasses before their bases); () if only a mode is;
    None if nobody is."""
    level = _local.level
    if level == DISABLED:
        return None
    overriders: list[Any] = []
    if level == ENABLED:
        _collect(args, overriders)
        if kwargs:
            _collect(kwargs.values(), overriders)
    return tuple(overriders) if overriders or _local.modes else None


def _collect(values: Iterable[Any], overriders: list[Any]) -> None:
    for value in values:
        kind = type(value)
        if kind in _ordinary:
            continue
        if kind is list or kind is tuple:
            for v in value:
                if type(v) not in _ordinary and takes_over(type(v)):
                    _join(v, overriders)
        elif takes_over(kind):
            _join(value, overriders)


def _join(value: Any, overriders: list[Any]) -> None:
    kind = type(value)
    at = len(overriders)
    for i, other in enumerate(overriders):
        if type(other) is kind:
            return
        if at == len(overriders) and issubclass(kind, type(other)):
            at = i
    overriders.insert(at, value)


def meets(args: Iterable[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether the process has just met its first class that takes calls over (and looks for others from now on)."""
    if override_classes:
        return False
    overriders: list[Any] = []
    _collect((*args, *kwargs.values()), overriders)
    if overriders:
        note_class(type(overriders[0]))
    return bool(overriders)


def handle(
    func: Callable[..., Any], asked: tuple[Any, ...], args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None
) -> Any:
    """Ask the innermost mode, then each of the arguments. Raises ArgumentError (a TypeError)
    when all answer NotImplemented."""
    types = tuple([type(a) for a in asked])
    keywords = {} if kwargs is None else kwargs
    stack = _local.modes
    if stack:
        _local.modes = stack[:-1]
        try:
            out = stack[-1].__weft_function__(func, types, args, keywords)
        finally:
            _local.modes = stack
        if out is not NotImplemented:
            return out
    for value in asked:
        out = _handler_for(value)(func, types, args, keywords)
        if out is not NotImplemented:
            return out
    name = f"weft.{getattr(func, '__name__', func)}"
    mode = f", nor in the mode {type(stack[-1]).__name__}" if stack else ""
    raise ArgumentError(f"no implementation found for '{name}' on types that implement {NAME}: {list(types)}{mode}")


def asked_of_method(args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None) -> tuple[Any, ...] | None:
    """`overriding` for a method or an operator of the syntax, which graph handles and arrays have too:
    a mode is not asked about these."""
    asked = overriding(args, kwargs)
    return None if asked == () and handler_of(type(args[0])) is None else asked


def overridable(function: F) -> F:
    """A public function written in Python, that classes and modes may take over."""

    @functools.wraps(function)
    def public(*args: Any, **kwargs: Any) -> Any:
        if override_classes:
            asked = overriding(args, kwargs)
            if asked is not None:
                return handle(public, asked, args, kwargs)
        elif meets(args, kwargs):
            return public(*args, **kwargs)
        return function(*args, **kwargs)

    return cast(F, public)


# ---- call signatures
def register_table(table: Any) -> None:
    """Call signatures (with dicts `plain` and `signatures`) to be emptied while a mode is on."""
    with _lock:
        _tables.add(table)


def forget_signatures() -> None:
    """Find out anew what each call signature decides: the routes have changed."""
    with _lock:
        _put_away.clear()
        for table in list(_tables):
            table.plain.clear()
            table.signatures.clear()


def cache_signature(table: dict[Any, Any], kinds: tuple[type, ...], signature: Any) -> None:
    """Cache what a call signature found out, unless somebody must be asked before each such call."""
    key = kinds[0] if len(kinds) == 1 else kinds
    if not override_classes:
        table[key] = signature
        return
    with _lock:
        if not _running[0] and not any(takes_over(k) for k in kinds):
            table[key] = signature


def is_mode_on() -> bool:
    """Whether a function mode is on, in any thread: then no call may pass it by."""
    return bool(_running[0])


def push_mode(mode: Any) -> None:
    """A function mode comes on, on this thread."""
    note_class(type(mode))
    with _lock:
        _running[0] += 1
        if _running[0] == 1:
            plain_kinds.clear()
            plain_numbers.clear()
            plain_integers.clear()
            for table in list(_tables):
                for signatures in (table.plain, table.signatures):
                    if signatures:
                        _put_away.append((signatures, dict(signatures)))
                        signatures.clear()
    _local.modes = (*_local.modes, mode)


def pop_mode() -> None:
    """The innermost function mode of this thread goes."""
    _local.modes = _local.modes[:-1]
    with _lock:
        _running[0] -= 1
        if not _running[0]:
            plain_kinds.update(_tensor_classes)
            plain_numbers.update((int, float))
            plain_integers.add(int)
            for signatures, cached in _put_away:
                signatures.update(cached)
            _put_away.clear()


def current_modes() -> tuple[Any, ...]:
    """This thread's function modes, outermost first."""
    return _local.modes


class OverrideLevel:
    """A block in which only some are asked before public calls. Blocks nest; the stricter one holds."""

    def __init__(self, level: int) -> None:
        self.level = level
        self._before: list[int] = []

    def __enter__(self) -> OverrideLevel:
        before = _local.level
        self._before.append(before)
        if self.level > before:
            _local.level = self.level
        return self

    def __exit__(self, *error: Any) -> None:
        _local.level = self._before.pop()


def current_level() -> int:
    """Who is asked on this thread."""
    return _local.level


@contextmanager
def at_level(level: int) -> Iterator[None]:
    """A block in which those are asked who were asked somewhere else, whoever runs the block."""
    before, _local.level = _local.level, level
    try:
        yield
    finally:
        _local.level = before


def state() -> tuple[Any, int]:
    """This thread's modes and level, to be carried to another thread."""
    return _local.modes, _local.level


def carry(state: tuple[Any, int]) -> None:
    """Take over another thread's modes and level."""
    _local.modes, _local.level = state
