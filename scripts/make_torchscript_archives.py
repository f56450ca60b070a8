"""Write the TorchScript archives that tests/unit/jit/test_archives.py reads, with what PyTorch computes by them.

    python scripts/make_torchscript_archives.py        # -> tests/unit/jit/data/archives, a second

Needs torch, in an environment of its own: weft never has torch. Made with torch 2.13 (CPU). Of each program there are
NAME.pt, which torch.jit.save wrote, and NAME.calls.pt: a list of calls, each with arguments and results, in which a
tuple stands as ["tuple", ...], a list as ["list", ...], a dict as ["dict", [key, value], ...].
"""

import enum
import math
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "unit" / "jit" / "data" / "archives"


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.c, self.b, self.l, self.d = (
            nn.Conv2d(3, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.Linear(4, 5),
            nn.Dropout(0.2),
        )

    def forward(self, x):
        x = F.relu(self.b(self.c(x)))
        x = F.adaptive_avg_pool2d(x, 1).flatten(1)
        return F.log_softmax(self.l(self.d(x)), dim=-1)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.e, self.r = nn.Embedding(10, 4), nn.LSTM(4, 5, 2, batch_first=True, bidirectional=True)
        self.g, self.cell = nn.GRU(10, 3), nn.GRUCell(3, 2)

    def forward(self, x: Tensor, h: tuple[Tensor, Tensor] | None = None):
        y, (h1, c1) = self.r(self.e(x), h)
        z, _ = self.g(y)
        return {"y": y, "z": z, "h": h1, "c": c1, "cell": self.cell(z[0])}


class Point(NamedTuple):
    x: Tensor
    n: int


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@torch.jit.script
class Counter:
    def __init__(self, start: int):
        self.n = start
        self.seen: list[str] = []

    def add(self, k: int) -> int:
        self.n += k
        self.seen.append(str(k))
        return self.n


@torch.jit.script
def helper(x: Tensor, w: float = 2.0, flag: bool = False) -> Tensor:
    if flag:
        return x * w
    return x / w + 1


class Language(nn.Module):
    names: list[str]
    table: dict[str, int]
    last: Tensor | None  # (no postponed annotations: torch.jit reads them as they are)

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(3))
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))
        self.names, self.table, self.last, self.color = ["a", "b"], {"a": 1, "b": 5}, None, Color.BLUE
        self.scale: Final[float] = 0.5
        self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(3)])
        self.heads = nn.ModuleDict({"p": nn.Linear(3, 2), "q": nn.Tanh()})

    def forward(self, x: Tensor, n: int, mode: str = "sum"):
        self.calls += 1
        counter = Counter(n)
        for i in range(n):
            if i == 2:
                continue
            x = x + self.w * i
            counter.add(i)
            if i > 5:
                break
        k = 0
        while k < 3 and bool(x.sum() > -100):
            k += 1
        for layer in self.layers:
            x = torch.relu(layer(x))
        for _, head in self.heads.items():
            x = head(x)
        parts: list[Tensor] = []
        for name in self.names:
            parts.append(x * self.table[name])
        if self.last is None:
            self.last = x.mean()
        last = self.last
        assert last is not None
        point = Point(torch.stack(parts), counter.n)
        total = point.x.sum() if mode == "sum" else point.x.mean()
        by_name = torch.jit.annotate(dict[str, Tensor], {})
        by_name["t"], by_name["o"] = helper(total, flag=len(parts) > 1), last
        if self.color == Color.BLUE:
            total = total + 1
        with torch.no_grad():
            twice = total * 2
        text = f"{n} of {mode}" + f" {k}"
        if x.size(0) > 100:
            raise ValueError("too many: %d" % x.size(0))  # noqa: UP031  (one of the texts that are tried)
        y = x[:, 0:1].contiguous().view(-1).to(torch.float64)
        numbers = (max(n, 2), float(n) / 3, n // 2, -n % 3, 2**n)
        return point, by_name, text, twice, y[y > 0], [counter.n, k], x.masked_fill(x > 0, 0.0), numbers

    @torch.jit.export
    def reset(self):
        self.calls.zero_()
        self.last = None


class Operators(nn.Module):
    def forward(self, x: Tensor, idx: list[int], names: dict[str, Tensor]):
        a, b = x.chunk(2, 1)
        v, i = torch.topk(x, 2)
        z = torch.zeros(2, 3, dtype=torch.int32) + torch.arange(3)
        z[0, 1] = 7
        z[1] += idx[0]
        e = torch.einsum("ij,kj->ik", x, x)
        n = F.interpolate(x[None, None], scale_factor=2.0, mode="nearest")
        ordered = [int(k) for k in idx]
        ordered.sort()
        total = torch.zeros(())
        for _, t in names.items():
            total = total + t.sum()
        either: int | str = 3
        r = either + 1 if isinstance(either, int) else 0
        stacked = torch.stack([a, b], 0).permute(2, 0, 1).reshape(-1)
        written = x.clone()
        written.add_(1).mul_(2)
        return (
            a,
            b,
            v,
            i,
            torch.sort(x, -1, descending=True)[0],
            z,
            x.new_full((2,), 3.5),
            e,
            n,
            torch.where(x > 0, x, x * 0.1),
            ordered,
            sorted(idx),
            list(names.keys()),
            total,
            r,
            stacked,
            F.pad(x, [1, 1], value=2.0),
            x.clamp(min=0.0).sum(dim=[0, 1], keepdim=True),
            written,
            torch.matmul(x, x.t()),
            x.dtype == torch.float32,
            torch.tensor([1.0, 2.0]),
            torch.full([2], 4),
            of_numbers(3.0),
            x.shape[1:],
            torch.cumsum(x, 1),
            x.std(),
            torch.linspace(0, 1, 4),
            x.norm(),
            x.max(),
            x.max(1)[0],
            x.argmax(-1),
        )


def of_numbers(x: float):
    return math.sqrt(x) + math.floor(2.7) + math.pi


class Layers(nn.Module):
    """Layers whose programs call operators that weft composes."""

    def __init__(self) -> None:
        super().__init__()
        self.image = nn.Sequential(
            nn.ConvTranspose2d(2, 4, 3, 2, 1, 1),
            nn.GroupNorm(2, 4),
            nn.LocalResponseNorm(2),
            nn.ReflectionPad2d(1),
            nn.MaxPool2d(2, ceil_mode=True),
            nn.Upsample(size=(7, 3), mode="bicubic"),
            nn.PixelShuffle(2),
            nn.AdaptiveMaxPool2d((3, 2)),
            nn.InstanceNorm2d(1, affine=True),
            nn.Dropout2d(0.3),
        )
        self.acts = nn.Sequential(
            nn.CELU(), nn.GELU(), nn.Mish(), nn.Hardswish(), nn.PReLU(), nn.Softmin(1), nn.RMSNorm(6)
        )
        self.attention, self.bilinear = nn.MultiheadAttention(4, 2, batch_first=True), nn.Bilinear(3, 3, 2)
        self.conv, self.fold = nn.Conv1d(3, 4, 3, padding="same"), nn.Fold((4, 4), 2)
        self.loss, self.divergence = nn.CrossEntropyLoss(label_smoothing=0.1), nn.KLDivLoss(reduction="batchmean")

    def forward(self, image: Tensor, x: Tensor, q: Tensor, y: Tensor, s: Tensor, f: Tensor, t: Tensor):
        return (
            self.image(image),
            self.acts(x),
            self.attention(q, q, q)[0],
            self.bilinear(y, y + 1),
            self.conv(s),
            self.fold(f),
            self.loss(y, t),
            self.divergence(F.log_softmax(y, -1), F.softmax(y * 2, -1)),
        )


def plain(value: Any) -> Any:
    """A result as the tests read it."""
    if isinstance(value, tuple):
        return ["tuple", *map(plain, value)]
    if isinstance(value, list):
        return ["list", *map(plain, value)]
    if isinstance(value, dict):
        return ["dict", *([k, plain(v)] for k, v in value.items())]
    return value.detach() if isinstance(value, Tensor) else value


def store(name: str, program: Any, *calls: tuple[Any, ...]) -> None:
    """Write a program, and what it gives for some calls in turn."""
    torch.jit.save(program, str(FOLDER / f"{name}.pt"), _extra_files={"note.txt": name})
    torch.save([[list(map(plain, args)), plain(program(*args))] for args in calls], FOLDER / f"{name}.calls.pt")


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    net, image = Net().eval(), torch.randn(3, 3, 6, 6)
    with torch.no_grad():
        net.b.running_mean.uniform_(-1, 1)
    store("scripted", torch.jit.script(net), (torch.randn(2, 3, 6, 6),), (torch.randn(1, 3, 5, 7),))
    store("traced", torch.jit.trace(net, torch.randn(2, 3, 6, 6)), (image,))
    store("frozen", torch.jit.freeze(torch.jit.script(net)), (image,))
    store("function", helper, (image, 2.0, False), (image, 3.0, True))
    tokens = torch.randint(0, 10, (2, 6))
    store("recurrent", torch.jit.script(Recurrent()), (tokens,), (torch.randint(0, 10, (3, 4)),))
    store("recurrent_traced", torch.jit.trace(Recurrent(), (tokens,), strict=False), (tokens,))
    store(
        "language",
        torch.jit.script(Language()),
        (torch.randn(4, 3), 4),
        (torch.randn(2, 3), 1, "mean"),
        (torch.randn(4, 3), 9),
    )
    store(
        "operators",
        torch.jit.script(Operators()),
        (torch.randn(4, 4), [3, 1, 2], {"a": torch.ones(2), "b": torch.ones(3)}),
    )
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
    store(
        "encoder",
        torch.jit.script(nn.TransformerEncoder(layer, 1).eval()),
        (torch.randn(2, 5, 8),),
        (torch.randn(1, 3, 8),),
    )
    inputs = (
        torch.randn(1, 2, 5, 5), torch.randn(4, 6), torch.randn(2, 3, 4), torch.randn(4, 3), torch.randn(2, 3, 7),
        torch.randn(1, 8, 9), torch.tensor([0, 1, 2, 1]),
    )  # fmt: skip
    layers = Layers().eval()
    store("layers", torch.jit.script(layers), inputs)
    store("layers_traced", torch.jit.trace(layers, inputs, check_trace=False), inputs)


if __name__ == "__main__":
    main()
