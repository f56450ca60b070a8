"""Native snippets and fixtures' parts that the runtime tests share."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

from weft.codegen.native import build, native_caller
from weft.runtime.engine import Library
from weft.runtime.pool import Pool

ROOT = Path(__file__).resolve().parents[3]

# Body of a region: argument = {i64 *out}; out[chunk] += chunk*chunks + 1, after some work so that threads overlap.
# Entry: frame = {pool, parallel, body, argument, chunks, repeats}.
REGION_IR = """
define void @square(ptr %out, i64 %chunk, i64 %chunks, i64 %thread) nounwind {
entry:
  br label %spin
spin:
  %i = phi i64 [0, %entry], [%next, %spin]
  %next = add i64 %i, 1
  store volatile i64 %next, ptr %scratch
  %more = icmp slt i64 %next, 300
  br i1 %more, label %spin, label %write
write:
  %cell = getelementptr i64, ptr %out, i64 %chunk
  %old = load i64, ptr %cell
  %product = mul i64 %chunk, %chunks
  %plus = add i64 %product, 1
  %new = add i64 %old, %plus
  store i64 %new, ptr %cell
  ret void
}
define i64 @regions(ptr %frame) nounwind {
entry:
  %p1 = getelementptr ptr, ptr %frame, i64 1
  %p2 = getelementptr ptr, ptr %frame, i64 2
  %p3 = getelementptr ptr, ptr %frame, i64 3
  %p4 = getelementptr ptr, ptr %frame, i64 4
  %p5 = getelementptr ptr, ptr %frame, i64 5
  %pool = load ptr, ptr %frame
  %parallel = load ptr, ptr %p1
  %body = load ptr, ptr %p2
  %argument = load ptr, ptr %p3
  %chunks = load i64, ptr %p4
  %repeats = load i64, ptr %p5
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  call void %parallel(ptr %pool, ptr %body, ptr %argument, i64 %chunks)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %repeats
  br i1 %more, label %loop, label %exit
exit:
  ret i64 0
}
; a chunk that opens a region of its own over the frame it is given
define void @nested(ptr %frames, i64 %chunk, i64 %chunks, i64 %thread) nounwind {
  %at = getelementptr ptr, ptr %frames, i64 %chunk
  %frame = load ptr, ptr %at
  %ignored = call i64 @regions(ptr %frame)
  ret void
}
""".replace("entry:\n  br label %spin", "entry:\n  %scratch = alloca i64\n  br label %spin")


def region_library() -> Library:
    return build(REGION_IR, ("square", "regions", "nested"))


class Region:
    """A frame for `regions`, its output cells and the callable."""

    def __init__(
        self, pool: Pool, library: Library, chunks: int, repeats: int, body: str = "square", argument: int = 0
    ) -> None:
        self.chunks, self.repeats = chunks, repeats
        self.out = (ctypes.c_int64 * max(chunks, 1))()
        target = argument or ctypes.addressof(self.out)
        self.frame = (ctypes.c_int64 * 6)(pool.address, pool.parallel, library[body], target, chunks, repeats)
        self.run = native_caller().bound(
            library["regions"], ctypes.addressof(self.frame), (library, self.frame, self.out)
        )

    def expected(self, calls: int = 1) -> list[int]:
        return [calls * self.repeats * (chunk * self.chunks + 1) for chunk in range(self.chunks)]


def python(code: str, **environment: str) -> str:
    """The output of a fresh interpreter that runs `code`; fails the test if it fails."""
    path = os.pathsep.join((str(ROOT), str(Path(__file__).parent)))
    env = {**os.environ, "PYTHONPATH": path, **environment}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
