"""From loop nests to machine code: LLVM text, vector math, matrix products, objects.

Imports plan/ and lower floors, never tensor/, layers/ or autograd/.
Seven packages, each of which imports only those above it:

    emit     the text builder that everything here writes with
    math     functions of floats and integers in plain instructions
    scalar   the scalar protocol in LLVM: bodies of operators as code for vectors of elements
    gemm     the matrix product
    matrices factors and inverses of matrices, solutions of systems
    lower    a graph's nodes as kernels
    program  a lowered graph, planned (weft/plan), as one native program

Beside them: target.py and compiler.py (the machine, and LLVM's code generator), compilation.py (a program in parts, by
several threads), shared_code.py (what every program calls) and shipped.py (its object code, which comes with weft in
objects/), native.py (a module loaded into the process), program_key.py (its name on disk) and stages.py (kernels as
text, for reading).
Start reading at emit/module.py, then lower/graph.py and program/compile.py.
"""
