"""Where `spark_session` was in version 0.1; it can be imported from here for one version more."""

import warnings
from typing import Any


def __getattr__(name: str) -> Any:
    if name != "spark_session":
        raise AttributeError(f"{__name__} has no {name}; see pregao.lake.spark.")
    from pregao.lake.spark import spark_session

    words = "pregao.lake.session is now pregao.lake.spark: import spark_session from there."
    warnings.warn(words, DeprecationWarning, stacklevel=2)
    return spark_session
