"""Does run 60 cost what run 10 costs? The platform's care of its checkpoints beside none: CPU
seconds of the job, files in the checkpoints, and changes of state that the next start replays.

A machine is not equally fast for half an hour. So a copy is kept of all that there was after an
early run, and in the end the copy and what has grown run side by side.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from matplotlib.axes import Axes

from bench.contenders import NAME, OURS, Workspace, pipeline_content, write_settings
from bench.figure import Figure, Goal
from bench.inputs import write_events
from bench.measured import Cost, cost_of, median, spread
from bench.sizes import Sizes
from tidemark.pipeline.load import load_pipeline
from tidemark.pipeline.settings.kept_batches import KEPT_BY_ENGINE
from tidemark.pipeline.settings.settings import load_settings
from tidemark.pipeline.settings.state import STATE_DEFAULTS
from tidemark.upkeep.pipeline_housekeeping import check_no_housekeeping_refused, housekeep_pipeline
from tidemark.upkeep.state_check import check_pipeline

_EARLY, _LATE = slice(4, 24), slice(-20, None)
_SHOWN = 5
# In the middle of the early runs.
_COPIED_AFTER = 14
_GOAL = 1.1
# The default of 100 is reached by run 50 only: until then files must grow, with any care.
# And lists of files stay for ten minutes, which is how far apart runs are, but not these.
_KEPT = {KEPT_BY_ENGINE: "10", "spark.sql.streaming.fileSource.log.cleanupDelay": "1s"}
# What the engine has where nobody says anything.
_ENGINE_DEFAULTS = dict.fromkeys(STATE_DEFAULTS, "false")


@dataclass
class Runs:
    """The runs of the same pipeline, with our care of its checkpoints or without; what each cost,
    and then, by folder, the files below the root and the longest chain that a start replays."""

    name: str
    place: Workspace
    spark: Mapping[str, str]
    housekept: bool
    costs: list[Cost] = field(default_factory=list)
    files: list[Counter[str]] = field(default_factory=list)
    replayed: list[int] = field(default_factory=list)

    def run_once(self) -> None:
        """The job in a process of its own, and between runs what the Dag does to checkpoints."""
        content = pipeline_content(self.place.source, spark=dict(self.spark))
        settings, pipeline = write_settings(self.place.root, content)
        log = self.place.root / "runs.log"
        self.costs.append(cost_of(OURS.start(self.place), OURS.environment(self.place), log))
        loaded, found = load_settings(settings), load_pipeline(pipeline)
        if self.housekept:
            run_id = f"housekeeping-{len(self.costs)}"
            check_no_housekeeping_refused(
                NAME, housekeep_pipeline(found, loaded, run_id, datetime.now(UTC))
            )
        checks = [one.state for one in check_pipeline(found, loaded) if one.state]
        self.replayed.append(max(check.longest for check in checks))
        self.files.append(_files(self.place.root))

    @property
    def checkpoint_files(self) -> list[int]:
        """Files in the checkpoints, run by run: all of them are listed between runs."""
        return [
            sum(count for folder, count in one.items() if folder.startswith("checkpoints"))
            for one in self.files
        ]


@dataclass(frozen=True)
class Control:
    """CPU seconds of runs at the same time: of what has grown, and of its copy after a run."""

    after: int
    grown: Sequence[float]
    early: Sequence[float]

    @property
    def ratio(self) -> float:
        return median(self.grown) / median(self.early)


def measure(sizes: Sizes, folder: Path) -> list[Figure]:
    """So many runs of both, each with a small new file; the two of one number at the same time."""
    source = folder / "source"
    ours = Runs("with our care", Workspace(source, folder / "with"), _KEPT, True)
    early = Runs("the early copy", Workspace(source, folder / "early"), _KEPT, True)
    spark = {**_ENGINE_DEFAULTS, **_KEPT}
    plain = Runs("without", Workspace(source, folder / "without"), spark, False)
    copied_after, unread = min(_COPIED_AFTER, sizes.growth_runs - 1), []
    for number in range(sizes.growth_runs):
        files = write_events(source, number * sizes.small_rows, sizes.small_rows)
        _run_both(ours, plain)
        if number + 1 == copied_after:
            own = shutil.ignore_patterns("settings.yaml", "pipelines", "runs.log")
            shutil.copytree(ours.place.root, early.place.root, ignore=own)
        elif number + 1 > copied_after:
            unread += files
    for file in unread:  # by the copy, which is to read what is new only
        file.unlink()
    grown = Runs(ours.name, ours.place, _KEPT, True)
    # The copy's watermark leaps in its first run, which is not counted.
    for number in range(sizes.growth_runs, sizes.growth_runs + 1 + sizes.growth_controls):
        write_events(source, number * sizes.small_rows, sizes.small_rows)
        _run_both(grown, early)
    cpu = [[cost.cpu for cost in one.costs[1:]] for one in (grown, early)]
    return [_figure((ours, plain), Control(copied_after, *cpu))]


def _run_both(one: Runs, other: Runs) -> None:
    with ThreadPoolExecutor(2) as both:
        for done in [both.submit(runs.run_once) for runs in (one, other)]:
            done.result()


def _files(root: Path) -> Counter[str]:
    """Files by the folder that they are in, two levels below the pipeline's."""
    found: Counter[str] = Counter()
    for path in root.rglob("*"):
        if path.is_file():
            parts = path.relative_to(root).parts[:-1]
            names = [part for part in parts if not part.isdigit() and "=" not in part]
            found["/".join(names[1:] if names[:1] == [NAME] else names)] += 1
    return found


def _figure(both: Sequence[Runs], control: Control) -> Figure:
    series: dict[str, Sequence[float]] = {}
    for one in both:
        series[f"CPU seconds, {one.name}"] = [cost.cpu for cost in one.costs]
    for one in both:
        series[f"checkpoint files, {one.name}"] = one.checkpoint_files
    for one in both:
        series[f"longest chain, {one.name}"] = one.replayed
    rows = [
        [name, f"{_early(v):,.1f}", f"{_late(v):,.1f}", f"{_ratio(v):.2f}"]
        for name, v in series.items()
    ]
    numbers = {
        one.name: {
            "costs": [vars(cost) for cost in one.costs],
            "files": [dict(files) for files in one.files],
            "replayed": one.replayed,
        }
        for one in both
    }
    ratios = {name: _ratio(values) for name, values in series.items()}

    def draw(axes: Axes) -> None:
        right = axes.twinx()
        for one, colour in zip(both, ("tab:blue", "tab:orange"), strict=True):
            runs = range(1, len(one.costs) + 1)
            cpu = [cost.cpu for cost in one.costs]
            axes.plot(runs, cpu, color=colour, label=f"CPU seconds, {one.name}")
            label = f"files, {one.name}"
            right.plot(runs, one.checkpoint_files, color=colour, linestyle="dashed", label=label)
        axes.set_xlabel("run")
        axes.set_ylabel("CPU seconds of the job")
        right.set_ylabel("files in the checkpoints")
        for side in (axes, right):
            side.set_ylim(0, side.get_ylim()[1] * 1.25)
        axes.figure.legend(loc="upper center", bbox_to_anchor=(0.5, 0.88), ncols=2)

    columns = ("per run", "runs 5–24", "last 20", "ratio")
    title = f"Growth over {len(both[0].costs)} runs (medians)"
    numbers |= {"ratios": ratios, "control": vars(control)}
    goals = [
        Goal(f"{name}: the last 20 runs / runs 5–24", ratios[name], _GOAL)
        for name in (f"{what}, {both[0].name}" for what in ("CPU seconds", "checkpoint files"))
    ]
    grown = f"CPU seconds of run {len(both[0].costs)} and later / of a copy after run"
    goals.append(Goal(f"{grown} {control.after}, at the same time", control.ratio, _GOAL))
    return Figure("growth", title, columns, rows, _told(both[0], control), numbers, draw, goals)


def _told(ours: Runs, control: Control) -> list[str]:
    kept = _KEPT[KEPT_BY_ENGINE]
    grown = ours.files[-1].copy()
    grown.subtract(ours.files[min(23, len(ours.files) - 1)])
    folders = [f"+{count:,} {name}" for name, count in grown.most_common(_SHOWN) if count > 0]
    still = ", ".join(folders) or "nothing"
    return [
        "Our care: the platform's state settings, housekeeping and state check between runs. "
        "Without: the engine's defaults.",
        f"Both keep {kept} batches, so that what is kept is full by run 20 or so.",
        "The longest chain is what the next start replays of a partition, in deltas.",
        f"At the same time, in the end: {spread(control.grown)} CPU seconds, and "
        f"{spread(control.early)} of a copy of all that there was after run {control.after}: "
        f"{control.ratio:.2f}. Between the runs above, the machine's speed changes too.",
        f"What still grows with our care, in files since run 24: {still}.",
    ]


def _early(values: Sequence[float]) -> float:
    return median(values[_EARLY] or values)


def _late(values: Sequence[float]) -> float:
    return median(values[_LATE])


def _ratio(values: Sequence[float]) -> float:
    return _late(values) / _early(values) if _early(values) else 1.0
