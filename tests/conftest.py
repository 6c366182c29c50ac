"""What all tests share."""

from __future__ import annotations

import os

import hypothesis

# Property tests draw the same examples in every run, and a busy machine fails none; `WEIR_RANDOM=1` draws others.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None)
if not os.environ.get("WEIR_RANDOM"):
    hypothesis.settings.load_profile("repeatable")
