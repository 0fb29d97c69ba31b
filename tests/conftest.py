"""What all tests share: no deadlines on slow machines, the same examples every time in CI."""

import os

from hypothesis import settings

settings.register_profile("house", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("house")
