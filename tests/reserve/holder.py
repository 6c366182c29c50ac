"""A process that reserves nodes and waits to be killed: ``python holder.py REQUEST``."""

from __future__ import annotations

import json
import sys
import time

from weir import reserve
from weir.reserve import _guardian

with reserve.reserved({"A": reserve.parse(json.loads(sys.argv[1]))}) as nodes:
    guardian = _guardian._guardian
    print(guardian.pid if guardian else 0, ",".join(node.name for node in nodes["A"]), flush=True)
    time.sleep(600)
