"""The report: one HTML page that needs nothing beside it."""
