"""spectral_norm: a weight divided by its greatest singular value. Source: Miyato et al. (arXiv:1802.05957)."""

from __future__ import annotations

from typing import Any, TypeVar

import weft.nn.functional as F
from weft.nn.modules.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from weft.nn.modules.module import Module
from weft.nn.parameter import Parameter, is_lazy, randn
from weft.nn.utils.weight_norm import key_of_hook
from weft.support.errors import StateError, ValueProblem
from weft.tensor.modes import no_grad
from weft.tensor.tensor import Tensor

M = TypeVar("M", bound=Module)


class SpectralNorm:
    """The hook before forward that makes the weight of `<name>_orig`;
    `<name>_u` and `<name>_v` are its singular vectors so far."""

    def __init__(self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        if n_power_iterations <= 0:
            raise ValueProblem(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.name, self.dim, self.n_power_iterations, self.eps = name, dim, n_power_iterations, eps

    def as_matrix(self, weight: Tensor) -> Tensor:
        """The weight with `dim` first and the other dims as one."""
        lined = weight.movedim(self.dim, 0) if self.dim else weight
        return lined.reshape(weight.shape[self.dim], -1)

    def compute_weight(self, module: Any, do_power_iteration: bool) -> Tensor:
        """weight / sigma; the vectors are moved on first, in place, if asked for."""
        weight: Tensor = getattr(module, f"{self.name}_orig")
        u, v = getattr(module, f"{self.name}_u"), getattr(module, f"{self.name}_v")
        matrix = self.as_matrix(weight)
        if do_power_iteration:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(matrix.t().mv(u), dim=0, eps=self.eps))
                    u.copy_(F.normalize(matrix.mv(v), dim=0, eps=self.eps))
                u, v = u.clone(), v.clone()  # a second forward before backward moves the buffers on
        return weight / u.dot(matrix.mv(v))

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, do_power_iteration=module.training))


def spectral_norm(
    module: M, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> M:
    """Divide a parameter, seen as a matrix with `dim` first, by its greatest singular value before each forward.
    Returns the module.

    The value comes of n_power_iterations steps of power iteration at each forward in training mode.
    The parameter is then `<name>_orig`.
    """
    if key_of_hook(module, SpectralNorm, name) is not None:
        raise StateError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
    if dim is None:
        dim = 1 if isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)) else 0
    hook = SpectralNorm(name, n_power_iterations, dim, eps)
    weight = module._parameters[name]
    if weight is None:
        raise ValueProblem(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
    if is_lazy(weight):
        raise ValueProblem(
            "The module passed to `SpectralNorm` can't have uninitialized parameters. Make sure to run the dummy "
            "forward before applying spectral normalization"
        )
    with no_grad():
        rows, columns = hook.as_matrix(weight).shape
        u = F.normalize(randn((rows,), dtype=weight.dtype, device=weight.device), dim=0, eps=eps)
        v = F.normalize(randn((columns,), dtype=weight.dtype, device=weight.device), dim=0, eps=eps)
    del module._parameters[name]
    module.register_parameter(f"{name}_orig", weight)
    setattr(module, name, weight.detach())
    module.register_buffer(f"{name}_u", u)
    module.register_buffer(f"{name}_v", v)
    module.register_forward_pre_hook(hook)
    return module


def remove_spectral_norm(module: M, name: str = "weight") -> M:
    """Make the weight, as it is now, a parameter again. Raises ValueProblem where it was not normalized."""
    key = key_of_hook(module, SpectralNorm, name)
    if key is None:
        raise ValueProblem(f"spectral_norm of '{name}' not found in {module}")
    hook: Any = module._forward_pre_hooks.pop(key)
    with no_grad():
        weight = hook.compute_weight(module, do_power_iteration=False)
    delattr(module, name)
    for part in ("orig", "u", "v"):
        delattr(module, f"{name}_{part}")
    module.register_parameter(name, Parameter(weight.detach()))
    return module
