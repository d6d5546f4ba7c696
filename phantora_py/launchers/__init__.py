"""Commands that start the ranks of a program, each taken apart into one description (`launch`)."""
