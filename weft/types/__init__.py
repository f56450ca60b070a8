"""Floor 1: dtypes, promotion, dims and symbols, tensor types and the type lattice. Imports only support/.

Start reading at tensor_type.py; dims.py is the integer algebra of sizes, shape_env.py answers questions about symbols.
"""
