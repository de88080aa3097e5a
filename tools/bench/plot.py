"""Draws the rows that have a ratio: shardfs beside the native file or the raw limit, with each row's target."""

import math

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402


def draw(rows, path):
    """rows: support.Row; those without a ratio are left out. One bar a row; the tick is its target."""
    shown = [row for row in rows if row.ratio is not None and "µs" not in row.what and "ms" not in row.what.split()]
    figure, axis = plt.subplots(figsize=(10, 0.34 * len(shown) + 1.2))
    places = range(len(shown))
    colours = ["#b03a2e" if row.met is False else "#2e6f9e" for row in shown]
    axis.barh(places, [min(row.ratio, 2) for row in shown], color=colours, height=0.62)
    for place, row in zip(places, shown):
        axis.text(min(row.ratio, 2) + 0.02, place, f"{row.ratio:.2f}", va="center", fontsize=8)
        target = _number(row.target)
        if target is not None:
            axis.plot([target, target], [place - 0.42, place + 0.42], color="black", linewidth=1.6)
    axis.axvline(1, color="grey", linewidth=0.8, linestyle=":")
    axis.set_yticks(places, [row.what for row in shown], fontsize=8)
    axis.invert_yaxis()
    axis.set_xlabel("ratio to what stands beside it (native file, local copy, raw GETs); black: the target; cut off at 2")
    axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _number(text):
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
