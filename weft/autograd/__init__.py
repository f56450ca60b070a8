"""Floor 8: gradients. Nodes are generated from the entries' formulas; one small engine runs them.

record.py           recording a call (which formula needs what: ops/backward.py)
node.py             the node and its hooks
saved.py            saved tensors and their versions
engine.py           backward (seeds.py: its roots, dependencies.py: its order, run_hooks.py: its hooks)
accumulate.py       AccumulateGrad
views.py            in-place writes, CopySlices, regenerated histories
function.py         custom Functions (function_context.py, function_outputs.py)
checkpoint.py       regions that run again in backward
functional.py       Jacobians and products with them (forward.py)
gradient_checks.py  gradients against differences (gradient_numbers.py, forward_check.py)
graph.py            the graph as users see it
forward_ad.py       tangents of dual tensors (imported when first asked for: it stands on the transforms,
                    which stand on this)

Start reading at engine.py. Nothing here imports a compiler: one is installed into the engine (engine.install).
"""

from typing import TYPE_CHECKING, Any

from weft.autograd import hooks as _hooks
from weft.autograd.anomaly import detect_anomaly, is_anomaly_enabled, set_detect_anomaly
from weft.autograd.api import backward, grad
from weft.autograd.engine import queue_callback
from weft.autograd.grad_mode import is_multithreading_enabled, is_view_replay_enabled, set_multithreading_enabled
from weft.autograd.saved import SavedTensor, save_on_cpu, saved_tensors_hooks
from weft.support.absent import refuse
from weft.tensor.modes import enable_grad, inference_mode, no_grad, set_grad_enabled

if TYPE_CHECKING:
    from weft.autograd import forward, forward_ad, functional, graph
    from weft.autograd.function import Function, once_differentiable
    from weft.autograd.gradient_checks import GradcheckError, gradcheck, gradgradcheck
    from weft.autograd.variable import Variable

_MODULES = ("forward", "forward_ad", "functional", "graph", "profiler")
_NAMES = {
    "Function": "function", "once_differentiable": "function", "GradcheckError": "gradient_checks",
    "gradcheck": "gradient_checks", "gradgradcheck": "gradient_checks", "Variable": "variable",
}


def __getattr__(name: str) -> Any:
    """What not every program needs is imported when first asked for (forward_ad: it stands on the transforms,
    which stand on this)."""
    import importlib

    if name in _MODULES:
        return importlib.import_module(f"weft.autograd.{name}")
    if name in _NAMES:
        module = importlib.import_module(f"weft.autograd.{_NAMES[name]}")
        for other in (n for n, home in _NAMES.items() if home == _NAMES[name]):
            # `gradcheck` is the function, not the module that importing it has put there
            globals()[other] = getattr(module, other)
        return globals()[name]
    refuse("module 'weft.autograd'", name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


register_multi_grad_hook = _hooks.register_multi_grad_hook

__all__ = [
    "Function", "GradcheckError", "SavedTensor", "Variable", "backward", "detect_anomaly", "enable_grad", "forward",
    "forward_ad", "functional", "grad", "gradcheck", "gradgradcheck", "graph", "inference_mode", "is_anomaly_enabled",
    "is_multithreading_enabled", "is_view_replay_enabled", "no_grad", "once_differentiable", "queue_callback",
    "register_multi_grad_hook", "save_on_cpu", "saved_tensors_hooks", "set_detect_anomaly", "set_grad_enabled",
    "set_multithreading_enabled",
]
