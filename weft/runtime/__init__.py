"""What native code needs while it runs: object loader, disk cache, call gate, worker pool.

May import weft.support and weft.types only; compiling is the business of weft.codegen, which hands object bytes in.
Start reading at `engine` (bytes to addresses), then `native_call` (address to Python callable), `pool`, `cache`.
"""
