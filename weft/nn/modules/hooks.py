"""Handles of module hooks."""

from __future__ import annotations

import itertools
from typing import Any

_ids = itertools.count()


class HookHandle:
    """Removes a hook. Usable as a context manager."""

    def __init__(self, hooks: dict[int, Any]) -> None:
        self.id = next(_ids)
        self._hooks: dict[int, Any] | None = hooks

    def remove(self) -> None:
        """Unregister the hook; harmless when already removed."""
        if self._hooks is not None:
            self._hooks.pop(self.id, None)

    def __enter__(self) -> HookHandle:
        return self

    def __exit__(self, *error: Any) -> None:
        self.remove()

    def __getstate__(self) -> int:
        return self.id

    def __setstate__(self, state: int) -> None:
        self.id, self._hooks = state, None
