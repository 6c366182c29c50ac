"""The error of hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weir._errors import MethodError

if TYPE_CHECKING:
    from weir.stages._contract import Answer

__all__ = ["HookError"]


class HookError(MethodError):
    """A hook failed, took too long or answered nonsense; the message has its stage, its command and its last words."""

    def __init__(self, text: str, answer: Answer | None = None) -> None:
        """``answer`` is what the hook said before it failed, if that can be understood."""
        super().__init__(text)
        self.answer = answer
