"""CoDel: Linux' ``codel``, and the parts shared with FQ-CoDel."""

from __future__ import annotations

from weir.plan import CodelParams, CodelQueue, FqCodelQueue, Link
from weir.queues._discipline import Discipline, Written, ecn, limits, microseconds, too_short

__all__ = ["Codel", "law"]


class Codel(Discipline):
    """``codel``, whose limit is in packets."""

    names = ("codel",)
    marks_word = 6

    def advise(self, written: Written) -> None:
        if written.values["target"] > written.values["interval"]:
            written.warn("target", "`target` is above `interval`; RFC 8289 advises 5 to 10 % of it")
        longest = written.size_bytes("size") * 8_000_000_000 // max(written.rate_bps, 1)
        for key in ("target", "ce_threshold"):
            if (written.values.get(key) or 0) > longest:
                text = f"no packet waits as long as `{key}`: a full queue takes {longest / 1e6:.3g} ms to drain"
                written.warn(key, text)

    def patience_ns(self, link: Link) -> int | None:
        """CoDel drops nothing within its interval, however much waits (RFC 8289, section 5.2)."""
        return _params(link).interval_ns

    def obstacle(self, link: Link) -> str | None:
        codel = _params(link)
        if codel.ce_threshold_ns is not None:
            return "`ce_threshold`, whose marks Linux counts apart"
        return too_short("a target", codel.target_ns) or too_short("an interval", codel.interval_ns)

    def arguments(self, link: Link, *, on_wire: bool) -> str:
        packets, _ = limits(link, on_wire=on_wire)
        return f"codel limit {packets} {law(_params(link))}"


def _params(link: Link) -> CodelParams:
    assert isinstance(link.queue, CodelQueue | FqCodelQueue)
    return link.queue.codel


def law(codel: CodelParams) -> str:
    """The control law as arguments of ``tc``."""
    return f"target {microseconds(codel.target_ns)} interval {microseconds(codel.interval_ns)} {ecn(codel.mark)}"
