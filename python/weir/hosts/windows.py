"""Detects windows that no working congestion control sets, in the kernel's data about a flow."""

from __future__ import annotations

import numpy as np

from weir._errors import MethodError
from weir.hosts.messages import Frame
from weir.plan import CommandSource, Plan, TcpTransport

__all__ = ["require_windows"]


def require_windows(plan: Plan, frame: Frame) -> None:
    """Verifies every congestion window in ``frame``.

    Linux sends nothing with a window of 0 until a timeout sets it: a run would measure the timer.

    Raises:
        MethodError: a congestion control set one to 0; the message names it, the flow and the instant.
    """
    if frame.table != "samples":
        return
    columns = frame.columns
    for row in np.flatnonzero(columns["cwnd"] == 0):
        flow = plan.flows[int(columns["flow"][row])]
        of_program = isinstance(flow.source, CommandSource)  # its report may lack windows
        if isinstance(flow.transport, TcpTransport) and not of_program:
            at_s = int(columns["time_ns"][row]) / 1e9
            raise MethodError(
                f"cc: {flow.transport.cc}: the window of flow {flow.name} is 0 at {at_s:.3f} s, with "
                "which nothing can be sent: a congestion control keeps it at 1 packet or more"
            )
