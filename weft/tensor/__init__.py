"""Floor 6: Tensor itself (a payload plus autograd state), the modes of a thread, creation, indexing, printing.

Start reading at tensor.py, then history.py, facts.py and conversions.py.
What happens on an operator call is in weft/layers/walk.py; gradients are in weft/autograd.
"""
