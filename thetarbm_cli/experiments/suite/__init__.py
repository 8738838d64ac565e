"""The suite: what experiments.yaml may say, and its cells."""
