"""Lake on Spark: the session, tasks that run on it, tables as views, archives for clusters.

Names are imported on first use: not all of them need PySpark.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pregao.extras import imported

if TYPE_CHECKING:
    from pregao.lake.spark.java import find_java as find_java
    from pregao.lake.spark.packing import driver_launcher as driver_launcher
    from pregao.lake.spark.packing import folder_name as folder_name
    from pregao.lake.spark.packing import pack as pack
    from pregao.lake.spark.remote import is_remote as is_remote
    from pregao.lake.spark.runner import counter as counter
    from pregao.lake.spark.runner import map_on_spark as map_on_spark
    from pregao.lake.spark.runner import merge_on_spark as merge_on_spark
    from pregao.lake.spark.runner import on_spark as on_spark
    from pregao.lake.spark.runner import spare_the_collector as spare_the_collector
    from pregao.lake.spark.runner import take_memory as take_memory
    from pregao.lake.spark.session import machine_memory as machine_memory
    from pregao.lake.spark.session import missing_interpreter as missing_interpreter
    from pregao.lake.spark.session import parse_conf as parse_conf
    from pregao.lake.spark.session import spark_defaults as spark_defaults
    from pregao.lake.spark.session import spark_session as spark_session
    from pregao.lake.spark.spark_errors import sentence as sentence
    from pregao.lake.spark.starting import StartingSpark as StartingSpark
    from pregao.lake.spark.views import LakeSession as LakeSession
    from pregao.lake.spark.views import connect as connect
    from pregao.lake.spark.views import table_frame as table_frame

# fmt: off
_HOMES = {
    "java": ["find_java"],
    "packing": ["driver_launcher", "folder_name", "pack"],
    "remote": ["is_remote"],
    "runner": [
        "counter", "map_on_spark", "merge_on_spark", "on_spark", "spare_the_collector",
        "take_memory",
    ],
    "session": [
        "machine_memory", "missing_interpreter", "parse_conf", "spark_defaults", "spark_session",
    ],
    "spark_errors": ["sentence"],
    "starting": ["StartingSpark"],
    "views": ["LakeSession", "connect", "table_frame"],
}
# fmt: on
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"{__name__} has no {name}")
    with imported():
        return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
