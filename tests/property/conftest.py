"""No example has a deadline: how long one takes depends on what else the machine does."""

from hypothesis import settings

settings.register_profile("perdure", deadline=None)
settings.load_profile("perdure")
