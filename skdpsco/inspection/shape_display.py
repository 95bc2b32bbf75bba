"""Plots of the functions of a private additive model."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from skdpsco._typing import Self
from skdpsco._validation import check_int, is_number
from skdpsco.additive.densities import Density, Shares
from skdpsco.additive.pairs import PairFunction
from skdpsco.additive.shapes import ShapeFunction
from skdpsco.data.frames import dates_of
from skdpsco.privacy._checks import abridged
from skdpsco.privacy._history import brief, literal, pyplot

__all__ = ["PairDisplay", "ShapeDisplay"]

BEYOND = 0.005  # share of the records on either side of a panel, or of a value that is left out
BARS = 24  # of a column of numbers
POINTS = 80  # of a heat map, in each direction
MOST_VALUES = 18  # of a column of categories
_PANEL = 3.0, 2.1  # inches
_LETTER = 0.075  # inches of height that a letter of a category needs
_LETTER_WIDTH = 0.065  # inches
_BELOW = 26.0  # points from the axis to what is below a label of two lines
_LONGEST_NAME = 18  # letters of a category
_SIDE_BY_SIDE = 36  # letters below a panel
_LIGHT = "0.87"


@dataclass(kw_only=True, eq=False, repr=False)
class ShapeDisplay:
    """What each column adds to the predictions of a private additive model.

    A panel per column shows its function, and bars below it say where the records lie. All panels
    have the same vertical axis, so that a column whose function is flat matters little. A panel
    ends where hardly any record lies, and has at most 18 categories, the most frequent ones. A
    point of its own is for what is missing or undeclared, and one for 0 if many numbers are 0.

    All of this has been released by the fit, so it costs nothing to look at it or to publish it.
    The functions have noise, most of it where few records lie.

    Parameters
    ----------
    shapes : sequence of ShapeFunction
        The functions, in the order of the panels.
    densities : sequence of Density or Shares
        Where the records lie, in the same order.
    labels : sequence, default=()
        Names of the outputs, if there are several.
    value_name : str, default="value"
        Name of what is added up.

    Attributes
    ----------
    lines_ : list of matplotlib Line2D
        Functions of columns of numbers, and points of columns of categories: one for each panel and
        output.
    bars_ : list of matplotlib BarContainer
        One per panel.
    axes_ : ndarray of matplotlib Axes, of shape (n_panels,)
    figure_ : matplotlib Figure
    """

    shapes: Sequence[ShapeFunction]
    densities: Sequence[Density | Shares]
    labels: Sequence[Any] = ()
    value_name: str = "value"

    lines_: Any = field(init=False)
    bars_: Any = field(init=False)
    axes_: Any = field(init=False)
    figure_: Any = field(init=False)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        columns: Any = None,
        *,
        class_label: Any = None,
        n_cols: int = 3,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Plot the functions of a fitted model.

        Parameters
        ----------
        estimator : PrivateAdditiveClassifier or PrivateAdditiveRegressor
            A fitted model.
        columns : list of str, int or None, default=None
            Names of the columns, in the order of the panels. A number is that of the columns that
            matter most, in the standard deviation of their function according to the released
            density, the most important one first; None is all columns in that order.
        class_label : object or None, default=None
            The class whose function is shown, one of ``classes_``. None is the second of two
            classes, or all classes if there are more.
        n_cols : int, default=3
            Number of panels side by side, at least 1.
        ax : matplotlib Axes, array of them or None, default=None
            As many as there are panels; None makes a figure.
        **kwargs : dict
            Style of the functions, passed to `matplotlib.axes.Axes.plot`.

        Returns
        -------
        display : ShapeDisplay

        Raises
        ------
        ValueError, TypeError
            If a parameter is out of range, or the model is not additive.
        NotFittedError
            If the model is not fitted.
        ImportError
            If matplotlib is not installed.
        """
        pyplot(cls.__name__)
        _check_model(estimator)
        outputs, labels, value_name = _outputs(estimator, class_label)
        shapes = {name: s.times(outputs) for name, s in estimator.shape_functions_.items()}
        densities = estimator.densities_
        chosen = _check_columns(columns, shapes, densities)
        display = cls(
            shapes=[shapes[name] for name in chosen],
            densities=[densities[name] for name in chosen],
            labels=labels,
            value_name=value_name,
        )
        return display.plot(ax=ax, n_cols=n_cols, **kwargs)

    def plot(self, ax: Any = None, *, n_cols: int = 3, **kwargs: Any) -> Self:
        """Plot a panel for every column.

        Parameters
        ----------
        ax : matplotlib Axes, array of them or None, default=None
            As many as there are panels; None makes a figure.
        n_cols : int, default=3
            Number of panels side by side, at least 1.
        **kwargs : dict
            Style of the functions, passed to `matplotlib.axes.Axes.plot`.

        Returns
        -------
        self : ShapeDisplay
        """
        pyplot(type(self).__name__)
        check_int("n_cols", n_cols)
        _check_style(kwargs)
        new = ax is None
        n, pairs = len(self.shapes), list(zip(self.shapes, self.densities, strict=True))
        letters = max(_letters_below(shape, known) for shape, known in pairs)
        height = _PANEL[1] + letters * _LETTER + (len(self.labels) > 1) * 0.3
        panels = _new_panels(n, n_cols, height, sharey=True) if new else _check_axes(ax, n)
        self.lines_, self.bars_ = [], []
        for panel, (shape, known) in zip(panels, pairs, strict=True):
            draw = _draw_categories if isinstance(known, Shares) else _draw_numbers
            lines, bars = draw(panel, shape, known, kwargs)
            self.lines_ += lines
            self.bars_.append(bars)
            panel.axhline(0.0, color="0.7", linewidth=0.8, zorder=1)
            panel.set_title(literal(brief(shape.column.name, 40)), fontsize=10, loc="left")
            panel.tick_params(labelsize=8)
            panel.spines[["top", "right"]].set_visible(False)
            if not new:
                panel.set_ylabel(literal(self.value_name))
        _share_range(panels)
        figure = panels[0].figure
        if new:
            figure.supylabel(literal(self.value_name), fontsize=10)
        if len(self.labels) > 1:
            named = self.lines_[: len(self.labels)]
            names = [literal(brief(label, 40)) for label in self.labels]
            if new:
                figure.legend(
                    named, names, loc="outside upper right", ncols=4, frameon=False, fontsize=9
                )
            else:
                panels[0].legend(named, names, fontsize=8)
        self.axes_, self.figure_ = panels, figure
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class PairDisplay:
    """What pairs of columns add to the predictions of a private additive model, besides each.

    A heat map per pair, all of them with one scale of colours. It ends where hardly any record
    lies. Like the functions of single columns, all of this has been released by the fit.

    Parameters
    ----------
    pairs : sequence of PairFunction
        The functions, of one output.
    densities : sequence of tuple of two Density or Shares
        Where the numbers or values of both columns lie.
    value_name : str, default="value"
        Name of what is added up.

    Attributes
    ----------
    meshes_ : list of matplotlib QuadMesh
        One per pair.
    axes_ : ndarray of matplotlib Axes, of shape (n_pairs,)
    figure_ : matplotlib Figure
    """

    pairs: Sequence[PairFunction]
    densities: Sequence[tuple[Density | Shares, Density | Shares]]
    value_name: str = "value"

    meshes_: Any = field(init=False)
    axes_: Any = field(init=False)
    figure_: Any = field(init=False)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        pairs: Any = None,
        *,
        class_label: Any = None,
        n_cols: int = 3,
        **kwargs: Any,
    ) -> Self:
        """Plot the functions of pairs of a fitted model.

        Parameters
        ----------
        estimator : PrivateAdditiveClassifier or PrivateAdditiveRegressor
            A fitted model.
        pairs : list of tuple of two str or None, default=None
            Names of the columns of every pair, as ``pair_functions_`` has them; None is all.
        class_label : object or None, default=None
            The class whose function is shown, one of ``classes_``. None is the second of two
            classes; it must be given if there are more.
        n_cols : int, default=3
            Number of panels side by side, at least 1.
        **kwargs : dict
            Style of the heat maps, passed to `matplotlib.axes.Axes.pcolormesh`.

        Returns
        -------
        display : PairDisplay

        Raises
        ------
        ValueError, TypeError
            If a parameter is out of range, or the model is not additive or has no pairs.
        NotFittedError
            If the model is not fitted.
        ImportError
            If matplotlib is not installed.
        """
        pyplot(cls.__name__)
        _check_model(estimator)
        outputs, _, value_name = _outputs(estimator, class_label)
        if outputs.shape[1] > 1:
            raise ValueError("class_label must be given where there are more than two classes.")
        known = estimator.pair_functions_
        if not known:
            raise ValueError(
                f"This {type(estimator).__name__} has no pairs: its pair_functions_ are empty. Fit "
                "it with pairs=[...], names of two columns each."
            )
        try:
            names = [tuple(pair) for pair in (known if pairs is None else pairs)]
            legal = len(names) > 0 and known.keys() >= set(names)
        except TypeError:  # not a list of pairs
            legal = False
        if not legal:
            raise ValueError(
                f"pairs must be among the model's pair_functions_, {abridged(list(known))}; got "
                f"{abridged(pairs)}."
            )
        found = [known[name]._replace(weights=known[name].weights @ outputs) for name in names]
        densities = estimator.densities_
        both = [(densities[one], densities[other]) for one, other in names]
        display = cls(pairs=found, densities=both, value_name=value_name)
        return display.plot(n_cols=n_cols, **kwargs)

    def plot(self, *, n_cols: int = 3, **kwargs: Any) -> Self:
        """Plot a heat map for every pair, in a new figure.

        Parameters
        ----------
        n_cols : int, default=3
            Number of panels side by side, at least 1.
        **kwargs : dict
            Style of the heat maps, passed to `matplotlib.axes.Axes.pcolormesh`.

        Returns
        -------
        self : PairDisplay
        """
        pyplot(type(self).__name__)
        check_int("n_cols", n_cols)
        panels = _new_panels(len(self.pairs), n_cols, 1.3 * _PANEL[1])
        grids = []
        for pair, (first, second) in zip(self.pairs, self.densities, strict=True):
            (x, x_ticks), (y, y_ticks) = _places(pair.first, first), _places(pair.second, second)
            across, along = (grid.ravel() for grid in np.meshgrid(x, y))
            grids.append((x, y, pair.of(across, along).reshape(len(y), len(x)), x_ticks, y_ticks))
        most = max(float(np.abs(values).max()) for _, _, values, *_ in grids) or 1.0
        style = {"cmap": "RdBu_r", "vmin": -most, "vmax": most, "shading": "nearest", **kwargs}
        self.meshes_ = []
        for panel, pair, (x, y, values, x_ticks, y_ticks) in zip(
            panels, self.pairs, grids, strict=True
        ):
            self.meshes_.append(panel.pcolormesh(x, y, values, **style))
            panel.set_xlabel(literal(brief(pair.first.column.name, 40)), fontsize=9)
            panel.set_ylabel(literal(brief(pair.second.column.name, 40)), fontsize=9)
            panel.tick_params(labelsize=8)
            if x_ticks:
                names = [*x_ticks.values()]
                panel.set_xticks([*x_ticks], names, rotation=90 if _upright(names) else 0)
            if y_ticks:
                panel.set_yticks([*y_ticks], [*y_ticks.values()])
        figure = panels[0].figure
        bar = figure.colorbar(self.meshes_[0], ax=panels.tolist())
        bar.set_label(literal(self.value_name), fontsize=9)
        self.axes_, self.figure_ = panels, figure
        return self


def _new_panels(n: int, n_cols: int, height: float, **options: Any) -> np.ndarray:
    """So many panels of a new figure, of this height each."""
    n_cols = min(n_cols, n)
    n_rows = -(-n // n_cols)
    size = max(_PANEL[0] * n_cols, 5.0), height * n_rows
    options |= {"figsize": size, "layout": "constrained", "squeeze": False}
    panels = pyplot("A display").subplots(n_rows, n_cols, **options)[1].ravel()
    for panel in panels[n:]:
        panel.remove()
    return panels[:n]


def _check_model(estimator: Any) -> None:
    """Refuse what is no fitted additive model."""
    if isinstance(estimator, type) or not hasattr(type(estimator), "shape_functions_"):
        raise TypeError(
            "estimator must be a fitted PrivateAdditiveClassifier or PrivateAdditiveRegressor, "
            f"got {abridged(estimator)}."
        )
    check_is_fitted(estimator)


def _places(shape: ShapeFunction, known: Density | Shares) -> tuple[np.ndarray, dict[float, str]]:
    """Where a function of a pair is drawn, and the labels of values and dates by their places."""
    if isinstance(known, Shares):
        names = [literal(_shortened(str(value))) for value in shape.column.values]
        return np.arange(len(names)), dict(enumerate(names))
    low, high = _limits(known)
    round_days = _round_numbers(3, low, high) if shape.column.dates else ()
    labels = {float(day): str(dates_of(day)) for day in round_days if low <= day <= high}
    return np.linspace(low, high, POINTS), labels


def _importance(shape: ShapeFunction, known: Density | Shares) -> float:
    """Standard deviation of a function according to a released density, over all outputs."""
    if isinstance(known, Shares):
        points = np.append(np.arange(len(known.values)), -1)
        weights = np.append(known.values, known.missing)
    else:
        middles = 0.5 * (known.edges[1:] + known.edges[:-1])
        points = np.append(middles, [0.0, np.nan])
        weights = np.append(known.weights, [known.zero, known.missing])
    values = shape.of(points)
    mean = weights @ values
    return float((weights @ np.square(values - mean)).sum() ** 0.5)


def _outputs(model: Any, class_label: Any) -> tuple[np.ndarray, list[Any], str]:
    """What to multiply outputs by, the names of the products, and that of what is added up."""
    if not is_classifier(model):
        if class_label is not None:
            raise ValueError(f"class_label must be None for a regressor, got {class_label!r}.")
        logs = model.loss in ("poisson", "gamma")
        return np.eye(1), [], "logarithm of the prediction" if logs else "prediction"
    classes = model.classes_.tolist()
    if class_label is not None and class_label not in classes:
        raise ValueError(
            f"class_label must be one of {abridged(classes)} or None, got {abridged(class_label)}."
        )
    if len(classes) == 2:
        at = 1 if class_label is None else classes.index(class_label)
        return np.eye(1) * (2 * at - 1), [], f"log-odds of {brief(str(classes[at]), 40)}"
    if class_label is None:
        return np.eye(len(classes)), classes, "score of each class"
    at = classes.index(class_label)
    return np.eye(len(classes))[:, [at]], [], f"score of {brief(str(class_label), 40)}"


def _check_columns(columns: Any, shapes: Any, densities: Any) -> list[str]:
    """Names of the columns, in the order of the panels."""
    if columns is None or is_number(columns, Integral):
        if columns is not None and columns < 1:
            raise ValueError(f"columns must be at least 1 if it is a number, got {columns}.")
        order = sorted(shapes, key=lambda name: -_importance(shapes[name], densities[name]))
        return order[:columns]
    is_list = np.iterable(columns) and not isinstance(columns, str)
    names = list(columns) if is_list else []
    if not names or not all(isinstance(name, str) and name in shapes for name in names):
        raise ValueError(
            f"columns must be None, a number, or a list of names among {abridged(list(shapes))}; "
            f"got {abridged(columns)}."
        )
    return names


def _check_style(style: dict[str, Any]) -> None:
    """Refuse keywords that neither a display of shapes nor a line of matplotlib has."""
    from matplotlib.lines import Line2D

    of_line = {key: value for key, value in style.items() if key not in ("scalex", "scaley")}
    try:
        Line2D([], [], **of_line)
    except AttributeError as error:
        raise TypeError(
            f"A parameter is not that of ShapeDisplay (columns, class_label, n_cols, ax), nor a "
            f"style of matplotlib's lines: {error}."
        ) from error


def _check_axes(ax: Any, n: int) -> np.ndarray:
    plt = pyplot("ShapeDisplay")
    panels = np.array(ax, dtype=object).ravel()
    if len(panels) != n or not all(isinstance(panel, plt.Axes) for panel in panels):
        raise TypeError(f"ax must be None or {n} axes of matplotlib, got {abridged(ax)}.")
    return panels


def _share_range(panels: np.ndarray) -> None:
    """Give all panels the range of all values and of 0, with room for bars below."""
    lines = [line for panel in panels for line in panel.get_lines()]
    values = np.concatenate([[0.0], *(line.get_ydata() for line in lines)])
    low, high = float(values.min()), float(values.max())
    size = high - low or 1.0
    for panel in panels:
        panel.set_ylim(low - 0.3 * size, high + 0.1 * size)


def _draw_numbers(ax, shape, known, style):
    """A function of numbers; the value of what is missing stands apart, on the right."""
    low, high = _limits(known)
    edges = _edges_of_bars(low, high)
    up_to = np.interp(edges, known.edges, np.append(0.0, known.weights.cumsum()))
    bars = _draw_bars(ax, edges[:-1], np.diff(up_to), edges[1] - edges[0], align="edge")
    inner = shape.knots[(shape.knots > low) & (shape.knots < high)]
    x = np.concatenate([[low], inner, [high]])
    first, last = edges[[0, -1]]
    apart = known.missing >= BEYOND
    end = last + 0.12 * (last - first) if apart else last
    lines = []
    colours = _colours(shape.values.shape[1])
    for k, values in enumerate(shape.values.T):
        (line,) = ax.plot(x, np.interp(x, shape.knots, values), **{"color": colours[k], **style})
        marks = {"color": line.get_color(), "linestyle": "none", "markersize": 5, "zorder": 3}
        if shape.zero is not None:
            ax.plot([0.0], [shape.zero[k]], marker="o", markerfacecolor="white", **marks)
        if apart:
            ax.plot([0.5 * (last + end)], [shape.missing[k]], marker="D", **marks)
        lines.append(line)
    ax.set_xlim(first, end)
    named = {}
    if known.zero >= BEYOND:
        named[0.0] = f"0\n{known.zero:.0%}"
    if apart:
        named[0.5 * (last + end)] = f"missing\n{known.missing:.0%}"
        ax.axvspan(last, end, color="0.95", linewidth=0, zorder=-1)
    _label_numbers(ax, first, last, named, shape.column.dates)
    return lines, bars


def _draw_categories(ax, shape, known, style):
    """Points of the most frequent categories, in their order, and one of all that is undeclared."""
    names, values, shares = _values_shown(shape, known)
    x = np.arange(len(names))
    bars = _draw_bars(ax, x, shares, 0.8)
    lines, n = [], values.shape[1]
    for k, colour in enumerate(_colours(n)):
        at = x + 0.6 * (k - 0.5 * (n - 1)) / n
        marks = {"color": colour, "marker": "o", "linestyle": "none"}
        marks["markersize"] = 5 if n * len(names) < MOST_VALUES else 3
        lines += ax.plot(at, values[:, k], **{**marks, **style})
    ax.set_xlim(-0.6, len(names) - 0.4)
    ax.set_xticks(x, [literal(name) for name in names], rotation=90 if _upright(names) else 0)
    return lines, bars


def _colours(n: int) -> list[Any]:
    """A colour of its own for each of several outputs."""
    from matplotlib import colormaps, rcParams

    few = n <= len(set(rcParams["axes.prop_cycle"].by_key().get("color", ())))
    return [f"C{k}" for k in range(n)] if few else [*colormaps["turbo"](np.linspace(0.0, 1.0, n))]


def _draw_bars(ax, x, shares, width, **options):
    """Light bars in the lower fifth, of which the highest fills it."""
    heights = 0.2 * shares / max(float(shares.max()), 1e-300)
    where = {"transform": ax.get_xaxis_transform(), "zorder": 0}
    return ax.bar(x, heights, width, color=_LIGHT, linewidth=0, **where, **options)


def _limits(known: Density) -> tuple[float, float]:
    """Between them lie almost all numbers, and 0 if it is one of them."""
    up_to = np.append(0.0, known.weights.cumsum())
    ends = BEYOND, up_to[-1] - BEYOND
    few = ends[0] >= ends[1]
    found: Any = known.edges[[0, -1]] if few else np.interp(ends, up_to, known.edges)
    low, high = found.tolist()
    return (min(low, 0.0), max(high, 0.0)) if known.zero >= BEYOND else (low, high)


def _edges_of_bars(low: float, high: float) -> np.ndarray:
    """Edges of bars around round numbers, so that whole numbers have bars of their own."""
    middles = _round_numbers(BARS, low, high)
    width = middles[1] - middles[0]
    edges = np.append(middles, middles[-1] + width) - 0.5 * width
    return edges[(edges > low - width) & (edges < high + width)]


def _label_numbers(ax, low, high, named, dates):
    """Label some round numbers, and those that have names, so that no two labels overlap."""
    start, end = ax.get_xlim()
    # A layout that is still to come makes panels wider, not narrower.
    letter = _LETTER_WIDTH * (end - start) / (ax.get_position().width * ax.figure.get_figwidth())

    def apart(one, other):
        letters = sum(max(map(len, text.split("\n"))) for _, text in (one, other))
        return abs(one[0] - other[0]) > letter * (0.5 * letters + 1.0)

    ticks: list[Any] = []
    for most in (5, 4, 3, 2, 1):
        numbers = [t for t in _round_numbers(most, low, high).tolist() if low <= t <= high]
        texts = map(str, dates_of(numbers)) if dates else (f"{t:g}" for t in numbers)
        both = zip(numbers, texts, strict=True)
        ticks = [tick for tick in both if all(apart(tick, other) for other in named.items())]
        if all(apart(*two) for two in pairwise(ticks)):
            break
    else:
        del ticks[1:]
    if not dates:
        ticks = [(t, text.replace("-", "\N{MINUS SIGN}")) for t, text in ticks]
    shown = {**named, **dict(ticks)}
    ax.set_xticks([*shown], [*shown.values()])
    if len(named) > 1 and not apart(*named.items()):
        ax.xaxis.get_major_ticks()[1].set_pad(_BELOW)


def _values_shown(shape: ShapeFunction, known: Shares) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Names, values and shares of the most frequent categories, in their order, and of others."""
    # Ranks of noisy shares are public, as the shares are.
    frequent = np.sort(np.argsort(-known.values, kind="stable")[:MOST_VALUES])
    names = [_shortened(str(shape.column.values[j])) for j in frequent]
    values, shares = shape.values[frequent], known.values[frequent]
    if known.missing >= BEYOND:
        names = [*names, "missing" if shape.column.missing else "undeclared"]
        values, shares = np.vstack([values, shape.missing]), np.append(shares, known.missing)
    return names, values, shares


def _shortened(name: str) -> str:
    """Name of a category without its middle if it is long, since its ends may differ."""
    name, half = brief(name), _LONGEST_NAME // 2
    return name if len(name) <= _LONGEST_NAME else f"{name[: half - 1]}...{name[2 - half :]}"


def _upright(names: list[str]) -> bool:
    """Whether names are too long to stand side by side."""
    return (2 + max(map(len, names))) * len(names) > _SIDE_BY_SIDE


def _letters_below(shape: ShapeFunction, known: Density | Shares) -> int:
    """Letters that stand above each other below a panel."""
    if isinstance(known, Shares):
        names = _values_shown(shape, known)[0]
        return max(map(len, names)) if _upright(names) else 0
    return 2


def _round_numbers(most: int, low: float, high: float) -> Any:
    """Round numbers of equal distances, from at most one number to at least another."""
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(most, steps=[1, 2, 5, 10]).tick_values(low, high)
