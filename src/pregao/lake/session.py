"""Deprecated location of `spark_session` (version 0.1), kept for one more version."""

import warnings
from typing import Any


def __getattr__(name: str) -> Any:
    if name != "spark_session":
        raise AttributeError(f"{__name__} has no {name}; see pregao.lake.spark.")
    from pregao.lake.spark import spark_session

    message = "pregao.lake.session is now pregao.lake.spark: import spark_session from there."
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    return spark_session
