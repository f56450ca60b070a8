"""state_dict and load_state_dict of optimizers, with PyTorch's layout: parameters are numbered in the order
of the groups."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from weft.ops.packet import aten
from weft.optim.clock import scalar_dtype
from weft.support.errors import ValueProblem
from weft.tensor.modes import no_grad
from weft.tensor.tensor import Tensor

if TYPE_CHECKING:
    from weft.optim.optimizer import Optimizer

_NOT_CAST = frozenset({"step", "mu_product"})


def state_dict(optimizer: Optimizer) -> dict[str, Any]:
    """{"state": {number: state}, "param_groups": [options with numbers for params]}; tensors are not copied."""
    numbers: dict[int, int] = {}
    for i, p in enumerate(_params(optimizer.param_groups)):
        numbers.setdefault(id(p), i)  # a parameter that is listed twice keeps its first number
    groups = []
    for group in optimizer.param_groups:
        options: dict[str, Any] = {key: value for key, value in group.items() if key != "params"}
        options["params"] = [numbers[id(p)] for p in group["params"]]
        groups.append(options)
    state = {numbers[id(p)] if isinstance(p, Tensor) else p: value for p, value in optimizer.state.items()}
    packed: dict[str, Any] = {"state": state, "param_groups": groups}
    for hook in list(optimizer._state_dict_hooks.values()):
        changed = hook(optimizer, packed)
        packed = packed if changed is None else changed
    return packed


def load_state_dict(optimizer: Optimizer, saved_state: Mapping[str, Any]) -> None:
    """Take over a state_dict: state is copied and cast to the parameters' dtypes and devices,
    options replace those of the groups."""
    saved_state = dict(saved_state)
    for hook in list(optimizer._load_state_dict_hooks.values()):
        changed = hook(optimizer, saved_state)
        saved_state = saved_state if changed is None else changed
    own = optimizer.param_groups
    saved = copy.deepcopy(saved_state["param_groups"])  # (at once: groups that share a rate go on sharing one)
    if len(own) != len(saved):
        raise ValueProblem("loaded state dict has a different number of parameter groups")
    if any(len(a["params"]) != len(b["params"]) for a, b in zip(own, saved, strict=True)):
        raise ValueProblem(
            "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
        )
    by_number = dict(zip((n for group in saved for n in group["params"]), _params(own), strict=True))
    state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
    with no_grad():
        for number, value in saved_state["state"].items():
            p = by_number.get(number)
            state[number if p is None else p] = copy.deepcopy(value) if p is None else _cast(p, value)
        for group in own:
            _share_steps(state, group["params"])
    options = [_joined(mine, new) for mine, new in zip(own, saved, strict=True)]
    # the groups stay the same objects, which compiled steps and schedulers know
    for mine, joined in zip(own, options, strict=True):
        mine.clear()
        mine.update(joined)
    optimizer.__setstate__({"state": state, "param_groups": own})


def _params(groups: list[dict[str, Any]]) -> Iterator[Tensor]:
    return (p for group in groups for p in group["params"])


def _cast(p: Tensor, value: Any, key: str | None = None) -> Any:
    if isinstance(value, Tensor):
        if key in _NOT_CAST:
            return value.detach().to(p.device, copy=True)
        return value.detach().to(p.device, p.dtype if p.is_floating_point() else value.dtype, copy=True)
    if isinstance(value, dict):
        return {k: _cast(p, v, k) for k, v in value.items()}
    if key == "step" and isinstance(value, (int, float)):
        return aten.full((), float(value), dtype=scalar_dtype())  # as older versions saved it
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(p, v) for v in value)
    return copy.deepcopy(value)


def _share_steps(state: Mapping[Tensor, dict[str, Any]], params: list[Tensor]) -> None:
    """Counters that show the same number become one (see clock.py)."""
    by_count: dict[float, Tensor] = {}
    for p in params:
        step = state[p].get("step") if p in state else None
        if isinstance(step, Tensor) and step.numel() == 1:
            state[p]["step"] = by_count.setdefault(step.item(), step)


def _joined(mine: dict[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    joined = {key: value for key, value in new.items() if key != "params"}
    if "param_names" in mine and "param_names" not in joined:
        joined["param_names"] = mine["param_names"]
    joined["params"] = mine["params"]
    return joined
