"""Floor 7: gradients. Nodes are generated from the entries' formulas; one small engine runs them.

record.py      recording a call (which formula needs what: ops/backward.py)
node.py        the node and its hooks                                      saved.py    saved tensors and their versions
engine.py      backward (seeds.py: its roots, run_hooks.py: its hooks)        accumulate.py  AccumulateGrad
views.py       in-place writes, CopySlices, regenerated histories          function.py custom Functions (function_context.py, function_outputs.py)
checkpoint.py  regions that run again in backward      functional.py, forward.py    Jacobians and products with them
gradcheck.py   gradients against differences           graph.py                     the graph as users see it
forward_ad.py  tangents by hand (imported when first asked for: it stands on the transforms, which stand on this)
Start reading at engine.py. Nothing here imports a compiler: one is installed into the engine (engine.install).
"""

from typing import Any

from weft.autograd import forward, functional, graph
from weft.autograd import hooks as _hooks
from weft.autograd.anomaly import detect_anomaly, is_anomaly_enabled, set_detect_anomaly
from weft.autograd.api import backward, grad
from weft.autograd.engine import queue_callback
from weft.autograd.function import Function, once_differentiable
from weft.autograd.grad_mode import set_multithreading_enabled
from weft.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
from weft.autograd.saved import SavedTensor, save_on_cpu, saved_tensors_hooks
from weft.autograd.variable import Variable
from weft.tensor.modes import enable_grad, inference_mode, no_grad, set_grad_enabled


def __getattr__(name: str) -> Any:
    if name != "forward_ad":
        raise AttributeError(f"module 'weft.autograd' has no attribute {name!r}")
    import importlib  # see above

    return importlib.import_module("weft.autograd.forward_ad")


register_multi_grad_hook = _hooks.register_multi_grad_hook

__all__ = [
    "Function", "GradcheckError", "SavedTensor", "Variable", "backward", "detect_anomaly", "enable_grad", "forward", "functional", "grad",
    "gradcheck", "gradgradcheck", "graph", "inference_mode", "is_anomaly_enabled", "no_grad", "once_differentiable", "queue_callback",
    "register_multi_grad_hook", "save_on_cpu", "saved_tensors_hooks", "set_detect_anomaly", "set_grad_enabled",
    "set_multithreading_enabled",
]
