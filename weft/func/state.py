"""Modules as functions of their parameters: functional_call, stack_module_state;
batch norms without running statistics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from weft.nn.modules.module import Module
from weft.nn.modules.running_norms import BatchNorm
from weft.ops.packet import aten
from weft.support.errors import StateError, ValueProblem
from weft.tensor.tensor import Tensor

State = Mapping[str, Tensor]


def functional_call(
    module: Module, parameter_and_buffer_dicts: State | Sequence[State], args: Any = None,
    kwargs: dict[str, Any] | None = None, *, tie_weights: bool = True, strict: bool = False,
) -> Any:
    """Call the module with these parameters and buffers, by name, in place of its own.

    parameter_and_buffer_dicts: a dict, or several with different names. args: the argument, or a tuple of them.
    tie_weights: tensors that the module shares under several names are replaced under all of them.
    strict: every name must be given and none besides. What the call writes into the given buffers stays with them.
    Raises ValueProblem, StateError.
    """
    state = (
        parameter_and_buffer_dicts if isinstance(parameter_and_buffer_dicts, Mapping)
        else _joined(parameter_and_buffer_dicts)
    )
    called = () if args is None else args if isinstance(args, tuple) else (args,)
    with _replaced(module, _tied(module, state) if tie_weights else dict(state), strict):
        return module(*called, **(kwargs or {}))


def _joined(dicts: Sequence[State]) -> State:
    if not isinstance(dicts, (tuple, list)) or not all(isinstance(d, Mapping) for d in dicts):
        raise ValueProblem(
            f"Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got {type(dicts)}"
        )
    out: dict[str, Tensor] = {}
    for d in dicts:
        repeated = sorted(out.keys() & d.keys())
        if repeated:
            raise ValueProblem(
                f"{repeated} appeared in multiple dictionaries; behavior of functional call is ambiguous"
            )
        out.update(d)
    return out


def _own(module: Module) -> dict[str, Tensor]:
    return {
        **dict(module.named_parameters(remove_duplicate=False)), **dict(module.named_buffers(remove_duplicate=False))
    }


def _tied(module: Module, state: State) -> dict[str, Tensor]:
    """The state with each tensor also under the other names that the module knows it by."""
    own = _own(module)
    out = dict(state)
    for name, value in state.items():
        if name not in own:
            continue
        for other, tensor in own.items():
            if tensor is not own[name] or other == name:
                continue
            if other in state and state[other] is not value:
                raise ValueProblem(
                    f"functional_call got multiple values for keys {sorted((name, other))}, which are tied. "
                    "Consider using tie_weights=False"
                )
            out[other] = value
    return out


@contextmanager
def _replaced(module: Module, state: Mapping[str, Tensor], strict: bool) -> Iterator[None]:
    """The module with other parameters and buffers, within a block."""
    own = _own(module)
    unknown, missing = [n for n in state if n not in own], [n for n in own if n not in state]
    if unknown and strict:
        raise StateError(
            f"Error(s) in loading state_dict for {type(module).__name__}:\n"
            f"\tUnexpected key(s): {', '.join(map(repr, unknown))}."
        )
    if missing and strict:
        raise StateError(
            f"Error(s) in loading state_dict for {type(module).__name__}:\n"
            f"\tMissing key(s): {', '.join(map(repr, missing))}."
        )
    before = []
    for name, value in state.items():
        if name in own:
            table, key = _place(module, name)
            before.append((table, key, table[key]))
            table[key] = value
    try:
        yield
    finally:
        for table, key, value in reversed(before):
            table[key] = value


def _place(module: Module, name: str) -> tuple[dict[str, Any], str]:
    """The table that holds a parameter or buffer, and its key there."""
    path, _, key = name.rpartition(".")
    owner: Any = module.get_submodule(path) if path else module
    return (owner._parameters if key in owner._parameters else owner._buffers), key


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Let every batch norm in the module use the batch's own statistics always: running ones are a state that vmap
    cannot write. Returns root."""
    for module in root.modules():
        if isinstance(module, BatchNorm):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(parameters, buffers) of models of one architecture, by name, each stacked along a new first dim:
    what vmap over an ensemble maps over.

    The stacked parameters are leaves that require grad where the models' do. Raises StateError for no models,
    different classes, or mixed modes.
    """
    listed = list(models)
    if not listed:
        raise StateError("stack_module_state: Expected at least one model, got 0.")
    if not (all(m.training for m in listed) or all(not m.training for m in listed)):
        raise StateError("stack_module_state: Expected all models to have the same training/eval mode.")
    if any(type(m) is not type(listed[0]) for m in listed):
        raise StateError("stack_module_state: Expected all models to be of the same class.")
    parameters = [dict(m.named_parameters()) for m in listed]
    buffers = [dict(m.named_buffers()) for m in listed]
    return (
        {name: _stacked([p[name] for p in parameters]) for name in parameters[0]},
        {name: _stacked([b[name] for b in buffers]) for name in buffers[0]},
    )


def _stacked(tensors: list[Tensor]) -> Tensor:
    wants = [t.requires_grad for t in tensors]
    if any(wants) != all(wants):
        raise StateError("Expected parameters from different models to have the same .requires_grad")
    out: Tensor = aten.stack(tuple(t.detach() for t in tensors))
    return out.requires_grad_() if all(wants) else out
