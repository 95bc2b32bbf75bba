"""Private classifiers whose largest loss is small."""

from collections.abc import Sequence
from dataclasses import field
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import accuracy_score

from skdpsco._typing import LossLike, MatrixLike, TargetLike
from skdpsco._validation import StrOptions
from skdpsco.base.labels import as_targets, encode_classes, labels_note, relative_weights
from skdpsco.base.parameters import ClassParameters, Constraints, with_parameters
from skdpsco.base.predictions import LinearClassifierMixin
from skdpsco.group_dro.options import check_prior
from skdpsco.losses.library import Logistic, Multinomial
from skdpsco.minimax._model import MinimaxModel
from skdpsco.minimax._tasks import Tasks

__all__ = ["PrivateMinimaxClassifier"]


@with_parameters()
class PrivateMinimaxClassifier(LinearClassifierMixin, ClassParameters, MinimaxModel):
    """Differentially private linear classifier for rare classes, or several losses.

    By default it minimises the mean of the classes' losses: a rare class counts as much as any
    other. For several losses or targets it minimises the largest.

    Parameters
    ----------
    losses : {"logistic", "smooth-hinge", "hinge"}, loss or list of these, default="logistic"
        Losses of `skdpsco.losses` or your own: see :doc:`/extending`. Each is a task, so their
        scales matter. Several classes need "logistic".
    tasks : {"classes", "columns"} or None, default="classes"
        With "columns", each column of y is a task, such as the labels of one annotator. With None,
        all records are one task.
    class_prior : array-like of shape (n_classes,) or None, default=None
        Public shares of the classes, which sum to one, in the order of ``classes_``. None finds
        them privately.
    {epsilon, delta, ledger, max_records_per_unit, radius_of_game, feature_bound, fit_intercept}
    {classes, class_weight, solver_of_game}
        With classes as tasks "auto" usually is "gradient-descent", which minimises their mean loss.
    {n_iter, random_state}

    Attributes
    ----------
    {coef_of_classes, intercept_of_classes, classes_, task_weights_}
    class_prior_ : ndarray of shape (n_classes,)
        Noisy shares of the classes, if they were needed.
    {feature_bound_, feature_range_, n_iter_, n_rounds_, n_features_in_, feature_names_in_}
    {privacy_}

    See Also
    --------
    PrivateGroupDRO : For groups other than classes.

    Notes
    -----
    {guarantee}
    Proof: :doc:`/proofs/maximal_loss`.

    References
    ----------
    Bassily, Guzmán, Menart. Private Algorithms for Stochastic Saddle Points and Variational
    Inequalities: Beyond Euclidean Geometry. NeurIPS 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco import PrivateMinimaxClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20000, 5))
    >>> y = X[:, 0] + 0.2 * rng.normal(size=20000) > 0.6  # one in five
    >>> model = PrivateMinimaxClassifier(classes=[False, True]).fit(X, y)
    >>> model.score(X[y], y[y]) > 0.8  # of the rare class
    True
    """

    losses: str | LossLike | Sequence[str | LossLike] = "logistic"
    tasks: Literal["classes", "columns"] | None = "classes"
    class_prior: ArrayLike | None = None

    classes_: np.ndarray = field(init=False)

    _parameter_constraints: ClassVar[Constraints] = {
        "tasks": [None, StrOptions({"classes", "columns"})],
        "class_prior": [None, "array-like"],
    }
    _targets, _foreign = "signs", ("numbers", "classes")
    _auto_radius = 5.0

    def _learn(self, X, y):
        losses = self._resolved_losses()
        if self.class_prior is not None and self.tasks != "classes":
            raise ValueError(f"class_prior must be None with tasks={self.tasks!r}.")
        X, y = self._checked(X, y, y_numeric=False)
        self.classes_, index = encode_classes(y.ravel(), self.classes)
        targets = as_targets(self.classes_, index).reshape(y.shape)
        n_classes = len(self.classes_)
        if n_classes > 2:
            if [type(loss) for loss in losses] != [Logistic]:  # empty tuples are all equal
                raise ValueError(
                    f"losses must be 'logistic' with {n_classes} classes, got {self.losses!r}."
                )
            losses = (Multinomial(n_classes),)
        weights = relative_weights(self.class_weight, self.classes_)
        notes = [labels_note(self.classes_, self.classes)]
        if self.tasks == "classes":
            prior = check_prior(self.class_prior, n_classes, of="class")
            tasks = Tasks(losses, 1, n_classes, prior, weights)
            if prior is not None:
                notes.append("the shares of the classes are public (class_prior)")
        else:
            tasks = Tasks(losses, y.shape[1], class_weights=weights)
        coef, intercept = self._fit(X, targets, tasks, None, tuple(notes))
        return np.atleast_2d(coef), np.atleast_1d(intercept)

    def score(  # type: ignore[override]
        self, X: MatrixLike, y: TargetLike, sample_weight: ArrayLike | None = None
    ) -> float:
        """Accuracy, or that of the worst column if y has several; computed without noise.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_tasks)
            True classes, of one task or several.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights of the records; None weighs all of them the same.

        Returns
        -------
        score : float
            For the worst class use ``worst_group_score(model, X, y, sensitive_features=y)``.
        """
        return self._worst(accuracy_score, X, y, sample_weight)
