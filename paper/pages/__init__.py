"""The pages that `python -m paper all` writes: what was learned, what was seen, and where we deviate.

An opened paper comes in, markdown goes out.
"""
