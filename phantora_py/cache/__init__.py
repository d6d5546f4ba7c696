"""`phantora cache`: what a timing cache holds, and how it gets there and away."""
