"""BlockMask: which keys each query sees, by blocks, and a function that tells it within the blocks."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from weft.func.mapping import vmap
from weft.layers.factories import FACTORIES
from weft.ops.packet import aten
from weft.support.errors import ArgumentError, ShapeError, StateError
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt

MaskMod = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
DEFAULT_BLOCK_SIZE = 128
_arange, _full = FACTORIES["arange"], FACTORIES["full"]
_TENSORS = (
    "kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices", "q_num_blocks", "q_indices",
    "full_q_num_blocks", "full_q_indices",
)


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """Every query sees every key."""
    return _full((), True, device=batch.device)


def and_masks(*mask_mods: MaskMod) -> MaskMod:
    """A function that is true where all of these are. Raises ArgumentError."""
    _all_callable("and_masks", mask_mods)

    def and_mask(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        result: Tensor = _full((), True, device=b.device)
        for mod in mask_mods:
            result = result & mod(b, h, q_idx, kv_idx)
        return result

    return and_mask


def or_masks(*mask_mods: MaskMod) -> MaskMod:
    """A function that is true where one of these is. Raises ArgumentError."""
    _all_callable("or_masks", mask_mods)

    def or_mask(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        result: Tensor = _full((), False, device=b.device)
        for mod in mask_mods:
            result = result | mod(b, h, q_idx, kv_idx)
        return result

    return or_mask


def _all_callable(name: str, mask_mods: tuple[Any, ...]) -> None:
    for mod in mask_mods:
        if not callable(mod):
            raise ArgumentError(f"{name}: all inputs should be callable mask_mods, but one is {mod!r}")


def over_places(function: Callable[..., Tensor], takes_scores: bool) -> Callable[..., Tensor]:
    """A function of one place (score, if it takes one, then b, h, q, kv) as one of all places:
    scores [B, H, Q, KV], indices [B], [H], [Q], [KV] -> [B, H, Q, KV]."""
    for dim in (3, 2, 1, 0):
        of_index = [0 if at == dim else None for at in range(4)]
        function = vmap(function, in_dims=(*((0,) if takes_scores else ()), *of_index), out_dims=0)
    return function


def places(B: int, H: int, Q_LEN: int, KV_LEN: int, device: Any) -> list[Tensor]:
    """The indices of each dim."""
    return [_arange(n, device=device) for n in (B, H, Q_LEN, KV_LEN)]


def create_mask(
    mod_fn: Callable[..., Tensor], B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None
) -> Tensor:
    """bool [B, H, Q_LEN, KV_LEN] (None: 1): what a mask_mod (b, h, q_idx, kv_idx) says, or where a score_mod
    (score, b, h, q_idx, kv_idx) leaves a score. Raises ArgumentError."""
    B, H = 1 if B is None else B, 1 if H is None else H
    where = places(B, H, Q_LEN, KV_LEN, device)
    if _takes_scores(mod_fn):
        scores = over_places(mod_fn, True)(_full((B, H, Q_LEN, KV_LEN), 0.0, device=device), *where)
        return aten.logical_not(aten.isneginf(scores))
    return over_places(mod_fn, False)(*where)


def _takes_scores(mod_fn: Callable[..., Tensor]) -> bool:
    positional = [p for p in inspect.signature(mod_fn).parameters.values() if p.default is inspect.Parameter.empty]
    if len(positional) not in (4, 5):
        raise ArgumentError(
            "flex_attention: expected a mask_mod (b, h, q_idx, kv_idx) or a score_mod (score, b, h, q_idx, kv_idx), "
            f"got a function of {len(positional)} arguments"
        )
    return len(positional) == 5


def create_block_mask(
    mask_mod: MaskMod, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = DEFAULT_BLOCK_SIZE, _compile: bool = False, separate_full_blocks: bool = True,
) -> BlockMask:
    """The blocks in which a mask_mod lets a query see a key, and those in which every query sees every key.

    B, H: None where the mask is one for all. BLOCK_SIZE: one size, or that of queries and that of keys.
    separate_full_blocks: full blocks are listed by themselves. Raises ArgumentError for what is no mask_mod.
    """
    if _takes_scores(mask_mod):
        raise ArgumentError("create_block_mask: requires a mask_mod function of four arguments, got a score_mod")
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    of_queries, of_keys = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    counts = _block_counts(mask, of_queries, of_keys)
    full = aten.eq(counts, of_queries * of_keys)
    some = aten.gt(counts, 0)
    if not separate_full_blocks:
        return BlockMask.from_kv_blocks(
            *_ordered(some), BLOCK_SIZE=(of_queries, of_keys), mask_mod=mask_mod, seq_lengths=(Q_LEN, KV_LEN)
        )
    return BlockMask.from_kv_blocks(
        *_ordered(some & ~full), *_ordered(full), BLOCK_SIZE=(of_queries, of_keys), mask_mod=mask_mod,
        seq_lengths=(Q_LEN, KV_LEN),
    )


def _block_counts(mask: Tensor, of_queries: int, of_keys: int) -> Tensor:
    """[B, H, Q, KV] -> [B, H, blocks of Q, blocks of KV]: how many places of each block are seen."""
    b, h, q, kv = mask.shape
    rows, columns = -(-q // of_queries), -(-kv // of_keys)
    padded = aten.constant_pad_nd(mask, [0, columns * of_keys - kv, 0, rows * of_queries - q])
    return aten.sum(aten.reshape(padded, (b, h, rows, of_queries, columns, of_keys)), (3, 5))


def _ordered(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """bool [.., rows, columns] -> how many blocks of each row there are, and the columns, those of blocks first."""
    order = aten.argsort(blocks.to(dt.int32), dim=-1, descending=True, stable=True)
    return aten.sum(blocks, -1).to(dt.int32), order.to(dt.int32)


def _dense(num_blocks: Tensor, indices: Tensor) -> Tensor:
    """What _ordered took: bool [.., rows, columns]."""
    columns = indices.shape[-1]
    is_listed = aten.lt(_arange(columns, device=indices.device), aten.unsqueeze(num_blocks, -1))
    return aten.scatter(aten.zeros_like(is_listed), -1, indices.to(dt.int64), is_listed)


class BlockMask:
    """Blocks of queries and keys that attend: for each block of queries, how many blocks of keys, and which.

    kv_num_blocks: [B, H, rows], kv_indices: [B, H, rows, columns]; full_kv_*: blocks in which mask_mod need not be
    asked; q_*: the same by blocks of keys.
    """

    def __init__(
        self, seq_lengths: tuple[int, int], kv_num_blocks: Tensor, kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None, full_kv_indices: Tensor | None, q_num_blocks: Tensor | None,
        q_indices: Tensor | None, full_q_num_blocks: Tensor | None, full_q_indices: Tensor | None,
        BLOCK_SIZE: tuple[int, int] = (DEFAULT_BLOCK_SIZE, DEFAULT_BLOCK_SIZE), mask_mod: MaskMod = noop_mask,
    ) -> None:
        if kv_indices.ndim < 2:
            raise ShapeError("BlockMask must have at least 2 dimensions")
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise ArgumentError("full_kv_num_blocks and full_kv_indices must be both provided or omitted")
        self.seq_lengths, self.BLOCK_SIZE, self.mask_mod = seq_lengths, BLOCK_SIZE, mask_mod
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.q_num_blocks, self.q_indices = q_num_blocks, q_indices
        self.full_q_num_blocks, self.full_q_indices = full_q_num_blocks, full_q_indices

    @classmethod
    def from_kv_blocks(
        cls, kv_num_blocks: Tensor, kv_indices: Tensor, full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None, BLOCK_SIZE: int | tuple[int, int] = DEFAULT_BLOCK_SIZE,
        mask_mod: MaskMod | None = None, seq_lengths: tuple[int, int] | None = None, compute_q_blocks: bool = True,
    ) -> BlockMask:
        """A mask of the blocks of keys that each block of queries sees. Raises ShapeError, ArgumentError."""
        if kv_indices.ndim < 2:
            raise ShapeError("BlockMask must have at least 2 dimensions")
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise ArgumentError("full_kv_num_blocks and full_kv_indices must be both provided or omitted")
        size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
        if seq_lengths is None:
            seq_lengths = (kv_indices.shape[-2] * size[0], kv_indices.shape[-1] * size[1])
        by_keys: tuple[Tensor | None, Tensor | None] = (None, None)
        full_by_keys = by_keys
        if compute_q_blocks:
            by_keys = _ordered(_dense(kv_num_blocks, kv_indices).mT)
            if full_kv_num_blocks is not None and full_kv_indices is not None:
                full_by_keys = _ordered(_dense(full_kv_num_blocks, full_kv_indices).mT)
        return cls(
            seq_lengths, kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices, *by_keys, *full_by_keys,
            BLOCK_SIZE=size, mask_mod=noop_mask if mask_mod is None else mask_mod,
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """(.., queries, keys)."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """How many pairs of a query and a key there are."""
        count = 1
        for size in self.shape:
            count *= size
        return count

    def sparsity(self) -> float:
        """How many percent of the pairs lie in blocks that are left out."""
        blocks = int(self.kv_num_blocks.sum())
        if self.full_kv_num_blocks is not None:
            blocks += int(self.full_kv_num_blocks.sum())
        return 100 * (1 - blocks * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1] / self.numel())

    def partial_blocks(self) -> Tensor:
        """bool [.., rows, columns]: the blocks in which mask_mod is asked."""
        return _dense(self.kv_num_blocks, self.kv_indices)

    def full_blocks(self) -> Tensor | None:
        """bool [.., rows, columns]: those in which it is not; None where there are none."""
        if self.full_kv_num_blocks is None or self.full_kv_indices is None:
            return None
        return _dense(self.full_kv_num_blocks, self.full_kv_indices)

    def to_dense(self) -> Tensor:
        """int32 [.., rows, columns]: 1 for each block that is there."""
        full = self.full_blocks()
        return (self.partial_blocks() if full is None else self.partial_blocks() | full).to(dt.int32)

    def as_tuple(self, flatten: bool = True) -> tuple[Any, ...]:
        """Everything that it holds, sizes as numbers or (flatten=False) as pairs."""
        tensors = [getattr(self, name) for name in _TENSORS]
        if flatten:
            return (*self.seq_lengths, *tensors, *self.BLOCK_SIZE, self.mask_mod)
        return (self.seq_lengths, *tensors, self.BLOCK_SIZE, self.mask_mod)

    def to(self, device: Any) -> BlockMask:
        """The mask on a device."""
        return type(self)(self.seq_lengths, **self._each(lambda t: t.to(device)), BLOCK_SIZE=self.BLOCK_SIZE,
                          mask_mod=self.mask_mod)

    def _each(self, change: Callable[[Tensor], Tensor], names: tuple[str, ...] = _TENSORS) -> dict[str, Any]:
        tensors = {name: getattr(self, name) for name in names}
        return {name: None if t is None else change(t) for name, t in tensors.items()}

    def __getitem__(self, index: Any) -> BlockMask:
        """The mask of some batches, heads and blocks of queries; dims stay. Its mask_mod must be given anew: indices
        would be others."""
        parts = [*(index if isinstance(index, tuple) else (index,)), slice(None), slice(None), slice(None)][:3]
        sizes = self.kv_num_blocks.shape
        kept = tuple(
            slice(i % n, i % n + 1) if isinstance(i, int) else i for i, n in zip(parts, sizes, strict=False)
        )
        return BlockMask.from_kv_blocks(
            **self._each(lambda t: t[kept], _TENSORS[:4]), BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=sliced_mask_mod,
            seq_lengths=self.seq_lengths, compute_q_blocks=self.q_indices is not None,
        )

    def _adjust(self, new_q_len: int, new_kv_len: int) -> BlockMask:
        """The upper left corner of the mask, or the same blocks with fewer queries and keys in the last ones."""
        rows, columns = -(-new_q_len // self.BLOCK_SIZE[0]), -(-new_kv_len // self.BLOCK_SIZE[1])
        full = self.full_blocks()
        of_full = (None, None) if full is None else _ordered(full[..., :rows, :columns])
        counts, indices = _ordered(self.partial_blocks()[..., :rows, :columns])
        return BlockMask.from_kv_blocks(
            counts, indices, of_full[0], of_full[1], BLOCK_SIZE=self.BLOCK_SIZE,
            mask_mod=self.mask_mod, seq_lengths=(new_q_len, new_kv_len),
            compute_q_blocks=self.q_indices is not None,
        )

    def __repr__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, BLOCK_SIZE={self.BLOCK_SIZE})"


def sliced_mask_mod(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
    """The mask_mod of a mask that was indexed. Raises StateError."""
    raise StateError("Cannot use mask_mod from a sliced BlockMask: give it one, mask.mask_mod = ...")
