"""Random programs whose truth is eager mode: values, strides, what shares memory with what, and what is written,
for every dtype and layout.

A program is a list of lines over arguments x0, x1 (tensors), i (a 0-dim index) and state s.
Lines are drawn from templates and kept if eager mode runs them.
Sizes are at least 3: across a symbolic size that happens to be 1, a capture takes reshape for a copy
where eager mode looks.
"""

from __future__ import annotations

import contextlib
import linecache
from dataclasses import dataclass
from typing import Any

import numpy as np

import weft

Array = np.ndarray[Any, Any]
DTYPES = (
    "float64", "float32", "float32", "float16", "int64", "bool", "complex64",
    "int8", "uint8", "int32", "int16", "bfloat16",
)
LAYOUTS = ("rows", "rows", "columns", "gaps")
MAKE = str.split(
    "$v.transpose(0,-1) $v.t() $v.mT $v.reshape(-1) $v.reshape(1,-1) $v.reshape($v.shape[-1],-1) $v.view(-1) "
    "$v.contiguous() $v.flatten() $v[0] $v[-1] $v[1:] $v[::2] $v[...,0] $v[None] $v[...,::2] $v[i] $v[...,i] "
    "$v.unsqueeze(-1) $v.squeeze() $v.expand(2,*$v.shape) $v.diagonal() $v.unfold(0,2,1) $v.movedim(0,-1) $v.flip(0) "
    "$v.roll(1,0) $v.chunk(2)[0] $v.unbind(0)[0] $v.detach() $v.clone() $v.relu() $v.tanh() $v.abs() $v.neg() "
    "$v.cumsum(0) $v.softmax(-1) $v.sum(0) $v.sum(-1) $v.sum() $v.mean(-1,keepdim=True) $v.amax(0) $v.sort(-1)[0] "
    "$v.argmax(0) $v.float() $v.double() $v.long() $v+$w $v*$w $v-$n $v*$n weft.where($v>0,$v,$n) weft.cat([$v,$w]) "
    "weft.stack([$v,$w]) $v@$w weft.zeros_like($v) weft.rand_like($v) $v.masked_fill($v>$n,$n) $v.index_select(0,"
    "weft.tensor([0,0])) weft.cond($v.abs().sum()>1,lambda:$v*2,lambda:$v+1) $v.gather(0,$v.argmax(0,keepdim=True)) "
    "$v.roll(1) $v[weft.tensor([0,-1,0])] $v[...,weft.tensor([1,1,-2])] $v.index_add(0,weft.tensor([0,0]),$v[:2]) "
    "$v.scatter(0,$v.argmax(0,keepdim=True),$v[:1]) $v.scatter_add(0,$v.argmin(0,keepdim=True),$v[-1:]) $v.cumprod(-1) "
    "$v.var(0) $v.std(-1,correction=0) $v.prod(0) $v.any(0) $v.all(-1) $v.amin((0,-1)) $v.argmin(-1) $v.argsort(0,"
    "stable=True) $v.topk(1,0)[0] $v.cummax(0)[1] $v.logsumexp(-1) $v.clamp($n,1) $v.sign() $v.floor() $v//3 $v%3 $v/2 "
    "$v**2 $v==$w $v<$n $v.to(weft.int8) $v.to(weft.bfloat16) $v.half() $v.bool() $v.int() $v.to($w.dtype) "
    "$v.split(2)[-1] $v.tensor_split(3)[1] $v.tril() $v.triu(1) $v.narrow(0,1,2) $v.permute(*range($v.ndim))[::2] "
    "$v.swapaxes(0,-1) $v.repeat(2,*[1]*($v.ndim-1)) $v.repeat_interleave(2,0) $v.rot90() $v.masked_fill($v==$w,1) "
    "weft.maximum($v,$w) weft.minimum($v,$w) weft.where($v>$w,$v,$w) weft.nn.functional.pad($v,(1,-1)) $v.ravel() "
    "$v.mean() weft.nn.functional.layer_norm($v,$v.shape[-1:]) $v.max() $v.min(0)[0] $v.median(-1)[0] $v.norm() "
    "$v.dot($v) weft.outer($v,$v) $v.T $v.adjoint() $v.logical_not() $v.isnan() $v.nan_to_num() $v.flatten(1) "
    "$v.unflatten(-1,(1,-1)) $v.select(-1,1) $v.expand(3,-1) $v.diag() $v.trace() $v.real $v.conj() $v[$v>$n] "
    "$v.nonzero().sum(0) $v.masked_select($v>$n).ravel() $v.unique() weft.where($v>$n)[0] "
    "$v.repeat_interleave(weft.arange($v.shape[0]),0).sum(-1)"
)
WRITE = str.split(
    "$v.add_(1) $v.mul_($n) $v.copy_($w) $v.zero_() $v.relu_() $v.neg_() $v.uniform_() $v[0]=$n $v[1:]+=1 $v[...,0]=$n "
    "$v[i]*=2 $v[...,i]=$n $v[$v>$n]=0 $v.reshape(-1).add_(1) $v.contiguous().mul_(0.5) $v.flatten().zero_() "
    "$v.mT.add_(1) $v[weft.tensor([0,-1])]+=1 $v.index_fill_(0,weft.tensor([0]),2) $v[1:2]*=3 $v[::2].add_(1) "
    "$v.mT[0]=$n $v.diagonal().add_(2) $v.unbind(0)[1].zero_() $v.select(0,-1).mul_(2) $v.clamp_(-1,1) $v.fill_($n) "
    "$v[-1]=$v[0] $v.flip(0).add_(1) $v.squeeze().sub_(1) $v.unsqueeze(0).mul_(2) $v.chunk(2)[1].neg_() "
    "$v.index_add_(0,weft.tensor([1,1]),$v[:2].clone()) $v.floor_() $v.scatter_(0,weft.zeros_like($v[:1],"
    "dtype=weft.int64),$n) $v.masked_fill_($v<0,$n) $v[:,None][...,0]+=1 $v.copy_($w.to($v.dtype)) $v.exp_() "
    "$v.swapaxes(0,-1)[1:]=$n $v[weft.tensor([0,0])]=$n $v.view(-1)[::2]=$n $v[...,-1:].copy_($v[...,:1]) "
    "$v.cumsum_(0) $v.tril_() $v.index_copy_(0,weft.tensor([1]),$v[:1])"
)


@dataclass(frozen=True)
class Mixed:
    """A program: how its arguments look, and its lines."""

    seed: int
    arguments: tuple[tuple[str, tuple[int, ...], str], ...]
    lines: tuple[str, ...]

    def source(self) -> str:
        """The program as a Python function of x0, x1, i, with state s."""
        made = [line.split(" = ")[0] for line in self.lines if line.startswith("v") and " = " in line]
        names = ", ".join(f"x{k}" for k in range(len(self.arguments)))
        body = "".join(f"    {line}\n" for line in self.lines)
        return f"def program({names}, i):\n{body}    return [{', '.join(n for n in made[-4:] if n.isidentifier())}]\n"


def draw(seed: int, length: int) -> Mixed:
    """The program of a seed."""
    rng = np.random.default_rng(seed)
    arguments = tuple(
        (
            str(rng.choice(DTYPES)), tuple(int(n) for n in rng.integers(3, 6, int(rng.integers(1, 4)))),
            str(rng.choice(LAYOUTS)),
        )
        for _ in range(2)
    )
    scope: dict[str, Any] = {"weft": weft, "s": _state(), "i": weft.tensor(0)}
    scope |= {f"x{k}": x for k, x in enumerate(tensors(Mixed(seed, arguments, ()), 0))}
    names, lines = ["x0", "x1", "s"], []
    for _ in range(8 * length):
        if len(lines) == length:
            break
        makes = rng.random() < 0.7
        line = str(rng.choice(MAKE if makes else WRITE)).replace("$n", f"{rng.uniform(-1, 1):.2f}")
        line = line.replace("$v", str(rng.choice(names))).replace("$w", str(rng.choice(names)))
        name = f"v{len(names)}"
        line = f"{name} = {line}" if makes else line
        tried = dict(scope)
        try:
            exec(line, tried)
        except (weft.WeftError, RuntimeError, ValueError, TypeError, IndexError):
            continue
        if not makes or tried[name].numel() <= 300:
            scope, lines = tried, [*lines, line]
            names += [name] if makes else []
    return Mixed(seed, arguments, tuple(lines))


def _state() -> weft.Tensor:
    return weft.arange(6.0, dtype=weft.float64).view(3, 2) / 4


def tensors(program: Mixed, call: int) -> list[weft.Tensor]:
    """The arguments of a call, without the index."""
    rng = np.random.default_rng([program.seed, call])
    return [
        weft.from_numpy(_laid_out((rng.uniform(-2, 2, shape) * 1.5).astype(getattr(weft, dtype).numpy), layout))
        for dtype, shape, layout in program.arguments
    ]


def _laid_out(array: Array, layout: str) -> Array:
    if layout == "columns":
        return array.T.copy().T
    if layout == "gaps":
        wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
        wide[..., ::2] = array
        return wide[..., ::2]
    return array


def run(program: Mixed, mode: str) -> list[Any]:
    """What two calls leave behind: values, dtypes, strides, who shares memory; or the error of the first that fails."""
    source, names = program.source(), {"weft": weft, "s": _state()}
    file = f"<mixed {program.seed} {mode} {id(names)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    exec(compile(source, file, "exec"), names)
    function: Any = names["program"] if mode == "eager" else weft.compile(names["program"], backend=mode)
    weft.manual_seed(5)
    seen = []
    for call in range(2):
        given = [*tensors(program, call), weft.tensor(0)]
        found = function(*given)
        everything = [t.detach().numpy() for t in (*found, *given, names["s"])]
        seen.append([
            ([(x.dtype, x.shape, _strides(x)) for x in everything[: len(found)]], [x.copy() for x in everything]),
            [(a, b) for a in range(len(found)) for b in range(len(everything)) if a != b and np.shares_memory(
                everything[a], everything[b]
            )],
        ])
    return seen


def _strides(x: Array) -> list[int]:
    return [s for s, n in zip(x.strides, x.shape, strict=True) if n != 1] if x.size else []


def problem(program: Mixed, mode: str) -> str | None:
    """How a mode differs from eager mode; None if it does not, or if it refuses what it says that it refuses."""
    try:
        expected = run(program, "eager")
    except weft.WeftError:
        return None  # what the first call left behind does not go into a second one
    try:
        found = run(program, mode)
    except weft.WeftError as error:
        known = (
            "only known", "as_strided of", "overlapping windows", "more than one element", "exists outside",
            "depends on u",
                 # cat takes an empty vector beside anything, but which one is empty only the run knows
                 "Tensors must have same number of dimensions")
        return None if any(words in str(error) for words in known) else f"{type(error).__name__}: {error}"
    for (facts, values), shares in expected:
        (other_facts, other_values), other_shares = found.pop(0)
        if facts != other_facts or shares != other_shares:
            return f"{other_facts} sharing {other_shares}, expected {facts} sharing {shares}"
        for a, b in zip(other_values, values, strict=True):
            loose = {"float16": 2e-2, "bfloat16": 1e-1, "float32": 3e-4, "complex64": 3e-4}.get(str(a.dtype), 1e-9)
            if str(a.dtype) == "bfloat16":  # NumPy alone cannot compare them
                a, b = a.astype(np.float32), b.astype(np.float32)
            if not np.allclose(
                a, b, rtol=loose, atol=loose * max(1.0, float(np.abs(b[np.isfinite(b)]).max(initial=0))), equal_nan=True
            ):
                return f"{a}\nexpected\n{b}"
    return None


def shrink(program: Mixed, mode: str) -> Mixed:
    """The program without every line that the difference does not need."""
    k = len(program.lines) - 1
    while k >= 0:
        smaller = Mixed(program.seed, program.arguments, program.lines[:k] + program.lines[k + 1 :])
        with contextlib.suppress(weft.WeftError, NameError, RuntimeError, ValueError, TypeError, IndexError):
            program = smaller if problem(smaller, mode) else program
        k -= 1
    return program
