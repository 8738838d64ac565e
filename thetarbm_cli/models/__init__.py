"""What learns: the RBM and its four kin as scikit-learn estimators over one contrastive-divergence loop."""

from thetarbm_cli.models.controls import AlignedPixels, Pixels
from thetarbm_cli.models.local import LocalThetaRBM
from thetarbm_cli.models.oriented import OrientedRBM
from thetarbm_cli.models.rbm import RBM
from thetarbm_cli.models.theta import ThetaRBM
from thetarbm_cli.models.transform_invariant import TransformInvariantRBM

__all__ = ["RBM", "AlignedPixels", "LocalThetaRBM", "OrientedRBM", "Pixels", "ThetaRBM", "TransformInvariantRBM"]
