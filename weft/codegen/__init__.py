"""From loop nests to machine code: LLVM text, vector math, matrix products, objects.

Imports loops/ and lower floors, never tensor/, layers/ or autograd/. Start reading at `emit.py` (the text builder that everything here
writes with), then `gemm_kernel.py` for the largest user of it.
"""
