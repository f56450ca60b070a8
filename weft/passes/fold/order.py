"""An order of a block's nodes in which those that are alike stand together: lists of parameters whose types change from
one to the next, and operators that are done to a whole list before the next one is, repeat only then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from heapq import heapify, heappop, heappush

from weft.ir.graph import Block, Node, Operand, Value, values_in
from weft.passes.effects import STAYS, has_effect
from weft.passes.fold.repeats import Carries, Run, Tokens
from weft.types.tensor_type import TensorType


def gathered(
    block: Block, leaves: Sequence[list[Operand]], tokens: Tokens, runs: Sequence[Run], fewest: int, least: int
) -> list[int] | None:
    """The numbers of a block's nodes in such an order; None where theirs is as good. Nodes of `runs` that hand values
    on keep their places among each other. leaves: what each node reads. fewest, least: what is worth a loop."""
    number = {node: i for i, node in enumerate(block.nodes)}
    fixed = [run for run in runs if Carries(run, leaves, number).hands_on]
    outside = len(block.nodes) - sum([run.end - run.start for run in runs])
    if outside < least and len(runs) - len(fixed) < 2:
        return None
    uses = _Uses(block, leaves, number)
    kinds = _Kinds(uses, tokens.tolist(), fewest)
    for run in fixed:
        kinds.is_parallel[run.start : run.end] = [False] * (run.end - run.start)
    if sum(kinds.is_parallel) < least:
        return None
    groups = [
        chains for chains in _groups(uses, kinds)
        if len(chains) >= fewest and (len(chains) - 1) * len(chains[0]) >= least and _is_ordered(uses, chains)
    ]
    return _in_order(uses, [[at for chain in chains for at in chain] for chains in groups], fixed) if groups else None


class _Uses:
    """Who reads whom in a block, by numbers of nodes. readers: with the place of the operand, -1 for any of a list."""

    def __init__(self, block: Block, leaves: Sequence[list[Operand]], number: dict[Node, int]) -> None:
        self.nodes, self.leaves, self.number = block.nodes, leaves, number
        self.sources = [self._sources(node, operands) for node, operands in zip(block.nodes, leaves, strict=True)]
        self.readers: list[list[tuple[int, int]]] = [[] for _ in block.nodes]
        for i, sources in enumerate(self.sources):
            args = block.nodes[i].args
            is_list = tuple in map(type, args) and any([type(a) is tuple and Value in map(type, a) for a in args])
            for at, source in enumerate(sources):
                if source >= 0:
                    self.readers[source].append((i, -1 if is_list else at))
        self.given = [0] * len(block.nodes)
        for value in values_in(tuple(block.results)):
            if value.node in self.number:
                self.given[self.number[value.node]] += 1

    def _sources(self, node: Node, operands: list[Operand]) -> list[int]:
        """The node that gives each operand; -1 for what no node of the block gives."""
        number = self.number
        read = node.needs() if node.blocks else operands
        return [number.get(v.node, -1) if type(v) is Value else -1 for v in read]  # type: ignore[arg-type]


class _Kinds:
    """Which nodes are made alike, or are put to the same use: what they are made of (or what becomes of them) is the
    same up to inputs (or results). Neither of two such nodes is made of the other.

    kind: a number for all that are alike so; size: how many there are.
    """

    def __init__(self, uses: _Uses, tokens: list[int], fewest: int) -> None:
        self.uses = uses
        free = [not node.blocks and node.op.effect not in STAYS for node in uses.nodes]
        origins, ends = _origins(uses, tokens), _ends(uses, tokens)
        counts = [Counter(k for k, is_free in zip(kinds, free, strict=True) if is_free) for kinds in (origins, ends)]
        self.kind, self.size = [], []
        for a, b in zip(origins, ends, strict=True):
            x, y = counts[0][a], counts[1][b]
            self.kind.append(a if x >= y else -1 - b)
            self.size.append(max(x, y))
        self.is_parallel = [is_free and size >= fewest for is_free, size in zip(free, self.size, strict=True)]

    def stages(self) -> list[int]:
        """A number for each node: what parallel nodes wait for, and no others are like, lies between two stages. Each
        is as late as it can be, so that what one chain is made of has one stage."""
        uses = self.uses
        first: list[int] = []
        for i, sources in enumerate(uses.sources):
            stage = max([first[s] for s in sources if s >= 0], default=0)
            is_between = not self.is_parallel[i] and any([s >= 0 and self.is_parallel[s] for s in sources])
            first.append(stage + is_between)
        last = list(first)
        for i in range(len(last) - 1, -1, -1):
            if self.is_parallel[i] and uses.readers[i]:
                last[i] = min([last[r] if self.is_parallel[r] else first[r] - 1 for r, _ in uses.readers[i]])
        return last


def _origins(uses: _Uses, tokens: list[int]) -> list[int]:
    """A number for each node: equal ones are made alike."""
    numbers: dict[Hashable, int] = {}
    kinds: list[int] = []
    for token, sources in zip(tokens, uses.sources, strict=True):
        key = (token, *[kinds[s] if s >= 0 else -1 for s in sources])
        kinds.append(numbers.setdefault(key, len(numbers)))
    return kinds


def _ends(uses: _Uses, tokens: list[int]) -> list[int]:
    """A number for each node: what becomes of equal ones is the same. Places in a list are no difference."""
    numbers: dict[Hashable, int] = {}
    kinds = [0] * len(tokens)
    for i in range(len(tokens) - 1, -1, -1):
        key = (tokens[i], uses.given[i], *sorted([(kinds[r], at) for r, at in uses.readers[i]]))
        kinds[i] = numbers.setdefault(key, len(numbers))
    return kinds


def _groups(uses: _Uses, kinds: _Kinds) -> list[list[list[int]]]:
    """Chains of parallel nodes that hang together, in groups of those that are alike."""
    parent = list(range(len(uses.nodes)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    stages = kinds.stages()
    for i, sources in enumerate(uses.sources):
        if not kinds.is_parallel[i]:
            continue
        for s in sources:
            if s >= 0 and kinds.is_parallel[s] and stages[s] == stages[i] and kinds.size[s] >= kinds.size[i]:
                parent[root(s)] = root(i)
    chains: dict[int, list[int]] = {}
    for i, is_parallel in enumerate(kinds.is_parallel):
        if is_parallel:
            chains.setdefault(root(i), []).append(i)
    groups: dict[Hashable, list[list[int]]] = {}
    for chain in chains.values():
        groups.setdefault(_form(uses, kinds, chain), []).append(chain)
    return list(groups.values())


def _form(uses: _Uses, kinds: _Kinds, chain: list[int]) -> Hashable:
    """What is the same for chains that become iterations of one loop."""
    place = {i: at for at, i in enumerate(chain)}
    form: list[Hashable] = []
    for i in chain:
        form.append(kinds.kind[i])
        for source, operand in zip(uses.sources[i], uses.leaves[i], strict=True):
            is_number = type(operand) is Value and not isinstance(operand.type, TensorType)
            form.append(place.get(source, operand if is_number else None))
    return tuple(form)


def _is_ordered(uses: _Uses, chains: Sequence[Sequence[int]]) -> bool:
    """Whether no chain reads what a later one gives: they may share nodes that are alike (a row that one iteration
    reads and the next one, too), which stand in one of them."""
    place = {i: at for at, chain in enumerate(chains) for i in chain}
    return all(place.get(s, -1) <= at for i, at in place.items() for s in uses.sources[i])


def _in_order(uses: _Uses, groups: list[list[int]], fixed: Sequence[Run]) -> list[int] | None:
    """The nodes with those of each group one after the other, else in their order as far as what they read allows; None
    where a group would wait for itself."""
    pieces = [*groups, *[list(range(run.start, run.end)) for run in fixed]]
    inside = {i for piece in pieces for i in piece}
    pieces += [[i] for i in range(len(uses.nodes)) if i not in inside]
    piece_of = {i: at for at, piece in enumerate(pieces) for i in piece}
    waits: list[set[int]] = [set() for _ in pieces]
    latest = -1  # the piece of the latest node with an effect: those keep their order
    for i, node in enumerate(uses.nodes):
        at = piece_of[i]
        waits[at].update([piece_of[s] for s in uses.sources[i] if s >= 0])
        if node.op.effect in STAYS or (node.blocks and has_effect(node, STAYS)):
            waits[at].update([latest] if latest >= 0 else [])
            latest = at
        waits[at].discard(at)
    readers: list[list[int]] = [[] for _ in pieces]
    for at, before in enumerate(waits):
        for other in before:
            readers[other].append(at)
    left = [len(before) for before in waits]
    ready = [(piece[0], at) for at, piece in enumerate(pieces) if not left[at]]
    heapify(ready)
    order: list[int] = []
    while ready:
        _, at = heappop(ready)
        order += pieces[at]
        for reader in readers[at]:
            left[reader] -= 1
            if not left[reader]:
                heappush(ready, (pieces[reader][0], reader))
    return order if len(order) == len(uses.nodes) else None
