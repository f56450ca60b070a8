"""ZeroRedundancyOptimizer: every rank keeps and updates the optimizer state of its share of the parameters only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weft.distributed import collectives, objects
from weft.distributed.groups import ProcessGroup, the_group
from weft.optim.optimizer import Optimizer
from weft.support.errors import StateError, ValueProblem
from weft.tensor.modes import no_grad
from weft.tensor.tensor import Tensor


class ZeroRedundancyOptimizer(Optimizer):
    """`optimizer_class` over this rank's share of `params`; a step updates the share, and sends it to all.

    Shares have about equal numbers of elements: each parameter, the largest first, goes to the rank that has least.
    Every rank gives the same parameters in the same order. state_dict() is that of the whole optimizer, as one process
    would have it, on the rank that consolidate_state_dict named; load_state_dict takes it, on any number of ranks.
    """

    def __init__(
        self, params: Any, optimizer_class: type[Optimizer], process_group: Any = None,
        parameters_as_bucket_view: bool = False, overlap_with_ddp: bool = False, **defaults: Any,
    ) -> None:
        if overlap_with_ddp:
            raise ValueProblem("ZeroRedundancyOptimizer: overlap_with_ddp is not there")
        self.process_group: ProcessGroup = the_group(process_group)
        super().__init__(params, defaults)
        self._owners = _owners([p for g in self.param_groups for p in g["params"]], self.process_group.size())
        self._whole: dict[str, Any] | None = None
        shares = [{**g, "params": self._mine(g["params"])} for g in self.param_groups]
        self._has_share = any(g["params"] for g in shares)
        self.optim = optimizer_class(shares, **defaults) if self._has_share else None
        if self.optim is not None:
            for group, share in zip(self.param_groups, self.optim.param_groups, strict=True):
                group.update(_options(share))

    def _mine(self, params: Sequence[Tensor]) -> list[Tensor]:
        return [p for p in params if self._owners[id(p)] == self.process_group.rank()]

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update this rank's share, and get the others'. Returns closure's result."""
        loss = None
        if self.optim is None:
            loss = None if closure is None else closure()
        else:
            for group, share in zip(self.param_groups, self.optim.param_groups, strict=True):
                share.update(_options(group))
            loss = self.optim.step(closure) if closure is not None else self.optim.step()
        with no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    collectives.broadcast(p.detach(), group=self.process_group, group_src=self._owners[id(p)])
        return loss

    # ---- state
    def consolidate_state_dict(self, to: int = 0) -> None:
        """Bring the state of all shares to rank `to`. Every rank calls it."""
        numbers = {id(p): i for i, p in enumerate(p for g in self.param_groups for p in g["params"])}
        mine = {}
        if self.optim is not None:
            mine = {numbers[id(p)]: dict(state) for p, state in self.optim.state.items()}
        shares: list[Any] | None = [None] * self.process_group.size() if self.process_group.rank() == to else None
        objects.gather_object(mine, shares, group=self.process_group, group_dst=to)
        if shares is None:
            self._whole = None
            return
        state = {number: one for share in shares for number, one in share.items()}
        self._whole = {"state": dict(sorted(state.items())), "param_groups": self._numbered_groups(numbers)}

    def _numbered_groups(self, numbers: dict[int, int]) -> list[dict[str, Any]]:
        return [{**g, "params": [numbers[id(p)] for p in g["params"]]} for g in self.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """The state of the whole optimizer. Raises StateError on a rank to which it was not brought."""
        if self._whole is None:
            raise StateError(
                "Optimizer state has not been consolidated on this rank. Please call `consolidate_state_dict(to="
                f"{self.process_group.rank()})` on all ranks beforehand if you meant to save the global state."
            )
        return self._whole

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take the state of a whole optimizer, of which this rank keeps its share."""
        for group, stored in zip(self.param_groups, state_dict["param_groups"], strict=True):
            group.update(_options(stored))
        if self.optim is None:
            return
        params = [p for g in self.param_groups for p in g["params"]]
        mine = [i for i, p in enumerate(params) if self._owners[id(p)] == self.process_group.rank()]
        local = {id(p): n for n, p in enumerate(p for g in self.optim.param_groups for p in g["params"])}
        state = {local[id(params[i])]: state_dict["state"][i] for i in mine if i in state_dict["state"]}
        groups = self.optim.state_dict()["param_groups"]
        for group, stored in zip(groups, state_dict["param_groups"], strict=True):
            group.update(_options(stored))
        self.optim.load_state_dict({"state": state, "param_groups": groups})


def _options(group: Mapping[str, Any]) -> dict[str, Any]:
    """What a group has besides its parameters."""
    return {key: value for key, value in group.items() if key != "params"}


def _owners(params: Sequence[Tensor], ranks: int) -> dict[int, int]:
    """The rank of each parameter, by its identity."""
    filled = [0] * ranks
    owners: dict[int, int] = {}
    for p in sorted(params, key=lambda p: -p.numel()):
        owner = filled.index(min(filled))
        owners[id(p)] = owner
        filled[owner] += p.numel()
    return owners
