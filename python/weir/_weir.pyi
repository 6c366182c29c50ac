"""The compiled half of weir (crates/weir-py)."""

from collections.abc import Mapping

def version() -> str:
    """The version of the Rust side."""

def build_info() -> dict[str, str]:
    """What this was built with: ``rustc``, ``profile``, ``target``."""

def check_plan(json: str) -> None:
    """Checks a plan.

    Raises:
        ValueError: the text is not a plan; the message says where and what was expected.
    """

def plan_schema() -> str:
    """The JSON schema of a plan, as text."""

def sample(seed: int, stream: str, distribution: Mapping[str, object] | str, n: int) -> list[float]:
    """``n`` draws of ``distribution`` from the substream ``stream`` of ``seed``.

    Args:
        distribution: such as ``{"kind": "exponential", "mean": 3.0}``, or its JSON.

    Raises:
        ValueError: no such distribution, or a parameter is out of range.
    """
