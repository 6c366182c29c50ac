"""EnOSlib's static provider. ``WEIR_ENOSLIB`` names a Python that has EnOSlib; by default this one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from weir import reserve
from weir.reserve import Held, Request, RequestError, ReserveError

PYTHON = os.environ.get("WEIR_ENOSLIB", sys.executable)
CONF = {
    "resources": {
        "machines": [
            {"roles": ["A"], "address": "10.0.0.1", "alias": "n1", "user": "root", "port": 2222},
            {"roles": ["A", "B"], "address": "10.0.0.2", "alias": "n2"},
            {"roles": ["B"], "address": "10.0.0.3", "alias": "n3"},
        ],
        "networks": [],
    }
}


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    if subprocess.run([PYTHON, "-c", "import enoslib"], capture_output=True, check=False).returncode:
        pytest.skip(f"{PYTHON} has no enoslib; WEIR_ENOSLIB names another")
    file = tmp_path / "conf.yaml"
    file.write_text(json.dumps(CONF))
    return file


def request(file: Path, nodes: int = 2, **more: object) -> Request:
    said = {"by": "enoslib", "nodes": nodes, "time": "1h", "platform": "static", "conf": file.name, "python": PYTHON}
    return reserve.parse({**said, **more}, file.parent)


@pytest.mark.usefixtures("state")
def test_hosts_of_a_role(conf: Path) -> None:
    with reserve.reserved({"A": request(conf, role="A"), "B": request(conf, role="B")}) as nodes:
        assert nodes["A"] == (Held("n1", "10.0.0.1", 2222, "root"), Held("n2", "10.0.0.2"))
        assert [node.name for node in nodes["B"]] == ["n2", "n3"]


@pytest.mark.usefixtures("state")
def test_all_hosts(conf: Path) -> None:
    with reserve.reserved({"A": request(conf, 3)}) as nodes:
        assert [node.name for node in nodes["A"]] == ["n1", "n2", "n3"]


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"role": "C"}, "there is no role C; there are: A, B"),
        ({"nodes": 4}, "4 nodes were asked for, there are 3"),
        ({"platform": "nowhere"}, "ModuleNotFoundError"),
    ],
)
def test_what_enoslib_refuses(conf: Path, more: dict[str, object], why: str) -> None:
    with pytest.raises(ReserveError, match=why), reserve.reserved({"A": request(conf, **{"nodes": 2, **more})}):
        pytest.fail("there are no such hosts")


@pytest.mark.parametrize(
    ("more", "key"), [({"platform": "../x"}, "platform"), ({"conf": ""}, "conf"), ({"front_end": "f"}, "front_end")]
)
def test_a_wrong_request(tmp_path: Path, more: dict[str, object], key: str) -> None:
    with pytest.raises(RequestError) as error:
        request(tmp_path / "conf.yaml", **more)
    assert error.value.key == key
