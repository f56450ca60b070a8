"""Run by test_programs.py: what `import torch` gives, under every name."""

import importlib.metadata
import importlib.util
import sys
from typing import ClassVar

import torch
import torch._C
import torch.backends.cudnn as cudnn
import torch.linalg
import torch.nn as nn
import torch.nn.functional as F
import torch.optim.lr_scheduler
import torch.types
import torch.utils.data.dataloader
from torch.cuda.amp import GradScaler
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import Conv2d
from torch.nn.utils.stateless import functional_call
from torch.torch_version import TorchVersion

import weft


def message(kind: type[Exception], code: str) -> str:
    """What an error says."""
    try:
        exec(code, {"torch": torch})
    except kind as error:
        return str(error)
    raise AssertionError(f"{code} raised nothing")


# the same objects under both names
for name in ("nn", "nn.functional", "optim", "optim.lr_scheduler", "utils.data", "utils.data.dataloader", "linalg"):
    assert sys.modules[f"torch.{name}"] is sys.modules[f"weft.{name}"], name
assert torch.nn is nn and torch.nn.functional is F and torch.Tensor is weft.Tensor and torch.add is weft.add
assert nn.Conv2d is Conv2d and issubclass(nn.BatchNorm1d, _BatchNorm) and torch.utils.data is weft.utils.data
assert sys.modules["weft.nn"].__spec__.name == "weft.nn" and torch.cuda.amp.GradScaler is GradScaler

# texts and facts that programs look for
assert str(torch.float32) == "torch.float32" and repr(torch.Size([2, 3])) == "torch.Size([2, 3])"
assert torch.ones(2).type() == "torch.FloatTensor" and repr(torch.tensor([1, 2])) == "tensor([1, 2])"
assert repr(torch.ones(1, dtype=torch.float64)) == "tensor([1.], dtype=torch.float64)"
assert type(torch.ones(1)).__module__ == torch.Size.__module__ == torch.device.__module__ == "torch"
assert nn.Linear.__module__ == "torch.nn.modules.linear" and torch.optim.SGD.__module__ == "torch.optim.sgd"
assert str(torch.ones(2, 2).max(0)).startswith("torch.return_types.max(") and str(torch.strided) == "torch.strided"
assert isinstance(nn.Parameter(torch.ones(1)), torch.Tensor) and str(torch.ones(1).layout) == "torch.strided"
version = torch.__version__
assert isinstance(version, str) and isinstance(version, TorchVersion) and torch.version.__version__ == version
assert version > "2.9" and version >= (2, 13) and version < "3" and not version < "1.13.1" and version != "2.12"
assert importlib.metadata.version("torch") == version and importlib.util.find_spec("torch") is not None

# names that exist only to be asked
cudnn.benchmark = True
assert torch.backends.cudnn.benchmark and not cudnn.is_available() and torch.version.cuda is None
for device in (torch.cuda, torch.mps, torch.xpu, torch.mtia, torch.accelerator):
    assert not device.is_available() and device.device_count() == 0
distributed = torch.distributed
assert distributed.is_available() is distributed.is_mpi_available() and not distributed.is_initialized()
assert "init_process_group" in message(ValueError, "torch.distributed.get_rank()") and not torch.jit.is_scripting()
assert torch.backends.cuda.math_sdp_enabled() and not torch.backends.cuda.flash_sdp_enabled()
assert not torch.compiler.is_compiling() and torch.get_default_dtype() is torch.float32

# names that are not there
assert message(AttributeError, "torch.matmull") == (
    "module 'torch' has no attribute 'matmull'; near: matmul, chain_matmul, mul"
)
assert "no quantized tensors" in message(AttributeError, "torch.quantize_per_tensor")
assert "no nested or masked tensors" in message(AttributeError, "torch.nested")
assert torch.eye(2).to_sparse().layout is torch.sparse_coo and torch.sparse.mm.__name__ == "mm"
assert "near: Linear" in message(AttributeError, "torch.nn.Lineer") and not hasattr(torch.nn, "Lineer")
assert "from 'torch.nn'" in message(ImportError, "from torch.nn import Lineer")
assert "near: conv" in message(ImportError, "import torch.nn.modules.convv")
for module in ("nn.absent", "catalogue", "memory", "torch"):  # weft's own packages are no modules of PyTorch's
    assert importlib.util.find_spec(f"torch.{module}") is None, module
    assert f"'torch.{module}'" in message(ImportError, f"import torch.{module}")

# marks and values of PyTorch's own compilers
assert torch.fx.wrap(len) is len and not torch.fx._symbolic_trace.is_fx_tracing()
keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU) | torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)
assert len(keys) == 2 and torch.ops.aten.mul(torch.ones(1), 2).item() == 2
assert "'torch._C' has no attribute 'DispatchKeyy'; near: DispatchKey" in message(
    AttributeError, "torch._C.DispatchKeyy"
)
assert "lab::nothing does not exist" in message(RuntimeError, "torch.library.register_fake('lab::nothing', len)")
assert "binary" in message(OSError, "torch.ops.load_library('lab.so')")
assert torch.library.register_fake("lab::nothing")(len) is len  # an operator of the library that was refused


# what takes calls over
class Scaled(torch.Tensor):
    asked: ClassVar = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.asked.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


class Foreign:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func.__name__, len(args)


class Plain(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl


class Wrapped(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        inner = [a.inner if isinstance(a, Wrapped) else a for a in args]
        return cls(func(*inner, **(kwargs or {})))


class Counting(torch.utils._python_dispatch.TorchDispatchMode):
    seen = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen += 1
        return func(*args, **(kwargs or {}))


scaled = torch.ones(2).as_subclass(Scaled) * 3
assert type(scaled) is Scaled and Scaled.asked == ["mul"] and torch.add(torch.ones(1), Foreign()) == ("add", 2)
assert type(torch.ones(2).as_subclass(Plain) + 1) is torch.Tensor
assert torch.equal((Wrapped(torch.ones(2)) + 1).inner, torch.full((2,), 2.0))
with Counting() as counting:
    torch.ones(2) + 1
assert counting.seen == 2
assert functional_call(nn.Linear(1, 1), {"weight": torch.ones(1, 1), "bias": torch.ones(1)}, torch.ones(1, 1)) == 2


# compilers
@torch.compile
def branching(x):
    return x * 2 if x.sum() > 0 else x - 1


@torch.compile(fullgraph=True, backend="inductor", mode="max-autotune", dynamic=True)
def whole(x):
    return x * 2 if x.sum() > 0 else x


model = torch.compile(nn.Sequential(nn.Linear(2, 3), nn.ReLU()))
step = torch.compile(lambda x: (x * x).sum())
for size in (2, 3, 2):
    assert torch.equal(branching(torch.ones(size)), torch.full((size,), 2.0))
    assert torch.equal(branching(-torch.ones(size)), torch.full((size,), -2.0))
    assert model(torch.ones(size, 2)).shape == (size, 3) and step(torch.ones(size)) == size
assert branching.is_whole and step.is_whole and "1 program" in repr(step) and "2 program" in repr(branching)
assert "value" in message(RuntimeError, "from __main__ import whole; whole(torch.ones(1))")
assert torch.compile(step, disable=True) is step and torch.compile(branching, backend="eager") is branching

# names that programs import from where PyTorch has them
from torch.nn.common_types import _ratio_2_t, _ratio_any_t, _size_2_t  # noqa: E402, F401
from torch.nn.functional import grad as conv_grads  # noqa: E402
from torch.optim.optimizer import (  # noqa: E402
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

assert conv_grads.conv2d_input is torch.nn.grad.conv2d_input
called: list[str] = []
parameter = torch.nn.Parameter(torch.ones(1))
parameter.grad = torch.ones(1)
handles = [
    register_optimizer_step_pre_hook(lambda *rest: called.append("before")),
    register_optimizer_step_post_hook(lambda *rest: called.append("after")),
]
for _ in range(2):
    torch.optim.SGD([parameter], lr=0.1).step()
    for handle in handles:
        handle.remove()
assert called == ["before", "after"]
