"""The kernels that a loss may register; see `skdpsco.losses`, which has them too."""

from skdpsco._kernels import inlined_kernel, kernel


@inlined_kernel
def value(loss, z, y):
    """Loss of the prediction ``z`` for the target ``y``."""
    raise NotImplementedError


@inlined_kernel
def derivative(loss, z, y):
    """Derivative of the loss in the prediction ``z``."""
    raise NotImplementedError


@kernel
def curvature(loss, z, y):
    """Second derivative of the loss in ``z``, or any bound of it up to ``loss.smoothness()``."""
    raise NotImplementedError


@inlined_kernel
def values(loss, Z, y, out):
    """Write the loss of every record: ``Z`` of shape (n, 1), ``y`` and ``out`` of shape (n,)."""
    for i in range(y.shape[0]):
        out[i] = value(loss, Z[i, 0], y[i])


@inlined_kernel
def derivatives(loss, Z, y, out):
    """Write the derivatives in every prediction: ``Z`` and ``out`` of shape (n, n_outputs).

    ``out`` may be ``Z``, so that a record's predictions are read before any is written over.
    """
    for i in range(y.shape[0]):
        out[i, 0] = derivative(loss, Z[i, 0], y[i])


@kernel
def curvatures(loss, Z, y, out):
    """Write a bound on the curvature of every record in its predictions, ``out`` of shape (n,)."""
    for i in range(y.shape[0]):
        out[i] = curvature(loss, Z[i, 0], y[i])
