"""What the tuned scripts have in common: the session, and JSON lines or a topic into a table of raw
rows.

Jars on the class path, no resolution at each start; few shuffle and snapshot partitions, no user
interface. Spark puts the folder of a script on Python's path, and so this module.
"""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

SCHEMA = "at TIMESTAMP, key STRING, amount BIGINT"

SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
}
# Of a streaming query: adaptive execution has nothing to win there.
STREAMING = {"spark.sql.adaptive.enabled": "false"}


def tuned_session(name, more):
    """A session with these settings, and with `more`."""
    builder = SparkSession.builder.appName(name)
    for setting, value in {**SETTINGS, **more}.items():
        builder = builder.config(setting, value)
    return builder.getOrCreate()


def messages(spark, servers, topic):
    """The values of a topic's messages by Spark's own source, as JSON objects."""
    stream = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("kafka.isolation.level", "read_committed")
        .load()
    )
    value = F.from_json(F.col("value").cast("string"), SCHEMA)
    return stream.select(value.alias("row")).select("row.*")


def ingest(spark, source, raw, checkpoint):
    """Rows with a time and a key, as far as they are new, into the Delta table `raw`. The source:
    a folder of JSON lines, or `kafka:SERVERS/TOPIC`."""
    if source.startswith("kafka:"):
        events = messages(spark, *source.removeprefix("kafka:").split("/"))
    else:
        events = spark.readStream.schema(SCHEMA).json(source)
    accepted = events.where("at IS NOT NULL AND key IS NOT NULL")
    (
        accepted.writeStream.format("delta")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start(raw)
        .awaitTermination()
    )
