"""The functionalizer: programs that write and share memory, as programs that do neither.

Tensors that share memory are one `Storage`, whose base has a value; each of them is a `View`: a path of view operators
from the base. Reading a view replays its path; a write makes a new value of the base, by the inverse of every step. Who
uses it says what a value is: a value of a graph (capture), a tensor of the level below (functionalize), a value that is
not computed yet.
"""
