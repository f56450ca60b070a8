"""Optimizer: parameter groups, state by parameter, hooks, and what a captured step must know of them."""

from __future__ import annotations

import functools
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import weft.optim.state_dict as saving
from weft.autograd.accumulate import gradient_of, zero
from weft.autograd.node import RemovableHandle
from weft.ops.overrides import override_classes
from weft.ops.packet import aten
from weft.optim.clock import Clock, advance, scalar_dtype
from weft.optim.complex_parameters import update_as_real
from weft.optim.facts import KnownState, Makers, group_change, groups_check
from weft.optim.step_hooks import add_hook, global_post_hooks, global_pre_hooks
from weft.optim.updates import Group
from weft.support import registry
from weft.support.errors import ArgumentError, StateError, ValueProblem
from weft.support.locations import is_internal
from weft.support.naming import own_name
from weft.support.warn import warn
from weft.tensor.capture import refuse_in_capture
from weft.tensor.dense import payload_of
from weft.tensor.modes import beside, enable_grad, keeps_modes, modes, set_grad_enabled
from weft.tensor.tensor import Tensor
from weft.tensor.wrapper import opening_classes
from weft.types.formats import strided

State = dict[str, Any]
Params = Iterable[Any]
ParamsT = params_t = _params_t = Params  # PyTorch's names


class _Required:
    def __repr__(self) -> str:
        return "<required parameter>"


required: Any = _Required()


class Optimizer:
    """The base class. Subclasses define `_update_group`, or override `step` as a whole.

    param_groups: a list of dicts, each with "params" and its options.
    state: a dict from parameter to a dict of its state.
    """

    takes_sparse = False  # whether an update has a meaning for gradients that are sparse tensors

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if own_name(cls.__module__).startswith("weft.optim."):
            registry.opaque_classes.append(cls)
        elif "step" in cls.__dict__:
            cls.step = _with_hooks(cls.__dict__["step"])  # type: ignore[method-assign]

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise ArgumentError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, "
                f"but got {_type_name(params)}"
            )
        self.defaults = defaults
        self.state: defaultdict[Tensor, State] = defaultdict(dict)
        self.param_groups: list[Group] = []
        self._make_tables()
        groups = list(params)
        if not groups:
            raise ValueProblem("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(dict(group))

    def _make_tables(self) -> None:
        self._step_pre_hooks: dict[int, Any] = OrderedDict()
        self._step_post_hooks: dict[int, Any] = OrderedDict()
        self._state_dict_hooks: dict[int, Any] = OrderedDict()
        self._load_state_dict_hooks: dict[int, Any] = OrderedDict()
        self._state_dict_pre_hooks: dict[int, Any] = OrderedDict()
        self._load_state_dict_post_hooks: dict[int, Any] = OrderedDict()
        self._makers: Makers = {}  # of the state that captured steps asked for

    # ---- groups
    def add_param_group(self, param_group: Group) -> None:
        """Add a group of parameters with options of its own. Raises ArgumentError, ValueProblem."""
        refuse_in_capture(
            "a compiled function makes an optimizer or adds a parameter group; do this outside of it, once"
        )
        registry.optimizers.add(self)
        if not isinstance(param_group, dict):
            raise ArgumentError(f"param_group must be a dict, but got {type(param_group)}")
        params = param_group["params"]
        if isinstance(params, set):
            raise ArgumentError(
                "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets "
                "will change between runs. Please use a list instead."
            )
        param_group["params"] = self._checked_params(
            [params] if isinstance(params, Tensor) else list(params), param_group
        )
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueProblem(f"parameter group didn't specify a value of required optimization parameter {name}")
            param_group.setdefault(name, default)
        if self.param_groups and ("param_names" in param_group) != ("param_names" in self.param_groups[0]):
            state = "with" if "param_names" in param_group else "without"
            raise ValueProblem(
                f"all optimizer param groups should be with/without names. cannot add param group {state} names to "
                "the optimizer"
            )
        taken = {id(p) for group in self.param_groups for p in group["params"]}
        if any(id(p) in taken for p in param_group["params"]):
            raise ValueProblem("some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)

    def _checked_params(self, params: list[Any], group: Group) -> list[Tensor]:
        named = [isinstance(p, tuple) for p in params]
        if any(named) and not all(named):
            raise ValueProblem("all optimizer params should be with/without names. Some param names are missing")
        if params and all(named):
            group["param_names"] = [name for name, _ in params]
            params = [p for _, p in params]
        for p in params:
            if not isinstance(p, Tensor):
                raise ArgumentError(f"optimizer can only optimize Tensors, but one of the params is {_type_name(p)}")
            if not (self.defaults.get("differentiable") or p.is_leaf or p.retains_grad):
                raise ValueProblem("can't optimize a non-leaf Tensor")
            if hasattr(type(p), "materialize"):
                raise ValueProblem(
                    "can't optimize an uninitialized parameter: call the lazy module once with an input before its "
                    "optimizer is made"
                )
        if len({id(p) for p in params}) != len(params):
            warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this will cause an error",
            )
        return params

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients (or set them to zero)."""
        self._guard_groups()
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    p.grad = None
                else:
                    zero(p)

    # ---- the step
    @keeps_modes
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters that have gradients. `closure`, if given, computes the loss anew first;
        its value is returned."""
        args, kwargs = self._before_step((self,) if closure is None else (self, closure), {})
        closure = args[1] if len(args) > 1 else kwargs.get("closure")
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with set_grad_enabled(bool(self.defaults.get("differentiable"))):
            self._guard_groups()
            for group in self.param_groups:
                active = self._active(group)
                if opening_classes:  # (where there are none, no gradient is sparse)
                    self._refuse_sparse(active, group)
                if any(p.dtype.is_complex for p in active):
                    update_as_real(self, group, active)
                elif active:
                    self._update_watched(group, active)
        self._after_step(args, kwargs)
        self._guard_state()
        return loss

    def _active(self, group: Group) -> list[Tensor]:
        """The parameters of a group that have gradients. A capture need not watch how they are asked (classes may)."""
        capture = None if override_classes else modes.capture
        return _with_gradients(group) if capture is None else capture.call(_with_gradients, group)

    def _update_watched(self, group: Group, params: list[Tensor]) -> None:
        """The update; a capture need not watch the code of weft's own algorithms."""
        capture = modes.capture
        if capture is not None and _is_own(self):
            with capture.at_one_line():
                capture.call(self._update_group, group, params)
        else:
            self._update_group(group, params)

    def _refuse_sparse(self, params: list[Tensor], group: Group) -> None:
        """Raises StateError for a sparse gradient that an algorithm of weft's, or weight decay, has no meaning for."""
        if not _is_own(self) or all(gradient_of(p).layout is strided for p in params):  # type: ignore[union-attr]
            return
        if not self.takes_sparse:
            more = ", please consider SparseAdam instead" if type(self).__name__.startswith("Adam") else ""
            raise StateError(f"{type(self).__name__} does not support sparse gradients{more}")
        if group.get("weight_decay", 0) != 0:
            raise StateError("weight_decay option is not compatible with sparse gradients")

    def _update_group(self, group: Group, params: list[Tensor]) -> None:
        """Update the parameters of a group that have gradients. Runs under no_grad."""
        raise NotImplementedError(f"{type(self).__name__} must define step()")

    def _before_step(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        for hook in [*global_pre_hooks.values(), *self._step_pre_hooks.values()]:
            changed = hook(self, args, kwargs)
            if changed is not None:
                if not (isinstance(changed, tuple) and len(changed) == 2):
                    raise StateError(
                        f"{hook} must return None or a tuple of (new_args, new_kwargs), but got {changed}."
                    )
                args, kwargs = changed
        return args, kwargs

    def _after_step(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for hook in [*self._step_post_hooks.values(), *global_post_hooks.values()]:
            hook(self, args, kwargs)
        self.__dict__["_opt_called"] = True  # schedulers ask whether steps are in order

    # ---- numbers and state, eager or captured
    def _number(self, group: Group, key: str) -> Any:
        """An option of a group that is a number. In a captured step it is an input of the program, so that changing
        it compiles nothing."""
        capture = modes.capture
        return group[key] if capture is None else capture.python_state.lift(group, key, f"{type(self).__name__}.{key}")

    def _pair(self, group: Group, key: str) -> tuple[Any, ...]:
        """An option that is a tuple of numbers, such as betas; see _number."""
        capture = modes.capture
        if capture is None:
            return tuple(group[key])
        name = f"{type(self).__name__}.{key}"
        return tuple(capture.python_state.lift(group, key, f"{name}[{i}]", i) for i in range(len(group[key])))

    def _state_of(self, p: Tensor, names: tuple[str, ...], make: Callable[[Tensor], Tensor] = aten.zeros_like) -> State:
        """The state of a parameter, in which every name has a tensor: `make(p)` for those that had none."""
        state = self.state[p]
        if modes.capture is not None:
            self._makers.update({(id(p), name): make for name in names})
        missing = [name for name in names if state.get(name) is None]
        if missing:
            self._add_state(p, lambda p: {name: make(p) for name in missing})
        return state

    def _rows(
        self, params: list[Tensor], *names: str | None, make: Callable[[Tensor], Tensor] = aten.zeros_like
    ) -> list[tuple[Any, ...]]:
        """For each parameter itself, its gradient and its state by these names (None where there is no name)."""
        wanted = tuple([name for name in names if name is not None])
        rows = []
        for p in params:
            state = self._state_of(p, wanted, make) if wanted else {}
            rows.append((p, gradient_of(p), *[None if name is None else state[name] for name in names]))
        return rows

    def _add_state(self, p: Tensor, make: Callable[[Tensor], State]) -> None:
        """Add to the state of p what `make(p)` gives: computed for real also while a step is captured,
        and taken back if that fails."""
        state, capture = self.state[p], modes.capture
        if capture is None:
            entries = make(p)
            for tensor in entries.values():
                payload_of(tensor).backend.ready(tensor)
            state.update(entries)
            return
        if not capture.outside.is_outside(p):
            raise capture.refuse(
                "an optimizer inside a compiled function can only update tensors that exist outside of it"
            )
        with capture.paused():
            entries = dict(make(p))
        before = {name: state[name] for name in entries if name in state}
        state.update(entries)
        capture.on_roll_back(lambda: _forget(self.state, p, entries, before))

    def _clocks(self, group: Group, params: list[Tensor]) -> list[Clock]:
        """Advance the step counters of these parameters by one; see clock.py."""
        fresh: dict[str, Tensor] = {}

        def counter(p: Tensor) -> State:
            if "step" not in fresh:
                fresh["step"] = aten.zeros((), dtype=scalar_dtype())
            return fresh

        counters = [self.state[p].get("step") for p in params]
        with beside([step for step in counters if step is not None], "the optimizer's count of its steps"):
            for p, step in zip(params, counters, strict=True):
                if step is None:
                    self._add_state(p, counter)
            return advance(self.state, params, group["params"])

    def _guard_groups(self) -> None:
        """Tell an active capture that it depends on the groups."""
        capture = modes.capture
        if capture is not None:
            groups = [{**group, "params": list(group["params"])} for group in self.param_groups]
            capture.python_state.keep(groups)
            capture.python_state.guard(
                (id(self), "groups"), lambda: group_change(type(self).__name__, groups, self.param_groups),
                groups_check(lambda: self.param_groups),
            )

    def _guard_state(self) -> None:
        """Tell an active capture that it depends on hooks, and on the state tensors as they are
        at the end of the last step."""
        capture = modes.capture
        if capture is None:
            return

        tables = (global_pre_hooks, self._step_pre_hooks, self._step_post_hooks, global_post_hooks)
        state = KnownState(self, lambda: [*tables], self._makers)
        capture.python_state.guard((id(self), "state"), state.change, state.holds, state)

    # ---- saving
    def state_dict(self) -> dict[str, Any]:
        """{"state": ..., "param_groups": ...} with parameters numbered in the order of the groups."""
        for hook in list(self._state_dict_pre_hooks.values()):
            hook(self)
        return saving.state_dict(self)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over state and options. Raises ValueProblem when the groups do not match; then nothing changed."""
        refuse_in_capture("a compiled function loads an optimizer's state; do this outside of it")
        saving.load_state_dict(self, state_dict)
        for hook in list(self._load_state_dict_post_hooks.values()):
            hook(self)

    # ---- hooks
    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each step; a returned pair replaces args and kwargs."""
        return add_hook(self._step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after each step."""
        return add_hook(self._step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` before a state_dict is made."""
        return add_hook(self._state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` when a state_dict was made; a returned one replaces it."""
        return add_hook(self._state_dict_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before loading; a returned one replaces it."""
        return add_hook(self._load_state_dict_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` after loading."""
        return add_hook(self._load_state_dict_post_hooks, hook, prepend)

    # ---- copying and text
    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "_step_pre_hooks" not in self.__dict__:
            self._make_tables()
        for group in self.param_groups:  # a state_dict of an older version lacks the newer options
            for name, value in self.defaults.items():
                if value is not required:
                    group.setdefault(name, value)

    def __repr__(self) -> str:
        lines = []
        for i, group in enumerate(self.param_groups):
            lines.append(f"\nParameter Group {i}\n")
            lines += [f"    {key}: {group[key]}\n" for key in sorted(group) if key != "params"]
        return f"{type(self).__name__} ({''.join(lines)})"


def _is_own(optimizer: Optimizer) -> bool:
    """Whether the algorithm is one of weft's."""
    return is_internal(type(optimizer)._update_group.__code__.co_filename)


def _with_gradients(group: Group) -> list[Tensor]:
    return [p for p in group["params"] if gradient_of(p) is not None]


def _forget(table: defaultdict[Tensor, State], p: Tensor, names: Iterable[str], before: State) -> None:
    state = table.get(p, {})
    for name in names:
        state.pop(name, None)
    state.update(before)
    if not state:
        table.pop(p, None)


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """A subclass's own `step`, with the step hooks around it."""

    @functools.wraps(step)
    def hooked(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        if "_step_pre_hooks" not in self.__dict__:  # (a wrapper that never called __init__ has no hooks)
            return step(self, *args, **kwargs)
        args, kwargs = self._before_step((self, *args), kwargs)
        result = step(*args, **kwargs)
        self._after_step(args, kwargs)
        return result

    return hooked


def _type_name(value: Any) -> str:
    return f"weft.{type(value).__name__}" if isinstance(value, Tensor) else type(value).__name__
