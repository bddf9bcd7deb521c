"""`progress.png`: the night as a picture. Every trial, the kept ones labelled, the running best with its noise band, failures at the bad edge.

Drawn with matplotlib's objects, never with its global state; matplotlib is imported here only when a picture is wanted. It changes nothing.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

from harness.artifacts import gains
from harness.artifacts.gains import believed_value
from harness.artifacts.study import Study
from harness.artifacts.trial_row import TrialRow
from harness.trial import FAILED, Status
from harness.views import status
from harness.views.text import flatten, plural

WIDTH, HEIGHT, DPI = 12.0, 7.0, 100
MOST_LABELS, LABEL = 12, 30
GREEN, GREY, RED, INK, BAND = "#1a7f37", "#9aa4af", "#c0392b", "#24292f", "#1a7f37"
Point = tuple[int, float]
Box = tuple[float, float, float, float]
LETTER, HEIGHT_OF_LABEL = 6.9, 15.0


def progress(study: Study, path: Path) -> None:
    """Draw the study so far; the file is replaced whole."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, HEIGHT), dpi=DPI, facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.075, 0.09, 0.905, 0.755))
    _dress(figure, axes, study)
    points = _points(study)
    if points:
        _draw(axes, study, points)
    else:
        axes.text(0.5, 0.5, "nothing is measured yet", transform=axes.transAxes, ha="center", va="center", color=GREY, fontsize=15)
        axes.set_yticks([])
    draft = path.with_name(f".{path.name}.tmp")
    figure.savefig(draft, format="png")
    draft.replace(path)


def _points(study: Study) -> list[tuple[TrialRow, float]]:
    return [(row, value) for row in study.rows if (value := believed_value(row)) is not None]


def _dress(figure: Any, axes: Any, study: Study) -> None:
    """Titles, axes, grid."""
    started = study.started
    tag, metric = (started.tag, started.metric) if started else ("?", "metric")
    better = "higher is better" if gains.sign(study) < 0 else "lower is better"
    unit = "bits per byte, " if metric == "val_bpb" else ""
    axes.set_xlabel("trial (0 is the baseline)", fontsize=11, color=INK)
    axes.set_ylabel(f"{flatten(metric, 40)} ({unit}{better})", fontsize=11, color=INK)
    figure.text(0.075, 0.947, f"Study {flatten(tag, 60)}", fontsize=16, weight="bold", color=INK)
    figure.text(0.075, 0.908, _subtitle(study), fontsize=10.5, color="#57606a")
    axes.grid(axis="y", color="#eaeef2", linewidth=0.9)
    axes.set_axisbelow(True)
    axes.ticklabel_format(axis="y", useOffset=False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color("#d0d7de")
    axes.tick_params(colors="#57606a", labelsize=10)


def _subtitle(study: Study) -> str:
    failed = sum(study.counts.get(s.value, 0) for s in FAILED)
    text = f"{plural(study.trials, 'trial')}: {plural(status.keeps(study), 'kept', 'kept')}, {failed} failed"
    return f"{text}. Gain {status.gain_text(study)}."


def _draw(axes: Any, study: Study, points: list[tuple[TrialRow, float]]) -> None:
    last = max(1, study.rows[-1].trial)
    kept = [(row.trial, value) for row, value in points if row.status is Status.KEEP]
    rest = [(row.trial, value) for row, value in points if row.status is not Status.KEEP]
    axes.set_ylim(*limits(study, [v for _, v in kept], [v for _, v in rest]))
    axes.set_xlim(-0.02 * last - 0.4, last * 1.02 + 0.6)
    axes.xaxis.get_major_locator().set_params(integer=True)
    size = 44 if last < 60 else 24 if last < 400 else 7
    if kept:
        style = {"s": size * 1.5, "color": GREEN, "edgecolor": "white", "linewidth": 0.8 if last < 400 else 0.2}
        axes.scatter(*zip(*kept, strict=True), zorder=4, label="kept", **style)
    _running_best(axes, study, kept, last)
    _discarded(axes, study, rest, size)
    _failures(axes, study, size)
    _labels(axes, study, kept)
    axes.legend(loc="lower left", bbox_to_anchor=(-0.008, 1.005), frameon=False, fontsize=9.5, ncols=7, labelcolor=INK, columnspacing=1.6)


def limits(study: Study, kept: list[float], rest: list[float]) -> tuple[float, float]:
    """A range that shows all kept trials and most others; what is far off is marked at the edge instead of squashing the picture."""
    sign = gains.sign(study)
    sigma = study.noise.sigma if study.noise else 0.0
    near = sorted(sign * v for v in rest)
    goods = sorted(sign * v for v in kept) or near[:1]
    span = max(goods[-1] - goods[0], 6 * sigma, 1e-6)
    usual = near[int(0.85 * (len(near) - 1))] if near else goods[-1]
    worst = min(max(usual, goods[-1]), goods[-1] + 0.9 * span)
    best = min(goods[0], near[0] if near else goods[0])
    low, high = best - 0.3 * span, worst + 0.16 * span
    return (low, high) if sign > 0 else (-high, -low)


def _running_best(axes: Any, study: Study, kept: list[Point], last: int) -> None:
    """The incumbent's reading over time, one sigma around it, and the baseline."""
    if not kept:
        return
    xs, ys = [t for t, _ in kept] + [last + 0.5], [v for _, v in kept] + [kept[-1][1]]
    sigma = study.noise.sigma if study.noise else None
    if sigma:
        axes.fill_between(
            xs,
            [y - sigma for y in ys],
            [y + sigma for y in ys],
            step="post",
            color=BAND,
            alpha=0.11,
            linewidth=0,
            label="± sigma of one reading",
        )
    axes.step(xs, ys, where="post", color=GREEN, linewidth=1.8, zorder=3, label="incumbent")
    base = gains.reference(study)
    if base is not None:
        said = f"baseline {base:.4f}{' (same seed)' if status.paired(study) else ''}"
        axes.axhline(base, color="#57606a", linewidth=1.1, linestyle=(0, (5, 4)), zorder=2, label=said)


def _at_edge(axes: Any, study: Study, part: float) -> float:
    """A height near the edge of the picture where bad values are; `part` is the distance from it, as a share of the height."""
    low, high = axes.get_ylim()
    return float(high - part * (high - low) if gains.sign(study) > 0 else low + part * (high - low))


def _discarded(axes: Any, study: Study, rest: list[Point], size: float) -> None:
    low, high = axes.get_ylim()
    inside = [(t, v) for t, v in rest if low <= v <= high]
    beyond = [t for t, v in rest if not low <= v <= high]
    if inside:
        axes.scatter(*zip(*inside, strict=True), s=size, color=GREY, linewidth=0, alpha=0.85, zorder=2, label="discarded")
    if beyond:
        mark, edge = "^" if gains.sign(study) > 0 else "v", _at_edge(axes, study, 0.06)
        axes.scatter(beyond, [edge] * len(beyond), s=size, color=GREY, linewidth=0, marker=mark, zorder=2, label="off the scale")


def _failures(axes: Any, study: Study, size: float) -> None:
    failed = [row.trial for row in study.rows if believed_value(row) is None]
    if failed:
        edge = _at_edge(axes, study, 0.02)
        axes.scatter(
            failed,
            [edge] * len(failed),
            s=size,
            color=RED,
            marker="x",
            linewidth=1.5,
            zorder=3,
            label="blocked or failed" if study.counts.get(Status.BLOCKED.value) else "failed",
        )


def _labels(axes: Any, study: Study, kept: list[Point]) -> None:
    """Short titles of the keeps that gained most, on the good side of the line, where no other label and no part of the line is."""
    titles = {row.trial: flatten(row.title, LABEL) for row in study.rows}
    sign = gains.sign(study)
    found = [(sign * (before[1] - after[1]), after) for before, after in pairwise(kept)]
    chosen = sorted(after for _, after in sorted(found, reverse=True)[:MOST_LABELS])
    taken = _line_boxes(axes, kept)
    frame = axes.get_window_extent()
    for trial, value in chosen:
        x, y = axes.transData.transform((trial, value))
        width = LETTER * len(titles[trial]) + 4
        spot = _free_spot((x, y, width, -sign), taken, (frame.x0 + 2, frame.y0 + 2, frame.x1 - 2, frame.y1 - 2))
        if spot is None:
            continue
        taken.append(spot)
        foot = (min(max(x, spot[0] + 2), spot[2] - 2), spot[3] - 2 if sign > 0 else spot[1] + 2)
        leader = axes.transData.inverted().transform([(x, y), foot])
        axes.plot(leader[:, 0], leader[:, 1], color="#afb8c1", linewidth=0.8, zorder=2.5)
        axes.annotate(
            titles[trial], (spot[0] + 2, (spot[1] + spot[3]) / 2), xycoords="figure pixels", va="center_baseline", fontsize=8.5, color=INK,
            zorder=5, parse_math=False, bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.8},
        )  # fmt: skip


def _line_boxes(axes: Any, kept: list[Point]) -> list[Box]:
    """The steps of the incumbent's line in pixels, a little fattened."""
    corners = [axes.transData.transform(point) for point in kept]
    flat = [(a[0] - 5, a[1] - 5, b[0] + 5, a[1] + 5) for a, b in pairwise(corners)]
    steep = [(b[0] - 5, min(a[1], b[1]) - 5, b[0] + 5, max(a[1], b[1]) + 5) for a, b in pairwise(corners)]
    end = axes.get_window_extent().x1
    return [*flat, *steep, *((x - 5, y - 5, end, y + 5) for x, y in corners[-1:])]


def _free_spot(around: tuple[float, float, float, float], taken: list[Box], frame: Box) -> Box | None:
    """The nearest box for a label: right below the point or left of it, then lower and lower (higher, where higher is better)."""
    x, y, width, up = around
    for row in range(16):
        for left in (x - width + 6, x - width / 2, x - 6):
            near = y + up * (9 + row * HEIGHT_OF_LABEL)
            box = (left, min(near, near + up * HEIGHT_OF_LABEL), left + width, max(near, near + up * HEIGHT_OF_LABEL))
            inside = box[0] >= frame[0] and box[1] >= frame[1] and box[2] <= frame[2] and box[3] <= frame[3]
            if inside and not any(_overlap(box, other) for other in taken):
                return box
    return None


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
