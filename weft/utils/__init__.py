"""Floor 12: what training scripts need beside the model: data, checkpoint; pytree and dispatch for tensor subclasses
and modes."""

from typing import TYPE_CHECKING, Any

from weft.support.absent import refuse
from weft.utils import checkpoint, data, dispatch, pytree

if TYPE_CHECKING:
    from weft.utils import dlpack, hooks, model_zoo, tensorboard

_MODULES = ("_pytree", "dlpack", "flop_counter", "hooks", "model_zoo", "tensorboard")


def __getattr__(name: str) -> Any:
    """What few programs name is imported when first asked for."""
    import importlib

    if name in _MODULES:
        return importlib.import_module(f"weft.utils.{name}")
    refuse("module 'weft.utils'", name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = ["checkpoint", "data", "dispatch", "dlpack", "hooks", "model_zoo", "pytree", "tensorboard"]
