"""Runs that answer questions: what ``weir.open`` and ``weir.execute`` return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, overload

import polars as pl

from weir import run
from weir.metrics import expect, timeseries
from weir.metrics.frame import compute
from weir.run import Run

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from weir.metrics.expect import Verdict

__all__ = ["MeasuredRun", "MetricOptions", "open_run"]


class MeasuredRun(Run):
    """A run, opened for reading, with its metrics, expressions and claims."""

    @overload
    def metrics(
        self, *names: str, as_: Literal["polars"] = "polars", **options: Unpack[MetricOptions]
    ) -> pl.DataFrame: ...
    @overload
    def metrics(self, *names: str, as_: Literal["pandas"], **options: Unpack[MetricOptions]) -> pd.DataFrame: ...
    @overload
    def metrics(self, *names: str, as_: Literal["arrow"], **options: Unpack[MetricOptions]) -> pa.Table: ...
    def metrics(self, *names: str, as_: str = "polars", **options: Unpack[MetricOptions]) -> Any:
        """Metrics of this run as a tidy frame; see :func:`weir.metrics.compute` for the options and columns.

        >>> run.metrics("goodput.mean", "jain", by=["cc", "rtt"], phase="twelve")  # doctest: +SKIP

        Raises:
            MetricError: no such metric, phase, factor or flow, or a table it needs was not recorded.
            RunError: a table cannot be read.
        """
        frame = compute(self, *names, **options)
        if as_ == "polars":
            return frame
        if as_ == "pandas":
            return frame.to_pandas()
        if as_ == "arrow":
            return frame.to_arrow()
        raise ValueError(f"as_={as_!r}: expected 'polars', 'pandas' or 'arrow'")

    def series(
        self,
        name: str,
        *,
        phase: str | None = None,
        flows: str | None = None,
        where: Mapping[str, object] | None = None,
    ) -> pl.DataFrame:
        """A metric of this run as a function of time; see :func:`weir.metrics.series`.

        Raises:
            MetricError: no such metric, phase or flow; or it is no function of time.
            RunError: a table cannot be read.
        """
        return timeseries.series(self, name, phase=phase, flows=flows, where=where)

    def evaluate(
        self,
        expression: str,
        *,
        where: Mapping[str, object] | None = None,
        phase: str | None = None,
        level: float = 0.95,
    ) -> pl.DataFrame:
        """Evaluates an expression at each combination of the factors that it leaves free; ``docs/checks.md`` has the
        language.

        >>> run.evaluate("3TB / goodput.aggregate@late")  # doctest: +SKIP

        Args:
            expression: a metric, arithmetic, a function over a factor, or a comparison.
            where: factor values to keep; a list means any of them.
            phase: default phase of metrics that name none; ``None``: the whole run.
            level: confidence level of the intervals.

        Returns:
            The run's factors (null if the expression does not depend on them), ``expression``, ``unit`` (``bit/s``,
            ``s``, ``B``, ``1``, or a product of powers), ``value`` (mean over repeats), ``word`` (a comparison's
            outcome; the factor value of ``argmin`` and ``argmax``), ``n`` (repeats), ``ci_low``, ``ci_high``
            (null with one repeat), ``censored`` (the true value is larger), ``note`` (why it is undefined).

        Raises:
            MetricError: the expression cannot be read, or it has no value in any cell.
            RunError: a table cannot be read.
        """
        return expect.frame_of(
            self, expression, expect.tabulate(self, expression, where=where, phase=phase, level=level)
        )

    def check(self, check: str, *, where: Mapping[str, object] | None = None, level: float = 0.95) -> Verdict:
        """The verdict on a claim: it holds, fails or is undecided; ``docs/checks.md`` has the rules.

        >>> run.check("jain@late >= 0.9", where={"cc": "reno"}).outcome  # doctest: +SKIP
        'holds'

        Raises:
            ExpectError: the check cannot be read.
        """
        expect.parse(check)
        return expect.evaluate(self, [expect.Expectation(check, where=where)], level)[0]

    def verdicts(self, level: float = 0.95) -> list[Verdict]:
        """The verdicts on the claims of the run's own scenario, in their order."""
        return expect.evaluate(self, self.manifest.get("expect", ()), level)


class MetricOptions(TypedDict, total=False):
    """Options of :meth:`MeasuredRun.metrics`; :func:`weir.metrics.compute` documents them."""

    by: str | Sequence[str] | None
    phase: str | Sequence[str] | None
    flows: str | Sequence[str] | None
    where: Mapping[str, object] | None
    level: float
    interval: Literal["t", "bootstrap"]


def open_run(path: str | Path, *, verify: bool = True) -> MeasuredRun:
    """Opens a run folder, or a single cell folder, as :func:`weir.run.open_run` does.

    Args:
        path: the folder.
        verify: compares each file that is read with its checksum.

    Raises:
        RunError: there is no such folder, it is not a run, or no cell of it is complete.
        DamageError: a manifest, or a file that a manifest names, does not match its checksum, or is missing.
    """
    opened = run.open_run(path, verify=verify)
    return MeasuredRun(opened.path, opened.cells, opened.manifest, opened.notes, opened.intended)
