"""Nodes of the platforms that EnOSlib knows, asked in a process of a Python that has it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from weir.reserve._provider import Provider, State
from weir.reserve._request import Request
from weir.reserve.command import Command
from weir.reserve.errors import RequestError, ReserveError

__all__ = ["Enoslib"]

_FAR = Path(__file__).with_name("_enoslib_far.py")
_TIMEOUT_S = 3600.0
"""Its answer to `state` prepares the nodes."""


class Enoslib(Provider):
    """The provider ``enoslib``: an executable of ours that speaks the contract of :mod:`weir.reserve.command`."""

    name = "enoslib"
    keys: ClassVar[Mapping[str, str]] = {
        "platform": "The platform: g5k, static, vagrant, chameleonkvm, ...",
        "conf": "A file with the configuration that EnOSlib's `from_dictionary` reads, YAML or JSON.",
        "role": "The role whose hosts are taken; by default all.",
        "python": "The Python that has EnOSlib; by default weir's.",
    }
    paths: ClassVar[frozenset[str]] = frozenset({"conf", "python"})
    confirms = False

    def check(self, request: Request) -> None:
        if re.fullmatch("[a-z0-9_]{1,40}", request.text("platform")) is None:
            raise RequestError("platform", "expected a platform of EnOSlib's, such as g5k or static")
        if not request.text("conf"):
            raise RequestError("conf", "is missing: the file with EnOSlib's configuration")
        if request.front_end is not None:
            raise RequestError("front_end", "EnOSlib runs here; its own configuration says how it reaches a platform")

    def submit(self, request: Request, name: str) -> str:
        return _COMMAND.submit(_asking(request), name)

    def find(self, request: Request, name: str) -> str | None:
        return _COMMAND.find(_asking(request), name)

    def state(self, request: Request, identity: str) -> State:
        return _COMMAND.state(_asking(request), identity)

    def release(self, request: Request, identity: str, name: str) -> None:
        _COMMAND.release(_asking(request), identity, name)


class _Adapter(Command):
    """Tells the executable the content of the configuration, too."""

    timeout_s = _TIMEOUT_S

    def _ask(self, request: Request, question: Mapping[str, Any]) -> dict[str, Any]:
        return super()._ask(request, {**question, "conf": _conf(request)})


_COMMAND = _Adapter()


def _conf(request: Request) -> Any:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    file = Path(request.text("conf"))
    try:
        said = YAML(typ="safe", pure=True).load(file.read_text(encoding="utf-8"))
        return json.loads(json.dumps(said))
    except (OSError, UnicodeDecodeError) as error:
        raise ReserveError(f"{file}: {getattr(error, 'strerror', None) or error}") from error
    except (YAMLError, TypeError, ValueError) as error:
        raise ReserveError(f"{file}: expected EnOSlib's configuration as YAML or JSON: {error}") from error


def _asking(request: Request) -> Request:
    """The same request of the executable."""
    python = request.text("python") or sys.executable
    program = (python, "-I", str(_FAR), request.text("platform"))
    return replace(request, options=(*request.options, ("program", program)))
