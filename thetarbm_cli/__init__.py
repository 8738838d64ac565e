"""Theta-RBM, reproduced: models, data, measures and a command line for one paper.

The estimators are in :mod:`thetarbm_cli.models`; this module stays empty so that ``thetarbm --help`` is fast.
"""

__version__ = "0.1.0"
