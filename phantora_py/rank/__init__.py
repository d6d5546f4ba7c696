"""What runs inside the Python of a rank, in the user's interpreter: standard library only.

The package may be loaded by path, in an environment that has no phantora, so its modules import
each other relatively and nothing else from it.
"""
