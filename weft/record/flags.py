"""requires_grad of tensors from outside, which a captured function changes: a parameter that is frozen for a part of a
step, or from a step on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from weft.tensor.tensor import Tensor


class ChangedFlags:
    """The tensors whose flag the function has changed, each with the one that it had before. While the function is
    recorded the tensor itself has the flag that it has at that point, which operators and backward calls go by."""

    def __init__(self) -> None:
        self._before: dict[int, tuple[Tensor, bool]] = {}

    def note(self, tensor: Tensor) -> None:
        """The flag of a tensor is about to change, for the first time or again."""
        self._before.setdefault(id(tensor), (tensor, tensor.requires_grad))

    def before(self, tensor: Tensor) -> bool:
        """Whether a tensor required grad when the call began."""
        return self._before[id(tensor)][1] if id(tensor) in self._before else tensor.requires_grad

    def changed(self) -> dict[int, tuple[Tensor, bool]]:
        """The tensors that have another flag now than when the call began, and which."""
        return {
            key: (tensor, tensor.requires_grad)
            for key, (tensor, before) in self._before.items() if tensor.requires_grad is not before
        }

    def restore(self) -> None:
        """Give all tensors the flags that they had."""
        for tensor, before in self._before.values():
            tensor._state().requires_grad = before


@contextmanager
def all_required(leaves: Iterable[Tensor]) -> Iterator[None]:
    """Within the block leaves that operators have taken as requiring grad do, though the function may have frozen them
    since."""
    frozen = [leaf._state() for leaf in leaves if not leaf.requires_grad]
    for state in frozen:
        state.requires_grad = True
    try:
        yield
    finally:
        for state in frozen:
            state.requires_grad = False
