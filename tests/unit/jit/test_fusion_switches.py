"""PyTorch's switches of fusion are taken, and change nothing."""

from __future__ import annotations

import pytest

import weft


def test_switches() -> None:
    assert weft.jit.set_fusion_strategy([("STATIC", 3)]) == [("STATIC", 2), ("DYNAMIC", 10)]
    assert weft.jit.set_fusion_strategy([("STATIC", 2), ("DYNAMIC", 10)]) == [("STATIC", 3)]
    with pytest.raises(ValueError, match="STATIC"):
        weft.jit.set_fusion_strategy([("ALWAYS", 1)])

    @weft.jit.script
    def double(x: weft.Tensor) -> weft.Tensor:
        return x + x

    with weft.jit.fuser("fuser1"), weft.jit.strict_fusion():
        assert double(weft.ones(2)).tolist() == [2, 2]
    with pytest.raises(ValueError, match="fuser9"), weft.jit.fuser("fuser9"):
        pass
    assert issubclass(weft.jit.ScriptWarning, Warning) and weft.autograd.is_view_replay_enabled() is False
