"""Generators whose own code runs within a block, and their caller's does not."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from typing import Any


def resumed_within(block: Callable[[], AbstractContextManager[Any]], generator: Any) -> Generator[Any, Any, Any]:
    """The generator, each of whose steps runs within a block of its own; send, throw and close are passed on."""
    resume: Callable[..., Any] = generator.send
    value: Any = None
    while True:
        try:
            with block():
                item = resume(value)
        except StopIteration as stop:
            return stop.value
        try:
            resume, value = generator.send, (yield item)
        except GeneratorExit:
            with block():
                generator.close()
            raise
        except BaseException as error:
            resume, value = generator.throw, error
