"""What a user writes, checked strictly by mypy in test_stubs.py (and run there)."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import weft
from weft import Tensor, nn
from weft.autograd import Function
from weft.autograd.function import FunctionCtx
from weft.func import grad, vjp, vmap
from weft.nn import functional as F
from weft.utils.data import DataLoader, Dataset, random_split


class Net(nn.Module):
    """A small model."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(3, width)
        self.second = nn.Linear(width, 2)

    def forward(self, x: Tensor) -> Tensor:
        hidden: Tensor = self.first(x)
        out: Tensor = self.second(F.relu(hidden))
        return out


def statistics(x: Tensor) -> tuple[float, int, Tensor]:
    found = x.max(1)
    best: Tensor = found.values
    places: Tensor = found.indices
    spread = (x - x.mean(0, keepdim=True)).square().sum().sqrt()
    return spread.item(), int(places[0]), best


def shapes(x: Tensor) -> Tensor:
    y = x.view(-1, 2).t().reshape((2, -1)).unsqueeze(0)
    y = weft.cat([y, y], dim=0)
    y = y[0, :1] @ y[1].t()
    return y.to(weft.float64).float() if y.is_floating_point() else y


def training(steps: int) -> list[float]:
    weft.manual_seed(0)
    model = Net(4)
    optimizer = weft.optim.SGD(model.parameters(), lr=0.1)
    x, target = weft.randn(8, 3), weft.randint(0, 2, (8,))
    losses: list[float] = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), target)
        loss.backward()
        with weft.no_grad():
            for p in model.parameters():
                p.add_(0.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


def arithmetic(a: Tensor, n: float) -> Tensor:
    b = 2 * a + n - a / 3
    b += 1
    b[0] = n
    mask = (b > 0) & ~(b == 1)
    return weft.where(mask, b, -b).clamp(min=-1.0, max=1.0).masked_fill(mask, 0.5)


def kinds(x: Tensor, dtype: weft.dtype, device: weft.device | str = "cpu") -> tuple[weft.dtype, weft.Size]:
    wider = weft.promote_types(dtype, weft.get_default_dtype())
    chosen: weft.dtype = wider if weft.can_cast(weft.bool, wider) else weft.long
    return x.to(chosen).dtype, x.to(device).shape


@weft.compile
def compiled(x: Tensor) -> Tensor:
    return (x * 2).sum()


def second_order(x: Tensor) -> tuple[Tensor, ...]:
    (first,) = weft.autograd.grad((x**3).sum(), (x,), create_graph=True)
    return weft.autograd.grad(first.sum(), (x,))


class Points(Dataset[tuple[Tensor, Tensor]]):
    """Random points with their signs."""

    def __init__(self, count: int) -> None:
        self.x = weft.randn(count, 3)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.x[index], (self.x[index].sum() > 0).long()


def epoch(model: nn.Module, loader: DataLoader[tuple[Tensor, Tensor]], optimizer: weft.optim.Optimizer) -> float:
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item() * x.size(0)
    return total / len(loader.dataset)


class Cube(Function):
    """x ** 3 * scale, with a backward of its own."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.scale = scale
        return x**3 * scale

    @staticmethod
    def backward(ctx: FunctionCtx, g: Tensor) -> tuple[Tensor | None, None]:
        (x,) = ctx.saved_tensors
        return (g * 3 * x**2 * ctx.scale, None) if ctx.needs_input_grad[0] else (None, None)


def transforms(x: Tensor) -> Tensor:
    first: Tensor = grad(lambda t: (t.sin() ** 2).sum())(x)
    out, pull = vjp(lambda t: t * 2, x)
    back: Tensor = pull(out)[0]
    rows: Tensor = vmap(lambda t: t.exp().sum())(weft.stack([x, x]))
    return first.sum() + back.sum() + rows.sum()


def scalar(x: Tensor) -> float:
    return x.mean().item()


def kept(model: nn.Module, path: Path) -> list[str]:
    weft.save(model.state_dict(), path)
    missing, unexpected = model.load_state_dict(weft.load(path), strict=False)
    return [*missing, *unexpected, *(name for name, p in model.named_parameters() if p.grad is not None)]


class Meters(Tensor):
    unit: str = "m"

    @classmethod
    def __weft_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return super().__weft_function__(func, types, args, kwargs)


def subclasses(x: Tensor) -> str:
    length: Meters = x.as_subclass(Meters)
    made: Meters = Tensor._make_subclass(Meters, x)
    return length.unit + made.unit


if __name__ == "__main__":
    print(statistics(weft.randn(3, 4)), shapes(weft.arange(8.0)), training(2), arithmetic(weft.ones(3), 0.5))
    print(kinds(weft.ones(3), weft.int16), compiled(weft.ones(3)), second_order(weft.ones(3, requires_grad=True)))
    print(subclasses(weft.ones(3)), Cube.apply(weft.ones(2), 2.0), transforms(weft.ones(3)), scalar(weft.ones(2)))
    net = Net(4)
    part, _ = random_split(Points(8), [6, 2])
    print(epoch(net, DataLoader(part, batch_size=2, shuffle=True), weft.optim.AdamW(net.parameters(), lr=0.1)))
    with tempfile.TemporaryDirectory() as folder:
        print(kept(net, Path(folder) / "net.safetensors"))
