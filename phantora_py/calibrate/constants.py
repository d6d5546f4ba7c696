"""The constants that logs can determine, and what to measure for each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from phantora_py.calibrate.least_squares import Fit, Vector

ADVICE = {
    "base_latency": "8 B to 16 KB inside a node, on two different numbers of GPUs (as 2 and 8)",
    "gpu_latency": "8 B to 16 KB inside a node, on two different numbers of GPUs (as 2 and 8)",
    "gpu_efficiency": "64 MB to 4 GB inside a node",
    "network_latency": "8 B to 16 KB on two nodes or more",
    "network_efficiency": "1 GB to 4 GB on two nodes or more, where the network is the limit "
    "(as alltoall)",
}
"""What a log must have for each constant of `sim_server.cluster.Calibration`."""

# A constant that is known no better than this, as one standard deviation of its logarithm, is not
# determined: assumed.
_LARGEST_UNCERTAINTY = 0.1
# Two logs of the same system differ by so much at least: assumed, from repeated nccl-tests.
_LEAST_SCATTER = 0.02
# Less than this is rounding.
_NOTHING = 1e-6


def uncertainties(fit: Fit) -> Vector:
    """Standard deviations of the constants' logarithms; infinite where nothing depends on one.

    From the residuals and the Jacobian, by the usual linear theory. Constants that only occur
    together are as uncertain as if they did not occur.
    """
    scatter = max(float(np.sqrt(np.mean(fit.residuals**2))), _LEAST_SCATTER)
    _, strengths, directions = np.linalg.svd(fit.jacobian, full_matrices=True)
    variances: Vector = np.zeros(len(fit.constants))
    for index, direction in enumerate(directions):
        touched = np.abs(direction) > _NOTHING
        if index < len(strengths) and strengths[index] > _NOTHING:
            variances += (scatter / strengths[index] * direction) ** 2
        else:
            variances[touched] = np.inf
    return np.sqrt(variances)


def undetermined(names: Sequence[str], fit: Fit) -> list[str]:
    """Names of the constants that the measurements leave open."""
    return [
        name
        for name, uncertainty in zip(names, uncertainties(fit), strict=True)
        if not uncertainty <= _LARGEST_UNCERTAINTY
    ]
