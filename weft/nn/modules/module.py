"""Module: parameters, buffers and submodules under attribute names.
Hooks, saving and conversions are in files of their own."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import getattr_static
from typing import Any, cast

from weft.nn.modules import global_hooks
from weft.nn.modules.converting import Converted
from weft.nn.modules.global_hooks import (
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from weft.nn.modules.hooks import Hooked, call_with_hooks, make_tables
from weft.nn.modules.saving import IncompatibleKeys as _IncompatibleKeys  # noqa: F401  (PyTorch has it here)
from weft.nn.modules.saving import Saved
from weft.nn.parameter import Buffer, Parameter
from weft.support import registry
from weft.support.errors import ArgumentError, Unsupported, ValueProblem
from weft.tensor.tensor import Tensor

__all__ = [
    "Module", "register_module_backward_hook", "register_module_buffer_registration_hook",
    "register_module_forward_hook", "register_module_forward_pre_hook", "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook", "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]
_TABLES = ("_parameters", "_buffers", "_modules")


class Module(Hooked, Saved, Converted):
    """The base class of models. Subclasses call `super().__init__()`, assign parameters and submodules as attributes,
    and define `forward`."""

    call_super_init = False  # whether __init__ goes on to the next class's, for classes with several bases

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if (args or kwargs) and not self.call_super_init:
            if kwargs:
                raise ArgumentError(
                    f"{type(self).__name__}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'"
                )
            raise ArgumentError(
                f"{type(self).__name__}.__init__() takes 1 positional argument but {len(args) + 1} were given"
            )
        fields = self.__dict__
        fields["training"] = True
        fields["_parameters"] = {}
        fields["_buffers"] = {}
        fields["_non_persistent_buffers_set"] = set()
        fields["_modules"] = {}
        make_tables(fields)
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    # ---- calling
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if (
            self._forward_hooks or self._forward_pre_hooks or self._backward_hooks or self._backward_pre_hooks
            or self._plain_backward_hooks
            or global_hooks.around_calls or self._compiled_call is not None
        ):
            return (
                call_with_hooks(self, args, kwargs) if self._compiled_call is None
                else self._compiled_call(*args, **kwargs)
            )
        return self.forward(*args, **kwargs)

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        return call_with_hooks(self, args, kwargs)

    _compiled_call: Any = None  # what compile() made of _call_impl

    def compile(self, **options: Any) -> None:
        """Compile this module's calls, hooks included, in place; `options` are those of weft.compile."""
        from weft.compile.api import compile  # the compiler is needed by whoever compiles

        self._compiled_call = compile(self._call_impl, **options)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes. Subclasses define it."""
        raise Unsupported(f'Module [{type(self).__name__}] is missing the required "forward" function')

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
                raise ArgumentError(
                    f"cannot assign '{type(value).__name__}' object to parameter '{name}' (weft.nn.Parameter or "
                    "None required)"
                )
            self.register_parameter(name, None)
            return
        modules = fields.get("_modules")
        if isinstance(value, Module):
            if modules is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, "_modules")
            modules[name] = global_hooks.registered(global_hooks.module_registration, self, name, value)
            return
        if modules is not None and name in modules:
            if value is not None:
                raise ArgumentError(
                    f"cannot assign '{type(value).__name__}' object to child module '{name}' (weft.nn.Module or "
                    "None required)"
                )
            modules[name] = value
            return
        buffers = fields.get("_buffers")
        if isinstance(value, Buffer):
            if buffers is None:
                raise AttributeError("cannot assign buffer before Module.__init__() call")
            self._forget(name, "_buffers")
            self.register_buffer(name, cast(Any, value), value.persistent)
            return
        if buffers is not None and name in buffers:
            if value is not None and not isinstance(value, Tensor):
                raise ArgumentError(
                    f"cannot assign '{type(value).__name__}' object to buffer '{name}' (weft.Tensor or None required)"
                )
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
            entries = fields.get(table)
            if entries is not None and name in entries:
                return entries[name]
        shown = getattr_static(type(self), name, None)
        if isinstance(shown, property) and shown.fget is not None:
            return shown.fget(self)  # a property that failed for want of another attribute: say which
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
        make_tables(self.__dict__)
        self.__dict__.setdefault("_non_persistent_buffers_set", set())

    # ---- registration
    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter under a name. Raises for names that are taken, empty or dotted, and for tensors
        that are not leaves."""
        self._check_name(name, "_parameters", "parameter")
        if param is None:
            self._parameters[name] = None
            return
        if not isinstance(param, Parameter):
            raise ArgumentError(
                f"cannot assign '{type(param).__name__}' object to parameter '{name}' (weft.nn.Parameter or "
                "None required)"
            )
        if param._node is not None:
            raise ValueProblem(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly."
            )
        self._parameters[name] = global_hooks.registered(global_hooks.parameter_registration, self, name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is state but no parameter; persistent ones are part of state_dict."""
        self._check_name(name, "_buffers", "buffer")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise ArgumentError(
                f"cannot assign '{type(tensor).__name__}' object to buffer '{name}' (weft Tensor or None required)"
            )
        self._buffers[name] = global_hooks.registered(global_hooks.buffer_registration, self, name, tensor)
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
        self._modules[name] = global_hooks.registered(global_hooks.module_registration, self, name, module)

    register_module = add_module

    def get_submodule(self, target: str) -> Module:
        """The submodule of a dotted name. Raises AttributeError."""
        module = self
        for part in target.split(".") if target else ():
            child = getattr(module, part, None)
            if not isinstance(child, Module):
                raise AttributeError(f"{type(module).__name__} has no attribute `{part}` that is an nn.Module")
            module = child
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put a module in the place of a dotted name; with strict, only where there is one.
        Raises AttributeError, ValueProblem."""
        if not target:
            raise ValueProblem("Cannot set the submodule without a target name!")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not isinstance(parent._modules.get(name), Module):
            raise AttributeError(f"{type(parent).__name__} has no attribute `{name}`")
        if not isinstance(module, Module):
            raise ValueProblem(f"`module` is not an nn.Module, found {type(module)}")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter of a dotted name."""
        path, _, name = target.rpartition(".")
        parameter = getattr(self.get_submodule(path), name)
        if not isinstance(parameter, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return parameter

    def get_buffer(self, target: str) -> Tensor | None:
        """The buffer of a dotted name (None if it was registered as None)."""
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

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all below, each once."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
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

    def _named_members(
        self, table: str, prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
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

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """(dotted name, parameter), each once."""
        return self._named_members("_parameters", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """All buffers, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """(dotted name, buffer), each once."""
        return self._named_members("_buffers", prefix, recurse, remove_duplicate)

    # ---- text
    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = [f"({name}): " + repr(module).replace("\n", "\n  ") for name, module in self._modules.items()]
        if not lines:
            return (
                f"{self._get_name()}({extra})" if "\n" not in extra
                else f"{self._get_name()}(\n  " + extra.replace("\n", "\n  ") + "\n)"
            )
        heads = extra.split("\n") if extra else []
        return f"{self._get_name()}(\n  " + "\n  ".join(heads + lines) + "\n)"


registry.module_classes.append(Module)
