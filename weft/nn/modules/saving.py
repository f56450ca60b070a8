"""state_dict and load_state_dict of modules, with PyTorch's names, messages and overridable parts."""

from __future__ import annotations

import itertools
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from weft.nn.parameter import Parameter
from weft.support.errors import ArgumentError, StateError
from weft.tensor.modes import no_grad
from weft.tensor.tensor import Tensor

if TYPE_CHECKING:
    from weft.nn.modules.module import Module

_EXTRA = "_extra_state"


class IncompatibleKeys(namedtuple("IncompatibleKeys", ("missing_keys", "unexpected_keys"))):
    """What a state_dict lacked and what it had too much."""

    __slots__ = ()

    def __repr__(self) -> str:
        if self.missing_keys or self.unexpected_keys:
            return f"_{super().__repr__()}"
        return "<All keys matched successfully>"

    __str__ = __repr__


class Saved:
    """The part of Module that saves and loads."""

    _version: int = 1

    if TYPE_CHECKING:
        _parameters: dict[str, Parameter | None]
        _buffers: dict[str, Tensor | None]
        _modules: dict[str, Module | None]
        _non_persistent_buffers_set: set[str]
        _state_dict_hooks: OrderedDict[int, Callable[..., Any]]
        _state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
        _load_state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
        _load_state_dict_post_hooks: OrderedDict[int, Callable[..., Any]]

    # ---- saving
    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """Parameters and persistent buffers by dotted name; detached unless keep_vars."""
        if args:
            options: tuple[Any, ...] = (*args, *(destination, prefix, keep_vars)[len(args) :])
            destination, prefix, keep_vars = options
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in list(self._state_dict_pre_hooks.values()):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in list(self._state_dict_hooks.values()):
            result = hook(self, destination, prefix, metadata)
            destination = destination if result is None else result
        return destination

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Put this module's own tensors into `destination`; subclasses may override it."""
        for name, parameter in self._parameters.items():
            if parameter is not None:
                destination[prefix + name] = parameter if keep_vars else parameter.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buffer if keep_vars else buffer.detach()
        if type(self).get_extra_state is not Saved.get_extra_state:
            destination[prefix + _EXTRA] = self.get_extra_state()

    def get_extra_state(self) -> Any:
        """What else belongs into the state_dict; override together with set_extra_state."""
        raise StateError("Reached a code path in Module.get_extra_state() that should never be called.")

    def set_extra_state(self, state: Any) -> None:
        """Take what get_extra_state gave."""
        raise StateError("Reached a code path in Module.set_extra_state() that should never be called.")

    # ---- loading
    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy a state_dict in (with assign, take its tensors over). Returns missing and unexpected keys.

        Raises StateError that lists them when strict, and all size mismatches in any case; then nothing was loaded.
        """
        if not isinstance(state_dict, Mapping):
            raise ArgumentError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        copies: list[Callable[[], None]] = []
        saved: Any = OrderedDict(state_dict)
        _load(self, saved, "", getattr(state_dict, "_metadata", None), assign, missing, unexpected, errors, copies)
        if strict:
            if unexpected:
                errors.insert(
                    0, "Unexpected key(s) in state_dict: {}. ".format(", ".join(f'"{k}"' for k in unexpected))
                )
            if missing:
                errors.insert(0, "Missing key(s) in state_dict: {}. ".format(", ".join(f'"{k}"' for k in missing)))
        if errors:
            raise StateError(
                "Error(s) in loading state_dict for {}:\n\t{}".format(type(self).__name__, "\n\t".join(errors))
            )
        with no_grad():
            for copy_in in copies:
                copy_in()
        return IncompatibleKeys(missing, unexpected)

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], strict: bool,
        missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:
        """Load this module's own tensors; subclasses may override it and call it.
        Copies wait until the whole state_dict has been checked."""
        for hook in list(self._load_state_dict_pre_hooks.values()):
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        copies = local_metadata.get("copies", [])
        persistent = ((n, b) for n, b in self._buffers.items() if n not in self._non_persistent_buffers_set)
        own = {
            name: value for name, value in itertools.chain(self._parameters.items(), persistent) if value is not None
        }
        for name, value in own.items():
            key = prefix + name
            if key not in state_dict:
                if strict:
                    missing_keys.append(key)
                continue
            self._load_one(
                name, key, value, state_dict[key], local_metadata.get("assign_to_params_buffers", False), error_msgs,
                copies,
            )
        self._load_extra(state_dict, prefix + _EXTRA, strict, missing_keys, unexpected_keys, copies)
        if strict:
            unexpected_keys.extend(k for k in state_dict if self._is_unexpected(k, prefix, own))
        if "copies" not in local_metadata:
            for copy_in in copies:
                copy_in()

    def _is_unexpected(self, key: str, prefix: str, own: Mapping[str, Any]) -> bool:
        if not key.startswith(prefix) or key == prefix + _EXTRA:
            return False
        head, dot, _ = key[len(prefix) :].partition(".")
        return head not in self._modules if dot else head not in own

    def _load_one(
        self, name: str, key: str, value: Tensor, saved: Any, assign: bool, errors: list[str],
        copies: list[Callable[[], None]],
    ) -> None:
        if not isinstance(saved, Tensor):
            errors.append(
                f'While copying the parameter named "{key}", expected weft.Tensor or Tensor-like object from '
                'checkpoint but received '
                f"{type(saved)}"
            )
            return
        if value.ndim == 0 and saved.ndim == 1 and saved.dims[0] == 1:
            saved = saved[0]
        if saved.shape != value.shape:
            errors.append(
                f"size mismatch for {key}: copying a param with shape {saved.shape} from checkpoint, "
                f"the shape in current model is {value.shape}."
            )
            return
        copies.append(lambda: self._assign(name, value, saved) if assign else _copy(value, saved))

    def _assign(self, name: str, value: Tensor, saved: Tensor) -> None:
        if isinstance(value, Parameter):
            self._parameters[name] = (
                saved if isinstance(saved, Parameter) else Parameter(saved, requires_grad=value.requires_grad)
            )
        else:
            self._buffers[name] = saved

    def _load_extra(
        self, state: Mapping[str, Any], key: str, strict: bool, missing: list[str], unexpected: list[str],
        copies: list[Callable[[], None]],
    ) -> None:
        wants = type(self).set_extra_state is not Saved.set_extra_state
        if wants and key in state:
            copies.append(lambda: self.set_extra_state(state[key]))
        elif wants and strict:
            missing.append(key)
        elif not wants and strict and key in state:
            unexpected.append(key)


def _copy(value: Tensor, saved: Tensor) -> None:
    value.copy_(saved)


def _load(
    module: Any, state: Mapping[str, Any], prefix: str, metadata: Any, assign: bool, missing: list[str],
    unexpected: list[str], errors: list[str], copies: list[Callable[[], None]],
) -> None:
    local = dict((metadata or {}).get(prefix[:-1], {}), copies=copies, assign_to_params_buffers=assign)
    module._load_from_state_dict(state, prefix, local, True, missing, unexpected, errors)
    for name, child in module._modules.items():
        if child is not None:
            below = f"{prefix}{name}."
            _load(
                child, OrderedDict((k, v) for k, v in state.items() if k.startswith(below)), below, metadata, assign,
                missing, unexpected, errors, copies,
            )
    incompatible = IncompatibleKeys(missing, unexpected)
    for hook in list(module._load_state_dict_post_hooks.values()):
        if hook(module, incompatible) is not None:
            raise StateError(
                "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new values, "
                "if incompatible_keys need to be modified, it should be done inplace."
            )
