"""A run from its start to its data file: live, or recorded and simulated again."""
