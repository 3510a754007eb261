"""Settings of all tests."""

from hypothesis import settings

settings.register_profile("ckptstore", deadline=None)  # a busy machine is no failure
settings.load_profile("ckptstore")
