"""dir(weft) is the same before and after an in-place function was looked up (found by the reference pages' test,
after another test's use)."""

from __future__ import annotations

import weft


def test_looking_a_name_up_changes_no_list() -> None:
    before = dir(weft)
    assert weft.relu_(weft.tensor([-1.0, 2.0])).tolist() == [0.0, 2.0]
    assert dir(weft) == before and "relu_" not in before and "relu" in before
