"""Every test starts with nothing traced and counts from zero."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import weft


@pytest.fixture(autouse=True)
def from_zero() -> Iterator[None]:
    weft.lazy.mark_step()
    weft.lazy.wait_device_ops()
    weft.lazy.metrics.reset()
    yield
    weft.lazy.config.set_force_fallback("")
    weft.lazy.reset()
