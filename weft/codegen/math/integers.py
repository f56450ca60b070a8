"""Integer division, powers and shifts that are safe for every operand, where LLVM leaves some undefined.

Lanes behind a masked tail hold zeros, so that a division by zero must not stop the process even where the result is
not wanted.
"""

from __future__ import annotations

from weft.codegen.emit import F32, F64, I32, I64, Function, LType, Signature, Value, const


def quotient(f: Function, x: Value, y: Value, signed: bool) -> Value:
    """x / y towards zero; 0 where y is 0; the most negative number by -1 wraps."""
    zero = f.icmp("eq", y, 0)
    if not signed:
        return f.select(zero, 0, _divided(f, x, f.select(zero, 1, y), signed))
    minus = f.icmp("eq", y, -1)
    result = _divided(f, x, f.select(f.or_(zero, minus), 1, y), signed)
    return f.select(zero, 0, f.select(minus, f.sub(0, x), result))


def _divided(f: Function, x: Value, y: Value, signed: bool) -> Value:
    """x / y for a harmless y. No machine divides vectors of integers; wider floats give the same quotient."""
    bits = x.type.bits
    if bits == 64:
        return f.sdiv(x, y) if signed else f.udiv(x, y)
    real = F64 if bits == 32 else F32
    wide = [v if bits == 32 else f.sext(v, I32) if signed else f.zext(v, I32) for v in (x, y)]
    result = f.fptosi(f.fdiv(f.sitofp(wide[0], real), f.sitofp(wide[1], real)), I32)
    return result if bits == 32 else f.trunc(result, x.type.elem)


def rest(f: Function, x: Value, y: Value, signed: bool) -> Value:
    """x - quotient*y, with the sign of x; 0 where y is 0."""
    product = f.mul(quotient(f, x, y, signed), y)
    return f.select(f.icmp("eq", y, 0), 0, f.sub(x, product))


def floor_quotient(f: Function, x: Value, y: Value, signed: bool) -> Value:
    """x / y towards minus infinity; 0 where y is 0."""
    if not signed:
        return quotient(f, x, y, signed)
    q = quotient(f, x, y, signed)
    left = f.select(f.icmp("eq", y, 0), 0, f.sub(x, f.mul(q, y)))
    return f.select(_disagrees(f, left, y), f.sub(q, 1), q)


def floor_rest(f: Function, x: Value, y: Value, signed: bool) -> Value:
    """x - floor_quotient*y, with the sign of y; 0 where y is 0."""
    left = rest(f, x, y, signed)
    return f.select(_disagrees(f, left, y), f.add(left, y), left) if signed else left


def _disagrees(f: Function, left: Value, y: Value) -> Value:
    """Whether a remainder is not zero and its sign is not y's."""
    return f.and_(f.icmp("ne", left, 0), f.icmp("slt", f.xor(left, y), 0))


def shift_left(f: Function, x: Value, y: Value) -> Value:
    """x << y; 0 when y is not in [0, bits)."""
    bits = x.type.bits
    return f.select(f.icmp("ult", y, bits), f.shl(x, f.and_(y, bits - 1)), 0)


def shift_right(f: Function, x: Value, y: Value, signed: bool) -> Value:
    """x >> y, the sign shifted in if `signed`; the sign alone (or 0) when y is not in [0, bits)."""
    bits = x.type.bits
    inside = f.icmp("ult", y, bits)
    if signed:
        return f.ashr(x, f.select(inside, y, bits - 1))
    return f.select(inside, f.lshr(x, f.and_(y, bits - 1)), 0)


def power(f: Function, x: Value, y: Value, signed: bool) -> Value:
    """x ** y, wrapping; for a negative y 0, unless x is 1 or -1."""
    if y.const is not None and 0 <= y.const <= 8:
        return _unrolled(f, x, int(y.const))
    return f.call(_power_function(f, x.type, signed), [x, y], "power")


def _unrolled(f: Function, x: Value, exponent: int) -> Value:
    result = const(x.type, 1)
    square = x
    while exponent:
        if exponent & 1:
            result = f.mul(result, square)
        exponent >>= 1
        square = f.mul(square, square) if exponent else square
    return result


def _power_function(f: Function, type: LType, signed: bool) -> Signature:
    """The module's function that raises each lane of `type` to a power, by squaring."""
    symbol = f"weft_ipow_{'s' if signed else 'u'}_{type.suffix}"
    existing = f.module.functions.get(symbol)
    if existing is not None:
        return existing.signature
    g = f.module.function(symbol, type, [(type, "x"), (type, "y")], internal=True, attrs="noinline")
    if not type.lanes:
        g.ret(_scalar_power(g, g.params[0], g.params[1], signed))
        return g.signature
    slots = [g.alloca(type.elem, type.lanes, 64) for _ in g.params]
    for slot, argument in zip(slots, g.params, strict=True):
        g.store(argument, slot)
    with g.loop(0, const(I64, type.lanes), trip_at_least_one=True) as loop:
        base, exponent = (g.gep(type.elem, slot, loop.index) for slot in slots)
        g.store(_scalar_power(g, g.load(type.elem, base), g.load(type.elem, exponent), signed), base)
    g.ret(g.load(type, slots[0]))
    return g.signature


def _scalar_power(g: Function, x: Value, y: Value, signed: bool) -> Value:
    start = g.select(g.icmp("slt", y, 0), 0, y) if signed else y
    one = const(x.type, 1)
    with g.while_loop(carried=[(one, "result"), (x, "square"), (start, "left")]) as loop:
        result, square, left = loop.carried
        loop.test(g.icmp("ne", left, 0))
        bit = g.icmp("ne", g.and_(left, 1), 0)
        loop.next(g.select(bit, g.mul(result, square), result), g.mul(square, square), g.lshr(left, 1))
    if not signed:
        return loop.results[0]
    flip = g.select(g.icmp("eq", g.and_(y, 1), 0), one, x)
    unit = g.select(g.icmp("eq", x, 1), one, g.select(g.icmp("eq", x, -1), flip, 0))
    return g.select(g.icmp("slt", y, 0), unit, loop.results[0])
