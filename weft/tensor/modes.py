"""The modes of a thread: grad mode, inference mode, and what intercepts operator calls (a capture,
function and dispatch modes, transforms)."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from weft.ops.route import defaults
from weft.support.asides import is_under_way_if, put_aside_by
from weft.support.generators import resumed_within
from weft.support.warn import warn

if TYPE_CHECKING:
    from weft.tensor.capture import ActiveCapture

F = TypeVar("F", bound=Callable[..., Any])
AT_WORK: Final = cast(bool, None)  # a grad mode: off, though not for the user


class Modes(threading.local):
    """Thread-local state read on every call; keep it flat.

    grad: whether autograd records; AT_WORK where it does not since weft is at work, and does for the user (set by
    `modes.grad and AT_WORK`: code in between has the user's mode, support/asides.py). inference: inference mode.
    special: None, or a tuple of interceptors,
    outermost first, that the slow walk consults (any object with `intercept(op, args)`, `intercept_inplace(op, args)`
    and `lift(tensor)`). capture: the active capture, or None. trace: what records the steps of a function for
    weft.jit.trace (an object with `transform` and `custom_function`), or None. autocast: None as at the start, or what
    autocast does (tensor/autocast.py).
    """

    grad: bool = True
    inference: bool = False
    capture: ActiveCapture | None = None
    special: tuple[Any, ...] | None = None
    trace: Any = None
    autocast: Any = None


modes = Modes()


def active_trace() -> Any:
    """What is to be told of calls of functions that call functions, or None."""
    trace = modes.trace
    return None if trace is None or trace.is_paused else trace


def as_they_are(held: Any) -> Any:
    """Arguments of a function that calls functions: what runs while a trace is paused sees the example's tensors, which
    have its history.
    """
    trace = modes.trace
    return held if trace is None else trace.as_they_are(held)


def refuse_in_trace(problem: str) -> None:
    """Raise the error of a trace, with the user's line, where one is being recorded."""
    trace = active_trace()
    if trace is not None:
        trace.refuse(problem)


class OnTop:
    """The topmost interceptor: it stands above those that come later, too."""


def with_interceptor(stack: tuple[Any, ...], entry: Any) -> tuple[Any, ...]:
    """The interceptors with one more, above all but an OnTop."""
    if stack and isinstance(stack[-1], OnTop):
        return (*stack[:-1], entry, stack[-1])
    return (*stack, entry)


def without_interceptors(stack: tuple[Any, ...], at: int) -> tuple[Any, ...] | None:
    """The interceptors below number `at`, and an OnTop."""
    kept = stack[:at]
    return (*kept, *[entry for entry in stack[at:] if isinstance(entry, OnTop)]) or None


def top_interceptor() -> Any:
    """The topmost interceptor that is no OnTop, or None."""
    special = modes.special
    if special is None:
        return None
    for entry in reversed(special):
        if not isinstance(entry, OnTop):
            return entry
    return None


class Floor:
    """The lowest interceptor of a thread: while it stands there, plain tensors have another back end than NumPy's, and
    what they hold may wait. Whoever steps below all interceptors leaves it where it is (`lowest`).

    backend: that of plain tensors. stays: whether it belongs to what this thread does; one that does not looks on while
    another thread has a floor.
    """

    backend: Any = None
    stays = True

    def settle(self, array: Any, what: str) -> None:
        """The bytes of an array of a plain tensor are asked for."""
        raise NotImplementedError

    def lend(self, tensor: Any, what: str) -> None:
        """Others may write the memory of a tensor from now on."""
        raise NotImplementedError

    def beside(self, tensors: Sequence[Any], what: str) -> AbstractContextManager[None]:
        """Within the block operators are computed as they come: on these tensors and on what is made of them."""
        raise NotImplementedError


def look_on(floor: Floor | None) -> None:
    """Give all threads that have not set interceptors of their own this floor, or none."""
    Modes.special = None if floor is None else (floor,)


def floor() -> Floor | None:
    """The floor of this thread, if it has one."""
    special = modes.special
    return special[0] if special is not None and isinstance(special[0], Floor) else None


def beside(tensors: Sequence[Any], what: str) -> AbstractContextManager[None]:
    """Within the block nothing waits that is done with these tensors: numbers that Python needs at once."""
    below = floor()
    return nullcontext() if below is None else below.beside(tensors, what)


def lowest() -> tuple[Any, ...] | None:
    """What stands below all other interceptors, as `modes.special` has it."""
    below = floor()
    return (below,) if below is not None and below.stays else None


@contextmanager
def below_interceptors() -> Iterator[None]:
    """Within the block tensors are made as nobody intercepts them: they belong to no level of a transform."""
    special = modes.special
    modes.special = lowest()
    try:
        yield
    finally:
        modes.special = special


@is_under_way_if
def _is_at_work() -> bool:
    """Whether weft is at work on this thread, or something is recorded."""
    return (
        modes.grad is AT_WORK or modes.special is not None or modes.capture is not None or modes.trace is not None
        or bool(defaults.stack)
    )


@put_aside_by
@contextmanager
def users_modes() -> Iterator[None]:
    """Within the block nothing is recorded, and the grad mode is the user's."""
    grad, special, capture, trace, stack = modes.grad, modes.special, modes.capture, modes.trace, defaults.stack
    below = lowest()
    modes.grad, modes.capture, modes.trace, defaults.stack = grad is not False, None, None, ()
    if below is not None:
        modes.special = special[1:] or None  # type: ignore[index]
    try:
        yield
    finally:
        modes.grad, modes.capture, modes.trace, defaults.stack = grad, capture, trace, stack
        if below is not None:
            modes.special = special


@contextmanager
def by_itself() -> Iterator[None]:
    """Within the block operators are computed as they come, whatever holds for the user's."""
    state = (modes.grad, modes.special, modes.capture, defaults.stack)
    modes.grad, modes.special, modes.capture, defaults.stack = modes.grad and AT_WORK, None, None, ()
    try:
        yield
    finally:
        modes.grad, modes.special, modes.capture, defaults.stack = state


def keeps_modes(function: F, within: Callable[[], AbstractContextManager[Any]] = nullcontext) -> F:
    """A function that an exception leaves with the modes of its call, also an interrupt that comes as a block within
    ends: Python runs signal handlers before the first line of `__exit__`, which is not run then. within: a block around
    each call."""

    @functools.wraps(function)
    def kept(*args: Any, **kwargs: Any) -> Any:
        before = modes.grad, modes.inference, modes.special, modes.autocast
        try:
            if within is nullcontext:
                return function(*args, **kwargs)
            with within():
                return function(*args, **kwargs)
        except BaseException:
            modes.grad, modes.inference, modes.special, modes.autocast = before
            raise

    return kept  # type: ignore[return-value]


class _ModeSetting:
    """A context manager that is also a decorator (generators included).

    Nothing that may be interrupted stands between what is noted and what is set, here and in subclasses: one statement
    without a call.
    """

    def __enter__(self) -> Any:
        raise AssertionError("a subclass says what to set")

    def __exit__(self, *error: Any) -> None:
        raise AssertionError("a subclass says what to restore")

    def _again(self) -> _ModeSetting:
        return type(self)()

    def _on_init(self, decorated: type) -> Callable[..., Any]:
        """A decorated class: its instances are made within the mode."""

        @functools.wraps(decorated, updated=())
        def make(*args: Any, **kwargs: Any) -> Any:
            with self._again():
                return decorated(*args, **kwargs)

        return make

    def __call__(self, function: F) -> F:
        if inspect.isclass(function):
            warn(_CLASSES, FutureWarning)
            return self._on_init(function)  # type: ignore[return-value]
        if inspect.isgeneratorfunction(function):
            return _wrap_generator(self, function)  # type: ignore[return-value]

        return keeps_modes(function, self._again)


_CLASSES = (
    "Decorating classes is deprecated and will be disabled in future versions. You should only decorate functions or "
    "methods. To preserve the current behavior of class decoration, you can directly decorate the `__init__` method "
    "and nothing else."
)


def _wrap_generator(setting: _ModeSetting, function: Callable[..., Any]) -> Callable[..., Any]:
    """The mode holds while the generator's own code runs, not while its caller's does;
    send, throw and close are passed on."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return (yield from resumed_within(setting._again, function(*args, **kwargs)))

    return wrapper


class set_grad_enabled(_ModeSetting):
    """Turn gradient recording on or off: as a context manager, a decorator, or at once when called as a function."""

    def __init__(self, mode: bool) -> None:
        self._previous = [modes.grad]
        self.mode = bool(mode)
        modes.grad = self.mode

    def __enter__(self) -> None:
        modes.grad = self.mode

    def __exit__(self, *error: Any) -> None:
        modes.grad = self._previous[0]

    def __call__(self, function: F) -> F:
        modes.grad = self._previous[0]
        return super().__call__(function)

    def _again(self) -> _ModeSetting:
        return set_grad_enabled(self.mode)


class _GradMode(_ModeSetting):
    _value = True

    def __init__(self) -> None:
        self._previous: tuple[Any, ...] = ()  # the mode before, and the same of blocks around by this object

    def __new__(cls, function: Any = None) -> Any:
        mode = super().__new__(cls)
        if callable(function):
            _GradMode.__init__(mode)
            return mode(function)
        return mode

    def __enter__(self) -> None:
        self._previous, modes.grad = (modes.grad, self._previous), self._value

    def __exit__(self, *error: Any) -> None:
        modes.grad, self._previous = self._previous


class no_grad(_GradMode):
    """Operations inside record no gradient history. A context manager and a decorator."""

    _value = False


class enable_grad(_GradMode):
    """Operations inside record gradient history again, also within no_grad."""

    _value = True


class inference_mode(_ModeSetting):
    """no_grad without history at all: tensors made inside can never be used in autograd.
    A context manager and a decorator."""

    def __new__(cls, mode: Any = True) -> Any:
        context = super().__new__(cls)
        if callable(mode):
            inference_mode.__init__(context)
            return context(mode)
        return context

    def __init__(self, mode: bool = True) -> None:
        self.mode = bool(mode)
        self._previous: tuple[Any, ...] = ()  # both modes before, and the same of blocks around by this object

    def __enter__(self) -> None:
        special = _with_inference(self.mode)
        self._previous, modes.inference, modes.grad, modes.special = (
            (modes.inference, modes.grad, self._previous), self.mode, not self.mode, special
        )

    def __exit__(self, *error: Any) -> None:
        special = _with_inference(self._previous[0])
        modes.special = special
        modes.inference, modes.grad, self._previous = self._previous

    def _again(self) -> _ModeSetting:
        return inference_mode(self.mode)


inference_layer: Any = None  # marks what operators make in inference mode (installed by layers/inference.py)


def switch_inference(on: bool) -> None:
    """Switch inference mode: its layer stands below every other interceptor but a floor."""
    modes.special, modes.inference = _with_inference(on), on


def _with_inference(on: bool) -> tuple[Any, ...] | None:
    """The interceptors with the layer of inference mode or without it."""
    if modes.inference is on:
        return modes.special
    below = lowest() or ()
    others = tuple([
        entry for entry in modes.special or () if entry is not inference_layer and not isinstance(entry, Floor)
    ])
    added = (inference_layer,) if on and inference_layer is not None else ()
    return (*below, *added, *others) or None


def is_grad_enabled() -> bool:
    """Whether autograd records on this thread."""
    return bool(modes.grad)


def is_inference_mode_enabled() -> bool:
    """Whether inference mode is on for this thread."""
    return modes.inference
