"""Pruning: parts of a parameter are held at zero. `<name>_orig` becomes the parameter, the buffer `<name>_mask` says
what is kept, and a hook before forward makes `<name>` of both. Methods that are applied to one parameter add up.

Source: PyTorch's nn.utils.prune; Frankle and Carbin (arXiv:1803.03635) for what it is used for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from numbers import Integral, Real
from typing import Any, TypeVar

from weft.layers.factories import FACTORIES
from weft.nn.modules.module import Module
from weft.nn.utils.vectors import parameters_to_vector
from weft.ops.packet import aten
from weft.support.errors import ArgumentError, IndexBoundsError, ShapeError, StateError, ValueProblem
from weft.tensor.modes import no_grad
from weft.tensor.tensor import Tensor

M = TypeVar("M", bound=Module)
__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured", "PruningContainer",
    "RandomStructured", "RandomUnstructured", "custom_from_mask", "global_unstructured", "identity", "is_pruned",
    "l1_unstructured", "ln_structured", "random_structured", "random_unstructured", "remove",
]


class BasePruningMethod(ABC):
    """The hook of one pruned parameter. A subclass says what is kept: compute_mask, and PRUNING_TYPE, which is
    "unstructured" (elements), "structured" (slices along `dim`) or "global" (a mask for the whole tensor)."""

    PRUNING_TYPE = "unstructured"
    _tensor_name: str

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """What is kept of a tensor, by the importance `t` of its elements; default_mask: what was kept before."""

    def apply_mask(self, module: Any) -> Tensor:
        """The pruned parameter."""
        original: Tensor = getattr(module, f"{self._tensor_name}_orig")
        return getattr(module, f"{self._tensor_name}_mask").to(original.dtype) * original

    @classmethod
    def apply(
        cls, module: Any, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune a parameter of a module by a method of this class, on top of what was pruned before.
        Raises ShapeError for scores of another shape."""
        method: BasePruningMethod = cls(*args, **kwargs)
        method._tensor_name = name
        key, before = _hook_of(module, name)
        original = getattr(module, name)
        scores = original if importance_scores is None else importance_scores
        _check_scores(scores, original, f"parameter {name}")
        if before is None:
            kept = aten.ones_like(original.detach())
        else:
            kept = getattr(module, f"{name}_mask").detach().clone()
            container = before if isinstance(before, PruningContainer) else PruningContainer(before)
            container.add_pruning_method(method)
            method = container
        with no_grad():
            mask = method.compute_mask(scores.detach(), default_mask=kept)
        if before is None:
            del module._parameters[name]
            module.register_parameter(f"{name}_orig", original)
        else:
            del module._forward_pre_hooks[key]
        module.register_buffer(f"{name}_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """A tensor, pruned. Raises ShapeError."""
        scores = t if importance_scores is None else importance_scores
        _check_scores(scores, t, "tensor t")
        return t * self.compute_mask(scores, aten.ones_like(t) if default_mask is None else default_mask)

    def remove(self, module: Any) -> None:
        """Make the pruned values the parameter; they stay zero until they are trained."""
        name = self._tensor_name
        pruned = self.apply_mask(module).detach()
        original = module._parameters.pop(f"{name}_orig")
        delattr(module, name)
        del module._buffers[f"{name}_mask"]
        original.data = pruned
        setattr(module, name, original)


def _check_scores(scores: Tensor, pruned: Tensor, what: str) -> None:
    if scores.shape != pruned.shape:
        raise ShapeError(
            f"importance_scores should have the same shape as {what}, got {scores.shape} vs {pruned.shape}"
        )


def _hook_of(module: Any, name: str) -> tuple[Any, BasePruningMethod | None]:
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            return key, hook
    return None, None


class PruningContainer(BasePruningMethod):
    """Methods that were applied to one parameter, the latest last: it prunes what the others have left."""

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Add a method for the same parameter. Raises ArgumentError, ValueProblem."""
        if not isinstance(method, BasePruningMethod):
            raise ArgumentError(f"{type(method)} is not a BasePruningMethod subclass")
        if self._tensor_name != method._tensor_name:
            raise ValueProblem(
                f"Can only add pruning methods acting on the parameter named '{self._tensor_name}' to "
                f"PruningContainer {self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: Any) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """What the latest method keeps of what is kept so far."""
        method, mask = self._pruning_methods[-1], default_mask.to(t.dtype)
        if method.PRUNING_TYPE == "unstructured":
            place: Any = mask == 1
        elif method.PRUNING_TYPE == "structured":
            dim = _dim_of(t, method.dim)  # type: ignore[attr-defined]  # structured ones have it
            others = [d for d in range(t.ndim) if d != dim]
            place = tuple(mask.sum(others) != 0 if d == dim else slice(None) for d in range(t.ndim))
        elif method.PRUNING_TYPE == "global":
            place = ...
        else:
            raise ValueProblem(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        mask[place] = method.compute_mask(t[place], default_mask=mask[place]).to(mask.dtype)
        return mask


class Identity(BasePruningMethod):
    """Everything is kept."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask


class _Unstructured(BasePruningMethod):
    """amount: how many elements go, as a number or (below 1) a fraction."""

    def __init__(self, amount: Any) -> None:
        self.amount = _checked_amount(amount)

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        count = _count(self.amount, t.numel())
        mask = default_mask.clone().reshape(-1)
        if count:
            mask[aten.topk(self.importance(t).reshape(-1), count, largest=False)[1]] = 0
        return mask.reshape(t.shape)

    def importance(self, t: Tensor) -> Tensor:
        """The least of these go."""
        raise NotImplementedError


class RandomUnstructured(_Unstructured):
    """Elements at random go. amount: how many, as a number or (below 1) a fraction."""

    def importance(self, t: Tensor) -> Tensor:
        return aten.rand_like(t)


class L1Unstructured(_Unstructured):
    """The elements with the least magnitude go. amount: how many, as a number or (below 1) a fraction."""

    def importance(self, t: Tensor) -> Tensor:
        return aten.abs(t)


class _Structured(BasePruningMethod):
    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, dim: int = -1) -> None:
        self.amount, self.dim = _checked_amount(amount), dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if t.ndim <= 1:
            raise ValueProblem(
                "Structured pruning can only be applied to multidimensional tensors. Found tensor of shape "
                f"{t.shape} with {t.ndim} dims"
            )
        dim = _dim_of(t, self.dim)
        count = _count(self.amount, t.shape[dim])
        if count == 0:
            return default_mask
        kept = FACTORIES["ones"](t.shape[dim], dtype=default_mask.dtype, device=t.device)
        kept[aten.topk(self.importance(t, dim), count, largest=False)[1]] = 0
        return default_mask * kept.reshape([-1 if d == dim else 1 for d in range(t.ndim)])

    def importance(self, t: Tensor, dim: int) -> Tensor:
        """The slices along dim with the least of these go."""
        raise NotImplementedError


class RandomStructured(_Structured):
    """Slices along dim go, at random. amount: how many, as a number or (below 1) a fraction."""

    def importance(self, t: Tensor, dim: int) -> Tensor:
        drawn: Tensor = FACTORIES["rand"](t.shape[dim], device=t.device)
        return drawn


class LnStructured(_Structured):
    """The slices along dim with the least n-norm go. amount: how many, as a number or (below 1) a fraction."""

    def __init__(self, amount: Any, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def importance(self, t: Tensor, dim: int) -> Tensor:
        order = 2 if self.n == "fro" else self.n
        return aten.linalg_vector_norm(t, order, [d for d in range(t.ndim) if d != dim])


class CustomFromMask(BasePruningMethod):
    """What a mask keeps."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if default_mask.shape != self.mask.shape:
            raise ShapeError(f"custom_from_mask: the mask is of shape {self.mask.shape}, the tensor {t.shape}")
        return default_mask * self.mask.to(default_mask.dtype)


def _checked_amount(amount: Any) -> Any:
    if not isinstance(amount, Real):
        raise ArgumentError(f"Invalid type for amount: {amount}. Must be int or float.")
    if amount < 0 or (not isinstance(amount, Integral) and float(amount) > 1):
        raise ValueProblem(
            f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer"
        )
    return amount


def _count(amount: Any, size: int) -> int:
    if isinstance(amount, Integral) and int(amount) > size:
        raise ValueProblem(f"amount={amount} should be smaller than the number of parameters to prune={size}")
    return int(amount) if isinstance(amount, Integral) else round(amount * size)


def _dim_of(t: Tensor, dim: int) -> int:
    if not -t.ndim <= dim < t.ndim:
        raise IndexBoundsError(f"Invalid index {dim} for tensor of size {t.shape}")
    return dim % t.ndim


# ---- what users call
def identity(module: M, name: str) -> M:
    """Prepare a parameter for pruning: nothing goes."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: M, name: str, amount: Any) -> M:
    """Prune elements at random. amount: a number, or a fraction as a float."""
    RandomUnstructured.apply(module, name, amount=amount)
    return module


def l1_unstructured(module: M, name: str, amount: Any, importance_scores: Tensor | None = None) -> M:
    """Prune the elements with the least magnitude, or the least scores."""
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: M, name: str, amount: Any, dim: int) -> M:
    """Prune slices along dim at random."""
    RandomStructured.apply(module, name, amount=amount, dim=dim)
    return module


def ln_structured(
    module: M, name: str, amount: Any, n: Any, dim: int, importance_scores: Tensor | None = None
) -> M:
    """Prune the slices along dim with the least n-norm, of the values or of scores."""
    LnStructured.apply(module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: M, name: str, mask: Tensor) -> M:
    """Prune what a mask says."""
    CustomFromMask.apply(module, name, mask=mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Any, str]], pruning_method: type[BasePruningMethod],
    importance_scores: dict[tuple[Any, str], Tensor] | None = None, **kwargs: Any,
) -> None:
    """Prune several parameters as if they were one: pairs of a module and a name. Raises ArgumentError for a method
    that is not unstructured."""
    if not isinstance(parameters, Iterable) or not isinstance(importance_scores or {}, dict):
        raise ArgumentError("global_unstructured(): parameters must be an Iterable, importance_scores a dict")
    pairs: Sequence[tuple[Any, str]] = list(parameters)
    scores = importance_scores or {}
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise ArgumentError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    method._tensor_name = "temp"
    values = [getattr(module, name) for module, name in pairs]
    with no_grad():
        mask = PruningContainer(method).compute_mask(
            parameters_to_vector([scores.get(pair, value) for pair, value in zip(pairs, values, strict=True)]),
            parameters_to_vector([
                getattr(module, f"{name}_mask", aten.ones_like(value))
                for (module, name), value in zip(pairs, values, strict=True)
            ]),
        )
    start = 0
    for (module, name), value in zip(pairs, values, strict=True):
        custom_from_mask(module, name, mask[start : start + value.numel()].reshape(value.shape))
        start += value.numel()


def remove(module: M, name: str) -> M:
    """Make the pruned values the parameter `name`, and forget the mask. Raises StateError."""
    key, hook = _hook_of(module, name)
    if hook is None:
        raise StateError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")
    hook.remove(module)
    del module._forward_pre_hooks[key]
    return module


def is_pruned(module: Module) -> bool:
    """Whether a parameter in a module or below it is pruned."""
    return any(
        isinstance(hook, BasePruningMethod) for m in module.modules() for hook in m._forward_pre_hooks.values()
    )
