"""Draws from a network: dropout left on, or the members of an ensemble, with the shared prefix run only once.

A module and batches come in; `Draws` or their moments go out, and the module is left as it was.
"""
