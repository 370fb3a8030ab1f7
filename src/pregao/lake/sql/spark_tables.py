"""Spark session with every table of a lake, and every view over them, without any jars."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pregao.lake.execution.delta_connector import DELTA_EXTENSION
from pregao.lake.execution.spark_session import is_remote, spark_session
from pregao.lake.storage.delta import arrow_schema, visible_files
from pregao.lake.storage.filesystem import Location
from pregao.lake.storage.lake_store import LakeStore
from pregao.lake.storage.local_files import check_links
from pregao.lake.views.definitions import define_views, view_names
from pregao.lake.views.sql import SPARK, select_text

_WORD = re.compile(r"\w+")
# Hadoop's names of the S3 settings of a location.
_S3A = {
    "AWS_ACCESS_KEY_ID": "fs.s3a.access.key",
    "AWS_SECRET_ACCESS_KEY": "fs.s3a.secret.key",
    "AWS_SESSION_TOKEN": "fs.s3a.session.token",
    "AWS_REGION": "fs.s3a.endpoint.region",
    "AWS_ENDPOINT_URL": "fs.s3a.endpoint",
}


def connect(
    path: str | os.PathLike[str] | Location,
    spark: SparkSession | None = None,
    master: str | None = None,
    **conf: str,
) -> LakeSession:
    """Open a lake in Spark: every table is a view of the returned session.

    For each table (``trades``) there is also a view for people (``v_trades``); see
    `pregao.lake.views`. A view is opened when it is first used, and then shows the table at that
    time; `LakeSession.refresh` updates all views. Half-committed units of a process that died are
    completed first. Settings: ``connect(path, **{"spark.driver.memory": "4g"})``.
    """
    lake = LakeStore(path)
    lake.require()
    lake.roll_forward()
    session = spark or spark_session(master, conf)
    return _remote_session(lake, session) if is_remote(session) else LakeSession(lake, session)


class _Tables:
    """Additions of a lake's session to Spark's own: its tables, opened when they are named."""

    lake: LakeStore
    _unopened: set[str]

    def sql(self, sqlQuery: str, *args: Any, **kwargs: Any) -> DataFrame:  # noqa: N803
        """Run a query; see `SparkSession.sql`."""
        self.open_named(sqlQuery)
        spark: Any = super()
        frame: DataFrame = spark.sql(sqlQuery, *args, **kwargs)
        return frame

    def open_named(self, text: str) -> None:
        """Open the tables and views that a query names."""
        words = _WORD.findall(text.lower())
        # SHOW TABLES must list all views.
        self._open(set(self._unopened) if words[:1] == ["show"] else self._unopened & set(words))

    def table(self, tableName: str) -> DataFrame:  # noqa: N803
        """Return a table or view by name; see `SparkSession.table`."""
        self._open(self._unopened & {tableName.strip("`").lower()})
        spark: Any = super()
        frame: DataFrame = spark.read.table(tableName)
        return frame

    @property
    def catalog(self) -> Any:
        """Catalog of the session; opens all tables, so that it lists them."""
        self._open(set(self._unopened))
        spark: Any = super()
        return spark.catalog

    @property
    def read(self) -> Any:
        """Reader of the session, which knows the lake's tables too."""
        spark: Any = super()
        reader = spark.read
        reader.table = self.table
        return reader

    def refresh(self) -> None:
        """Reopen all views at their next use, to show later ingests."""
        self._unopened = _names(self.lake)

    def _open(self, names: Iterable[str]) -> None:
        spark: Any = self
        wanted = set(names)
        tables = self.lake.table_names() if wanted else []
        for name in sorted(wanted.intersection(tables)):
            table_frame(self.lake, name, spark).createOrReplaceTempView(name)
            self._unopened.discard(name)
        for view in define_views(self.lake, sorted(wanted.difference(tables)), tables):
            # Also opens the view's tables.
            self.sql(select_text(view, SPARK)).createOrReplaceTempView(view.name)
            self._unopened.discard(view.name)


def _names(lake: LakeStore) -> set[str]:
    """Return the names of a lake's tables and of the views over them."""
    tables = lake.table_names()
    return {*tables, *view_names(tables)}


class LakeSession(_Tables, SparkSession):
    """Spark session with the tables of a lake, each opened when it is first named."""

    def __init__(self, lake: LakeStore, spark: SparkSession) -> None:
        super().__init__(spark.sparkContext, spark._jsparkSession)
        self.lake = lake
        self._unopened = _names(lake)


def _remote_session(lake: LakeStore, spark: Any) -> Any:
    """Return a `LakeSession` on Spark Connect, without Java's parts."""
    from pyspark.sql.connect.session import SparkSession as RemoteSession

    class RemoteLakeSession(_Tables, RemoteSession):
        """Session of Spark Connect with the tables of a lake."""

        def __init__(self) -> None:
            self.__dict__.update(spark.__dict__)
            self.lake = lake
            self._unopened = _names(lake)
            self._shared = spark  # owner of the connection, kept open by this reference

        def __del__(self) -> None:
            """Leave the connection to the session that opened it."""

    return RemoteLakeSession()


def table_frame(lake: LakeStore, name: str, spark: SparkSession) -> DataFrame:
    """Return a table as a DataFrame with exactly the files, columns and types of its log."""
    table = lake.delta(name)
    location = lake.table_location(name)
    names = sorted(visible_files(table)["path"].to_pylist())
    check_links(location, names)
    if _reads_delta(spark):
        return spark.read.format("delta").load(_spark_uri(location, spark))
    schema = StructType.fromJson(json.loads(table.schema().to_json()))
    paths = [location.join(path) for path in names]
    if not paths:
        return spark.createDataFrame([], schema)
    if not _java_reads(location, spark):
        return _frame_through_python(location, table, schema, paths, spark)
    # Use names literally: Spark would read brackets and stars in them as patterns.
    reader = spark.read.schema(schema).option("basePath", _spark_uri(location, spark))
    frame = reader.option("__globPaths__", "false").parquet(
        *[_spark_uri(path, spark) for path in paths]
    )
    return frame.select([f"`{field.name}`" for field in schema])


def _reads_delta(spark: SparkSession) -> bool:
    """Whether the session was started with Delta's own extension."""
    return DELTA_EXTENSION in (spark.conf.get("spark.sql.extensions", "") or "")


def _spark_uri(location: Location, spark: SparkSession) -> str:
    """Return a location as Hadoop's URI, and configure its settings."""
    if location.is_local:
        return f"file://{location.uri}"
    if location.scheme != "s3":
        return location.uri
    if is_remote(spark):
        return "s3a" + location.uri.removeprefix("s3")  # the server has its own settings
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    for key, value in s3a_settings(location).items():
        hadoop.setIfUnset(key, value)
    return "s3a" + location.uri.removeprefix("s3")


def s3a_settings(location: Location) -> dict[str, str]:
    """Return the settings of Hadoop's S3 client for a location."""
    known = location.storage_options
    settings = {name: known[key] for key, name in _S3A.items() if key in known}
    if "AWS_ENDPOINT_URL" in known and known.get("AWS_VIRTUAL_HOSTED_STYLE_REQUEST") != "true":
        settings["fs.s3a.path.style.access"] = "true"
    if known.get("AWS_SKIP_SIGNATURE") == "true":
        settings["fs.s3a.aws.credentials.provider"] = (
            "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"
        )
    return settings


def _java_reads(location: Location, spark: SparkSession) -> bool:
    """Whether Spark's Java has a filesystem for this location (S3's is an optional jar)."""
    if location.is_local:
        return True
    if is_remote(spark):
        return False  # cannot be queried
    scheme = "s3a" if location.scheme == "s3" else location.scheme
    java: Any = spark.sparkContext._jvm
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    try:
        java.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, hadoop)
    except Exception:
        # Java reports it by exceptions of several classes.
        return False
    return True


def _frame_through_python(
    location: Location, table: Any, schema: StructType, paths: list[Location], spark: SparkSession
) -> DataFrame:
    """Read the files in Python tasks: slower, since all columns are read, but on any filesystem."""
    declared = arrow_schema(table)
    partition = table.metadata().partition_columns

    def read(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for uri in batch.column(0).to_pylist():
                yield from _batches(Location(uri, location.settings), declared, partition)

    rows = [(path.uri,) for path in paths]
    width = len(rows)
    if not is_remote(spark):
        width = min(width, 4 * spark.sparkContext.defaultParallelism)
    files = spark.createDataFrame(rows, "uri string").repartition(width)
    return files.mapInArrow(read, schema)


def _batches(file: Location, declared: Any, partition: list[str]) -> Iterator[Any]:
    """Yield the rows of a file in the table's columns; absent ones are null."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    stored = pa.schema([field for field in declared if field.name not in partition])
    parts = dict(part.partition("=")[::2] for part in file.uri.split("/") if "=" in part)
    dataset = ds.dataset(file.path, schema=stored, filesystem=file.filesystem, format="parquet")
    for batch in dataset.to_batches():
        columns = [
            pa.repeat(pa.scalar(parts[field.name]).cast(field.type), batch.num_rows)
            if field.name in partition
            else batch.column(field.name)
            for field in declared
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=declared.remove_metadata())
