"""Write parametrized_values.json: modules whose weights are parametrized or pruned, trained for some steps by PyTorch.
Needs torch; run it in this folder."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
STEPS = 3


def modules(torch: Any) -> dict[str, Callable[[], Any]]:
    """Makers of modules by name; weights are drawn by NumPy. `torch` may be weft."""
    nn = torch.nn
    parametrize, p = nn.utils.parametrize, nn.utils.parametrizations
    prune = importlib.import_module(f"{torch.__name__}.nn.utils.prune")

    class Symmetric(nn.Module):
        def forward(self, x: Any) -> Any:
            return x.triu() + x.triu(1).transpose(-1, -2)

        def right_inverse(self, x: Any) -> Any:
            return x.triu()

    def with_weights(module: Any) -> Any:
        rng = np.random.default_rng(5)
        with torch.no_grad():
            for value in module.parameters():
                value.copy_(torch.from_numpy(rng.normal(size=tuple(value.shape))))
        return module

    def linear(rows: int = 4, columns: int = 4) -> Any:
        return with_weights(nn.Linear(columns, rows).double())

    def spectral(**options: Any) -> Any:
        layer = p.spectral_norm(linear(3, 4), **options)
        with torch.no_grad():
            for name, vector in layer.named_buffers():
                vector.copy_(torch.nn.functional.normalize(torch.ones(*vector.shape).double(), dim=0))
                assert name.endswith(("_u", "_v"))
        return layer

    def symmetric() -> Any:
        layer = linear()
        parametrize.register_parametrization(layer, "weight", Symmetric())
        parametrize.register_parametrization(layer, "bias", nn.Tanh(), unsafe=True)
        return layer

    def removed() -> Any:
        layer = symmetric()
        parametrize.remove_parametrizations(layer, "weight")
        return parametrize.remove_parametrizations(layer, "bias", leave_parametrized=False)

    def pruned(*methods: Callable[[Any], Any]) -> Any:
        layer = linear(4, 4)
        for method in methods:
            method(layer)
        return layer

    def globally() -> Any:
        model = nn.Sequential(linear(4, 4), nn.ReLU(), linear(2, 4))
        prune.global_unstructured(
            [(model[0], "weight"), (model[2], "weight")], pruning_method=prune.L1Unstructured, amount=0.4,
        )
        return model

    return {
        "weight_norm": lambda: p.weight_norm(linear(3, 4)),
        "weight_norm of all": lambda: p.weight_norm(linear(3, 4), dim=None),
        "weight_norm of a convolution": lambda: p.weight_norm(
            with_weights(nn.Conv1d(1, 2, 2).double()), dim=1
        ),
        "spectral_norm": spectral, "spectral_norm, three steps": lambda: spectral(n_power_iterations=3, eps=1e-6),
        "orthogonal, matrix_exp": lambda: p.orthogonal(linear()),
        "orthogonal, cayley": lambda: p.orthogonal(linear(), orthogonal_map="cayley"),
        "orthogonal, householder": lambda: p.orthogonal(linear(), orthogonal_map="householder"),
        "orthogonal, wide": lambda: p.orthogonal(linear(3, 4), use_trivialization=False),
        "symmetric": symmetric, "removed": removed,
        "pruned": lambda: pruned(lambda m: prune.l1_unstructured(m, "weight", amount=5)),
        "pruned twice": lambda: pruned(
            lambda m: prune.l1_unstructured(m, "weight", amount=0.3),
            lambda m: prune.ln_structured(m, "weight", amount=1, n=2, dim=1),
            lambda m: prune.l1_unstructured(m, "bias", amount=1),
        ),
        "pruned for good": lambda: pruned(
            lambda m: prune.ln_structured(m, "weight", amount=0.5, n=1, dim=0), lambda m: prune.remove(m, "weight"),
        ),
        "pruned globally": globally,
    }


def train(torch: Any, module: Any, compiled: Callable[[Any], Any] = lambda step: step) -> dict[str, Any]:
    """Losses of some steps of SGD, and the names and values that the module has then."""
    rng = np.random.default_rng(6)
    is_sequence = any(p.ndim == 3 for p in module.parameters())
    shape = (5, 1, 4) if is_sequence else (5, 4)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = module(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    step = compiled(step)
    losses = [float(step(torch.from_numpy(rng.normal(size=shape)))) for _ in range(STEPS)]
    module.eval()
    out = module(torch.from_numpy(rng.normal(size=shape)))
    state = {name: value.detach().double().reshape(-1).tolist() for name, value in module.state_dict().items()}
    return {"losses": losses, "state": state, "out": out.detach().reshape(-1).tolist()}


def main() -> None:
    import torch

    values = {name: train(torch, make()) for name, make in modules(torch).items()}
    text = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in values.items())
    (HERE / "parametrized_values.json").write_text(f"{{\n{text}\n}}\n")


if __name__ == "__main__":
    main()
