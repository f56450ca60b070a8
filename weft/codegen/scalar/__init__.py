"""The scalar protocol in LLVM: a pointwise operator's body, run over a handler, writes code for a vector of elements.
Imports emit/ and math/.

Start reading at handler.py; element.py says how each dtype is held in registers.
"""
