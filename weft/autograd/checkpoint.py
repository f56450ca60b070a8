"""Checkpointing: a region keeps its inputs only, and runs again in backward when its saved tensors are first asked for.

Each tensor that the region saves is replaced by its number. The first unpack of a backward call runs the region again,
with the random state and grad mode of the first run, and collects what it saves; the numbers are looked up there.
So any backward (also of a part, also twice, also under create_graph) works.
The tensor arguments are saved as those of an operator are: one that was written since is an error.
Within a transform (grad, vmap, jvp, a dual level) a region keeps what it needs: what is saved there belongs to a level
that may have ended when backward runs, with all that the region would run again on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from sys import maxsize
from typing import Any

from weft.autograd.engine import current_walk, run_backward
from weft.autograd.function import Function
from weft.autograd.node import sequence_numbers
from weft.autograd.saved import SavedTensor, at_run_time, default_hooks, saved_tensors_hooks
from weft.ops.overrides import at_level, current_level
from weft.runtime.generator import Place, default_generator, fork_rng
from weft.runtime.undivided import end_with
from weft.support.errors import StateError, ValueProblem
from weft.support.warn import warn
from weft.tensor import autocast
from weft.tensor.modes import active_trace, as_they_are, enable_grad, modes
from weft.tensor.tensor import Tensor
from weft.types.sym import to_dim

Contexts = tuple[AbstractContextManager[Any], AbstractContextManager[Any]]


class CheckpointError(RuntimeError):
    """The second run of a checkpointed region saved other tensors than the first."""


_EXPLICIT = (
    "weft.utils.checkpoint: the use_reentrant parameter should be passed explicitly; where it is not, "
    "weft takes use_reentrant=False (PyTorch: True)."
)
_early_stop: list[bool | None] = [None]


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Within the block, checkpointed calls end their second run as soon as everything saved is there,
    or (False) run to the end."""
    _early_stop.append(enable)
    try:
        yield
    finally:
        _early_stop.pop()


class _StopRecomputation(BaseException):
    """All tensors that were asked for are there: no error, which the region's own code may catch or run again for."""


def checkpoint(
    function: Callable[..., Any], *args: Any, use_reentrant: bool | None = None,
    context_fn: Callable[[], Contexts] | None = None, determinism_check: str = "default",
    preserve_rng_state: bool = True, debug: bool = False, early_stop: bool = True, **kwargs: Any,
) -> Any:
    """`function(*args, **kwargs)`, whose intermediate tensors are computed again in backward instead of being kept.

    Args:
        use_reentrant: False (and, with a warning, None) gives all of autograd. True: run as one custom Function
            (only gradients of leaves and of tensor arguments; no autograd.grad inside).
        context_fn: gives two context managers, for the first and for the second run.
        determinism_check: "default" compares shape, dtype and device of what is saved; "none" does not.
        preserve_rng_state: give the second run the random numbers of the first.
        early_stop: end the second run once everything that was saved is there.

    Raises CheckpointError when the two runs save different tensors.
    """
    if determinism_check not in ("default", "none"):
        raise ValueProblem(f"determinism_check should be one of ['default', 'none'] but got: {determinism_check}")
    if use_reentrant is None:
        warn(_EXPLICIT)
        use_reentrant = False
    trace = active_trace()
    if trace is not None and use_reentrant:
        options = {"use_reentrant": True, "preserve_rng_state": preserve_rng_state}
        return trace.transform("weft.utils.checkpoint.checkpoint", function, options, args, kwargs)
    if trace is not None:  # its program is differentiated as it stands: it keeps what it needs
        return function(*args, **kwargs)
    args, kwargs = as_they_are((args, kwargs))
    if use_reentrant:
        if context_fn is not None or debug:
            raise ValueProblem("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
        if kwargs:
            raise ValueProblem("Unexpected keyword arguments: " + ",".join(kwargs) + " (with use_reentrant=True)")
        if modes.capture is None and not any(isinstance(a, Tensor) and a.requires_grad for a in args):
            warn("None of the inputs have requires_grad=True. Gradients will be None")
        return CheckpointFunction.apply(function, preserve_rng_state, *args)
    if not modes.grad or _is_within_transform():
        return function(*args, **kwargs)
    first, second = (nullcontext(), nullcontext()) if context_fn is None else context_fn()
    stops = early_stop if _early_stop[-1] is None else _early_stop[-1]
    region = Region(function, args, kwargs, second, preserve_rng_state, determinism_check == "default", stops)
    before = region.places()
    with first, saved_tensors_hooks(region.pack, region.unpack):
        out = function(*args, **kwargs)
    region.draws = region.places() != before
    region.is_complete, region.end = True, next(sequence_numbers)
    return out


def _is_within_transform() -> bool:
    """Whether operators are interpreted by a level of a transform."""
    return any([hasattr(entry, "apply_function") for entry in modes.special or ()])


@contextmanager
def _random_state(state: Place | None) -> Iterator[None]:
    """Draw from a remembered point of the default generator within the block, then go on from where it stood."""
    if state is None:
        yield
        return
    with fork_rng():
        default_generator.return_to(state)
        yield


class Region:
    """One checkpointed call."""

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
        context: AbstractContextManager[Any], keep_random: bool, check: bool, early_stop: bool,
    ) -> None:
        self.function, self.kwargs, self.context = function, kwargs, context
        self.args = tuple([SavedTensor(a) if isinstance(a, Tensor) else a for a in args])
        self.classes = tuple([type(a) for a in args])  # hooks on what is saved see plain tensors
        self.check, self.early_stop = check, early_stop
        self.random = default_generator.place() if keep_random else None
        self.level = current_level()  # a class's own `backward` asks nobody while it runs
        self.autocast = modes.autocast
        self.kinds: list[Any] = []
        self.draws = self.has_blocks = False  # (blocks of a graph)
        self.is_complete = False  # the first run has ended: a backward within it asks for what was saved so far
        self.end = maxsize  # the number of the next node of autograd by then

    def places(self) -> list[Any] | None:
        """Of a captured function: where the generators stand whose numbers the second run does not draw again."""
        if modes.capture is None:
            return None
        return modes.capture.marks_of_generators(None if self.random is None else default_generator)

    def refuse_blocks(self) -> None:
        """A block of a graph goes backward by what its first run computed: where the second one draws other numbers,
        the function runs as it is written."""
        if self.draws and self.has_blocks:
            modes.capture.refuse_draws(  # type: ignore[union-attr]
                "a checkpoint with a branch or a loop draws random numbers anew when it runs again for backward"
            )

    @staticmethod
    def _is_of_transform(tensor: Tensor) -> bool:
        """Whether a tensor belongs to a transform within the region, whose graph ends with it."""
        return getattr(tensor._data, "level", None) is not None

    @at_run_time
    def pack(self, tensor: Tensor) -> int | Tensor:
        """The number of a tensor that the first run saves."""
        if self._is_of_transform(tensor):
            return tensor
        self.kinds.append(_facts(tensor))
        return len(self.kinds) - 1

    def unpack(self, number: int | Tensor) -> Tensor:
        """The tensor of the second run, of which there is one in each backward call. It is given out once."""
        if isinstance(number, Tensor):
            return number
        walk = current_walk()
        recomputed = None if walk is None else walk.notes.get(self)
        if recomputed is None:
            recomputed = self._run_again()
            if walk is not None:
                walk.notes[self] = recomputed
        if number not in recomputed:
            raise CheckpointError(_TWICE)
        return recomputed.pop(number)

    def _run_again(self) -> dict[int, Tensor]:
        self.refuse_blocks()
        collected: dict[int, Tensor] = {}

        @at_run_time
        def collect(tensor: Tensor) -> Tensor:
            if self._is_of_transform(tensor):
                return tensor
            kept = collected[len(collected)] = tensor.detach() if tensor.requires_grad else tensor
            if self.early_stop and len(collected) == len(self.kinds):
                end_with(_StopRecomputation())
            return kept

        args = [
            _cut(a.unpack(None), kind) if isinstance(a, SavedTensor) else a
            for a, kind in zip(self.args, self.classes, strict=True)
        ]
        kwargs = {k: _cut(v) for k, v in self.kwargs.items()}
        try:
            with (
                at_level(self.level), autocast.within(self.autocast), enable_grad(), _random_state(self.random),
                self.context, saved_tensors_hooks(collect, lambda t: t),
            ):
                self.function(*args, **kwargs)
        except _StopRecomputation:
            pass
        count = len(self.kinds)
        if len(collected) < count or (self.is_complete and len(collected) > count):
            raise CheckpointError(
                "weft.utils.checkpoint: A different number of tensors was saved during the original forward and "
                f"recomputation.\nNumber of tensors saved during forward: {count}\n"
                f"Number of tensors saved during recomputation: {len(collected)}."
            )
        if self.check and modes.capture is None:
            self._compare(collected)
        return {number: kept for number, kept in collected.items() if number < count}

    def _compare(self, collected: dict[int, Tensor]) -> None:
        pairs = [(i, kind, _facts(collected[i])) for i, kind in enumerate(self.kinds)]
        others = [
            f"tensor at position {i}:\nsaved metadata: {saved}\nrecomputed metadata: {again}"
            for i, saved, again in pairs if not _agree(saved, again)
        ]
        if others:
            raise CheckpointError(
                "weft.utils.checkpoint: Recomputed values for the following tensors have different metadata than "
                "during the forward pass.\n" + "\n".join(others)
            )


_TWICE = (
    "weft.utils.checkpoint: Unpack is being triggered for a tensor that was already unpacked once. If you are calling "
    "ctx.saved_tensors in backward, make sure to do so only once."
)


def _facts(tensor: Tensor) -> dict[str, Any]:
    """What the second run's tensor must have in common with the first's."""
    return {"shape": list(tensor.shape), "dtype": tensor.dtype, "device": tensor.device}


def _agree(saved: dict[str, Any], again: dict[str, Any]) -> bool:
    """Whether two tensors have these facts in common, as far as is known now: sizes that a run is yet to find may be
    the same."""
    sizes = [list(map(to_dim, facts["shape"])) for facts in (saved, again)]
    return (
        {**saved, "shape": len(sizes[0])} == {**again, "shape": len(sizes[1])}
        and all([a == b or not (type(a) is type(b) is int) for a, b in zip(*sizes, strict=True)])
    )


def _cut(value: Any, kind: type[Tensor] | None = None) -> Any:
    """An argument for the second run: the same value, without the history of the first. kind: the class of a tensor, if
    it may come back as a plain one."""
    if not isinstance(value, Tensor):
        return value
    wants_grad = value.requires_grad
    value = value.detach() if wants_grad else value
    value = value if kind is None or type(value) is kind else value.as_subclass(kind)
    return value.requires_grad_() if wants_grad else value


def region_now() -> Region | None:
    """The checkpointed region, if any, that gets what is saved."""
    hooks = default_hooks.stack
    region = getattr(hooks[-1][0], "__self__", None) if hooks else None
    return region if isinstance(region, Region) else None


class CheckpointFunction(Function):
    """A region as one custom Function, whose backward runs it again and a backward through that."""

    @staticmethod
    def forward(ctx: Any, function: Callable[..., Any], keep_random: bool, *args: Any) -> Any:
        ctx.function = function
        ctx.random = default_generator.place() if keep_random else None
        ctx.autocast = modes.autocast
        ctx.plain = tuple(None if isinstance(a, Tensor) else a for a in args)
        ctx.save_for_backward(*[a if isinstance(a, Tensor) else None for a in args])
        return function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        walk = current_walk()
        if walk is not None and walk.wanted is not None:
            raise StateError(
                "When use_reentrant=True, weft.utils.checkpoint is incompatible with .grad() or passing an `inputs` "
                "parameter to .backward(). To resolve this error, you can either set use_reentrant=False, "
                "or call .backward() without passing the `inputs` argument."
            )
        saved = ctx.saved_tensors
        args = tuple(_cut(t) if t is not None else p for t, p in zip(saved, ctx.plain, strict=False))
        with autocast.within(ctx.autocast), enable_grad(), _random_state(ctx.random):
            outputs = ctx.function(*args)
        listed = outputs if isinstance(outputs, tuple) else (outputs,)
        pairs = [(o, g) for o, g in zip(listed, grads, strict=False) if isinstance(o, Tensor) and o.requires_grad]
        if not pairs:
            raise StateError("none of output has requires_grad=True, this checkpoint() is not necessary")
        run_backward([o for o, _ in pairs], [g for _, g in pairs], False, False, None, True)
        return (None, None, *[a.grad if isinstance(a, Tensor) else None for a in args])


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """A sequence of functions cut into `segments` checkpointed parts; the last part keeps its tensors."""
    if use_reentrant is None:
        warn(_EXPLICIT)
        use_reentrant = False
    listed = list(functions.children()) if hasattr(functions, "children") else list(functions)

    def part(start: int, end: int) -> Callable[[Any], Any]:
        def run(value: Any) -> Any:
            for function in listed[start:end]:
                value = function(value)
            return value

        return run

    size = len(listed) // segments
    end = 0
    for segment in range(segments - 1):
        input = checkpoint(part(segment * size, (segment + 1) * size), input, use_reentrant=use_reentrant, **kwargs)
        end = (segment + 1) * size
    return part(end, len(listed))(input)
