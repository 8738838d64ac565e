from tests.experiments.runs import small_data

__all__ = ["small_data"]
