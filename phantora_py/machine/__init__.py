"""What this machine has, and who runs on it."""
