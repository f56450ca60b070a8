"""functionalize: a function without in-place operators, as its callers below see it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from weft.autograd.views import follow
from weft.func.arguments import map_tensors
from weft.layers.transforms.functional import Functional, FunctionalLevel
from weft.support.errors import StateError
from weft.tensor.tensor import Tensor

OPTIONS = ("mutations", "mutations_and_views")


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """A function that computes what `func` computes without in-place operators (and, with remove="mutations_and_views", with copies for views).

    Arguments that func writes are written once, at the end; outputs that alias an argument still do. Raises StateError for another `remove`.
    """
    if remove not in OPTIONS:
        raise StateError(f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. Valid options are: {list(OPTIONS)}")

    @functools.wraps(func)
    def functional(*args: Any, **kwargs: Any) -> Any:
        pairs: dict[int, tuple[Tensor, Tensor]] = {}
        with FunctionalLevel(remove == "mutations_and_views") as level:

            def inside(tensor: Tensor) -> Tensor:
                if id(tensor) not in pairs:
                    pairs[id(tensor)] = (tensor, level.lift(tensor))
                return pairs[id(tensor)][1]

            result = func(*[map_tensors(inside, a) for a in args], **{k: map_tensors(inside, v) for k, v in kwargs.items()})
        originals = {id(lifted._data.box): (tensor, lifted._data.box) for tensor, lifted in pairs.values()}
        for tensor, box in originals.values():
            if box.version:
                tensor.copy_(box.value)
        return map_tensors(lambda t: _outside(level, t, originals), result)

    return functional


def _outside(level: FunctionalLevel, tensor: Tensor, originals: dict[int, Any]) -> Tensor:
    """An output as the caller gets it: of an argument's family, the argument or a view of it; else its value."""
    data = tensor._data
    if not isinstance(data, Functional) or data.level is not level:
        return tensor
    found = originals.get(id(data.box))
    return data.value if found is None else follow(found[0], data.path)
