"""Export every model of the tests, and let ONNX judge: its checker, its reference evaluator, and ONNX Runtime if it is
installed. weft.onnx.load reads each back.

    ./dev onnx --exports
"""

from __future__ import annotations

import io
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

sys.path.insert(0, str(Path(__file__).parent.parent))

import weft.onnx
from tests.unit.onnx.models import control_models, copied, flat, kinds, models, others

try:
    import onnxruntime
except ImportError:
    onnxruntime = None


def judged(model: Any, args: Any, axes: Any, rng: np.random.Generator) -> tuple[Counter[str], list[str]]:
    """The operators of the exported model, and who took it."""
    file = io.BytesIO()
    weft.onnx.export(model, copied(args), file, dynamic_axes=axes)
    data = file.getvalue()
    written = onnx.load_from_string(data)
    onnx.checker.check_model(written, full_check=True)
    passed = ["checker"]
    runs: dict[str, Any] = {"evaluator": ReferenceEvaluator(written).run}
    if onnxruntime is not None:
        runs["runtime"] = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run
    read = weft.onnx.load(written)
    names = [i.name for i in written.graph.input]
    runs["weft"] = lambda _, feeds: flat(read(*(weft.from_numpy(feeds[n]) for n in names)))
    for name, run in runs.items():
        for given in (args, others(args, rng)):
            expected = flat(model(*copied(given)))
            tensors = [a.numpy() for a in given if isinstance(a, weft.Tensor)]
            found = run(None, dict(zip(names, tensors, strict=True)))
            for a, b in zip(expected, found, strict=True):
                np.testing.assert_allclose(np.asarray(b), a, rtol=1e-3, atol=1e-4)
        passed.append(name)
    return kinds(written.graph), passed


def main() -> int:
    """Print a line for each model, and the sums."""
    rng = np.random.default_rng(0)
    total: Counter[str] = Counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        known = {name: (model, args, axes) for name, model, args, axes in (*models(rng), *control_models(rng))}
        for name, (model, args, axes) in known.items():
            total["models"] += 1
            try:
                found, passed = judged(model, args, axes, rng)
            except Exception as problem:
                total["failed"] += 1
                print(f"{name:32} {type(problem).__name__}: {' '.join(str(problem).split())[:200]}")
                continue
            total.update({"with If": bool(found["If"]), "with Loop": bool(found["Loop"])})
            total["with If or Loop"] += bool(found["If"] or found["Loop"])
            total.update(passed)
            inner = ", ".join(f"{k} {found[k]}" for k in ("If", "Loop") if found[k])
            print(f"{name:32} {sum(found.values()):4} nodes  {inner:16} {' '.join(passed)}")
    print(", ".join(f"{k}: {n}" for k, n in total.items()))
    return 1 if total["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
