"""Random functions of two to four tensors that show one memory: windows of a series or blocks of a matrix that lie
apart, overlap, are equal or the same object, are transposed or lie in steps. Each is called several times, and they
lie otherwise at every call.

The functions compute, return views, now and then write, and ask for gradients. Seen of a call are the results, what
they share with the memory (found out by writing to them), and the gradients.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import weft

COMPUTE = (
    "$a * $b + 1", "$a - $b.mean()", "($a * 2).relu()", "$a.sum() * $b", "weft.cat([$a, $b])", "$a.clone()",
    "weft.stack([$a, $b]).sum(0)", "$a.detach() * $b", "$a.cumsum(0)", "$a @ $b", "weft.where($a > $b, $a, $b)",
    "$a.numel() + $b", "$a[1:] - $a[:-1]", "weft.tanh($a) + $b",
)  # fmt: skip
VIEWS = (
    "$a[1:]", "$a[0]", "$a.t()", "$a.reshape(-1)", "$a.unsqueeze(0)", "$a[::2]", "$a.detach()", "$a.flatten()",
    "$a.squeeze()", "$a", "$a.contiguous()", "$a.data", "$a.chunk(2)[1]", "$a.as_strided((2,), (1,))", "$a.view_as($a)",
)  # fmt: skip
WRITES = (
    "$a.add_(1)", "$a.copy_($b * 1)", "$a[0] = 3", "$a[1:] += 1", "$a.zero_()", "$a.data.add_(1)",
    "$a.detach().mul_(2)", "weft.add($a, $b, out=$a)",
)  # fmt: skip
GRADIENTS = (
    "weft.autograd.grad(($a * $a * $b).sum(), [$a], True, allow_unused=True)[0]",
    "weft.autograd.grad(($a * $b).sum(), [$a, $b], True, allow_unused=True)[1]",
)  # fmt: skip
BASES = ("plain", "plain", "leaf", "computed", "leaves")  # whether arguments have a history, and which
PLACES = ("apart", "overlapping", "equal", "same", "anywhere", "anywhere", "one is another", "others")
LENGTH = 20
NO_BACKWARD = "eager mode has no such backward, a program may"


@dataclass(frozen=True)
class Windows:
    """A function's lines, how many arguments of how many dims it has, and what they are made of. calls: their seeds."""

    seed: int
    count: int
    ndim: int
    base: str
    lines: tuple[str, ...]
    calls: tuple[int, ...]

    def source(self) -> str:
        """The function, which returns all that it made."""
        made = [line.split(" = ")[0] for line in self.lines if line.startswith("v") and line.split(" = ")[0].isalnum()]
        body = "".join(f"    {line}\n" for line in self.lines)
        arguments = ", ".join(f"x{i}" for i in range(self.count))
        return f"def function({arguments}):\n{body}    return [{', '.join(made)}]\n"

    def given(self, call: int) -> tuple[weft.Tensor, weft.Tensor, list[weft.Tensor]]:
        """The leaf that holds the memory, what the arguments are views of, and the arguments."""
        rng = np.random.default_rng([self.seed, call])
        leaf = _memory(rng, self.ndim)
        if self.base in ("leaf", "computed"):
            leaf.requires_grad_()
        base = leaf * 1.5 if self.base == "computed" else leaf
        size, place = int(rng.integers(2, 5)), str(rng.choice(PLACES))
        arguments: list[weft.Tensor] = []
        for i in range(self.count):
            is_other = i > 0 and (place == "others" or (place == "one is another" and i == self.count - 1))
            shown = _window(rng, _memory(rng, self.ndim) if is_other else base, place, i, size)
            if self.base == "leaves":
                shown = shown.detach().requires_grad_(bool(rng.random() < 0.7))
            arguments.append(arguments[0] if place == "same" and i and rng.random() < 0.7 else shown)
        return leaf, base, arguments


def _memory(rng: np.random.Generator, ndim: int) -> weft.Tensor:
    return weft.from_numpy(rng.standard_normal((LENGTH,) if ndim == 1 else (8, 8)))


def _window(rng: np.random.Generator, base: weft.Tensor, place: str, i: int, size: int) -> weft.Tensor:
    free = base.shape[0] - size
    start = {"apart": i * size, "overlapping": i, "equal": 3, "same": 3}.get(place, int(rng.integers(free + 1)))
    if base.ndim == 1:
        return base[::3][:size] if place == "anywhere" and rng.random() < 0.2 else base[start : start + size]
    at = (4 * (i % 2), 4 * (i // 2)) if place == "apart" else (min(start, free), int(rng.integers(free + 1)))
    block = base[at[0] : at[0] + size, at[1] : at[1] + size]
    return block.t() if rng.random() < 0.3 else block


def draw(seed: int) -> Windows:
    """The function of a seed; lines that its first arguments do not allow are left out."""
    rng = np.random.default_rng([seed, 7])
    base, count = str(rng.choice(BASES)), int(rng.integers(2, 5))
    function = Windows(seed, count, int(rng.choice([1, 1, 2])), base, (), tuple(range(int(rng.integers(3, 7)))))
    writes, asks = rng.random() < 0.35, base != "plain" and rng.random() < 0.5
    names = [f"x{i}" for i in range(count)]
    scope: dict[str, Any] = {"weft": weft, **dict(zip(names, function.given(0)[2], strict=True))}
    lines: list[str] = []
    for _ in range(int(rng.integers(2, 8))):
        chance = rng.random()
        kind = WRITES if writes and chance < 0.3 else GRADIENTS if asks and chance < 0.5 else (VIEWS, COMPUTE)[
            int(rng.random() < 0.5)]
        line = str(rng.choice(kind)).replace("$a", str(rng.choice(names))).replace("$b", str(rng.choice(names)))
        line = f"with weft.no_grad(): {line}" if kind is WRITES and rng.random() < 0.5 else line
        name = f"v{len(lines)}"
        line = line if kind is WRITES else f"{name} = {line}"
        try:
            exec(line, scope)
        except (weft.WeftError, RuntimeError, ValueError, TypeError, IndexError):
            continue
        lines.append(line)
        if kind in (COMPUTE, VIEWS):
            names.append(name)
    return replace(function, lines=tuple(lines))


def run(function: Windows, mode: dict[str, Any] | None) -> list[Any]:
    """What each call leaves behind; the name of a refusal instead. mode: the options of weft.compile, None for eager
    mode."""
    scope: dict[str, Any] = {"weft": weft}
    exec(compile(function.source(), f"<windows {function.seed}>", "exec"), scope)
    called = scope["function"] if mode is None else weft.compile(scope["function"], **mode)
    return [_seen(called, *function.given(call)) for call in function.calls]


def _seen(called: Any, leaf: weft.Tensor, base: weft.Tensor, arguments: list[weft.Tensor]) -> Any:
    try:
        results = called(*arguments)
    except (weft.WeftError, RuntimeError, ValueError, TypeError, IndexError):
        return "refused"
    found = [t for t in results if t is not None]
    leaves = [t for t in (leaf, *arguments) if t.is_leaf]
    everything = [*found, *arguments, leaf, base]
    seen = [[t is None for t in results], [t.requires_grad for t in found], _values(everything)]
    seen.append([[t is a for a in arguments] for t in found])
    wanting = [t for t in found if t.requires_grad]
    try:
        if wanting:
            sum((t * t).sum() for t in wanting).backward()  # type: ignore[union-attr]
        seen.append(_values([t.grad for t in leaves if t.grad is not None]))
    except weft.WeftError:
        seen.append(NO_BACKWARD)
    for i, result in enumerate(found):
        with weft.no_grad():
            result.fill_(i + 5.0)
        seen.append(_values(everything))
    return seen


def _values(tensors: list[weft.Tensor]) -> list[np.ndarray]:
    return [t.detach().numpy().copy() for t in tensors]


def difference(function: Windows, mode: dict[str, Any]) -> str | None:
    """Where a mode leaves something else behind than eager mode; None where it does not."""
    for call, (wanted, found) in enumerate(zip(run(function, None), run(function, mode), strict=True)):
        if not _same(wanted, found):
            pairs = [(a, b) for a, b in zip(wanted, found, strict=False) if not _same(a, b)]
            return f"at call {call}: {pairs[0][1] if pairs else found}\nexpected {pairs[0][0] if pairs else wanted}"
    return None


def _same(a: Any, b: Any) -> bool:
    if a is NO_BACKWARD:
        return True
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, np.ndarray):
        is_alike = isinstance(b, np.ndarray) and a.shape == b.shape
        return is_alike and np.allclose(a, b, rtol=1e-9, atol=1e-9, equal_nan=True)
    return bool(a == b)


def shrunk(function: Windows, mode: dict[str, Any]) -> Windows:
    """The function without the lines and calls that the difference does not need."""
    for name in ("lines", "calls"):
        for at in reversed(range(len(getattr(function, name)))):
            kept = getattr(function, name)
            smaller = replace(function, **{name: kept[:at] + kept[at + 1 :]})
            try:
                function = smaller if difference(smaller, mode) is not None else function
            except NameError:
                continue
    return function
