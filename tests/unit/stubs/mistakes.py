"""Mistakes that the stubs must show; test_stubs.py compares mypy's errors with the comments."""

from __future__ import annotations

import weft

x = weft.ones(2, 3)
weft.exp("text")  # arg-type
x.sum(dim="rows")  # arg-type
n: int = x.relu()  # assignment
x.no_such_method()  # attr-defined
weft.no_such_function(x)  # attr-defined
weft.randn(2, dtype="float")  # call-overload
y = x.max(1).places  # attr-defined
weft.eq(2, x)  # arg-type
