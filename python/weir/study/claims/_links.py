"""Links to scenarios in the text of a page."""

from __future__ import annotations

import re
from collections.abc import Collection

__all__ = ["file_of", "linked"]

_RATIONALE = "see the rationale"


def file_of(scenario: str) -> str:
    """The file of a scenario of the catalogue, from the folder of the pages."""
    return f"../../scenarios/{scenario}.yaml"


def linked(text: str, scenarios: Collection[str], own: str = "") -> str:
    """``text`` with links at the names of scenarios, and at "see the rationale", which is that of ``own``.

    Code is left as it is, except for the name of a scenario alone: names also occur in commands.
    """
    if not scenarios:
        return text
    names = "|".join(sorted((re.escape(name) for name in scenarios), key=len, reverse=True))
    parts = text.split("`")
    for place, part in enumerate(parts):
        if place % 2 and part in scenarios:
            parts[place] = f"[{part}]({file_of(part)})"
        elif place % 2:
            parts[place] = f"`{part}`"
        else:
            found = re.sub(rf"(?<![\w/\[-])({names})(?![\w/-])", lambda m: f"[{m[0]}]({file_of(m[0])})", part)
            parts[place] = found.replace(_RATIONALE, f"see [the rationale]({file_of(own)})") if own else found
    return "".join(parts)
