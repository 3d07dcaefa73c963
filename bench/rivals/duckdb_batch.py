"""The floor: the whole aggregate in one batch query over the same JSON files, by DuckDB.

python duckdb_batch.py INPUT ROOT
"""

import sys
from pathlib import Path

import duckdb

source, root = sys.argv[1:]
Path(root).mkdir(parents=True, exist_ok=True)
duckdb.sql(
    f"""
    COPY (
        SELECT time_bucket(INTERVAL 10 minutes, "at") AS window_start, key,
            count(*) AS events, sum(amount)::BIGINT AS amount
        FROM read_json('{source}/*.json', format = 'newline_delimited',
            columns = {{'at': 'TIMESTAMP', key: 'VARCHAR', amount: 'BIGINT'}})
        WHERE "at" IS NOT NULL AND key IS NOT NULL
        GROUP BY ALL
    ) TO '{root}/gold.parquet'
    """
)
