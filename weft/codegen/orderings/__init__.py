"""Orderings of rows in native code: sorted rows, their first k elements, the element at one place of the order.

keys.py     integers that are ordered as elements are
records.py  keys with the places that they came from, and how they are sorted
rows.py     the kernel that goes over rows
sort.py, top.py, select.py, runs.py   what it does with one
search.py   places of values in sorted sequences
"""
