"""An executable that reserves: the example, and what a hostile or broken one may say."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from weir import reserve
from weir.reserve import Held, Phase, Request, RequestError, ReserveError
from weir.reserve import command as provider

SITE = Path(__file__).with_name("site.py")


@pytest.fixture
def free(tmp_path: Path) -> Path:
    file = tmp_path / "free"
    file.write_text("a1 a2 a3\n")
    return file


def request(*program: object, nodes: int = 2) -> Request:
    return reserve.parse({"by": "command", "nodes": nodes, "time": "1h", "program": [*map(str, program)]})


def saying(tmp_path: Path, text: str, code: int = 0) -> Request:
    """A request by a program that says ``text``, whatever it is asked."""
    script = tmp_path / "says.py"
    script.write_text(f"import sys; sys.stdin.read(); print({text!r}); sys.exit({code})")
    return request(sys.executable, script)


@pytest.mark.usefixtures("state")
def test_the_example_reserves_and_releases(free: Path) -> None:
    with reserve.reserved({"A": request(SITE, free)}) as nodes:
        assert nodes["A"] == (Held("a1", "a1"), Held("a2", "a2"))
        assert [*json.loads(free.with_suffix(".taken").read_text()).values()] == [["a1", "a2"]]
    assert json.loads(free.with_suffix(".taken").read_text()) == {}


@pytest.mark.usefixtures("state")
def test_its_refusal_and_its_queue(free: Path) -> None:
    with pytest.raises(ReserveError, match="refuses: this site has fewer than 9 nodes"):
        reserve.reserve(request(SITE, free, nodes=9))
    with reserve.reserved({"A": request(SITE, free)}):
        waiting = pytest.raises(ReserveError, match=r"no nodes after 1 s: .*1 nodes are free")
        with waiting, reserve.reserved({"B": request(SITE, free)}, patience_s=1):
            pytest.fail("there are no nodes")


def test_it_is_asked_with_the_whole_request(tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    script = tmp_path / "hears.py"
    script.write_text(f"import sys; open({str(heard)!r}, 'w').write(sys.stdin.read()); print('{{\"id\": 7}}')")
    asked = request(sys.executable, script)
    assert provider.Command().submit(asked, "weir-x") == "7"
    question = json.loads(heard.read_text())
    assert question == {"contract": 1, "do": "submit", "name": "weir-x", "request": reserve.to_json(asked)}
    assert question["request"]["time"] == "3600s"


def test_a_node_may_say_more_of_itself(tmp_path: Path) -> None:
    node = {"name": "n", "address": "10.0.0.1", "port": 2222, "user": "me"}
    asked = saying(tmp_path, json.dumps({"state": "active", "nodes": [node], "left_s": 9}))
    state = provider.Command().state(asked, "7")
    assert (state.phase, state.nodes, state.left_s) == (Phase.ACTIVE, (Held("n", "10.0.0.1", 2222, "me"),), 9)


def answer(**more: Any) -> str:
    return json.dumps({"state": "active", "nodes": [], **more})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "expected one JSON object"),
        ("[]", "expected one JSON object"),
        ("[" * 100_000, "expected one JSON object"),
        ("{}", "expected `state` with waiting, active, ended"),
        (answer(state=["active"]), "expected `state`"),
        (answer(nodes="a1"), "expected `nodes`"),
        (answer(nodes=[7]), "expected a node with `address`"),
        (answer(nodes=["-oProxyCommand=reboot"]), "expected a node's `address`"),
        (answer(nodes=["a b"]), "expected a node's `address`"),
        (answer(nodes=[{"address": "a", "name": "../../x"}]), "expected a node's `name`"),
        (answer(nodes=[{"address": "a", "user": "-lroot"}]), "expected a node's `user`"),
        (answer(nodes=[{"address": "a", "port": 70_000}]), "expected a node's `port`"),
        (answer(nodes=[{"address": "a", "port": "ssh"}]), "expected a node's `port`"),
        (json.dumps({"error": "\u001b[31mno"}), "refuses:"),
    ],
)
def test_what_no_program_may_say(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(ReserveError, match=expected) as error:
        provider.Command().state(saying(tmp_path, text), "7")
    assert "\u001b" not in str(error.value)
    assert len(str(error.value)) < 3000


def test_an_answer_without_end_is_cut_off(tmp_path: Path) -> None:
    script = tmp_path / "talks.py"
    script.write_text("while True: print('x' * 65536)")
    with pytest.raises(ReserveError, match="said more than 4 MiB"):
        provider.Command().state(request(sys.executable, script), "7")


def runs(pid: int) -> bool:
    """Whether it is neither gone nor a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def test_a_program_that_hangs_is_ended_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider.Command, "timeout_s", 1.0)
    script = tmp_path / "hangs.sh"
    pid = tmp_path / "pid"
    script.write_text(f"#!/bin/sh\nsleep 600 & echo $! > {pid}; wait\n")
    script.chmod(0o755)
    with pytest.raises(ReserveError, match="no answer in time"):
        provider.Command().state(request(script), "7")
    child = int(pid.read_text())
    deadline = time.monotonic() + 10
    while runs(child):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_failing_program_is_shown_with_its_words(tmp_path: Path) -> None:
    script = tmp_path / "fails.sh"
    script.write_text("#!/bin/sh\necho 'no such site' >&2; exit 3\n")
    script.chmod(0o755)
    with pytest.raises(ReserveError, match="exit code 3: no such site"):
        provider.Command().state(request(script), "7")


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReserveError, match="there is no such program"):
        provider.Command().state(request(tmp_path / "nothing"), "7")


def test_a_program_is_found_from_the_inventorys_folder(tmp_path: Path) -> None:
    said = {"by": "command", "nodes": 1, "time": "1h", "program": ["./reserve.py", "./data"]}
    assert reserve.parse(said, tmp_path).words("program") == (f"{tmp_path}/reserve.py", "./data")
    assert reserve.parse({**said, "program": "oar-wrapper"}, tmp_path).words("program") == ("oar-wrapper",)
    far = reserve.parse({**said, "front_end": "lyon"}, tmp_path)
    assert far.words("program")[0] == "./reserve.py", "it is there, not here"


def test_a_request_without_a_program_is_refused() -> None:
    with pytest.raises(RequestError, match="program: is missing"):
        reserve.parse({"by": "command", "nodes": 1, "time": "1h"})


@pytest.mark.parametrize("by", ["slurm", "oar"])
def test_a_scheduler_that_is_not_installed_is_named_and_leaves_nothing(
    by: str, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "env").symlink_to("/usr/bin/env")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(ReserveError, match=r"there is no such program.*(sbatch|oarsub)"):
        reserve.reserve(reserve.parse({"by": by, "nodes": 1, "time": "1h"}))
    assert not [*state.glob("*")]
