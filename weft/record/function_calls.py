"""Custom Functions that a captured program calls: their forward, whose results are known from calls before, and their
backward, with the context of that forward or with one that is made again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from weft.autograd.forward_facts import ForwardFacts, facts_of
from weft.autograd.function import Function, FunctionNode, run_rules
from weft.autograd.function_outputs import save_for_node
from weft.guards.watching import unwatched
from weft.record.python_call import Context, NotCallable, PythonCall, line_of
from weft.support import pytree
from weft.tensor.tensor import Tensor

if TYPE_CHECKING:
    from weft.autograd.function_context import FunctionCtx
    from weft.record.python_calls import PythonCalls


class FunctionCalls:
    """The calls of custom Functions in one capture. forwards: what is known of the forwards that are called, in order;
    contexts: of these, by the id of what stands for them."""

    def __init__(self, calls: PythonCalls) -> None:
        self.calls = calls
        self.forwards: Sequence[ForwardFacts | None] = ()
        self.contexts: dict[int, Context] = {}

    def call_forward(self, function: type[Function], ctx: FunctionCtx, args: tuple[Any, ...]) -> Any:
        """The outputs of a custom Function's forward, as far as they are known from calls before. None where it is
        traced. Raises NotCallable where they are not known."""
        return unwatched(self._call_forward, function, ctx, args) if self.calls.is_called(function.forward) else None

    def _call_forward(self, function: type[Function], ctx: FunctionCtx, args: tuple[Any, ...]) -> Any:
        number, rule = len(self.contexts), function.forward
        facts = self.forwards[number] if number < len(self.forwards) else None
        dims_of_args = [a.dims for a in args if isinstance(a, Tensor)]
        dims = [] if facts is None else [facts.dims_of(i, dims_of_args) for i in range(len(facts.dtypes))]
        if facts is None or None in dims:
            raise NotCallable(f"{line_of(rule)}: what this forward gives is not known yet")
        self.contexts[id(ctx)] = context = Context(number, ctx.needs_input_grad)
        leaves, spec = pytree.flatten((context, args))
        call = PythonCall(functools.partial(_run_forward, function), rule, None, 0, leaves, spec, line_of(rule))
        call.forward = number
        out = self.calls.record(call, list(zip(dims, facts.dtypes, strict=True)))
        ctx.mark_non_differentiable(*[out[i] for i in facts.without_grad])
        ctx._materialize, ctx._materialize_non_diff_grads = facts.settings
        self.calls.outside.python_state.keep(ctx)
        return out[0] if facts.is_single else tuple(out)

    def call_rule(
        self, node: FunctionNode, rule: Callable[..., Any], grads: tuple[Any, ...]
    ) -> tuple[Any, ...] | None:
        """The gradients that a custom Function's backward gives for a node's edges: a call with what the forward saved,
        and with the attributes of its context. None where it is traced."""
        if id(node.ctx) in self.contexts or self.calls.is_called(rule):
            return unwatched(self._call_rule, node, rule, grads)  # type: ignore[no-any-return]
        return None

    def _call_rule(self, node: FunctionNode, rule: Callable[..., Any], grads: tuple[Any, ...]) -> tuple[Any, ...]:
        context = self.contexts.get(id(node.ctx))
        if context is None:
            saved = node.ctx.saved_tensors
            self.calls.note_saved(node, saved)
            leaves, spec = pytree.flatten((node.ctx.attributes, saved, grads))
            run = functools.partial(_run_rule, node)
        else:
            leaves, spec = pytree.flatten((context, grads))
            run = functools.partial(_run_rule_within, node)
        call = PythonCall(run, rule, None, 0, leaves, spec, line_of(rule), node=node)
        likes = [None if edge is None else _like(edge) for edge in node.edges]
        return tuple(self.calls.record(call, likes))


def _run_rule(
    node: FunctionNode, rule: Callable[..., Any], attributes: dict[str, Any], saved: tuple[Any, ...],
    grads: tuple[Any, ...],
) -> tuple[Any, ...]:
    """Call a custom Function's backward: its gradients for the node's edges."""
    out = rule(node.ctx.like(attributes, saved), *grads)
    return node.per_edge(out if isinstance(out, tuple) else (out,))


def _run_rule_within(
    node: FunctionNode, rule: Callable[..., Any], ctx: FunctionCtx, grads: tuple[Any, ...]
) -> tuple[Any, ...]:
    """The same with the context that the forward was called with."""
    out = rule(ctx, *grads)
    return node.per_edge(out if isinstance(out, tuple) else (out,))


def _run_forward(
    function: type[Function], rule: Callable[..., Any], ctx: FunctionCtx, args: tuple[Any, ...]
) -> tuple[Any, ...]:
    """Call a custom Function's forward: its outputs."""
    output = run_rules(function, ctx, args)
    facts = facts_of(ctx, args, output)
    if facts is None:
        raise NotCallable(f"{line_of(rule)}: this forward gives back an argument, or what is no tensor")
    outputs: tuple[Any, ...] = output if isinstance(output, tuple) else (output,)
    save_for_node(ctx, None, outputs)
    return outputs


def _like(edge: Any) -> tuple[Any, ...]:
    metadata = edge[0].metadata_of_inputs[edge[1]]
    return metadata.dims, metadata.dtype
