"""Passes for graphs of scripted programs: branches, loops, containers, writes that aliases see.

Each pass is one file; `memory` says what a node reads and writes.
"""
