"""Programs from what functions do with example inputs: trace.py is what users call, recorder.py keeps what happens,
values.py has the tensors and numbers that a traced function sees.
"""
