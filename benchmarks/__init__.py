"""Measure how fast the package is, and how far from the limit: ratios of jobs that take turns in one process."""
