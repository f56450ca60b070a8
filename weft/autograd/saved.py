"""Saved tensors: a snapshot of payload, version and history, checked when it is unpacked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from weft.guards.watching import watched
from weft.ops.packet import aten
from weft.runtime.moving import Move
from weft.runtime.storage import Storage
from weft.support import seams
from weft.support.errors import ArgumentError, StateError, VersionError
from weft.support.locations import located
from weft.support.refusals import Caller, passes
from weft.tensor.dense import follow, payload_kept, payload_of
from weft.tensor.history import AutogradState
from weft.tensor.modes import modes, no_grad, refuse_in_trace
from weft.tensor.payload import Payload
from weft.tensor.tensor import Tensor, tensor_around
from weft.tensor.wrapper import rewrapped

Hooks = tuple[Callable[[Tensor], Any], Callable[[Any], Tensor]]


class _DefaultHooks(threading.local):
    stack: tuple[Hooks, ...] = ()
    disabled: str | None = None


default_hooks = _DefaultHooks()
Pack = TypeVar("Pack", bound=Callable[..., Any])


def at_run_time(pack: Pack) -> Pack:
    """Mark a pack hook (and its unpack hook) that a compiled function does not make part of its program: it gets what
    the program saves, call by call."""
    pack.at_run_time = True  # type: ignore[attr-defined]
    return pack


def are_at_run_time(hooks: Hooks) -> bool:
    """Whether hooks get what programs save."""
    return getattr(hooks[0], "at_run_time", False)


def captured_hooks() -> tuple[Hooks, ...]:
    """The default hooks that become part of a captured program: none where others get what is saved."""
    stack = default_hooks.stack
    return () if stack and are_at_run_time(stack[-1]) else tuple([h for h in stack if not are_at_run_time(h)])


@contextmanager
def only_captured_hooks() -> Iterator[None]:
    """Within the block, the other hooks rest."""
    previous, default_hooks.stack = default_hooks.stack, captured_hooks()
    try:
        yield
    finally:
        default_hooks.stack = previous

FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been "
    "freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
    "Specify retain_graph=True if you need to backward through the graph a second time or if you need to access saved "
    "tensors after calling backward."
)


_INFERENCE = (
    "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in "
    "computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and use it in "
    "autograd, or use `weft.no_grad()` instead of `weft.inference_mode()`."
)


def with_recording(function: Callable[..., Any], *args: Any) -> Any:
    """Call what the user wrote during a backward under a transform: a level that runs its own backward without
    recording records what this does."""
    level = modes.special[-1] if modes.special else None
    quiet = getattr(level, "is_quiet", False)
    if not quiet:
        return function(*args)
    level.is_quiet = False  # type: ignore[union-attr]
    try:
        return function(*args)
    finally:
        level.is_quiet = quiet  # type: ignore[union-attr]


@contextmanager
def unrecorded() -> Iterator[None]:
    """What runs inside gets no history here. Under transforms that is the top level alone: those below go on recording,
    as no_grad would not let them."""
    level: Any = modes.special[-1] if modes.special else None
    flag, owner = ("is_quiet", level) if hasattr(level, "is_quiet") else ("grad", modes)
    previous = getattr(owner, flag)
    setattr(owner, flag, flag == "is_quiet")
    try:
        yield
    finally:
        setattr(owner, flag, previous)


class SavedTensor:
    """A tensor kept for backward. `unpack(node)` gives it back, or raises VersionError if its bytes
    were written since."""

    __slots__ = (
        "__weakref__", "history", "index", "is_output", "leaf", "origin", "packed", "payload", "storage", "unpack_hook",
        "version",
    )

    def __init__(self, tensor: Tensor, is_output: bool = False, index: int = 0) -> None:
        view = tensor._view
        self.is_output, self.index = is_output, index
        self.packed: Any = None
        self.unpack_hook: Any = None
        self.leaf: Tensor | None = None
        self.origin: Tensor | None = None
        self.history: tuple[Any, int] | None = None
        self.payload = tensor._data if view is None else payload_kept(tensor)
        storage = self.storage = tensor._storage
        if storage is None:
            self.version = 0
        else:
            self.version = storage.version
            if getattr(storage, "is_inference", False) and not is_output and not payload_of(tensor).shares_version:
                raise StateError(_INFERENCE)
        if is_output:
            if storage is None:
                self.storage = tensor.storage()
            return
        node = None if view is None else tensor._node
        state = tensor._autograd
        if view is None and state is not None:
            node = state.node
        if node is not None:
            self.history = (node, state.index)  # type: ignore[union-attr]
            self.origin = tensor
            if storage is None:
                self.storage = tensor.storage()
        elif view is None or (state is not None and state.requires_grad):
            self.leaf = tensor  # itself comes back, and its storage may yet come into being: it knows its version
        if default_hooks.stack:
            self._pack(tensor)

    def _may_follow(self) -> None:
        """The bytes are about to move."""

    def _follow(self, move: Move) -> None:
        """The bytes have moved."""
        self.payload = follow(self.payload, self.storage, move)

    def pack_output(self, tensor: Tensor) -> None:
        """Apply the default hooks to a saved output (after its node exists)."""
        if default_hooks.stack:
            self._pack(tensor)

    def _pack(self, tensor: Tensor) -> None:
        pack, unpack = default_hooks.stack[-1]
        self.register_hooks(pack, unpack, tensor)

    def register_hooks(
        self, pack: Callable[[Tensor], Any], unpack: Callable[[Any], Tensor], tensor: Tensor | None = None
    ) -> None:
        """Replace the kept tensor by `pack(tensor)`; `unpack` turns it back on every access."""
        if self.unpack_hook is not None:
            raise StateError("Calling register_hooks on a saved tensor whose hooks have already been set.")
        kept = tensor_around(self.payload)
        kept._storage = self.storage
        before = kept._version
        if self.history is not None:
            kept._autograd = AutogradState(False, *self.history)
        elif self.leaf is not None:
            kept = self.leaf
        kept = rewrapped(kept)
        with no_grad():
            try:
                self.packed = pack(kept) if modes.capture is None else watched(pack, kept)
            except BaseException as error:
                passes(error, Caller.USER)
                raise
        if kept._version != before:
            raise StateError(
                "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook "
                "cannot be modified by in-place operations as this can lead to unexpected side-effects."
            )
        self.unpack_hook = unpack
        self.payload = self.storage = self.origin = None

    def unpack(self, node: Any) -> Tensor:
        """The tensor, with its history."""
        if self.unpack_hook is not None:
            try:
                restored = (
                    self.unpack_hook(self.packed) if modes.special is None
                    else with_recording(self.unpack_hook, self.packed)
                )
            except BaseException as error:
                passes(error, Caller.USER)
                raise
            if not isinstance(restored, Tensor):
                raise ArgumentError(
                    "Output of saved tensor unpack_hook expected to be a Tensor but got result of type "
                    f"{type(restored).__name__}"
                )
            return self._with_history(restored._data, restored.storage(), node) if self._has_history() else restored
        leaf = self.leaf
        storage = self.storage if leaf is None else leaf._storage
        current = 0 if storage is None else storage.version
        if current != self.version and self._is_written():
            raise VersionError(self._version_text(node, current))
        if leaf is not None:
            return leaf
        if self.origin is not None:
            return self._original(self.origin, node)
        return self._with_history(self.payload, self.storage, node)

    def shown(self, node: Any) -> Any:
        """What unpack() gives, for who only reads its value: where it can be, a payload instead of a tensor."""
        payload = self.payload
        if not isinstance(payload, Payload) or self.unpack_hook is not None or self.leaf is not None:
            return self.unpack(node)
        if self.storage is not None and self.storage.version != self.version:
            return self.unpack(node)
        origin = self.origin
        if origin is not None and (
            origin._autograd is None or origin._autograd.node is None or origin._data is not payload
        ):
            return self.unpack(node)
        return payload

    def _original(self, tensor: Tensor, node: Any) -> Tensor:
        """The tensor that was saved itself, with the bytes that `.data` may have given it since, while it still has
        the history that it had. Raises StateError once it was detached."""
        if self.history is not None:
            state = tensor._autograd
            if state is None or state.node is None:
                raise StateError(
                    "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_(). "
                    "This is not supported, please use out-of-place `.detach()` instead"
                )
            if state.node is not self.history[0] or state.index != self.history[1]:
                return self._with_history(self.payload, self.storage, node)
        return tensor

    def _with_history(self, payload: Any, storage: Any, node: Any) -> Tensor:
        out = tensor_around(payload)
        out._storage = storage
        if self.is_output and not out.dtype.is_differentiable:
            return out  # positions, which have no gradient
        if self.is_output:
            out._autograd = AutogradState(False, node, self.index)
        elif self.history is not None:
            out._autograd = AutogradState(False, *self.history)
        elif self.leaf is not None and self.leaf.requires_grad:
            state = out._autograd = AutogradState(True)  # another value with the leaf's place in the graph
            edge = seams.gradient_edge(self.leaf)
            state.accumulate = None if edge is None else edge[0]
        return rewrapped(out)  # type: ignore[no-any-return]

    def _has_history(self) -> bool:
        leaf = self.leaf
        return self.is_output or self.history is not None or (leaf is not None and leaf.requires_grad)

    def _is_written(self) -> bool:
        """Whether another version is this thread's doing: what a capture saved is bytes of the program's run,
        which calls in other threads do not touch."""
        storage = self.storage if self.leaf is None else self.leaf._storage
        return (
            modes.capture is None or not isinstance(storage, Storage)
            or modes.capture.outside.has_written(storage, self.version)
        )

    def _version_text(self, node: Any, current: int) -> str:
        shown = tensor_around(self.payload)
        storage = self.storage if self.leaf is None else self.leaf._storage
        version, mark = getattr(storage, "written", None) or (None, None)
        written = located(mark) if version == current else None
        where = f"; the latest write is at {written}" if written is not None else ""
        line = None if node is None else node.forward_line
        producer = f", which is output {self.index} of {node.name()}," if self.is_output else ""
        if not self.is_output and self.history is not None:
            producer = f", which is output {self.history[1]} of {self.history[0].name()},"
        by = "" if node is None else f" saved by {node.name()}{f' at {line}' if line else ''}"
        return (
            "one of the variables needed for gradient computation has been modified by an inplace operation: "
            f"[{shown.dtype} {list(shown.dims)}]{producer}{by} is at version {current}; "
            f"expected version {self.version} instead{where}. Clone the tensor before the in-place operation."
        )


class _FreedTensor(SavedTensor):
    """What a node shows in place of a saved tensor that it has let go of."""

    def __init__(self) -> None:
        pass

    def register_hooks(self, *hooks: Any) -> None:
        raise StateError(
            "Calling register_hooks on a saved tensor after it has been freed. Saved intermediate values of the graph "
            "are freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to backward "
            "through the graph a second time or if you need to access saved variables after calling backward."
        )

    def unpack(self, node: Any) -> Tensor:
        raise StateError(FREED)


FREED_TENSOR = _FreedTensor()


class saved_tensors_hooks:
    """Within the block, every tensor saved for backward is replaced by `pack_hook(tensor)`,
    and `unpack_hook` gives it back."""

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.hooks: Hooks = (pack_hook, unpack_hook)

    def __enter__(self) -> None:
        refuse_in_trace("hooks on saved tensors are no part of a trace; call the traced function within them")
        if default_hooks.disabled is not None:
            raise StateError(default_hooks.disabled)
        default_hooks.stack = (*default_hooks.stack, self.hooks)

    def __exit__(self, *error: Any) -> None:
        default_hooks.stack = default_hooks.stack[:-1]


class save_on_cpu(saved_tensors_hooks):
    """Keep copies of the saved tensors (weft's tensors are on the CPU already, so this only guards them
    from later writes)."""

    def __init__(self, pin_memory: bool = False) -> None:
        super().__init__(lambda t: aten.clone(t.detach()), lambda t: t)
