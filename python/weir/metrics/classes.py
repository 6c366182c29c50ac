"""Traffic classes of a scheduler: the share, loss and delay of each.

Every metric takes the class as a parameter: ``class.share[class: af]``; a class within a class is ``outer.inner``, and
``outer`` means all classes within it together.
Without a selection, the link is the bottleneck of the flows under test.
"""

from __future__ import annotations

import numpy as np

from weir.metrics.bounds import NON_NEGATIVE, SHARE
from weir.metrics.capacity import capacity_bps, guaranteed_bps
from weir.metrics.errors import MetricError
from weir.metrics.registry import Category, Param, View, metric
from weir.metrics.results import Floats, Ints, Series, Values
from weir.metrics.window import Window, class_members
from weir.plan import guaranteed_shares
from weir.run import Link

__all__: list[str] = []

_CLASS = Param(
    "class", "name", None, "Class of the link's queue; one with classes inside has these together.", required=True
)
_TABLES = ("classes", "flows")
_VIEWS = (View.PROVIDER,)


def _wire(window: Window, name: str) -> list[tuple[Link, Ints, Floats, Floats]]:
    """Bit/s on the wire of the class, for each link: ends and widths (s) of intervals, and rates."""
    found = window.class_intervals(name, "out_packets", "out_bytes")
    return [
        (link, ends, widths, 8 * (size + link.overhead_bytes * packets) / widths)
        for link, ends, widths, (packets, size) in found
    ]


def _series(found: list[tuple[Link, Ints, Floats]]) -> Series:
    return Series("link", [link.id for link, *_ in found], [ends for _, ends, _ in found], [v for *_, v in found])


@metric(
    "class.throughput",
    symbol="X_c(t)",
    formula="8 · IP bytes of the class that left / length of the interval",
    unit="bit/s",
    bounds=NON_NEGATIVE,
    category=Category.THROUGHPUT,
    scope="link",
    views=_VIEWS,
    source="DataTAG figure 6",
    tables=_TABLES,
    params=(_CLASS,),
)
def class_throughput(window: Window, *, class_: str) -> Series:
    """IP bytes that a link carries for one class; one value per interval of ``measure.links``."""
    found = window.class_intervals(class_, "out_bytes")
    return _series([(link, ends, 8 * size / widths) for link, ends, widths, (size,) in found])


@metric(
    "class.share",
    symbol="U_c(t)",
    formula="8 · (IP bytes of the class + overhead · packets) / (C_l(t) · length of the interval)",
    unit="1",
    bounds=SHARE,
    category=Category.THROUGHPUT,
    scope="link",
    views=_VIEWS,
    source="DataTAG figure 6",
    tables=_TABLES,
    params=(_CLASS,),
    percent=True,
)
def class_share(window: Window, *, class_: str) -> Series:
    """Share of its capacity that a link transmits for one class, counted on the wire, as a scheduler allocates it.

    The shares of all classes add up to ``utilisation``.
    """
    return _series(
        [
            (link, ends, _over(rate, capacity_bps(window.plan, link.id, ends, widths)))
            for link, ends, widths, rate in _wire(window, class_)
        ]
    )


@metric(
    "class.efficiency",
    symbol="QEF_c(t)",
    formula="share of the link transmitted for the class / share that its weight, quantum or rate guarantees",
    unit="1",
    bounds=NON_NEGATIVE,
    category=Category.THROUGHPUT,
    scope="link",
    views=_VIEWS,
    source="DataTAG eq. 3 and 4",
    tables=_TABLES,
    params=(_CLASS,),
)
def class_efficiency(window: Window, *, class_: str) -> Series:
    """QoS efficiency factor on the wire: 1 if a class uses what it is guaranteed, above 1 if it uses more.

    A weight guarantees its part of the link (``wrr``, ``wfq``), a quantum its part of a round (``drr``, and ``ets``
    without strict classes), a rate its part of the link's (``htb``), unless the rates exceed what the class around or
    the link has. Undefined in intervals without a guarantee.

    ``qef`` says the same of what receivers got: it leaves out retransmissions, and packets that are lost behind the
    queue. Raises MetricError if the scheduler never guarantees the class a share.
    """
    return _series(
        [
            (link, ends, _over(rate, _guaranteed(window, link, class_, ends, widths)))
            for link, ends, widths, rate in _wire(window, class_)
        ]
    )


def _over(rate: Floats, capacity: Floats) -> Floats:
    """A rate over a capacity; not a number where that is 0."""
    share = np.full(len(rate), np.nan)
    np.divide(rate, capacity, out=share, where=capacity > 0)  # not of an unknown one either
    return share


def _guaranteed(window: Window, link: Link, name: str, ends: Ints, widths: Floats) -> Floats:
    """The mean rate that a class is guaranteed in intervals, nan where it has no guarantee."""
    class_members(link, name)
    if not any(shares[name] for _, shares in guaranteed_shares(window.plan.typed, link.id)):
        raise MetricError(f"class {name!r} of link {link.name!r} has no guaranteed share")
    return guaranteed_bps(window.plan, link.id, name, ends, widths)


@metric(
    "class.loss",
    symbol="p_c",
    formula="Σ packets of the class dropped / Σ packets of the class arrived",
    unit="1",
    bounds=SHARE,
    category=Category.LOSS,
    scope="link",
    views=_VIEWS,
    source="RFC 5166 section 2.2",
    tables=_TABLES,
    params=(_CLASS,),
    percent=True,
)
def class_loss(window: Window, *, class_: str) -> Values:
    """Packets of one class that a link's queue drops over packets of the class that arrive there."""
    ids, values = [], []
    for link, _, _, (dropped, arrived) in window.class_intervals(class_, "drop_packets", "in_packets"):
        total = float(np.sum(arrived))
        ids.append(link.id)
        values.append(float(np.sum(dropped)) / total if total else np.nan)
    return Values("link", ids, np.array(values))


@metric(
    "class.delay",
    symbol="q_c(t)",
    formula="mean time in the queue of the packets of the class in an interval",
    unit="s",
    bounds=NON_NEGATIVE,
    category=Category.DELAY,
    scope="link",
    views=_VIEWS,
    source="thesis Table 2.III",
    tables=_TABLES,
    params=(_CLASS,),
)
def class_delay(window: Window, *, class_: str) -> Series:
    """Queueing delay of one class at a link, weighted by packets, as ``queue.delay`` is for all of them."""
    found = window.class_intervals(class_, "queue_delay_ns", "out_packets")
    return Series(
        "link",
        [link.id for link, *_ in found],
        [ends for _, ends, _, _ in found],
        [delay * 1e-9 for *_, (delay, _) in found],
        [packets for *_, (_, packets) in found],
    )
