"""Random Modules for traces: each a chain of constructs that call functions later (transforms, gradients within the
forward, custom Functions, hooks, checkpoints), or that change what the Module holds. Every link maps [n, 3] to [n, 3].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional

import weft
from weft import Tensor, func, nn
from weft.utils.checkpoint import checkpoint

Link = Callable[[Any, Tensor], Tensor]


# ---- custom Functions
class Rounded(weft.autograd.Function):
    """A straight-through estimator."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return weft.round(x * 4) / 4

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


class Scaled(weft.autograd.Function):
    """Saves an input and an output, and has a number of Python's."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, factor: float) -> Tensor:
        y = weft.tanh(x * weight) * factor
        ctx.save_for_backward(x, weight, y)
        ctx.factor = factor
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, weight, y = ctx.saved_tensors
        inner = grad * (ctx.factor - y * y / ctx.factor) * 1.5  # (not the true gradient)
        return inner * weight, (inner * x).sum(0), None


class Two(weft.autograd.Function):
    """Two outputs, one without gradient; the context is set up apart."""

    @staticmethod
    def forward(x: Tensor) -> Any:
        return x.sin(), x > 0

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Any) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad * x.cos() + grad.mean(0)


class Mapped(weft.autograd.Function):
    """One that maps by its formulas."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, weight: Tensor) -> Tensor:
        return (x * weight).sin()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, weight = ctx.saved_tensors
        inner = grad * (x * weight).cos()
        return inner * weight, inner * x


# ---- scripts that choose when they run
@weft.jit.script
def _one_row_or_all(x: Tensor, w: Tensor) -> Tensor:
    y = x[:1] * w if bool(x.sum() > 0) else x * w
    return x.sin() + y


@weft.jit.script
def _perhaps(x: Tensor, w: Tensor) -> Tensor:
    y: Optional[Tensor] = None  # noqa: UP045  (as scripts are written for TorchScript)
    n: Optional[int] = None  # noqa: UP045
    if bool(x.sum() > 0):
        y = x * w
    else:
        n = x.shape[0]
    out = x.tanh() * w
    if y is not None:
        out = out + y
    if n is not None:
        out = out * n
    return out


# ---- links
def transformed(m: Any, x: Tensor) -> Tensor:
    return func.grad(lambda z: ((z * m.w) ** 3).sum() * 0.1)(x)


def nested(m: Any, x: Tensor) -> Tensor:
    return func.grad(lambda z: func.grad(lambda u: (u**3 * m.w).sum() * 0.1)(z).pow(2).sum())(x) * 0.1


def by_example(m: Any, x: Tensor) -> Tensor:
    return func.vmap(lambda row: row * m.w + func.grad(lambda w: (row * w).sum() ** 2)(m.w) * 0.1)(x)


def directional(m: Any, x: Tensor) -> Tensor:
    value, product = func.jvp(lambda z: m.lin(z).tanh(), (x,), (x * 0.5,))
    return value + product


def pulled(m: Any, x: Tensor) -> Tensor:
    value, pullback = func.vjp(lambda z: (z * m.w).sin(), x)
    return value + pullback(x.cos())[0]


def jacobians(m: Any, x: Tensor) -> Tensor:
    row = x.mean(0)
    first = func.jacrev(lambda z: (z * m.w).tanh())(row) + func.jacfwd(lambda z: (z * m.w).sin())(row)
    return x @ first + func.hessian(lambda z: (z**3 * m.w).sum() * 0.1)(row).diagonal()


def linear(m: Any, x: Tensor) -> Tensor:
    value, product = func.linearize(lambda z: (z * m.w).sin(), x)
    return value + product(x * 0.3)


def functional(m: Any, x: Tensor) -> Tensor:
    return func.functionalize(lambda z: z.clone().mul_(m.w).add_(1).sin_())(x)


def force(m: Any, x: Tensor) -> Tensor:
    position = x.detach().requires_grad_()
    return weft.autograd.grad((m.lin(position) ** 2).sum(), position, create_graph=True)[0] * 0.3 + x


def walked(m: Any, x: Tensor) -> Tensor:
    position = x.detach().clone().requires_grad_()
    (position**3).sum().backward()
    assert position.grad is not None
    return position.grad * 0.1 * m.w + x


def product_with_hessian(m: Any, x: Tensor) -> Tensor:
    return weft.autograd.functional.hvp(lambda z: (z**3).sum() * 0.1, x, x * 0.5, create_graph=True)[1] * m.w


def straight_through(m: Any, x: Tensor) -> Tensor:
    return Rounded.apply(x * m.w)


def custom(m: Any, x: Tensor) -> Tensor:
    return Scaled.apply(x, m.w, 1.5)


def two_outputs(m: Any, x: Tensor) -> Tensor:
    y, positive = Two.apply(x * m.w)
    return weft.where(positive, y, y * 2)


def inner_custom(m: Any, x: Tensor) -> Tensor:
    position = x.detach().requires_grad_()
    return weft.autograd.grad(Scaled.apply(position, m.w, 2.0).sum(), position)[0] + x


def mapped_twice(m: Any, x: Tensor) -> Tensor:
    return func.vmap(lambda row: func.vmap(lambda w: Mapped.apply(row, w))(m.lin.weight).sum(0) * 0.5)(x)


def chosen(m: Any, x: Tensor) -> Tensor:
    scaled = x * m.w
    return scaled.where(scaled > 0.2, weft.full_like(scaled, 0.5)) + (x > 0).where(x < 0.5, x > 0.8)


def hooked(m: Any, x: Tensor) -> Tensor:
    y = x * m.w
    y.register_hook(lambda grad: grad * 2 + grad.mean())
    return y.tanh()


def checkpointed(m: Any, x: Tensor) -> Tensor:
    return checkpoint(lambda z: m.lin(z).sin() * m.w, x, use_reentrant=False)  # type: ignore[no-any-return]


def reentrant(m: Any, x: Tensor) -> Tensor:
    return checkpoint(lambda z: m.lin(z).sin() * m.w, x * m.w, use_reentrant=True)  # type: ignore[no-any-return]


def without_gradient(m: Any, x: Tensor) -> Tensor:
    with weft.no_grad():
        scale = (x * m.w).abs().mean() + 1
    return m.lin(x) / scale


def other_parameters(m: Any, x: Tensor) -> Tensor:
    return func.functional_call(m.lin, {"weight": m.lin.weight.t() * 2, "bias": m.w}, (x,))


def counting(m: Any, x: Tensor) -> Tensor:
    m.calls = m.calls + 1
    return x * m.w / m.calls


def normed(m: Any, x: Tensor) -> Tensor:
    return m.normed(x)


def normed_by_its_values(m: Any, x: Tensor) -> Tensor:
    return m.spectral(x)


def orthogonal(m: Any, x: Tensor) -> Tensor:
    return m.turned(x)  # type: ignore[no-any-return]


def reshaped(m: Any, x: Tensor) -> Tensor:
    return x * m.w.reshape(1, -1).expand(x.shape[0], 3) @ m.lin.weight.view(3, -1).permute(1, 0)


def of_two_shapes(m: Any, x: Tensor) -> Tensor:
    return _one_row_or_all(x, m.w)  # type: ignore[no-any-return]


def of_optional_values(m: Any, x: Tensor) -> Tensor:
    return _perhaps(x, m.w)  # type: ignore[no-any-return]


def handed_on(m: Any, x: Tensor) -> Tensor:
    y = x * m.w
    z = y.contiguous().to(y.dtype)
    y = y * 2
    return func.vjp(lambda u: u + y.contiguous(), z)[1](y)[0] + y.float() + z


def written_within(m: Any, x: Tensor) -> Tensor:
    y, z = x * m.w, x + 1

    def write(u: Tensor) -> Tensor:
        y.add_(u.contiguous())
        return z.float() * u

    return weft.cond(x.sum() > 0, write, lambda u: u.contiguous(), (x,)) + y * z + x


LINKS: list[Link] = [
    transformed, nested, by_example, directional, pulled, jacobians, linear, functional, force, walked,
    product_with_hessian, straight_through, custom, two_outputs, inner_custom, mapped_twice, chosen, hooked,
    checkpointed, reentrant, without_gradient, other_parameters, counting, normed, normed_by_its_values, orthogonal,
    reshaped, of_two_shapes, of_optional_values, handed_on, written_within,
]  # fmt: skip
BEYOND_ONNX = frozenset(
    (
        transformed, nested, by_example, directional, pulled, jacobians, linear, functional, force, walked,
        product_with_hessian, inner_custom, mapped_twice, orthogonal, of_optional_values, handed_on,
    )
)  # what ONNX has no words for: gradients, the exponential of a matrix, a choice between a tensor and None


# ---- around links
def in_gradient(link: Link) -> Link:
    return lambda m, x: func.grad(lambda z: (link(m, z) ** 2).sum() * 0.1)(x)


def in_checkpoint(link: Link) -> Link:
    return lambda m, x: checkpoint(lambda z: link(m, z), x, use_reentrant=False)


def in_reentrant(link: Link) -> Link:
    return lambda m, x: checkpoint(lambda z: link(m, z), x * 1.0, use_reentrant=True)


def in_map(link: Link) -> Link:
    return lambda m, x: func.vmap(lambda row: link(m, row[None])[0])(x)


def in_vjp(link: Link) -> Link:
    return lambda m, x: func.vjp(lambda z: link(m, z), x)[1](x)[0]


def in_jvp(link: Link) -> Link:
    return lambda m, x: func.jvp(lambda z: link(m, z), (x,), (x,))[1]


def in_autograd(link: Link) -> Link:
    def outer(m: Any, x: Tensor) -> Tensor:
        position = x.detach().requires_grad_()
        value = (link(m, position) ** 2).sum() * 0.1
        return weft.autograd.grad(value, position, create_graph=True)[0] + x

    return outer


def in_no_grad(link: Link) -> Link:
    def outer(m: Any, x: Tensor) -> Tensor:
        with weft.no_grad():
            y = link(m, x)
        return y * x

    return outer


def in_branch(link: Link) -> Link:
    return lambda m, x: weft.cond(x.sum() > 0, lambda z: link(m, z), lambda z: z * m.w, (x,))


def in_loop(link: Link) -> Link:
    return lambda m, x: weft.while_loop(lambda i, z: i < 2, lambda i, z: (i + 1, link(m, z)), (weft.tensor(0), x))[1]


def in_loop_around(link: Link) -> Link:
    """Of a tensor from outside of the loop."""
    def outer(m: Any, x: Tensor) -> Tensor:
        y = x * 1
        return weft.while_loop(lambda i, z: i < 2, lambda i, z: (i + 1, z * 0.5 + link(m, y)), (weft.tensor(0), x))[1]

    return outer


def in_hook(link: Link) -> Link:
    def outer(m: Any, x: Tensor) -> Tensor:
        y = x * m.w
        if y.requires_grad:
            y.register_hook(lambda grad: grad * link(m, grad.detach()).detach().abs())
        return y * 1.5

    return outer


AROUND: list[Callable[[Link], Link]] = [
    in_gradient, in_checkpoint, in_reentrant, in_map, in_vjp, in_jvp, in_autograd, in_no_grad, in_branch, in_loop,
    in_loop_around, in_hook,
]  # fmt: skip
ASKING = ("in_branch", "written_within")  # what asks for a tensor's truth
WITH_STATE = frozenset((counting, normed_by_its_values))


class Chain(nn.Module):
    """A Module that calls its links in order."""

    def __init__(self, links: list[Link]) -> None:
        super().__init__()
        self.w = nn.Parameter(weft.rand(3) + 0.5)
        self.lin = nn.Linear(3, 3)
        self.normed = nn.utils.weight_norm(nn.Linear(3, 3))
        self.spectral = nn.utils.spectral_norm(nn.Linear(3, 3))
        self.turned = nn.utils.parametrizations.orthogonal(nn.Linear(3, 3))
        self.register_buffer("calls", weft.zeros(()))
        self.links = links

    def forward(self, x: Tensor) -> Tensor:
        for link in self.links:
            x = link(self, x)
        return x + x.shape[0] * self.w
