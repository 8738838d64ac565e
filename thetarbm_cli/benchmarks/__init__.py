"""How fast it is, and how far from the limit: ratios measured side by side in one process."""
