"""One run: its settings, its record, how it is trained, measured and kept."""
