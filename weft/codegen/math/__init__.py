"""Vector math: functions of floats, integers and complex pairs in plain LLVM instructions. Imports emit/.

Start reading at functions.py (the functions by name, and how accurate they are), then core.py
(what they are written with).
"""
