"""Views of a run's data file. Everything here reads `phantora_py.data` and nothing else."""
