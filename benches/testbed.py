"""Measures how fast test beds come and go, and what they need:

    sudo .venv/bin/python benches/testbed.py                   32 and 128 nodes, a minute
    sudo .venv/bin/python benches/testbed.py --nodes 16 64     other sizes

- *up*: until the SSH server of each node has answered; *steps* are its parts.
- *down*: until no process, interface or file is left.
- *memory*: what the processes of the test bed have for themselves (Pss of smaps_rollup, proc(5)), and by how much this
  machine's available memory fell, which has the kernel's part and is only right if nobody else works here.
- *idle*: processor time of emulator and supervisor while nothing is sent.
- *error*: the shortest TCP handshake between two sites less the configured round-trip time.

Results are printed and stored in ``benches/results/testbed.json``. Needs root and sshd. The test beds are in a state
folder of their own.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import tempfile
import time
from pathlib import Path
from typing import Any

from weir import testbed

HERE = Path(__file__).parent.absolute()
RTT_MS = 18.0
IDLE_S = 5.0
_HANDSHAKES = """
import socket, time
times = []
for _ in range(50):
    begin = time.monotonic()
    socket.create_connection(("b1", 22), 10).close()
    times.append(1e3 * (time.monotonic() - begin))
print(min(times))
"""


def main() -> None:
    """Measures each size once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[32, 128], help="nodes of the test beds, even numbers")
    sizes = parser.parse_args().nodes
    with tempfile.TemporaryDirectory() as state:
        os.environ["XDG_STATE_HOME"] = state
        results = [measure(size) for size in sizes]
    place = HERE / "results" / "testbed.json"
    place.parent.mkdir(exist_ok=True)
    place.write_text(json.dumps({"load": os.getloadavg()[0], "sizes": results}, indent=2) + "\n", encoding="utf-8")


def measure(nodes: int) -> dict[str, Any]:
    """The figures of one test bed with ``nodes`` nodes at two sites."""
    steps: dict[str, float] = {}
    available = available_mb()
    begin = time.monotonic()

    def progress(step: testbed.Step) -> None:
        steps.setdefault(step.what, round(time.monotonic() - begin, 2))

    links = testbed.LinkOptions(rtt=f"{RTT_MS:g}ms")
    bed = testbed.up(testbed.Request(sites=2, nodes=nodes // 2, links=links, name="bench"), progress)
    try:
        result: dict[str, Any] = {"nodes": nodes, "up_s": round(time.monotonic() - begin, 2), "steps_s": steps}
        result["available_fell_mb"] = round(available - available_mb())
        result["own_mb"] = round(own_mb(bed))
        before = processor_s(bed)
        time.sleep(IDLE_S)
        result["idle_share"] = round((processor_s(bed) - before) / IDLE_S, 4)
        shortest = float(bed.run("a1", ["python3", "-c", _HANDSHAKES]).out)
        result["error_ms"] = round(shortest - RTT_MS, 3)
    finally:
        begin = time.monotonic()
        testbed.down("bench")
    result["down_s"] = round(time.monotonic() - begin, 2)
    print(json.dumps(result))
    return result


def available_mb() -> float:
    """MemAvailable of proc(5)."""
    found = re.search(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text(encoding="ascii"))
    assert found is not None
    return int(found[1]) / 1e3


def family(bed: testbed.Bed) -> list[int]:
    """The supervisor, its children, and all processes in nodes."""
    spaces = {space(node.pid) for node in bed.nodes}
    children = Path(f"/proc/{bed.supervisor}/task/{bed.supervisor}/children").read_text(encoding="ascii").split()
    found = {bed.supervisor, *map(int, children)}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and space(int(folder.name)) in spaces:
            found.add(int(folder.name))
    return sorted(found)


def space(pid: int) -> int | None:
    """The number of a process' own namespace of process ids; ``None`` if it ended, or cannot be examined."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/ns/pid").stat().st_ino
    return None


def own_mb(bed: testbed.Bed) -> float:
    """Memory of its processes, a shared page by parts."""
    total = 0
    for pid in family(bed):
        found = re.search(r"Pss:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii"))
        total += 0 if found is None else int(found[1])
    return total / 1e3


def processor_s(bed: testbed.Bed) -> float:
    """Processor time of its supervisor and its children, the emulator among them."""
    total = 0
    children = Path(f"/proc/{bed.supervisor}/task/{bed.supervisor}/children").read_text(encoding="ascii").split()
    for pid in (bed.supervisor, *children):
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
