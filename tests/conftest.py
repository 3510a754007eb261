"""Settings of all tests."""

import signal

from hypothesis import settings

settings.register_profile("ckptstore", deadline=None)  # a busy machine is no failure
settings.load_profile("ckptstore")

signal.signal(signal.SIGINT, signal.default_int_handler)
"""Also where the tests run behind `&` in a script, which has SIGINT ignored, by every child as well."""
