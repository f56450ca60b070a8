"""weft.utils.model_zoo: the older name of what weft.hub does with addresses of weights."""

from weft.hub import load_state_dict_from_url

load_url = load_state_dict_from_url

__all__ = ["load_state_dict_from_url", "load_url"]
