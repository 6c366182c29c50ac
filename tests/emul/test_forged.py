"""Forged output of weir's processes is detected and reported; none of it reaches memory, Arrow or a cell."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from weir.hosts import messages
from weir.hosts.checks import PARTS, Checks
from weir.hosts.messages import File, Frame, FrameError, read
from weir.hosts.programs import Remains
from weir.run.tables import TABLES

_HUGE = 9_999_999_999_999_999_999


def line(**message: object) -> bytes:
    return json.dumps(message).encode() + b"\n"


def table(**parts: object) -> bytes:
    return line(**{"message": "table", "name": "flows", "rows": 0, "columns": [["a", "u8"]], "bytes": 0, **parts})


_PROGRAM = {
    "message": "program",
    "flow": "a",
    "peer": False,
    "host": "h",
    "arguments": [],
    "start_ns": None,
    "end_ns": 1,
    "exit_code": 0,
    "stopped": False,
    "truncated": False,
    "report": None,
}


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        (b"[" * 100_000 + b"\n", "not a message"),
        (b"9" * 9000 + b"\n", "not a message"),
        (b'{"message":' + b"1" * 9000 + b"}\n", "not a message"),
        (line(message="progress", now_ns="x"), "'now_ns' of 'progress' is 'x'"),
        (line(message="progress", now_ns=True), "'now_ns' of 'progress' is True"),
        (line(message="progress"), "'now_ns' of 'progress' is missing"),
        (line(message="file", name="x", bytes=-1), "'bytes' of 'file' is -1"),
        (line(message="file", name="x", bytes=1 << 40), "file 'x' has more than"),
        (line(message="file", name=["x"], bytes=1), "'name' of 'file'"),
        (line(message="warning", text=7), "'text' of 'warning' is 7"),
        (line(message="error"), "'text' of 'error' is missing"),
        (line(message="end", stats={"x": "<script>"}), "'stats' of 'end'"),
        (b'{"message":"end","stats":{"x":NaN}}\n', "'stats' of 'end'"),
        (b'{"message":"end","stats":{"x":' + b"9" * 4000 + b"}}\n", "'stats' of 'end'"),
        (b'{"message":"end","stats":{"x":1e999}}\n', "'stats' of 'end'"),
        (line(message="end", stats=[]), "'stats' of 'end'"),
        (line(message="program"), "'flow' of 'program' is missing"),
        (line(**{**_PROGRAM, "exit_code": 1 << 70}), "'exit_code' of 'program'"),
        (line(**{**_PROGRAM, "report": {"a": []}}), "'report' of 'program'"),
        (table(rows=_HUGE), "has 0 bytes; its columns have"),
        (table(rows=-1), "'rows' of 'table' is -1"),
        (table(rows=1 << 40, bytes=1 << 40), "has 1099511627776 bytes at once"),
        (table(columns=[]), "'columns' of 'table'"),
        (table(columns=[["a"]]), "'columns' of 'table'"),
        (table(columns="ab"), "'columns' of 'table'"),
        (table(columns=[["a", "u8"], ["a", "u8"]]), "column 'a' of table 'flows' has the second type"),
        (table(columns=[["a", "object"]]), "unknown type 'object'"),
    ],
)
def test_what_no_process_writes_is_told(stream: bytes, message: str) -> None:
    with pytest.raises(FrameError, match=message):
        list(read(io.BytesIO(stream)))


def test_what_a_program_tells_is_read() -> None:
    assert list(read(io.BytesIO(line(**_PROGRAM)))) == [_PROGRAM]


def test_a_file_without_lines_is_not_read_to_its_end(tmp_path: Path) -> None:
    """A sparse file of a terabyte costs a guest nothing."""
    sparse = tmp_path / "sparse"
    sparse.touch()
    os.truncate(sparse, 1 << 40)
    with sparse.open("rb") as stream:
        with pytest.raises(FrameError, match=f"a line of more than {messages.LINE_BYTES} bytes"):
            list(read(stream))
        assert stream.tell() < 1 << 22


# Tables --------------------------------------------------------------------------------------------------------------

CHECKS = Checks(flows=2, links=3, kinds=4, end_ns=1000)


def frame(name: str, **columns: object) -> Frame:
    types = {**PARTS.get(name, {})}
    return Frame(name, {key: np.array(value, types.get(key, "u8")) for key, value in columns.items()})


def drops(**changed: object) -> Frame:
    return frame("drops", **{"time_ns": [5], "flow": [1], "link": [2], "packets": [1], **changed})


def test_rows_of_the_plan_pass() -> None:
    CHECKS(drops())
    CHECKS(drops(flow=[0xFFFF_FFFF]))  # belongs to no flow
    CHECKS(drops(time_ns=[], flow=[], link=[], packets=[]))
    CHECKS(frame("of no run", x=[1]))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"flow": [2]}, "'flow' of table 'drops' is 2; the most that can be is 1"),
        ({"link": [3]}, "'link' of table 'drops' is 3"),
        ({"time_ns": [1001]}, "'time_ns' of table 'drops' is 1001"),
        ({"time_ns": [(1 << 64) - 1]}, "'time_ns' of table 'drops' is 18446744073709551615"),
        ({"link": [(1 << 32) - 1]}, "'link' of table 'drops' is 4294967295"),
    ],
)
def test_rows_of_another_plan_are_told(changed: dict[str, object], message: str) -> None:
    with pytest.raises(FrameError, match=message):
        CHECKS(drops(**changed))


def test_ports_of_another_plan_are_told() -> None:
    columns = {column.name: np.zeros(1, column.type.to_pandas_dtype()) for column in TABLES["ports"].columns}
    CHECKS(Frame("ports", columns))
    for name in ("output", "input"):
        with pytest.raises(FrameError, match=f"'{name}' of table 'ports' is 3"):
            CHECKS(Frame("ports", {**columns, name: np.array([3], np.uint32)}))


def test_samples_of_no_flow_are_told() -> None:
    """Whose window it is would be looked up in the plan."""
    columns = {
        column.name: np.zeros(1, column.type.to_pandas_dtype())
        for column in TABLES["samples"].columns
        if not pa.types.is_dictionary(column.type)
    }
    CHECKS(Frame("samples", columns))
    with pytest.raises(FrameError, match="'flow' of table 'samples' is 4294967295; the most that can be is 1"):
        CHECKS(Frame("samples", {**columns, "flow": np.array([0xFFFF_FFFF], "u4")}))


def test_columns_of_another_type_are_told() -> None:
    """Arrow would read beyond the end of its input."""
    wrong = {**drops().columns, "packets": np.array([1], "u1")}
    with pytest.raises(FrameError, match="column 'packets' of table 'drops' is uint8, not uint64"):
        CHECKS(Frame("drops", wrong))


@pytest.mark.parametrize("name", [b"\xff\xfe", b"al\x1bpha", b"al pha"])
def test_names_that_no_control_can_show_are_told(name: bytes) -> None:
    columns = {
        "time_ns": np.array([1], "u8"),
        "flow": np.array([0], "u4"),
        "probe": np.array([b"alpha"], "S16"),
        "value": np.array([-1], "i8"),
    }
    CHECKS(Frame("probes", columns))
    with pytest.raises(FrameError, match="'probe' of table 'probes' has a name with other characters"):
        CHECKS(Frame("probes", {**columns, "probe": np.array([name], "S16")}))


def test_missing_columns_are_told() -> None:
    with pytest.raises(FrameError, match="table 'links' lacks the column 'link'"):
        CHECKS(frame("links", time_ns=[1]))


def test_events_of_unknown_kinds_are_told() -> None:
    columns = {
        "time_ns": np.array([1], "u8"),
        "kind": np.array([4], "u1"),
        "flow": np.array([0], "u4"),
        "link": np.array([0xFFFF_FFFF], "u4"),
        "value": np.array([0], "i8"),
    }
    with pytest.raises(FrameError, match="'kind' of table 'events' is 4; the most that can be is 3"):
        CHECKS(Frame("events", columns))


# Files ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["report.html", "manifest.json", "../x", "/etc/passwd", "commands/b.out", "a\x1b"])
def test_files_that_no_program_leaves_are_told(name: str) -> None:
    remains = Remains(expected=frozenset({"commands/a.out"}))
    with pytest.raises(FrameError, match="which no program of the plan leaves"):
        remains.take(File(name, b""))


def test_a_file_comes_once() -> None:
    remains = Remains(expected=frozenset({"commands/a.out"}))
    remains.take(File("commands/a.out", b"x"))
    with pytest.raises(FrameError, match="which no program of the plan leaves"):
        remains.take(File("commands/a.out", b"y"))
