"""The rules of kernels under transforms, beside the entries that need none: batches (vmap) in batching.py and the files
beside it, tangents (jvp) in tangents.py. Imported with the first transform, not by the catalogue.
"""
