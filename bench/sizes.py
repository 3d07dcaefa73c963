"""How much is measured: as small as a test can, as `make bench`, as `make bench-long`.

`make bench` takes an hour and a quarter on two cores, much of it for `growth`: 120 processes of
20 CPU seconds. The page of the results says what each figure took.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Sizes:
    """Rows of input, and how often each thing is done."""

    small_rows: int
    warm_ups: int  # that are not counted; of a small run, they make the tables
    repetitions: int
    setting_repetitions: int
    growth_runs: int
    growth_controls: int  # runs of an early copy beside runs of what has grown
    throughput: tuple[tuple[int, int], ...]  # rows, repetitions
    history: tuple[int, int]
    late_repetitions: int
    migrated_rows: int
    migrations: int
    cores_rows: int
    stateful_rows: int  # in one batch: a join's pairs grow with their square
    state_keys: int
    settings_keys: tuple[int, ...]
    settings_runs: int
    chain: int  # deltas without a snapshot
    chain_repetitions: int
    published_windows: int
    windows_of_a_date: int
    large_gold_rows: int
    checkpoint_files: int
    checked_state: tuple[int, int]  # partitions, versions
    judged_lines: int  # of each kind
    kafka: tuple[int, int]  # messages, repetitions
    pipelines: tuple[int, int]  # and runs of each
    many: int  # pipelines that one command runs
    told_commits: int  # of a history, before a story is told
    names: int  # rows of a large lookup


USUAL = Sizes(
    small_rows=2_000,
    warm_ups=1,
    repetitions=2,
    setting_repetitions=1,
    growth_runs=60,
    growth_controls=4,
    throughput=((1_000_000, 2), (5_000_000, 1)),
    history=(500_000, 5_000_000),
    late_repetitions=3,
    migrated_rows=10_000_000,
    migrations=2,
    cores_rows=500_000,
    stateful_rows=500_000,
    state_keys=1_000_000,
    settings_keys=(300, 200_000),
    settings_runs=16,
    chain=60,
    chain_repetitions=5,
    published_windows=5_000_000,
    windows_of_a_date=1_000_000,
    large_gold_rows=1_400_000,
    checkpoint_files=100_000,
    checked_state=(1_000, 100),
    judged_lines=100_000,
    kafka=(500_000, 1),
    pipelines=(500, 200),
    many=10,
    told_commits=4_320,
    names=5_000_000,
)
LONG = replace(
    USUAL,
    repetitions=10,
    setting_repetitions=5,
    growth_runs=300,
    growth_controls=20,
    throughput=((1_000_000, 5), (5_000_000, 3), (20_000_000, 1)),
    history=(1_000_000, 10_000_000),
    late_repetitions=10,
    migrations=5,
    cores_rows=5_000_000,
    settings_runs=60,
    kafka=(5_000_000, 3),
    many=100,
    chain=150,
    chain_repetitions=10,
)
SMALLEST = Sizes(
    small_rows=400,
    warm_ups=0,
    repetitions=1,
    setting_repetitions=1,
    growth_runs=2,
    growth_controls=1,
    throughput=((2_000, 1),),
    history=(200_000, 400_000),
    late_repetitions=1,
    migrated_rows=2_000,
    migrations=1,
    cores_rows=2_000,
    stateful_rows=30_000,  # so many that some windows close
    state_keys=2_000,
    settings_keys=(300,),
    settings_runs=3,
    chain=12,
    chain_repetitions=1,
    published_windows=2_000,
    windows_of_a_date=14_400,
    large_gold_rows=3_000,
    checkpoint_files=2_000,
    checked_state=(20, 30),
    judged_lines=500,
    kafka=(2_000, 1),
    pipelines=(3, 5),
    many=2,
    told_commits=20,
    names=2_000,
)
