"""Single convolutions and poolings with their gradients, for `benchmarks.convolutions`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from benchmarks.workloads import Builder, Compile, Step, normal

Function = Callable[[Any, Any, Any], Any]  # torch.nn.functional or weft's, image, weight
# operator, dims of the image, dims of the weight
CASES: dict[str, tuple[Function, tuple[int, ...], tuple[int, ...]]] = {
    "conv1d k5": (lambda f, x, w: f.conv1d(x, w, padding=2), (32, 64, 1000), (64, 64, 5)),
    "conv2d k3": (lambda f, x, w: f.conv2d(x, w, padding=1), (16, 32, 56, 56), (64, 32, 3, 3)),
    "conv2d k3, 14 x 14": (lambda f, x, w: f.conv2d(x, w, padding=1), (16, 128, 14, 14), (128, 128, 3, 3)),
    "conv2d k1": (lambda f, x, w: f.conv2d(x, w), (16, 64, 56, 56), (64, 64, 1, 1)),
    "conv2d k3 s2": (lambda f, x, w: f.conv2d(x, w, stride=2, padding=1), (16, 32, 56, 56), (64, 32, 3, 3)),
    "conv2d depthwise": (lambda f, x, w: f.conv2d(x, w, padding=1, groups=64), (16, 64, 56, 56), (64, 1, 3, 3)),
    "conv2d k7 s2": (lambda f, x, w: f.conv2d(x, w, stride=2, padding=3), (8, 3, 128, 128), (64, 3, 7, 7)),
    "transposed k4 s2": (
        lambda f, x, w: f.conv_transpose2d(x, w, stride=2, padding=1), (16, 64, 16, 16), (64, 32, 4, 4)
    ),
    "conv3d k3": (lambda f, x, w: f.conv3d(x, w, padding=1), (4, 8, 16, 16, 16), (16, 8, 3, 3, 3)),
    "max pool k2": (lambda f, x, w: f.max_pool2d(x, 2), (16, 64, 56, 56), ()),
    "max pool k3 s2": (lambda f, x, w: f.max_pool2d(x, 3, 2, 1), (16, 64, 56, 56), ()),
    "average pool k2": (lambda f, x, w: f.avg_pool2d(x, 2), (16, 64, 56, 56), ()),
}


def _builder(function: Function, image: tuple[int, ...], weight: tuple[int, ...]) -> Builder:
    def build(xp: Any, compile: Compile) -> Step:
        random = numpy.random.default_rng(1)
        tensors = [xp.tensor(normal(random, *dims)).requires_grad_() for dims in (image, weight) if dims]

        @compile
        def step(*tensors: Any) -> Any:
            value = (function(xp.nn.functional, tensors[0], tensors[-1]) ** 2).mean()
            return value.detach(), xp.autograd.grad(value, tensors)

        return lambda i: step(*tensors)[0]

    return build


WINDOWS: dict[str, Builder] = {name: _builder(*case) for name, case in CASES.items()}
