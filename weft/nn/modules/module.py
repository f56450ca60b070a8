"""Module: parameters, buffers, submodules and hooks under attribute names, with PyTorch's state_dict."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from weft.nn.modules.hooks import HookHandle
from weft.nn.parameter import Parameter
from weft.support import registry
from weft.support.errors import ArgumentError, StateError
from weft.tensor.modes import no_grad
from weft.tensor.tensor import Tensor

M = TypeVar("M", bound="Module")
IncompatibleKeys = namedtuple("IncompatibleKeys", ("missing_keys", "unexpected_keys"))
_TABLES = ("_parameters", "_buffers", "_modules")


class Module:
    """The base class of models. Subclasses call `super().__init__()`, assign parameters and submodules as attributes, and define `forward`."""

    training: bool
    forward: Callable[..., Any]

    def __init__(self) -> None:
        fields = self.__dict__
        fields["training"] = True
        fields["_parameters"] = {}
        fields["_buffers"] = {}
        fields["_non_persistent_buffers_set"] = set()
        fields["_modules"] = {}
        for name in ("_forward_pre_hooks", "_forward_hooks", "_backward_hooks", "_backward_pre_hooks", "_state_dict_hooks",
                     "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks", "_forward_hooks_with_kwargs", "_forward_pre_hooks_with_kwargs"):
            fields[name] = OrderedDict()

    # ---- calling
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self._forward_hooks and not self._forward_pre_hooks and not self._backward_hooks and not self._backward_pre_hooks:
            return self.forward(*args, **kwargs)
        return self._call_with_hooks(args, kwargs)

    def _call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        for key, hook in list(self._forward_pre_hooks.items()):
            if key in self._forward_pre_hooks_with_kwargs:
                changed = hook(self, args, kwargs)
                if changed is not None:
                    args, kwargs = changed
            else:
                replaced = hook(self, args)
                if replaced is not None:
                    args = replaced if isinstance(replaced, tuple) else (replaced,)
        watch = None
        if self._backward_hooks or self._backward_pre_hooks:
            from weft.nn.modules.backward_hooks import BackwardWatch  # only modules with such hooks need it

            watch = BackwardWatch(self)
            args = watch.inputs(args)
        result = self.forward(*args, **kwargs)
        for key, hook in list(self._forward_hooks.items()):
            out = hook(self, args, kwargs, result) if key in self._forward_hooks_with_kwargs else hook(self, args, result)
            if out is not None:
                result = out
        return watch.outputs(result) if watch is not None else result

    def extra_repr(self) -> str:
        """The part of the repr that says how the module is set up."""
        return ""

    # ---- attributes
    def __setattr__(self, name: str, value: Any) -> None:
        fields = self.__dict__
        parameters = fields.get("_parameters")
        if isinstance(value, Parameter):
            if parameters is None:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, "_parameters")
            self.register_parameter(name, value)
            return
        if parameters is not None and name in parameters:
            if value is not None:
                raise ArgumentError(f"cannot assign '{type(value).__name__}' object to parameter '{name}' (weft.nn.Parameter or None required)")
            self.register_parameter(name, None)
            return
        modules = fields.get("_modules")
        if isinstance(value, Module):
            if modules is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, "_modules")
            modules[name] = value
            return
        if modules is not None and name in modules:
            if value is not None:
                raise ArgumentError(f"cannot assign '{type(value).__name__}' object to child module '{name}' (weft.nn.Module or None required)")
            modules[name] = value
            return
        buffers = fields.get("_buffers")
        if buffers is not None and name in buffers:
            if value is not None and not isinstance(value, Tensor):
                raise ArgumentError(f"cannot assign '{type(value).__name__}' object to buffer '{name}' (weft.Tensor or None required)")
            buffers[name] = value
            return
        object.__setattr__(self, name, value)

    def _forget(self, name: str, keep: str) -> None:
        self.__dict__.pop(name, None)
        for table in _TABLES:
            if table != keep:
                self.__dict__[table].pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def __getattr__(self, name: str) -> Any:
        fields = self.__dict__
        for table in _TABLES:
            found = fields.get(table)
            if found is not None and name in found:
                return found[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __delattr__(self, name: str) -> None:
        for table in _TABLES:
            if name in self.__dict__[table]:
                del self.__dict__[table][name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        names = [*dir(type(self)), *self.__dict__, *self._parameters, *self._modules, *self._buffers]
        return sorted(n for n in set(names) if not n[:1].isdigit())

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    # ---- registration
    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter under a name. Raises for names that are taken, empty or dotted, and for tensors that are not leaves."""
        self._check_name(name, "_parameters", "parameter")
        if param is None:
            self._parameters[name] = None
            return
        if not isinstance(param, Parameter):
            raise ArgumentError(f"cannot assign '{type(param).__name__}' object to parameter '{name}' (weft.nn.Parameter or None required)")
        if param.grad_fn is not None:
            raise ValueError(f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly.")
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is state but no parameter; persistent ones are part of state_dict."""
        self._check_name(name, "_buffers", "buffer")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise ArgumentError(f"cannot assign '{type(tensor).__name__}' object to buffer '{name}' (weft Tensor or None required)")
        self._buffers[name] = tensor
        (self._non_persistent_buffers_set.discard if persistent else self._non_persistent_buffers_set.add)(name)

    def _check_name(self, name: str, table: str, what: str) -> None:
        if table not in self.__dict__:
            raise AttributeError(f"cannot assign {what} before Module.__init__() call")
        if not isinstance(name, str):
            raise ArgumentError(f"{what} name should be a string. Got {type(name).__name__}")
        if "." in name:
            raise KeyError(f'{what} name can\'t contain "."')
        if name == "":
            raise KeyError(f'{what} name can\'t be empty string ""')
        if hasattr(self, name) and name not in self.__dict__[table]:
            raise KeyError(f"attribute '{name}' already exists")

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a submodule under a name."""
        if module is not None and not isinstance(module, Module):
            raise ArgumentError(f"{type(module).__name__} is not a Module subclass")
        self._check_name(name, "_modules", "module")
        self._modules[name] = module

    register_module = add_module

    def get_submodule(self, target: str) -> Module:
        """The submodule of a dotted name. Raises AttributeError."""
        found = self
        for part in target.split(".") if target else ():
            child = getattr(found, part, None)
            if not isinstance(child, Module):
                raise AttributeError(f"{type(found).__name__} has no attribute `{part}` that is an nn.Module")
            found = child
        return found

    def get_parameter(self, target: str) -> Parameter:
        """The parameter of a dotted name."""
        path, _, name = target.rpartition(".")
        found = getattr(self.get_submodule(path), name)
        if not isinstance(found, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """The buffer of a dotted name."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if name not in module._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return module._buffers[name]

    # ---- walking
    def children(self) -> Iterator[Module]:
        """Direct submodules, each once."""
        for _, module in self.named_children():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """(name, module) of direct submodules, each once."""
        seen: set[int] = set()
        for name, module in self._modules.items():
            if module is not None and id(module) not in seen:
                seen.add(id(module))
                yield name, module

    def modules(self) -> Iterator[Module]:
        """This module and all below, each once."""
        for _, module in self.named_modules():
            yield module

    def named_modules(self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:
        """(dotted name, module) of this module and all below."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}{'.' if prefix else ''}{name}", remove_duplicate)

    def _named_members(self, table: str, prefix: str, recurse: bool, remove_duplicate: bool) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        owners = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, module in owners:
            for name, value in module.__dict__[table].items():
                if value is None or (remove_duplicate and id(value) in seen):
                    continue
                seen.add(id(value))
                yield f"{path}{'.' if path else ''}{name}", value

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """All parameters, each once."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_parameters(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True) -> Iterator[tuple[str, Parameter]]:
        """(dotted name, parameter), each once."""
        return self._named_members("_parameters", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """All buffers, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:
        """(dotted name, buffer), each once."""
        return self._named_members("_buffers", prefix, recurse, remove_duplicate)

    # ---- changing everything
    def apply(self: M, fn: Callable[[Module], None]) -> M:
        """Call `fn` on every submodule, then on this module."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def train(self: M, mode: bool = True) -> M:
        """Set training mode here and below."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self: M) -> M:
        """Set evaluation mode here and below."""
        return self.train(False)

    def requires_grad_(self: M, requires_grad: bool = True) -> M:
        """Ask for gradients of all parameters (or stop asking)."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients of all parameters."""
        for parameter in self.parameters():
            if parameter.grad is None:
                continue
            if set_to_none:
                parameter.grad = None
            else:
                with no_grad():
                    parameter.grad = parameter.grad.detach().zero_()

    def _apply(self: M, fn: Callable[[Tensor], Tensor]) -> M:
        for module in self.modules():
            for parameter in module._parameters.values():
                if parameter is not None:
                    with no_grad():
                        parameter.data = fn(parameter.data)
                        if parameter.grad is not None:
                            parameter._state().grad = fn(parameter.grad.detach())
            for name, buffer in module._buffers.items():
                if buffer is not None:
                    module._buffers[name] = fn(buffer)
        return self

    def to(self: M, *args: Any, **kwargs: Any) -> M:
        """Move or cast floating point parameters and buffers."""
        from weft.types.dtype import DType  # to tell dtypes among the arguments

        dtype = kwargs.get("dtype") or next((a for a in args if isinstance(a, DType)), None)
        source = next((a for a in args if isinstance(a, Tensor)), None)
        dtype = source.dtype if source is not None else dtype
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise ArgumentError(f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}")
        rest = {k: v for k, v in kwargs.items() if k != "dtype"}
        places = [a for a in args if isinstance(a, str)]
        return self._apply(lambda t: t.to(*places, **rest, dtype=dtype if dtype is not None and t.is_floating_point() else None))

    def float(self: M) -> M:  # noqa: A003
        """Cast floating point parameters and buffers to float32."""
        return self._cast("float32")

    def double(self: M) -> M:
        """Cast floating point parameters and buffers to float64."""
        return self._cast("float64")

    def half(self: M) -> M:
        """Cast floating point parameters and buffers to float16."""
        return self._cast("float16")

    def bfloat16(self: M) -> M:
        """Cast floating point parameters and buffers to bfloat16."""
        return self._cast("bfloat16")

    def _cast(self: M, name: str) -> M:
        from weft.types.dtype import by_name  # one use

        return self._apply(lambda t: t.to(by_name(name)) if t.is_floating_point() else t)

    def cpu(self: M) -> M:
        """The module itself: weft computes on the CPU."""
        return self

    def cuda(self: M, device: Any = None) -> M:
        """Refused: weft computes on the CPU."""
        from weft.tensor.device import Device  # its error

        Device("cuda")
        return self

    # ---- state
    def state_dict(self, *, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """Parameters and persistent buffers by dotted name; detached unless keep_vars."""
        if destination is None:
            destination = OrderedDict()
        for name, parameter in self._parameters.items():
            if parameter is not None:
                destination[prefix + name] = parameter if keep_vars else parameter.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buffer if keep_vars else buffer.detach()
        if hasattr(self, "get_extra_state"):
            destination[prefix + "_extra_state"] = self.get_extra_state()
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            result = hook(self, destination, prefix, {})
            destination = destination if result is None else result
        return destination

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> IncompatibleKeys:
        """Copy a state_dict in. Raises StateError listing missing and unexpected keys (when strict) and size mismatches; then nothing was loaded."""
        if not isinstance(state_dict, Mapping):
            raise ArgumentError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        for hook in self._load_state_dict_pre_hooks.values():
            hook(self, state_dict, "", {}, strict, [], [], [])
        own = self._loadable()
        missing = [k for k in own if k not in state_dict]
        unexpected = [k for k in state_dict if k not in own]
        problems = self._size_problems(own, state_dict)
        if strict:
            if unexpected:
                problems.insert(0, "Unexpected key(s) in state_dict: {}. ".format(", ".join(f'"{k}"' for k in unexpected)))
            if missing:
                problems.insert(0, "Missing key(s) in state_dict: {}. ".format(", ".join(f'"{k}"' for k in missing)))
        if problems:
            raise StateError("Error(s) in loading state_dict for {}:\n\t{}".format(type(self).__name__, "\n\t".join(problems)))
        self._load(own, state_dict, assign)
        found = IncompatibleKeys(missing, unexpected)
        for hook in self._load_state_dict_post_hooks.values():
            hook(self, found)
        return found

    def _loadable(self) -> dict[str, tuple[Module, str, Any]]:
        own: dict[str, tuple[Module, str, Any]] = {}
        for path, module in self.named_modules(remove_duplicate=False):
            start = f"{path}." if path else ""
            for name, value in [*module._parameters.items(), *module._buffers.items()]:
                if value is not None and name not in module._non_persistent_buffers_set:
                    own[start + name] = (module, name, value)
        return own

    def _size_problems(self, own: dict[str, tuple[Module, str, Any]], state: Mapping[str, Any]) -> list[str]:
        problems = []
        for key, (_, _, value) in own.items():
            given = state.get(key)
            if given is None:
                continue
            if not isinstance(given, Tensor):
                problems.append(f'While copying the parameter named "{key}", expected weft.Tensor or Tensor-like object from checkpoint but received '
                                f"{type(given)}")
            elif tuple(given.dims) != tuple(value.dims):
                problems.append(f"size mismatch for {key}: copying a param with shape {given.shape} from checkpoint, the shape in current model is "
                                f"{value.shape}.")
        return problems

    def _load(self, own: dict[str, tuple[Module, str, Any]], state: Mapping[str, Any], assign: bool) -> None:
        with no_grad():
            for key, (module, name, value) in own.items():
                if key not in state:
                    continue
                if not assign:
                    value.copy_(state[key])
                elif isinstance(value, Parameter):
                    module._parameters[name] = Parameter(state[key], value.requires_grad)
                else:
                    module._buffers[name] = state[key]

    # ---- hooks
    def register_forward_pre_hook(self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False) -> HookHandle:
        """Call `hook(module, args)` before forward; a returned value replaces the arguments."""
        handle = self._add_hook(self._forward_pre_hooks, hook, prepend)
        if with_kwargs:
            self._forward_pre_hooks_with_kwargs[handle.id] = True
        return handle

    def register_forward_hook(self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False) -> HookHandle:
        """Call `hook(module, args, output)` after forward; a returned value replaces the output."""
        handle = self._add_hook(self._forward_hooks, hook, prepend)
        if with_kwargs:
            self._forward_hooks_with_kwargs[handle.id] = True
        return handle

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> HookHandle:
        """Call `hook(module, grad_input, grad_output)` when the gradients of the module's inputs are known; a returned value replaces grad_input."""
        return self._add_hook(self._backward_hooks, hook, prepend)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> HookHandle:
        """Call `hook(module, grad_output)` before; a returned value replaces grad_output."""
        return self._add_hook(self._backward_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Call `hook(module, state_dict, prefix, metadata)` when a state_dict was made."""
        return self._add_hook(self._state_dict_hooks, hook, False)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Call `hook(module, state_dict, prefix, metadata, strict, missing, unexpected, errors)` before loading."""
        return self._add_hook(self._load_state_dict_pre_hooks, hook, False)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Call `hook(module, incompatible_keys)` after loading."""
        return self._add_hook(self._load_state_dict_post_hooks, hook, False)

    @staticmethod
    def _add_hook(hooks: Any, hook: Callable[..., Any], prepend: bool) -> HookHandle:
        handle = HookHandle(hooks)
        hooks[handle.id] = hook
        if prepend:
            hooks.move_to_end(handle.id, last=False)
        return handle

    # ---- text
    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = [f"({name}): " + repr(module).replace("\n", "\n  ") for name, module in self._modules.items()]
        if not lines:
            return f"{self._get_name()}({extra})" if "\n" not in extra else f"{self._get_name()}(\n  " + extra.replace("\n", "\n  ") + "\n)"
        heads = extra.split("\n") if extra else []
        return f"{self._get_name()}(\n  " + "\n  ".join(heads + lines) + "\n)"


registry.module_classes.append(Module)
