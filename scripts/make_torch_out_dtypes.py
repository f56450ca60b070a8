"""Store which dtypes of out= PyTorch takes (needs torch): python scripts/make_torch_out_dtypes.py > FILE, where FILE is
tests/ops/data/torch_out_dtypes.json."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db

DTYPES = [getattr(torch, name) for name in (
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64",
    "complex128",
)]


def calls(info: Any) -> Iterator[tuple[Any, tuple[torch.Tensor, ...], bool]]:
    """Calls that take out=, with their results and whether there is only one."""
    for dtype in (torch.float32, torch.int64, torch.bool, torch.complex64):
        if not info.supports_dtype(dtype, "cpu"):
            continue
        for sample in list(info.sample_inputs("cpu", dtype))[:3]:
            def call(out: Any = None, sample: Any = sample) -> Any:
                return info.op(sample.input, *sample.args, **sample.kwargs, **({} if out is None else {"out": out}))

            try:
                result = call()
            except Exception:  # a sample of what this dtype has no kernel for
                continue
            results = (result,) if isinstance(result, torch.Tensor) else result
            if isinstance(results, (tuple, list)) and all(isinstance(r, torch.Tensor) for r in results):
                yield call, tuple(results), isinstance(result, torch.Tensor)


def kind(call: Any, results: tuple[torch.Tensor, ...], is_one: bool, at: int) -> str | None:
    """What one of the outputs takes: "exact", "castable", "any", or None where it is something else."""
    taken = []
    for dtype in DTYPES:
        out = tuple(torch.empty(r.shape, dtype=dtype if i == at else r.dtype) for i, r in enumerate(results))
        try:
            call(out[0] if is_one else out)
        except Exception:
            continue
        taken.append(dtype)
    if taken == [results[at].dtype]:
        return "exact"
    if taken == [d for d in DTYPES if torch.can_cast(results[at].dtype, d)]:
        return "castable"
    return "any" if taken == DTYPES else None


def main() -> None:
    warnings.simplefilter("ignore")
    stored = {}
    for info in op_db:
        if info.supports_out and not info.variant_test_name:
            kinds = {kind(call, results, one, i) for call, results, one in calls(info) for i in range(len(results))}
            if len(kinds) == 1 and None not in kinds:
                stored[info.name] = kinds.pop()
    json.dump(stored, sys.stdout, indent=0, sort_keys=True)


if __name__ == "__main__":
    main()
