"""Makes ``hosts_support`` importable; the places."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from hosts_support import NAMES, Make, elsewhere, guest, namespace

from weir.hosts.local import Local
from weir.hosts.place import Place


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Makes a place by its name; it is closed in the end."""
    with ExitStack() as stack:

        def make_(name: str) -> Place:
            match name:
                case "machine":
                    place: Place = Local()
                case "namespace":
                    place = namespace(stack)
                case "guest":
                    place = guest()
                case _:
                    root = tmp_path / "elsewhere"
                    root.mkdir()
                    place = elsewhere(root)
            return stack.enter_context(place)

        yield make_


@pytest.fixture(params=NAMES)
def place(request: pytest.FixtureRequest, make: Make) -> Place:
    """Each place in turn."""
    return make(request.param)
