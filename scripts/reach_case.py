"""Run by scripts/reach.py, on weft (`python -m weft.torch`) and on PyTorch: the models of one package.

For each model: forward, backward, and three steps of SGD, in the dtype of the list. One line of JSON for each, on the
descriptor that is named. The first side to run writes the weights; the other one loads them, so that both begin from
the same numbers.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from reach_list import Model, Package, package_of

STEPS = 3
RATE = 1e-3


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("package")
    parser.add_argument("--models", default="", help="their names with commas between; all of them by default")
    parser.add_argument("--folder", type=Path, required=True, help="where weights and results are kept")
    parser.add_argument("--side", choices=("weft", "torch"), required=True)
    parser.add_argument("--results", type=int, required=True, help="the descriptor that lines go to")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if options.side == "torch":
        name_operators()
    package = package_of(options.package)
    wanted = [m for m in package.models if not options.models or m.name in options.models.split(",")]
    with os.fdopen(options.results, "w") as lines:
        for model in wanted:
            began = time.perf_counter()
            try:
                line = {"ok": True, **tried(package, model, options)}
            except (Exception, SystemExit) as error:
                line = {"ok": False, **told(error)}
            line |= {"name": model.name, "seconds": round(time.perf_counter() - began, 1)}
            print(json.dumps(line), file=lines, flush=True)
    return 0


def name_operators() -> None:
    """Name torchvision's operators where its library, which is built for CUDA, does not load beside a PyTorch for the
    CPU: the package asks for them when it is imported. No model of the list calls one."""
    global _library
    _library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        _library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


_library: Any = None  # lives as long as its operators


def told(error: BaseException) -> dict[str, Any]:
    """An error, and the last line of the package's that led to it."""
    text = " ".join(str(error).split())
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "site-packages" in f.filename]
    where = ""
    if frames:
        where = f"{frames[-1].filename.partition('site-packages' + os.sep)[2]}:{frames[-1].lineno}"
    if "WEFT_REACH_TRACE" in os.environ:
        traceback.print_exception(error)
    return {"error": f"{type(error).__name__}: {text[:300]}", "where": where}


def tried(package: Package, model: Model, options: argparse.Namespace) -> dict[str, Any]:
    """The numbers of a model, written to a file: outputs, gradients, losses of some steps."""
    random = np.random.RandomState(sum(map(ord, model.name)))
    scope: dict[str, Any] = {"torch": torch, "np": np, "nn": torch.nn, **drawn(random, model.dtype)}
    torch.manual_seed(0)
    exec(package.setup, scope)
    function = eval(model.made, scope)
    inputs = eval(f"({model.inputs},)" if model.inputs else "()", scope)
    if isinstance(function, torch.nn.Module):
        function.to(getattr(torch, model.dtype))
        settle(function, options.folder / f"{model.name}.weights.npz", options.side == "weft")
    inputs = tuple(
        x.detach().clone().requires_grad_() if isinstance(x, torch.Tensor) and x.is_floating_point() else x
        for x in inputs
    )
    numbers = dict(steps(function, inputs))
    np.savez(options.folder / f"{model.name}.{options.side}.npz", **numbers)
    return {"numbers": len(numbers)}


def drawn(random: Any, dtype: str) -> dict[str, Any]:
    """What inputs are written with: the same numbers on both sides."""
    return {
        "randn": lambda *size: torch.tensor(random.standard_normal(size), dtype=getattr(torch, dtype)),
        "rand": lambda *size: torch.tensor(random.random_sample(size), dtype=getattr(torch, dtype)),
        "randint": lambda high, *size: torch.tensor(random.randint(0, high, size)),
    }


def settle(module: Any, weights: Path, is_first: bool) -> None:
    """A Module that draws nothing, with the weights that the other side begins from."""
    module.train()
    for part in module.modules():
        for name in ("p", "dropout", "drop_prob", "dropout_p", "attention_dropout"):
            if isinstance(vars(part).get(name), float):
                setattr(part, name, 0.0)
    state = module.state_dict()
    if is_first:
        np.savez(weights, **{name: value.detach().cpu().numpy() for name, value in state.items() if is_value(value)})
        return
    with np.load(weights) as stored:
        lacking = {name for name, value in state.items() if is_value(value)} ^ set(stored)
        if lacking:
            raise KeyError(f"the two state_dicts have other names: {', '.join(sorted(lacking)[:6])}")
        module.load_state_dict({**state, **{name: torch.tensor(stored[name]) for name in stored}})


def is_value(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def steps(function: Any, inputs: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    """Names and values: outputs and gradients of the first step, and the loss of each."""
    parameters = dict(function.named_parameters()) if isinstance(function, torch.nn.Module) else {}
    trained = [p for p in parameters.values() if p.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=RATE) if trained else None
    for step in range(STEPS if trained else 1):
        if optimizer is not None:
            optimizer.zero_grad()
        outputs = list(floats(function(*inputs)))
        if not outputs:
            raise ValueError("the model gives no floating point tensor")
        loss = sum((y.double() ** 2).mean() if y.ndim else y.double() for y in outputs)
        yield f"loss {step}", loss.detach().numpy()
        if step == 0:
            for at, y in enumerate(outputs):
                yield f"output {at}", y.detach().double().numpy()
        if not loss.requires_grad:
            return
        loss.backward()
        if step == 0:
            named = [*parameters.items(), *((f"input {at}", x) for at, x in enumerate(inputs))]
            for name, p in named:
                if isinstance(p, torch.Tensor) and p.grad is not None:
                    yield f"gradient {name}", p.grad.detach().double().numpy()
        if optimizer is not None:
            optimizer.step()


def floats(value: Any) -> Iterator[Any]:
    """The tensors of floating point or complex numbers in a result, in order; complex ones as pairs."""
    if isinstance(value, torch.Tensor):
        if value.is_floating_point():
            yield value
        elif value.is_complex():
            yield torch.view_as_real(value)
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from floats(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from floats(part)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
