"""Element types that weft knows by name and limits only: programs name them and ask about them, and no tensor has one.
Where an operator is to make one, it is refused."""

from __future__ import annotations

from weft.types.dtype import COMPLEX, FLOAT, INT, UnheldDType

uint16 = UnheldDType("uint16", "u16", INT, 2, False)
uint32 = UnheldDType("uint32", "u32", INT, 4, False)
uint64 = UnheldDType("uint64", "u64", INT, 8, False)
float8_e4m3fn = UnheldDType("float8_e4m3fn", "f8e4m3fn", FLOAT, 1)
float8_e4m3fnuz = UnheldDType("float8_e4m3fnuz", "f8e4m3fnuz", FLOAT, 1)
float8_e5m2 = UnheldDType("float8_e5m2", "f8e5m2", FLOAT, 1)
float8_e5m2fnuz = UnheldDType("float8_e5m2fnuz", "f8e5m2fnuz", FLOAT, 1)
float8_e8m0fnu = UnheldDType("float8_e8m0fnu", "f8e8m0fnu", FLOAT, 1, False)
float4_e2m1fn_x2 = UnheldDType("float4_e2m1fn_x2", "f4e2m1fn_x2", FLOAT, 1)
complex32 = chalf = UnheldDType("complex32", "c32", COMPLEX, 4)
