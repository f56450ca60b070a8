"""The name that this library goes by in texts of its values (`weft.float32`) and in `__module__` of its classes:
"weft", or the one that weft.torch.install() sets."""

from __future__ import annotations

OWN = "weft"


class _Shown:
    """name: what stands before the dot."""

    name = OWN


shown = _Shown()


def own_name(module: str) -> str:
    """What weft calls a module of this name: `weft.nn` for what is shown as `torch.nn`, others as they are."""
    root, dot, rest = module.partition(".")
    return f"{OWN}{dot}{rest}" if root == shown.name else module


def is_own(module: str | None) -> bool:
    """Whether a class of this `__module__` is weft's."""
    return (module or "").partition(".")[0] in (OWN, shown.name)
