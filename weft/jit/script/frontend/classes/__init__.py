"""Classes of Python's in programs: from_python.py has their constants, enumerations and calls; script_classes.py their
objects, attributes and methods; dataclass_methods.py the methods that a decorator writes.
"""
