"""A part of a program that read what another part had made took that value for a parameter, with the node that made it:
passes looked at that node, and the plan of host calls let go of memory that it had still to write."""

from __future__ import annotations

import weft
from weft import nn
from weft.ir.verifier import verify


def test_parameters_have_no_node(rng):
    model, log = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)), []
    optimizer = weft.optim.Adam(model.parameters(), lr=0.1)
    model[0].bias.register_post_accumulate_grad_hook(lambda p: log.append(p.grad.sum().item()))
    model[2].weight.register_hook(lambda g: log.append(g.sum().item()))

    @weft.compile
    def step(x):
        optimizer.zero_grad()
        model(x).square().sum().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()

    step(weft.ones(int(rng.integers(1, 9)), 3))
    parts = [graph for _, graph, _ in step.entries[0].programs]
    assert len(parts) == 3 and len(log) == 2
    for graph in parts:
        verify(graph)
        assert all(p.node is None for p in graph.params)
