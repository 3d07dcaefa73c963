"""The floor: the whole aggregate in one batch query over the same JSON files, by Polars.

python polars_batch.py INPUT ROOT
"""

import sys
from pathlib import Path

import polars as pl

source, root = sys.argv[1:]
Path(root).mkdir(parents=True, exist_ok=True)
columns = {"at": pl.String, "key": pl.String, "amount": pl.Int64}
(
    pl.scan_ndjson(f"{source}/*.json", schema=columns)
    .with_columns(pl.col("at").str.to_datetime("%Y-%m-%dT%H:%M:%S%.fZ", time_unit="us"))
    .drop_nulls(["at", "key"])
    .group_by(pl.col("at").dt.truncate("10m").alias("window_start"), "key")
    .agg(pl.len().cast(pl.Int64).alias("events"), pl.col("amount").sum())
    .collect(engine="streaming")
    .write_parquet(f"{root}/gold.parquet")
)
