"""A training run: the model, its optimizer, the step, and how they go into a checkpoint and come out again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import weft
import weft.nn.functional as F
from weft import Tensor
from weft.cli import recipe
from weft.cli.checkpoint import Checkpoint, Settings
from weft.cli.gpt import GPT
from weft.nn.parallel import DistributedDataParallel
from weft.nn.utils import clip_grad_norm_

Array = NDArray[Any]
Step = Callable[[Tensor, Tensor], Tensor]
READ_EVERY = 10  # steps between two looks at the losses in lazy mode


def make_step(model: Callable[[Tensor], Tensor], optimizer: weft.optim.Optimizer, ranks: int = 1) -> Step:
    """One training step, as one writes it in any script: `weft.compile` takes it as it is. With several ranks the loss
    is the mean of theirs."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]

    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        logits = model(x)
        loss = F.cross_entropy(logits.reshape(-1, recipe.BYTES), y.reshape(-1))
        loss.backward()
        clip_grad_norm_(parameters, recipe.CLIP)
        optimizer.step()
        if ranks > 1:
            loss = loss.detach()
            weft.distributed.all_reduce(loss, weft.distributed.ReduceOp.AVG)
        return loss

    return step


class Run:
    """A run between two steps. `tokens` are the bytes to train on, uint8 [n]; mode is compiled, lazy, interpret or
    eager.

    In lazy mode Python traces the next steps while the native program of earlier ones runs: losses are read now and
    then, and the one that is shown may be some steps old.
    Where weft.distributed has a group of several ranks, each of them trains on its part of every batch.
    """

    def __init__(self, settings: Settings, tokens: Array, mode: str, deterministic: bool = False) -> None:
        self.settings, self.tokens, self.mode = settings, tokens, mode
        weft.manual_seed(settings.seed)
        self.model = GPT(settings.size, settings.dropout)
        fill(self.model, recipe.initial_weights(settings.size, settings.seed))
        self.device = "lazy" if mode == "lazy" else "cpu"
        self.model.to(self.device)
        self.optimizer = weft.optim.AdamW(
            self.model.parameters(),
            lr=settings.learning_rate,
            betas=recipe.BETAS,
            weight_decay=recipe.WEIGHT_DECAY,
        )
        self.losses: list[float] = []
        self._unread: list[Tensor] = []
        distributed = weft.distributed
        self.rank, self.ranks = 0, 1
        parallel: Callable[[Tensor], Tensor] = self.model
        if distributed.is_initialized():
            self.rank, self.ranks = distributed.get_rank(), distributed.get_world_size()
            parallel = DistributedDataParallel(self.model, deterministic=deterministic)
        step = make_step(parallel, self.optimizer, self.ranks)
        self.compiled: Any = step if mode in ("eager", "lazy") else weft.compile(step)

    @property
    def steps_done(self) -> int:
        return len(self.losses) + len(self._unread)

    def next_batch(self) -> tuple[Tensor, Tensor]:
        """Inputs and targets of the next step: a function of the seed and the number of steps done."""
        settings = self.settings
        x, y = recipe.window_batch(self.tokens, settings.seed, self.steps_done, settings.batch, settings.size.context)
        x, y = (np.split(rows, self.ranks)[self.rank] for rows in (x, y))
        return weft.tensor(x, device=self.device), weft.tensor(y, device=self.device)

    def train_step(self) -> float:
        """Train on the next batch. Returns its loss; in lazy mode, the latest that was read."""
        for group in self.optimizer.param_groups:
            group["lr"] = recipe.learning_rate(self.steps_done, self.settings.learning_rate)
        x, y = self.next_batch()
        if self.mode == "interpret":
            with weft.knobs(backend="interpret"):
                loss = self.compiled(x, y)
        else:
            loss = self.compiled(x, y)
        if self.mode == "lazy":
            weft.lazy.mark_step()
        self._unread.append(loss.detach())
        if self.mode != "lazy" or self.steps_done % READ_EVERY == 0 or self.steps_done in (1, self.settings.steps):
            self.read_losses()
        return self.losses[-1]

    def agree(self, is_asked: bool) -> bool:
        """Whether any rank is asked to stop."""
        if self.ranks == 1:
            return is_asked
        asked = weft.tensor([int(is_asked)])
        weft.distributed.all_reduce(asked, weft.distributed.ReduceOp.MAX)
        return bool(asked.item())

    def read_losses(self) -> None:
        """Wait for the losses of all steps done."""
        unread, self._unread = self._unread, []
        self.losses += [float(loss.item()) for loss in unread]

    def held_out_loss(self, tail: Array) -> float:
        """Mean nats per byte over every window of the held-out bytes."""
        total, count = 0.0, 0
        self.model.eval()
        with weft.no_grad():
            for x, y in recipe.held_out_batches(tail, self.settings.batch, self.settings.size.context):
                logits = self.model(weft.tensor(x, device=self.device)).reshape(-1, recipe.BYTES)
                targets = weft.tensor(y, device=self.device).reshape(-1)
                total += float(F.cross_entropy(logits, targets, reduction="sum").item())
                count += y.size
        self.model.train()
        return total / count

    def checkpoint(self) -> Checkpoint:
        """Everything that the next step depends on, copied."""
        self.read_losses()
        model = {name: value.numpy().copy() for name, value in self.model.state_dict().items()}
        states = self.optimizer.state_dict()["state"]
        optimizer = [{key: _stored(value) for key, value in states[index].items()} for index in sorted(states)]
        losses = np.array(self.losses, dtype=np.float64)
        return Checkpoint(self.settings, self.steps_done, model, optimizer, losses, _random_state())

    def restore(self, checkpoint: Checkpoint) -> None:
        """Put the run where the checkpoint was taken: the next step gives the same bits."""
        fill(self.model, checkpoint.model)
        state = {
            index: {key: _loaded(value, self.device) for key, value in one.items()}
            for index, one in enumerate(checkpoint.optimizer) if one
        }
        self.optimizer.load_state_dict({"state": state, "param_groups": self.optimizer.state_dict()["param_groups"]})
        self.losses = checkpoint.losses.tolist()
        _restore_random_state(checkpoint.random)


def load_model(checkpoint: Checkpoint) -> GPT:
    """The checkpoint's model, in evaluation mode."""
    model = GPT(checkpoint.settings.size, checkpoint.settings.dropout)
    fill(model, checkpoint.model)
    model.eval()
    return model


def fill(model: GPT, weights: dict[str, Array]) -> None:
    """Set every parameter from arrays by name."""
    model.load_state_dict({name: weft.from_numpy(value) for name, value in weights.items()})


def _stored(value: Tensor | float) -> Array | float:
    if not isinstance(value, Tensor):
        return value
    array: Array = value.numpy().copy()
    return array


def _loaded(value: Array | float, device: str) -> Any:
    return weft.tensor(value, device=device) if isinstance(value, np.ndarray) else value


def _random_state() -> dict[str, Any]:
    return {"state": weft.get_rng_state().tolist()}


def _restore_random_state(stored: dict[str, Any]) -> None:
    weft.set_rng_state(weft.tensor(stored["state"], dtype=weft.uint8))
