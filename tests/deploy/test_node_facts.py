"""What a run keeps of its nodes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from weir.deploy import node


def test_keys_of_the_kernel_are_no_facts() -> None:
    asked = json.dumps({"do": "facts"}).encode()
    ran = subprocess.run([sys.executable, "-c", node.program()], input=asked, capture_output=True, check=True)
    parameters = json.loads(ran.stdout)["parameters"]
    assert "net.ipv4.tcp_sack" in parameters
    assert Path("/proc/sys/net/ipv4/tcp_fastopen_key").exists()
    assert [name for name in parameters if name.endswith("_key")] == []
