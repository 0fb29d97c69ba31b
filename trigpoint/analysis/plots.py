"""The plots of analyses and statistics, as PNG; the same numbers give the same bytes. No display is needed.

Not here: the numbers (`trigpoint.analysis.analyse`, `trigpoint.analysis.statistics`).
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from PIL import Image

from trigpoint.analysis.analyse import Analysis
from trigpoint.analysis.statistics import ReleaseStatistics

DPI = 130
"""Pixels per inch of every plot."""

INK, GRID = "#333333", "#dddddd"
FORM_COLOURS = {"program": "#6b6b6b", "vocabulary": "#0072b2", "referring": "#d55e00", "reasoning": "#009e73"}
"""Colour of a form in every plot; told apart by people who see red and green alike. Source: Okabe & Ito 2008."""

_OTHER_COLOURS = ("#cc79a7", "#e69f00", "#56b4e9", "#f0e442")
_MARKERS = "osD^vP*X"
_BINS = 25
"""Bars of a histogram at most."""

_MOST_NAMES = 12
"""Models that are named beside their lines (of more, none), and bars of categories."""

_STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans", "font.size": 9.0, "axes.titlesize": 10.0, "axes.titleweight": "bold", "axes.titlelocation": "left",
    "axes.edgecolor": INK, "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK, "text.color": INK, "axes.spines.top": False,
    "axes.spines.right": False, "axes.grid": True, "grid.color": GRID, "grid.linewidth": 0.7, "axes.axisbelow": True,
    "legend.frameon": False, "figure.facecolor": "white",
}  # fmt: skip


def draw_analysis(analysis: Analysis, folder: Path) -> list[Path]:
    """Write the plots of an analysis: those for which it has numbers.

    Returns:
        The files written.
    """
    return _draw_all(
        folder,
        {
            "aggregation": lambda: _aggregation(analysis),
            "contrasts": lambda: _contrasts(analysis),
            "category_subsets": lambda: _subsets(analysis),
            "targets": lambda: _targets(analysis),
            "correlations": lambda: _correlations(analysis),
        },
    )


def draw_statistics(statistics: ReleaseStatistics, folder: Path) -> list[Path]:
    """Write the plots of a release's statistics: those for which it has numbers.

    Returns:
        The files written.
    """
    return _draw_all(
        folder,
        {
            "images": lambda: _images(statistics),
            "annotations": lambda: _annotations(statistics),
            "language": lambda: _language(statistics),
            "regions": lambda: _map(statistics),
        },
    )


def _draw_all(folder: Path, plots: Mapping[str, Callable[[], Figure | None]]) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        cast(Any, matplotlib.rcParams).update(_STYLE)
        for name, draw in plots.items():
            figure = draw()
            if figure is None:
                continue
            path = folder / f"{name}.png"
            canvas = FigureCanvasAgg(figure)
            canvas.draw()
            picture = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
            picture.save(path, optimize=True, dpi=(DPI, DPI))
            written.append(path)
    return written


def _figure(width: float, height: float, rows: int = 1, columns: int = 1, **more: Any) -> tuple[Figure, Any]:
    figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **more)


def _colour(form: str, place: int = 0) -> str:
    return FORM_COLOURS.get(form, _OTHER_COLOURS[place % len(_OTHER_COLOURS)])


# analyses


def _aggregation(analysis: Analysis) -> Figure | None:
    """Q against Ann and Cat: how far models lie from the diagonal."""
    forms = {
        form: rows
        for form, models in analysis.material.scores.items()
        if (rows := [row for row in models.values() if None not in (row.get("Q"), row.get("Ann"), row.get("Cat"))])
    }
    if not forms:
        return None
    found = {row[0]: row for row in analysis.page.table("aggregation").rows}
    figure, axes = _figure(3.4 * max(2, len(forms)), 3.7, 1, len(forms))
    for axis, (form, rows) in zip(axes[0], forms.items(), strict=True):
        values: Any = np.array([[row[name] for name in ("Q", "Ann", "Cat")] for row in rows], dtype=float)
        low, high = values.min(), values.max()
        pad = 0.05 * (high - low) or 1.0
        axis.plot([low - pad, high + pad], [low - pad, high + pad], color="#999999", linewidth=0.8, zorder=1)
        _, _, rho_annotations, rho_categories, *_ = found[form]
        for column, name, colour, marker, rho in (
            (1, "over annotations", "#0072b2", "o", rho_annotations),
            (2, "over categories", "#d55e00", "^", rho_categories),
        ):
            label = name if rho is None else f"{name}, ρ = {rho:.3f}"
            axis.scatter(values[:, 0], values[:, column], s=16, marker=marker, facecolors="none", edgecolors=colour, label=label, zorder=2)
        axis.set_title(f"{form} ({len(rows)} models)")
        axis.set_xlabel("mean IoU over queries, %")
        axis.set_ylabel("mean IoU, %")
        axis.legend(loc="upper left", fontsize=8)
        axis.set_aspect("equal", adjustable="datalim")
    return figure


def _contrasts(analysis: Analysis) -> Figure | None:
    """Difference between two forms for every model, sorted."""
    contrasts = [contrast for contrast in analysis.contrasts if contrast.scores]
    if not contrasts:
        return None
    most = max(len(contrast.scores) for contrast in contrasts)
    figure, axes = _figure(3.6 * max(2, len(contrasts)), 1.6 + 0.17 * most, 1, len(contrasts), sharex=True)
    for axis, contrast in zip(axes[0], contrasts, strict=True):
        ordered = sorted(contrast.scores.items(), key=lambda item: (item[1][0] - item[1][1], item[0]))
        differences = [first - second for _, (first, second) in ordered]
        colours = [_colour(contrast.first) if d > 0 else _colour(contrast.second) for d in differences]
        axis.barh(range(len(ordered)), differences, color=colours, height=0.75)
        axis.set_yticks(range(len(ordered)), [model for model, _ in ordered], fontsize=7)
        axis.set_ylim(-0.6, len(ordered) - 0.4)
        axis.axvline(0, color=INK, linewidth=0.8)
        axis.grid(visible=False, axis="y")
        higher, lower = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
        shared = "" if contrast.n_annotations is None else f"\n{contrast.n_annotations} shared annotations"
        axis.set_title(f"{contrast.first} − {contrast.second}\nhigher {higher}, lower {lower}{shared}", fontsize=9)
        axis.set_xlabel("difference in mean IoU, points\n(colour: the form that scores higher)")
    return figure


def _subsets(analysis: Analysis) -> Figure | None:
    """Agreement of rankings by number of categories: median and band."""
    if not analysis.stability:
        return None
    figure, axes = _figure(8.0, 0.8 + 2.4 * len(analysis.stability), len(analysis.stability), 2, sharex=True, sharey="col")
    sizes = sorted({one.size for found in analysis.stability.values() for one in found})
    for place, (form, found) in enumerate(analysis.stability.items()):
        for axis, bands, label in (
            (axes[place][0], [one.rho for one in found], "ρ with the full ranking"),
            (axes[place][1], [one.recovery for one in found], "share of the best found"),
        ):
            known = [(one.size, b) for one, b in zip(found, bands, strict=True) if b.median is not None]
            at: Any = [size for size, _ in known]
            low, median, high = ([getattr(b, name) for _, b in known] for name in ("low", "median", "high"))
            axis.fill_between(at, low, high, color=_colour(form, place), alpha=0.2, linewidth=0, label="2.5th to 97.5th percentile")
            axis.plot(at, median, color=_colour(form, place), marker="o", markersize=4, label="median")
            axis.set_xscale("log")
            axis.set_xticks(sizes, [str(size) for size in sizes])
            axis.minorticks_off()
            axis.set_ylim(top=1.03)
            axis.set_title(f"{form} ({len(analysis.material.categories[form].models)} models)")
            axis.set_ylabel(label)
    axes[0][0].legend(loc="lower right", fontsize=8)
    for axis in axes[-1]:
        axis.set_xlabel("categories in the subset")
    return figure


def _targets(analysis: Analysis) -> Figure | None:
    """Models on the two kinds of targets, joined by a line."""
    kinds = ("instanceable", "not_instanceable")
    scores = {(one.form, one.target): one for one in analysis.material.targets}
    forms = [form for form in analysis.material.scores if all((form, kind) in scores for kind in kinds)]
    if not forms:
        return None
    figure, axes = _figure(3.2 * max(2, len(forms)), 3.7, 1, len(forms), sharey=True)
    every = [score for form in forms for kind in kinds for score in scores[form, kind].scores.values()]
    span = max(every) - min(every) or 1.0
    for axis, form in zip(axes[0], forms, strict=True):
        first, second = (scores[form, kind] for kind in kinds)
        is_named = len(first.scores) <= _MOST_NAMES
        for model in first.scores:
            ends = (first.scores[model], second.scores[model])
            axis.plot((0, 1), ends, color=_colour(form), marker="o", markersize=4, linewidth=1, alpha=1.0 if is_named else 0.5)
        if is_named:
            for model, height in _spread_out(second.scores, 0.045 * span).items():
                axis.plot((1.02, 1.1), (second.scores[model], height), color="#aaaaaa", linewidth=0.5)
                axis.annotate(model, (1.12, height), fontsize=7, va="center")
        axis.set_xticks((0, 1), [f"instances\n(n = {first.n})", f"no instances\n(n = {second.n})"])
        axis.set_xlim(-0.2, 1.9 if is_named else 1.2)
        axis.set_title(form)
        axis.grid(visible=False, axis="x")
    axes[0][0].set_ylabel("mean IoU over queries, %")
    return figure


def _spread_out(heights: Mapping[str, float], gap: float) -> dict[str, float]:
    """Move names apart, upwards, until none is nearer to the next than `gap`."""
    placed: dict[str, float] = {}
    lowest = float("-inf")
    for name, height in sorted(heights.items(), key=lambda item: item[1]):
        placed[name] = max(height, lowest + gap)
        lowest = placed[name]
    return placed


def _correlations(analysis: Analysis) -> Figure | None:
    """Rank correlations with their bootstrap bands."""
    rows = analysis.page.table("correlations").rows
    if not rows:
        return None
    figure, axes = _figure(6.4, 1.1 + 0.26 * len(rows))
    axis = axes[0][0]
    for place, (_, _, _, rho, low, high, _) in enumerate(reversed(rows)):
        if low is not None and high is not None:
            axis.plot((low, high), (place, place), color="#0072b2", linewidth=3, alpha=0.35, solid_capstyle="butt")
        axis.plot(rho, place, marker="o", markersize=5, color="#0072b2")
        axis.annotate(f"{rho:.3f}", (rho, place), xytext=(0, 4), textcoords="offset points", fontsize=7, ha="center")
    axis.set_yticks(range(len(rows)), [f"{row[0]} – {row[1]} ({row[2]})" for row in reversed(rows)], fontsize=8)
    axis.set_ylim(-0.7, len(rows) - 0.2)
    axis.set_xlim(right=1.005)
    axis.set_xlabel("Spearman's ρ and its 95 % bootstrap interval over models")
    axis.set_title("Rank correlations (number of models)")
    return figure


# statistics


def _images(statistics: ReleaseStatistics) -> Figure | None:
    samples = statistics.samples
    if not samples.widths_px:
        return None
    figure, axes = _figure(8.4, 6.0, 2, 2)
    _histogram(axes[0][0], samples.widths_px, "Image width", "pixels")
    _histogram(axes[0][1], samples.gsd_m, "Ground sampling distance", "metres per pixel")
    axis = axes[1][0]
    axis.scatter(samples.widths_px, samples.heights_px, s=14, facecolors="none", edgecolors="#0072b2")
    highest = max(*samples.widths_px, *samples.heights_px)
    axis.plot((0, highest), (0, highest), color="#999999", linewidth=0.8)
    axis.set_title("Width and height")
    axis.set_xlabel("width, pixels")
    axis.set_ylabel("height, pixels")
    _histogram(axes[1][1], [size / 1e6 for size in samples.file_bytes], "File size", "megabytes")
    return figure


def _annotations(statistics: ReleaseStatistics) -> Figure | None:
    samples = statistics.samples
    if not samples.instances_per_scene:
        return None
    figure, axes = _figure(10.4, 6.2, 2, 3)
    _histogram(axes[0][0], samples.instances_per_scene, "Instances per image", "instances", y="images")
    _histogram(axes[0][1], samples.boxes_per_annotation, "Boxes per annotation", "boxes", y="annotations")
    axis = axes[0][2]
    shares: Any = 100 * np.array([share for share in samples.box_shares if share > 0])
    if shares.size:
        low, high = np.floor(np.log10(shares.min())), np.ceil(np.log10(shares.max()))
        axis.hist(shares, bins=np.logspace(low, max(high, low + 1), 31), color="#0072b2", edgecolor="white", linewidth=0.4)
        axis.set_xscale("log")
        axis.axvline(1, color="#d55e00", linewidth=1.2)
        small = float((shares < 1).mean())
        axis.annotate(
            f"{100 * small:.1f} % below 1 %", (1, 0.97), xycoords=("data", "axes fraction"), fontsize=8, color="#d55e00", ha="right",
            va="top", xytext=(-4, 0), textcoords="offset points",
        )  # fmt: skip
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.margins(y=0.14)
    _label(axis, "Object scale", "box area, % of the image", "boxes")
    axis = axes[1][0]
    if samples.obb_angles_deg:
        axis.hist(samples.obb_angles_deg, bins=np.arange(0, 181, 10), color="#0072b2", edgecolor="white", linewidth=0.4)
    axis.set_xticks(range(0, 181, 45))
    _label(axis, "Rotation of oriented boxes", "long side, degrees clockwise from the image's right", "boxes")
    _bars(axes[1][1], dict(statistics.categories[:_MOST_NAMES]), "Most frequent categories", "instances")
    _bars(axes[1][2], dict(statistics.domains[:_MOST_NAMES]), "Domains", "instances")
    return figure


def _language(statistics: ReleaseStatistics) -> Figure | None:
    words = {form: counts for form, counts in statistics.samples.words.items() if counts}
    if not set(words) - {"program"}:
        return None
    figure, axes = _figure(8.4, 3.4, 1, 2)
    axis = axes[0][0]
    for place, (form, counts) in enumerate(words.items()):
        share: Any = 100 * np.bincount(counts) / len(counts)
        label = f"{form}, mean {np.mean(counts):.1f}"
        axis.plot(
            range(1, len(share)), share[1:], color=_colour(form, place), marker=_MARKERS[place], markersize=3, linewidth=1.2, label=label
        )
    axis.legend(fontsize=8)
    axis.set_ylim(bottom=0)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    _label(axis, "Words per sentence", "words", "% of sentences")
    axis = axes[0][1]
    for place, (form, (positive, negative)) in enumerate(statistics.polarities.items()):
        axis.barh(place, positive, color=_colour(form, place), height=0.6)
        axis.barh(place, negative, left=positive, color=_colour(form, place), alpha=0.4, height=0.6)
        text = f"{positive:,} + {negative:,}" if negative else f"{positive:,}"
        axis.annotate(text, (positive + negative, place), xytext=(4, 0), textcoords="offset points", fontsize=8, va="center")
    axis.set_yticks(range(len(statistics.polarities)), list(statistics.polarities))
    axis.margins(x=0.22)
    axis.set_ylim(max(2.5, len(statistics.polarities) - 0.5), -0.5)
    axis.grid(visible=False, axis="y")
    _label(axis, "Queries, with an answer + without (pale)", "queries", "")
    return figure


def _map(statistics: ReleaseStatistics) -> Figure | None:
    places = statistics.samples.places
    if not places:
        return None
    figure, axes = _figure(8.4, 4.4)
    axis = axes[0][0]
    land = json.loads(files("trigpoint.analysis").joinpath("regions.geojson").read_text(encoding="utf-8"))
    for feature in land["features"]:
        shape = feature["geometry"]
        for polygon in shape["coordinates"] if shape["type"] == "MultiPolygon" else [shape["coordinates"]]:
            for k, ring in enumerate(polygon):
                axis.fill(
                    *zip(*ring, strict=True), facecolor="#e9e6df" if k == 0 else "white", edgecolor="#bbb6aa", linewidth=0.4, zorder=1
                )
    lon, lat = zip(*places, strict=True)
    axis.scatter(lon, lat, s=26, color="#d55e00", edgecolors="white", linewidths=0.6, zorder=3)
    axis.set_xlim(-180, 180)
    axis.set_ylim(-90, 90)
    axis.set_xticks(range(-180, 181, 60))
    axis.set_yticks(range(-90, 91, 30))
    axis.set_aspect("equal")
    _label(axis, f"Where the {len(places)} images lie", "longitude, degrees", "latitude, degrees")
    return figure


def _bins(values: Sequence[float]) -> Any:
    """Edges of bins: around whole numbers, and one bar of what is all but equal."""
    low, high = min(values), max(values)
    if all(isinstance(value, int) for value in values):
        step = math.ceil((high - low + 1) / _BINS)
        return np.arange(low - 0.5, high + step, step)
    middle, reach = (low + high) / 2, max(high - low, 0.02 * abs(high), 1e-9)
    return np.linspace(middle - reach / 2, middle + reach / 2, _BINS if reach == high - low else 4)


def _histogram(axis: Any, values: Sequence[float], title: str, x: str, y: str = "images") -> None:
    """A histogram with median and mean; on a log axis where the largest value is far from the smallest."""
    if values:
        low, high = min(values), max(values)
        is_wide = low > 0 and high / low > 30
        bins = np.geomspace(low, high, _BINS) if is_wide else _bins(values)
        axis.hist(values, bins=bins, color="#0072b2", edgecolor="white", linewidth=0.4)
        if is_wide:
            axis.set_xscale("log")
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        median, mean = float(np.median(values)), float(np.mean(values))
        axis.axvline(median, color="#d55e00", linewidth=1.2, label=f"median {median:,.4g}")
        axis.axvline(mean, color="#009e73", linewidth=1.2, linestyle="--", label=f"mean {mean:,.4g}")
        axis.legend(fontsize=8)
    axis.yaxis.set_major_locator(MaxNLocator(integer=True))
    _label(axis, title, x, y)


def _bars(axis: Any, counts: Mapping[str, int], title: str, x: str) -> None:
    names = list(counts)
    axis.barh(range(len(names)), list(counts.values()), color="#0072b2", height=0.7)
    for place, n in enumerate(counts.values()):
        axis.annotate(f"{n:,}", (n, place), xytext=(3, 0), textcoords="offset points", fontsize=7, va="center")
    axis.set_yticks(range(len(names)), [name.replace("_", " ") for name in names], fontsize=7)
    axis.invert_yaxis()
    axis.margins(x=0.18)
    axis.grid(visible=False, axis="y")
    _label(axis, title, x, "")


def _label(axis: Any, title: str, x: str, y: str) -> None:
    axis.set_title(title)
    axis.set_xlabel(x)
    axis.set_ylabel(y)
