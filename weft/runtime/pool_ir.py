"""The worker pool's native half, as LLVM text: `weft_parallel`, the workers' loop, lock and stop.

The protocol is one 64-bit ticket: 16 bits of generation above a mask of 48 unclaimed chunks. A thread claims a
chunk by clearing its bit with compare-and-swap, so a worker that comes late, or never, does no harm: the caller
runs what is left. A successful swap proves that the bit belonged to the live region, whatever happened since the
ticket was read. Chunks are claimed starting from the thread's own share, so a thread meets the same rows again
while they are in its cache.
"""

from __future__ import annotations

from weft.support.errors import ValueProblem

MAX_CHUNKS = 48
STATE_BYTES = 512
# Byte offsets of the state. Words that different threads write are on cache lines of their own.
TICKET, DONE, BODY, ARGUMENT, CHUNKS = 0, 64, 128, 136, 144
SLEEPERS, SEQUENCE, WAITING, SPIN, STOP, WORKERS, BUSY = 192, 256, 320, 384, 392, 400, 448

POOL_EXPORTS = ("weft_parallel", "weft_pool_worker", "weft_pool_lock", "weft_pool_unlock", "weft_pool_stop")

_FUTEX = {"x86_64": 202, "aarch64": 98, "riscv64": 98}
WITH_WORKERS = tuple(_FUTEX)  # architectures
_PAUSE = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
}

_SYSTEM = """
declare i64 @syscall(i64, ...)
declare i32 @sched_yield()
declare i64 @llvm.cttz.i64(i64, i1)
"""

# Run every chunk in order on this thread. Any other thread count gives the same chunks and so the same results.
_SERIAL = """
define internal void @serial(ptr %body, ptr %argument, i64 %chunks) nounwind {
entry:
  %some = icmp sgt i64 %chunks, 0
  br i1 %some, label %loop, label %exit
loop:
  %chunk = phi i64 [0, %entry], [%next, %loop]
  call void %body(ptr %argument, i64 %chunk, i64 %chunks, i64 0)
  %next = add nsw i64 %chunk, 1
  %more = icmp slt i64 %next, %chunks
  br i1 %more, label %loop, label %exit
exit:
  ret void
}
"""

_LOCK = """
define i64 @weft_pool_lock(ptr %pool) nounwind {
  %busy = getelementptr i8, ptr %pool, i64 {BUSY}
  %swap = cmpxchg ptr %busy, i32 0, i32 1 seq_cst seq_cst
  %got = extractvalue {i32, i1} %swap, 1
  %result = zext i1 %got to i64
  ret i64 %result
}
define void @weft_pool_unlock(ptr %pool) nounwind {
  %busy = getelementptr i8, ptr %pool, i64 {BUSY}
  store atomic i32 0, ptr %busy release, align 4
  ret void
}
"""

_WITHOUT_WORKERS = """
define void @weft_parallel(ptr %pool, ptr %body, ptr %argument, i64 %chunks) nounwind {
  call void @serial(ptr %body, ptr %argument, i64 %chunks)
  ret void
}
define void @weft_pool_worker(ptr %pool, i64 %number) nounwind {
  ret void
}
define void @weft_pool_stop(ptr %pool) nounwind {
  ret void
}
"""

# Claim and run chunks until none is left. Hint: the first chunk of this thread's share, number*chunks/(workers+1).
_DRAIN = """
define internal void @drain(ptr %pool, i64 %number) nounwind {
entry:
  %done = getelementptr i8, ptr %pool, i64 {DONE}
  %body.at = getelementptr i8, ptr %pool, i64 {BODY}
  %argument.at = getelementptr i8, ptr %pool, i64 {ARGUMENT}
  %chunks.at = getelementptr i8, ptr %pool, i64 {CHUNKS}
  %workers.at = getelementptr i8, ptr %pool, i64 {WORKERS}
  %waiting = getelementptr i8, ptr %pool, i64 {WAITING}
  %some = load atomic i64, ptr %pool acquire, align 8
  %guess = load atomic i64, ptr %chunks.at monotonic, align 8
  %workers = load atomic i64, ptr %workers.at monotonic, align 8
  %threads = add i64 %workers, 1
  %product = mul i64 %number, %guess
  %share = udiv i64 %product, %threads
  %inside = icmp ult i64 %share, {MAX_CHUNKS}
  %hint = select i1 %inside, i64 %share, i64 0
  br label %look
look:
  %ticket = load atomic i64, ptr %pool acquire, align 8
  %mask = and i64 %ticket, {MASK}
  %none = icmp eq i64 %mask, 0
  br i1 %none, label %exit, label %pick
pick:
  %above = lshr i64 %mask, %hint
  %wrap = icmp eq i64 %above, 0
  %lowest = call i64 @llvm.cttz.i64(i64 %mask, i1 false)
  %offset = call i64 @llvm.cttz.i64(i64 %above, i1 false)
  %own = add i64 %offset, %hint
  %chunk = select i1 %wrap, i64 %lowest, i64 %own
  %bit = shl i64 1, %chunk
  %rest = xor i64 %ticket, %bit
  %swap = cmpxchg ptr %pool, i64 %ticket, i64 %rest acq_rel acquire
  %claimed = extractvalue {i64, i1} %swap, 1
  br i1 %claimed, label %run, label %look
run:
  %body = load atomic ptr, ptr %body.at monotonic, align 8
  %argument = load atomic ptr, ptr %argument.at monotonic, align 8
  %chunks = load atomic i64, ptr %chunks.at monotonic, align 8
  call void %body(ptr %argument, i64 %chunk, i64 %chunks, i64 %number)
  %before = atomicrmw add ptr %done, i64 1 seq_cst
  %now = add i64 %before, 1
  %last = icmp eq i64 %now, %chunks
  br i1 %last, label %finish, label %look
finish:
  %parked = load atomic i32, ptr %waiting seq_cst, align 4
  %asleep = icmp ne i32 %parked, 0
  br i1 %asleep, label %wake, label %look
wake:
  %ignored = call i64 (i64, ...) @syscall(i64 {FUTEX}, ptr %done, i64 129, i32 1)
  br label %look
exit:
  ret void
}
"""

# Spin, then sleep on SEQUENCE. The mask is read again after SLEEPERS was raised, and the caller reads SLEEPERS after it
# published the mask; one of the two sees the other, so no region waits for a sleeper that was not woken.
_WORKER = """
define void @weft_pool_worker(ptr %pool, i64 %number) nounwind {
entry:
  %sleepers = getelementptr i8, ptr %pool, i64 {SLEEPERS}
  %sequence = getelementptr i8, ptr %pool, i64 {SEQUENCE}
  %spin.at = getelementptr i8, ptr %pool, i64 {SPIN}
  %stop.at = getelementptr i8, ptr %pool, i64 {STOP}
  %limit = load i64, ptr %spin.at
  br label %work
work:
  call void @drain(ptr %pool, i64 %number)
  br label %spin
spin:
  %turn = phi i64 [0, %work], [%next, %idle]
  %ticket = load atomic i64, ptr %pool acquire, align 8
  %mask = and i64 %ticket, {MASK}
  %some = icmp ne i64 %mask, 0
  br i1 %some, label %work, label %idle
idle:
  {PAUSE}
  %next = add i64 %turn, 1
  %more = icmp slt i64 %next, %limit
  br i1 %more, label %spin, label %drowse
drowse:
  %seen = load atomic i32, ptr %sequence seq_cst, align 4
  %stop = load atomic i32, ptr %stop.at seq_cst, align 4
  %leave = icmp ne i32 %stop, 0
  br i1 %leave, label %exit, label %announce
announce:
  %raised = atomicrmw add ptr %sleepers, i32 1 seq_cst
  %again = load atomic i64, ptr %pool seq_cst, align 8
  %left = and i64 %again, {MASK}
  %empty = icmp eq i64 %left, 0
  br i1 %empty, label %sleep, label %woken
sleep:
  %ignored = call i64 (i64, ...) @syscall(i64 {FUTEX}, ptr %sequence, i64 128, i32 %seen, ptr null)
  br label %woken
woken:
  %lowered = atomicrmw sub ptr %sleepers, i32 1 seq_cst
  br label %work
exit:
  ret void
}
define void @weft_pool_stop(ptr %pool) nounwind {
  %stop = getelementptr i8, ptr %pool, i64 {STOP}
  %sequence = getelementptr i8, ptr %pool, i64 {SEQUENCE}
  store atomic i32 1, ptr %stop seq_cst, align 4
  %bumped = atomicrmw add ptr %sequence, i32 1 seq_cst
  %ignored = call i64 (i64, ...) @syscall(i64 {FUTEX}, ptr %sequence, i64 129, i32 2147483647)
  ret void
}
"""

# The BUSY word makes every second caller serial: another Python thread, a chunk that itself asks for a region, and any
# caller while the pool is being resized.
_PARALLEL = """
define void @weft_parallel(ptr %pool, ptr %body, ptr %argument, i64 %chunks) nounwind {
entry:
  %several = icmp sgt i64 %chunks, 1
  %fits = icmp sle i64 %chunks, {MAX_CHUNKS}
  %shared = and i1 %several, %fits
  br i1 %shared, label %staff, label %alone
staff:
  %workers.at = getelementptr i8, ptr %pool, i64 {WORKERS}
  %workers = load atomic i64, ptr %workers.at monotonic, align 8
  %any = icmp sgt i64 %workers, 0
  br i1 %any, label %lock, label %alone
lock:
  %got = call i64 @weft_pool_lock(ptr %pool)
  %mine = icmp ne i64 %got, 0
  br i1 %mine, label %publish, label %alone
alone:
  call void @serial(ptr %body, ptr %argument, i64 %chunks)
  ret void
publish:
  %done = getelementptr i8, ptr %pool, i64 {DONE}
  %body.at = getelementptr i8, ptr %pool, i64 {BODY}
  %argument.at = getelementptr i8, ptr %pool, i64 {ARGUMENT}
  %chunks.at = getelementptr i8, ptr %pool, i64 {CHUNKS}
  %sleepers = getelementptr i8, ptr %pool, i64 {SLEEPERS}
  %sequence = getelementptr i8, ptr %pool, i64 {SEQUENCE}
  %waiting = getelementptr i8, ptr %pool, i64 {WAITING}
  store atomic ptr %body, ptr %body.at monotonic, align 8
  store atomic ptr %argument, ptr %argument.at monotonic, align 8
  store atomic i64 %chunks, ptr %chunks.at monotonic, align 8
  store atomic i64 0, ptr %done monotonic, align 8
  %old = load atomic i64, ptr %pool monotonic, align 8
  %generation = lshr i64 %old, {MAX_CHUNKS}
  %following = add i64 %generation, 1
  %high = shl i64 %following, {MAX_CHUNKS}
  %bound = shl i64 1, %chunks
  %mask = sub i64 %bound, 1
  %ticket = or i64 %high, %mask
  %swapped = atomicrmw xchg ptr %pool, i64 %ticket seq_cst
  %sleeping = load atomic i32, ptr %sleepers seq_cst, align 4
  %somebody = icmp sgt i32 %sleeping, 0
  br i1 %somebody, label %wake, label %work
wake:
  %bumped = atomicrmw add ptr %sequence, i32 1 seq_cst
  %ignored = call i64 (i64, ...) @syscall(i64 {FUTEX}, ptr %sequence, i64 129, i32 2147483647)
  br label %work
work:
  call void @drain(ptr %pool, i64 0)
  br label %join
join:
  %turn = phi i64 [0, %work], [%pauses, %pause], [%yields, %yield]
  %count = load atomic i64, ptr %done acquire, align 8
  %all = icmp eq i64 %count, %chunks
  br i1 %all, label %leave, label %wait
wait:
  %early = icmp slt i64 %turn, 500
  br i1 %early, label %pause, label %late
pause:
  {PAUSE}
  %pauses = add i64 %turn, 1
  br label %join
late:
  %soon = icmp slt i64 %turn, 600
  br i1 %soon, label %yield, label %park
yield:
  %yielded = call i32 @sched_yield()
  %yields = add i64 %turn, 1
  br label %join
park:
  store atomic i32 1, ptr %waiting seq_cst, align 4
  %reached = load atomic i64, ptr %done seq_cst, align 8
  %over = icmp eq i64 %reached, %chunks
  br i1 %over, label %clear, label %sleep
sleep:
  %expected = trunc i64 %reached to i32
  %slept = call i64 (i64, ...) @syscall(i64 {FUTEX}, ptr %done, i64 128, i32 %expected, ptr null)
  br label %park
clear:
  store atomic i32 0, ptr %waiting seq_cst, align 4
  br label %leave
leave:
  call void @weft_pool_unlock(ptr %pool)
  ret void
}
"""


def pool_module(arch: str, *, workers: bool) -> str:
    """LLVM text of the pool for "x86_64", "aarch64" or "riscv64".

    workers: False gives the same functions without any sleeping or waking, for systems without futex; every region
    then runs on its caller. Raises ValueProblem for workers on an architecture whose system call number is unknown.
    """
    if not workers:
        return _filled(_SERIAL + _LOCK + _WITHOUT_WORKERS, "", 0)
    if arch not in _FUTEX:
        raise ValueProblem(f"pool_module: no worker pool for {arch}; there is one for {', '.join(_FUTEX)}")
    declaration, pause = _PAUSE.get(arch, ("", ""))
    return _filled(f"{declaration}\n" + _SYSTEM + _SERIAL + _LOCK + _DRAIN + _WORKER + _PARALLEL, pause, _FUTEX[arch])


def _filled(text: str, pause: str, futex: int) -> str:
    """Offsets and numbers in place of their names in braces."""
    names = {
        "TICKET": TICKET,
        "DONE": DONE,
        "BODY": BODY,
        "ARGUMENT": ARGUMENT,
        "CHUNKS": CHUNKS,
        "SLEEPERS": SLEEPERS,
        "SEQUENCE": SEQUENCE,
        "WAITING": WAITING,
        "SPIN": SPIN,
        "STOP": STOP,
        "WORKERS": WORKERS,
        "BUSY": BUSY,
        "MAX_CHUNKS": MAX_CHUNKS,
        "MASK": (1 << MAX_CHUNKS) - 1,
        "FUTEX": futex,
        "PAUSE": pause,
    }
    for name, value in names.items():
        text = text.replace("{" + name + "}", str(value))
    return text
