"""A folder with one sample's pipeline, without its schedule, for a real Airflow to run."""

from __future__ import annotations

import shutil
from pathlib import Path

from demo.environment import REPOSITORY, set_up_environment, without
from demo.land import without_schedule, write_settings

SAMPLES = REPOSITORY / "include" / "samples" / "ad_impressions"
DAG = "ad_impressions"


def one_pipeline(folder: Path) -> dict[str, str]:
    """Write `pipelines/ad_impressions.yaml` and settings with the root `root`; the environment
    that names them, and nothing else of the platform's."""
    pipelines, settings = folder / "pipelines", folder / "settings.yaml"
    without_schedule(REPOSITORY / "include" / "pipelines", pipelines)
    for file in pipelines.iterdir():
        if file.stem != DAG:
            file.unlink()
    write_settings(settings, folder / "root", pipelines)
    return {**without(set_up_environment(), "TIDEMARK_"), "TIDEMARK_SETTINGS": str(settings)}


def land_sample(root: Path, file: str, name: str = "") -> None:
    """One file of the sample, under another name where one is given."""
    landing = root / "landing" / DAG
    landing.mkdir(parents=True, exist_ok=True)
    shutil.copy(SAMPLES / file, landing / (name or Path(file).name))
