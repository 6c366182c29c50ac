"""``weir.execute``: executes a scenario file from Python."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weir.methods import DEFAULT

if TYPE_CHECKING:
    from weir.metrics import MeasuredRun
    from weir.scenario import Scenario, Version

__all__ = ["execute"]


def execute(
    scenario: str | Path | Scenario,
    folder: str | Path,
    *,
    method: str = DEFAULT,
    version: Version = "full",
    set: Mapping[str, Any] | None = None,  # noqa: A002  (as the command line calls it)
    workers: int | None = None,
    fresh: bool = False,
    force: bool = False,
) -> MeasuredRun:
    """Executes a scenario and opens the run; keeps existing results of the same run in ``folder``, as ``weir run``
    does.

    >>> run = weir.execute("two.yaml", "runs/two", method="sim", set={"transport.cc": "htcp"})  # doctest: +SKIP

    Args:
        scenario: a YAML file, or the result of :func:`weir.scenario.load` (then without ``version`` and ``set``).
        folder: of the run; created, or continued if it holds the same run.
        method: ``sim``, ``lab`` or ``emul``.
        version: ``full``, ``quick`` or ``realtime``.
        set: values to change, by their path in the scenario, as ``--set`` does: numbers, truth values, lists, mappings,
            or YAML text.
        workers: number of processes; default: one per processor.
        fresh: whether another run in ``folder`` is replaced.
        force: whether to execute plans that this machine cannot carry in real time.

    Returns:
        The run, opened. ``run.warnings`` lists everything that makes it untrustworthy.

    Raises:
        weir.scenario.ScenarioError: the scenario is wrong; the error lists every problem.
        weir.methods.MethodError: the method is unknown, or cannot execute this plan, or not on this machine.
        weir.engine.EngineError: ``folder`` holds another run, or a cell failed; complete cells are kept.
        ValueError: ``version`` or ``set`` with a loaded scenario; or ``set`` has a value without YAML equivalent.
        OSError: ``folder`` cannot be written.
    """
    from weir import engine
    from weir.metrics import open_run
    from weir.run import RunWarning
    from weir.scenario import yaml_texts

    changes = yaml_texts(set or {})
    loaded = _load(scenario, version, changes)
    result = engine.run(
        loaded,
        Path(folder),
        method=method,
        workers=workers,
        settings=_settings(version, changes),
        fresh=fresh,
        force=force,
    )
    if result.failures:
        first = result.failures[0]
        text = f"{len(result.failures)} of {result.cells} cells failed, the first {first.place}: {first.error}"
        raise engine.EngineError(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RunWarning)
        return open_run(result.folder)


def _load(scenario: str | Path | Scenario, version: Version, changes: Mapping[str, str]) -> Scenario:
    from weir.scenario import Scenario, load

    if isinstance(scenario, Scenario):
        if version != "full" or changes:
            raise ValueError("a scenario that is loaded has its version and values; give them to weir.scenario.load")
        return scenario
    return load(Path(scenario), quick=version == "quick", realtime=version == "realtime", overrides=changes)


def _settings(version: Version, changes: Mapping[str, str]) -> dict[str, Any]:
    """The settings that distinguish a changed run from the scenario itself, as ``weir run`` writes them."""
    changed: dict[str, Any] = {} if version == "full" else {version: True}
    return changed | ({"set": dict(changes)} if changes else {})
