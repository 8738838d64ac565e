"""Data sets: where their images come from, how they are made, and the prepared files that models learn from."""
