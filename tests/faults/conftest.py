from tests.experiments.runs import evaluated, small_data, thetarbm, trained

__all__ = ["evaluated", "small_data", "thetarbm", "trained"]
