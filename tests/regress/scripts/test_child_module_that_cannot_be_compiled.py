"""A user's Module that cannot be compiled was called as Python within one of weft's own, and a file lacked it."""

from __future__ import annotations

import io
from typing import Any

import pytest

import weft
from weft import nn
from weft.jit import CompileError
from weft.support.errors import ArgumentError


class Evaluates(nn.Module):
    def forward(self, x: weft.Tensor) -> Any:
        return eval("x + 1")


@pytest.mark.parametrize("around", [nn.Sequential, lambda m: nn.Sequential(nn.Linear(2, 2), nn.Sequential(m))])
def test_it_is_the_users_error(around: Any) -> None:
    with pytest.raises(CompileError, match="eval"):
        weft.jit.script(around(Evaluates()))


def test_a_replica_alone_names_no_arguments() -> None:
    module, x = nn.DataParallel(nn.Linear(2, 2)), weft.randn(3, 2)
    with pytest.raises(CompileError, match="args"):
        weft.jit.script(module)
    file = io.BytesIO()
    weft.jit.save(weft.jit.script(nn.Sequential(module)), file)
    file.seek(0)
    weft.testing.assert_close(weft.jit.load(file)(x), module(x))


def test_what_a_file_cannot_name_is_refused_when_it_is_saved() -> None:
    module, x = nn.utils.parametrizations.weight_norm(nn.Linear(2, 2)), weft.randn(3, 2)
    scripted = weft.jit.script(module)
    weft.testing.assert_close(scripted(x), module(x))
    with pytest.raises(ArgumentError, match=r"ParametrizationList\.forward is Python's"):
        weft.jit.save(scripted, io.BytesIO())
    file = io.BytesIO()
    weft.jit.save(weft.jit.trace(module, (x,)), file)
    file.seek(0)
    weft.testing.assert_close(weft.jit.load(file)(x), module(x))
