"""Processor time of a run on real machines: that of sending ends, of receiving ends, and of the emulated network.

The values are shares of one processor: 0.5 is half a second of processor time a second, 1.5 one and a half processors.
They belong to processes, each of which may have the ends of many flows, so they count all flows of a run together.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import polars as pl

from weir.metrics.bounds import NON_NEGATIVE
from weir.metrics.errors import MetricError
from weir.metrics.registry import Category, View, metric
from weir.metrics.results import Result, Values
from weir.metrics.window import Window

__all__: list[str] = []

_SENDERS, _RECEIVERS, _BOTH, _NETWORK = range(4)
"""Values of the column ``part``."""


def _metric(name: str, symbol: str, what: str) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    return metric(
        name,
        symbol=symbol,
        formula=f"Σ processor time of {what} / length of the window",
        unit="1",
        bounds=NON_NEGATIVE,
        category=Category.DEPLOYABILITY,
        scope="group",
        views=(View.END_USER, View.PROVIDER),
        source="RR-6874 section 4.1 and figure 4 (CPU utilization)",
        tables=("processor", "flows"),
    )


@_metric("processor.senders", "c_s", "the processes with sending ends")
def processor_senders(window: Window) -> Values:
    """Processors that the processes with sending ends use, in user mode and in system calls.

    What the kernel does for a host outside of their system calls is not counted: by ``emul``, packets come to a host
    while the emulator writes them, so that the kernel handles them, and sends what they permit, in the time of
    ``processor.network``. Programs that a scenario names (``kind: iperf3``, ``kind: command``) are not counted.
    """
    return _share(window, _SENDERS)


@_metric("processor.receivers", "c_r", "the processes with receiving ends")
def processor_receivers(window: Window) -> Values:
    """Processors that the processes with receiving ends use, in user mode and in system calls.

    The remarks on ``processor.senders`` apply.
    """
    return _share(window, _RECEIVERS)


@_metric("processor.network", "c_n", "the emulator without waiting")
def processor_network(window: Window) -> Values:
    """Processors that the emulator uses, without the time in which it waits by spinning.

    Includes the kernel's work for packets that come to hosts. Undefined without an emulator.
    """
    return _share(window, _NETWORK)


def _share(window: Window, part: int) -> Values:
    rows = window.data.processor
    if len(window.flows) < len(window.plan.flows):
        raise MetricError("counts the ends of all flows together: a process has the ends of many; select all flows")
    if part < _BOTH and (rows["part"] == _BOTH).any():
        raise MetricError("is undefined: a process of this run has sending and receiving ends")
    begin, end = window.whole_span
    some = rows.filter((pl.col("part") == part) & (pl.col("time_ns") > begin) & (pl.col("time_ns") <= end))
    spent = float(some.select(pl.col("user_ns") + pl.col("system_ns")).sum().item()) if len(some) else math.nan
    return Values("all", [0], np.array([spent / (end - begin) if end > begin else math.nan]))
