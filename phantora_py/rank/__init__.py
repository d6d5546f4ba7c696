"""What runs inside the Python of a rank, in the user's interpreter: standard library only.

The modules here may be loaded by path, in an environment that has no phantora, so they import
nothing from it.
"""
