"""Makes the modules of this folder importable; skips where nothing can be confined, with the reason."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from weir import _programs, confine

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True, params=["landlock", "namespaces"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The mechanism that guards files: each that this host has."""
    if (state := confine.state()).kind in {"none", "off"}:
        pytest.skip(f"programs cannot be confined here: {state.why or 'WEIR_UNCONFINED is set'}")
    asked: str = request.param
    tried = subprocess.run(
        [_programs.find("weir-confine"), f"--kind={asked}", "true"], capture_output=True, text=True, check=False
    )
    if tried.returncode != 0:
        pytest.skip(f"this host has no {asked}: {tried.stderr.strip()}")
    options = confine._options
    monkeypatch.setattr(confine, "_options", lambda policy: [f"--kind={asked}", *options(policy)])
    return asked
