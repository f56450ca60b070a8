"""weight_norm: a weight as direction times length. Source: Salimans and Kingma (arXiv:1602.07868)."""

from __future__ import annotations

from typing import Any, TypeVar

from weft.nn.modules.module import Module
from weft.nn.parameter import Parameter, is_lazy
from weft.support.errors import StateError, ValueProblem
from weft.tensor.tensor import Tensor

M = TypeVar("M", bound=Module)


class WeightNorm:
    """The hook before forward that makes the weight of its direction `<name>_v` and length `<name>_g`."""

    def __init__(self, name: str, dim: int) -> None:
        self.name, self.dim = name, dim

    def compute_weight(self, module: Any) -> Tensor:
        """v * g / |v|, with the norms over all dims but `dim` (-1: over all dims)."""
        v: Tensor = getattr(module, f"{self.name}_v")
        return v * (getattr(module, f"{self.name}_g") / norm_except_dim(v, self.dim))

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def norm_except_dim(v: Tensor, dim: int) -> Tensor:
    """The norms of v over all dims but one, which are kept as dims of size 1; a 0-dim norm for dim -1."""
    if dim == -1:
        return v.norm()
    over = tuple(d for d in range(v.ndim) if d != dim % v.ndim)
    return v.norm(2, over, True) if over else v.abs()


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """Replace a parameter by its length `<name>_g` (one for each index of `dim`, one in all for None)
    and direction `<name>_v`. Returns the module."""
    if key_of_hook(module, WeightNorm, name) is not None:
        raise StateError(f"Cannot register two weight_norm hooks on the same parameter {name}")
    hook = WeightNorm(name, -1 if dim is None else dim)
    weight = getattr(module, name)
    if is_lazy(weight):
        raise ValueProblem(
            "The module passed to `WeightNorm` can't have uninitialized parameters. Make sure to run the dummy forward "
            "before applying weight normalization"
        )
    del module._parameters[name]
    module.register_parameter(f"{name}_g", Parameter(norm_except_dim(weight, hook.dim).detach().clone()))
    module.register_parameter(f"{name}_v", Parameter(weight.detach()))
    setattr(module, name, hook.compute_weight(module))
    module.register_forward_pre_hook(hook)
    return module


def remove_weight_norm(module: M, name: str = "weight") -> M:
    """Make the weight a parameter again. Raises ValueProblem where it was not normalized."""
    key = key_of_hook(module, WeightNorm, name)
    if key is None:
        raise ValueProblem(f"weight_norm of '{name}' not found in {module}")
    hook: Any = module._forward_pre_hooks.pop(key)
    weight = hook.compute_weight(module).detach()
    delattr(module, name)
    del module._parameters[f"{name}_g"], module._parameters[f"{name}_v"]
    setattr(module, name, Parameter(weight))
    return module


def key_of_hook(module: Module, kind: type, name: str) -> int | None:
    """Under which number a module has a hook before forward of this kind for the parameter `name`;
    None where it has none."""
    return next((
        key for key, hook in module._forward_pre_hooks.items()
        if isinstance(hook, kind) and getattr(hook, "name", None) == name
    ), None)
