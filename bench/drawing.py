"""How figures are drawn: lying bars, each with its number and its spread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from bench.measured import median

# For each name, from top to bottom: for each series the values of all repetitions.
Found = Mapping[str, Mapping[str, Sequence[float]]]


def bars(axes: Axes, found: Found, unit: str, digits: int = 1) -> None:
    """A bar to the median, with its number; a thin line from the smallest to the largest value.

    A name may lack a series. All bars have the same unit, which is written below them.
    """
    series = list(dict.fromkeys(what for values in found.values() for what in values))
    height = 0.8 / len(series)
    for number, what in enumerate(series):
        values = {row: some[what] for row, some in enumerate(found.values()) if what in some}
        middles = [median(some) for some in values.values()]
        spreads = [(median(some) - min(some), max(some) - median(some)) for some in values.values()]
        drawn = axes.barh(
            [row + (number - (len(series) - 1) / 2) * height for row in values],
            middles,
            0.9 * height,
            xerr=list(zip(*spreads, strict=True)) if any(map(any, spreads)) else None,
            error_kw={"linewidth": 1, "capsize": 2},
            label=what,
        )
        axes.bar_label(drawn, [f"{one:,.{digits}f}" for one in middles], padding=4, fontsize=8)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(found)), list(found))
    axes.invert_yaxis()
    axes.set_xlabel(unit)
    axes.margins(x=0.12)
    if len(series) > 1:
        axes.legend()
