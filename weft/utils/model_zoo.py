"""weft.utils.model_zoo: the older name of what weft.hub does with addresses of weights."""

from typing import Any

from weft import hub
from weft.hub import load_state_dict_from_url

load_url = load_state_dict_from_url


def __getattr__(name: str) -> Any:
    """tqdm, which PyTorch shows here."""
    if name != "tqdm":
        raise AttributeError(f"module 'weft.utils.model_zoo' has no attribute {name!r}")
    return hub.tqdm


__all__ = ["load_state_dict_from_url", "load_url"]
