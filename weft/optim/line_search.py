"""A line search for the strong Wolfe conditions, with cubic interpolation.
Source: Nocedal and Wright, Numerical Optimization, 3.5."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from weft.ops.packet import aten
from weft.tensor.tensor import Tensor

DECREASE = 1e-4
CURVATURE = 0.9
SMALLEST = 1e-9


class Point(NamedTuple):
    """A place on the line: step, loss, gradient, and the slope along the line."""

    t: float
    loss: float
    gradient: Tensor
    slope: float


def cubic_minimum(a: Point, b: Point, low: float | None = None, high: float | None = None) -> float:
    """The minimum of the cubic with the losses and slopes of two points, kept within [low, high]."""
    if low is None or high is None:
        low, high = min(a.t, b.t), max(a.t, b.t)
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = d1 * d1 - a.slope * b.slope
    if square < 0:
        return (low + high) / 2.0
    d2 = math.sqrt(square)
    if a.t <= b.t:
        best = b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2))
    else:
        best = a.t - (a.t - b.t) * ((a.slope + d2 - d1) / (a.slope - b.slope + 2 * d2))
    return min(max(best, low), high)


def strong_wolfe(
    evaluate: Callable[[float], tuple[float, Tensor]], t: float, direction: Tensor, loss: float, gradient: Tensor,
    slope: float, most: int,
) -> tuple[float, Tensor, float, int]:
    """Loss, gradient and step at a point that satisfies the conditions, and how many evaluations it took. most: so
    many it may take after the first; the better end of the bracket is the result where they do not suffice."""
    search = _Search(evaluate, direction, Point(0.0, loss, gradient.clone(), slope), most)
    bracket = search.bracket(t)
    point = search.zoom(*bracket) if len(bracket) == 2 else bracket[0]
    return point.loss, point.gradient, point.t, search.calls


def by_loss(a: Point, b: Point) -> tuple[Point, Point]:
    """Two points, the one of the lower loss first."""
    return (a, b) if a.loss <= b.loss else (b, a)


class _Search:
    def __init__(
        self, evaluate: Callable[[float], tuple[float, Tensor]], direction: Tensor, start: Point, most: int
    ) -> None:
        self.evaluate, self.direction, self.start, self.most = evaluate, direction, start, most
        self.width = float(aten.max(aten.abs(direction)))
        self.calls = 0

    def at(self, t: float) -> Point:
        loss, gradient = self.evaluate(t)
        self.calls += 1
        return Point(t, loss, gradient, float(aten.dot(gradient, self.direction)))

    def is_low(self, p: Point) -> bool:
        return p.loss <= self.start.loss + DECREASE * p.t * self.start.slope

    def is_flat(self, p: Point) -> bool:
        return abs(p.slope) <= -CURVATURE * self.start.slope

    def bracket(self, t: float) -> tuple[Point, ...]:
        """Two points with a good one between them, or one good point."""
        previous, now = self.start, self.at(t)
        while self.calls <= self.most:
            if not self.is_low(now) or (self.calls > 2 and now.loss >= previous.loss):
                return previous, now
            if self.is_flat(now):
                return (now,)
            if now.slope >= 0:
                return previous, now
            reach = now.t + 0.01 * (now.t - previous.t), now.t * 10
            further = cubic_minimum(previous, now, *reach)
            previous, now = now, self.at(further)
        return self.start, now

    def zoom(self, a: Point, b: Point) -> Point:
        """Shrink the bracket until its lower end is good."""
        low, high = by_loss(a, b)
        stalled = False
        while self.calls <= self.most:
            if abs(high.t - low.t) * self.width < SMALLEST:
                break
            left, right = min(low.t, high.t), max(low.t, high.t)
            t = cubic_minimum(a, b)
            edge = 0.1 * (right - left)
            if min(right - t, t - left) < edge:
                if stalled or t >= right or t <= left:
                    t = right - edge if abs(t - right) < abs(t - left) else left + edge
                    stalled = False
                else:
                    stalled = True
            else:
                stalled = False
            now = self.at(t)
            if not self.is_low(now) or now.loss >= low.loss:
                low, high = by_loss(low, now)
            else:
                if self.is_flat(now):
                    return now
                if now.slope * (high.t - low.t) >= 0:
                    high = low
                low = now
            a, b = low, high
        return low
