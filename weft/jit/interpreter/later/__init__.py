"""Blocks that are functions, called by others: transforms, backwards of custom Functions, hooks. steps.py runs them,
forms.py says how their values lie; tracing/later.py records them.
"""
