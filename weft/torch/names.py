"""Where PyTorch's names lead that weft has under other ones."""

from __future__ import annotations

# modules: the name behind "torch."
MODULES: dict[str, str] = {
    "functional": "weft",
    "ops": "weft.ops",
    "return_types": "weft.layers.results",
    "types": "weft.types",
    "torch_version": "weft.torch.version",
    "version": "weft.torch.version",
}
# of the module torch itself: "module:attribute"
ATTRIBUTES: dict[str, str] = {
    "__version__": "weft.torch.version:__version__",
    "compile": "weft.torch.compiling:compile",
    "load": "weft.torch.files:load",
    "save": "weft.torch.files:save",
}
# of other modules
ATTRIBUTES_OF: dict[str, dict[str, str]] = {
    "jit": {"_fork": "weft.jit:fork", "_wait": "weft.jit:wait"},  # their names before they had public ones
    "nn.functional": {"grad": "weft.nn:grad"},
    "optim.optimizer": {
        name: f"weft.optim.step_hooks:{name}"
        for name in ("register_optimizer_step_pre_hook", "register_optimizer_step_post_hook")
    },
    "serialization": {"load": "weft.torch.files:load", "save": "weft.torch.files:save"},
}
# where PyTorch says that a class of the module torch stands, if not in torch
OF_CLASSES: dict[str, str] = {"Generator": "torch._C"}
# modules of weft's front door that PyTorch has no such module for
NOT_SHOWN = frozenset({"array_api", "lazy", "memory", "compiled_autograd", "torch"})
