"""Objects written in C whose class gives "builtins" for its module were taken for Python's own values, which never
change: what was done to one happened at the capture alone, in silence."""

from __future__ import annotations

from typing import Any

import pytest

import weft

Image = pytest.importorskip("PIL.Image")  # whose pixels lie in such an object


@pytest.mark.parametrize("options", [{}, {"split": True}])
def test_pixels_that_a_step_sets(options: dict[str, Any]) -> None:
    image = Image.new("L", (2, 2))

    def step(x: Any) -> Any:
        image.putpixel((0, 0), image.getpixel((0, 0)) + 1)
        return x * image.getpixel((0, 0))

    compiled = weft.compile(step, **options)
    if not options:
        with pytest.raises(weft.WeftError, match="ImagingCore that existed before the call"):
            compiled(weft.ones(1))
        return
    assert [compiled(weft.ones(1)).item() for _ in range(4)] == [1, 2, 3, 4]
