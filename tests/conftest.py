"""What holds for all tests: properties are tried with the same cases each time, unless asked."""

import os

from hypothesis import settings

settings.register_profile("same", derandomize=True)
settings.register_profile("new")
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))
