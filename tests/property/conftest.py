"""Settings of Hypothesis: a busy machine is no failure."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("contrail", deadline=None)
settings.load_profile("contrail")
