"""A graph's nodes as kernels: which function each becomes, and its code. Imports emit/, scalar/ and gemm/.

Start reading at graph.py (the whole way, and which node has a lowering of its own), then lowering.py
(the state of a lowering). Nests of loops: nest.py (widths and tables), loops.py (a nest's function), nest_pass.py,
values.py and reduce.py (what it does inside). The other files lower nodes that are no such nests: move.py, gather.py,
accumulate.py, scan.py, product.py.
"""
