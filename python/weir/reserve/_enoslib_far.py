"""Speaks the contract of reservations for EnOSlib: a program of its own, for a Python that has EnOSlib but not weir.

Usage: ``python -I _enoslib_far.py PLATFORM``, a question as JSON on standard input, which also has the configuration
``conf``. What EnOSlib prints goes to standard error. A platform that can say whether it has a job of a name is asked;
others are taken to be there.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
from typing import Any

__all__ = ["main"]


def main() -> None:
    """Answers one question."""
    question = json.load(sys.stdin)
    with contextlib.redirect_stdout(sys.stderr):
        try:
            said = _answer(question, sys.argv[1])
        except Exception as error:
            said = {"error": f"{type(error).__name__}: {error}"[:1000]}
    json.dump(said, sys.stdout)


def _answer(question: dict[str, Any], platform: str) -> dict[str, Any]:
    """The answer, as docs/reservation.md has it."""
    name, request = question.get("id") or question["name"], question["request"]
    provider = _provider(platform, question["conf"], name, request)
    gone = _knows(provider) and question["do"] != "submit" and not provider.is_created()
    if question["do"] == "submit":
        provider.async_init()
        return {"id": name}
    if question["do"] == "find":
        return {"id": None if gone else name}
    if question["do"] == "release":
        provider.destroy(wait=True)
        return {}
    if gone:
        return {"state": "ended", "why": "EnOSlib knows no such job"}
    roles, _ = provider.init()
    return {"state": "active", "nodes": _nodes(roles, request.get("role"))[: request["nodes"]]}


def _knows(provider: Any) -> bool:
    """Whether the platform says itself if a reservation is there."""
    base = importlib.import_module("enoslib.infra.provider").Provider
    return type(provider).is_created is not base.is_created


def _provider(platform: str, conf: Any, name: str, request: dict[str, Any]) -> Any:
    """EnOSlib's provider, under the reservation's name and time."""
    place = f"enoslib.infra.enos_{platform}"
    made = importlib.import_module(f"{place}.configuration").Configuration.from_dictionary(conf)
    if hasattr(made, "job_name"):
        made.job_name = name
    if hasattr(made, "walltime"):
        seconds = int(request["time"].rstrip("s"))
        made.walltime = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    module = importlib.import_module(f"{place}.provider")
    wanted = platform.replace("_", "").lower()
    found = [one for one in vars(module) if one.lower() in (wanted, f"enos_{wanted}")]
    if not found:
        raise ValueError(f"EnOSlib has no provider for {platform}")
    return getattr(module, found[0])(made)


def _nodes(roles: Any, role: str | None) -> list[dict[str, Any]]:
    """Hosts of a role, or all, each once."""
    if role and role not in roles:
        raise ValueError(f"there is no role {role}; there are: {', '.join(sorted(roles))}")
    found = {}
    for host in (host for one in ([role] if role else roles) for host in roles[one]):
        about = {"port": host.port or 0, "user": host.user or ""}
        found[host.address] = {"name": host.alias or host.address, "address": host.address, **about}
    return list(found.values())


if __name__ == "__main__":
    main()
