"""Merges the observations of several processes into the tables of a run."""

from __future__ import annotations

import io
import json

import numpy as np
import pyarrow as pa
import pytest

from weir import _weir
from weir.hosts.merge import Merger
from weir.hosts.messages import Frame, FrameError, read
from weir.run.tables import TABLES

KINDS = pa.array(_weir.event_kinds(), pa.string())
NULL = np.iinfo(np.uint64).max
NOBODY = np.iinfo(np.uint32).max
U32 = {"flow", "transfer", "link", "node", "output", "input", "cwnd", "ssthresh", "in_flight"}


def frame(table: str, **columns: list[int]) -> Frame:
    return Frame(
        table,
        {
            name: np.array(v, np.uint8 if name == "kind" else np.uint32 if name in U32 else np.uint64)
            for name, v in columns.items()
        },
    )


def flows(*rows: tuple[int, int, int]) -> Frame:
    """Rows of ``flows`` with flow, transfer and start."""
    names = [column.name for column in TABLES["flows"].columns]
    columns = {name: [0] * len(rows) for name in names}
    columns |= {"flow": [r[0] for r in rows], "transfer": [r[1] for r in rows], "start_ns": [r[2] for r in rows]}
    columns |= {"end_ns": [NULL] * len(rows), "bytes": [NULL] * len(rows), "established_ns": [5] * len(rows)}
    return frame("flows", **columns)


def finished(*frames: Frame) -> dict[str, list[dict[str, object]]]:
    merger = Merger(KINDS)
    for one in frames:
        assert list(merger.take(one)) == []
    return {table: rows.to_pylist() for table, rows in merger.finish()}


def test_goodput_has_what_both_ends_say() -> None:
    tables = finished(
        frame("sent", time_ns=[200, 200, 400], flow=[0, 1, 0], sent_ip_bytes=[1500, 40, 3000]),
        frame("delivered", time_ns=[400, 200], flow=[0, 0], transfer=[1, 0], delivered_bytes=[2896, 1000]),
        frame("delivered", time_ns=[400, 600], flow=[0, 1], transfer=[0, 0], delivered_bytes=[448, 7]),
    )
    assert tables["goodput"] == [
        {"time_ns": 200, "flow": 0, "delivered_bytes": 1000, "sent_ip_bytes": 1500},
        {"time_ns": 200, "flow": 1, "delivered_bytes": 0, "sent_ip_bytes": 40},
        {"time_ns": 400, "flow": 0, "delivered_bytes": 3344, "sent_ip_bytes": 3000},
        {"time_ns": 600, "flow": 1, "delivered_bytes": 7, "sent_ip_bytes": 0},
    ]


def test_a_flow_gets_what_receiver_and_network_counted() -> None:
    tables = finished(
        flows((1, 0, 0), (0, 0, 100), (0, 1, 1000)),
        frame("delivered", time_ns=[1, 2, 3], flow=[0, 0, 1], transfer=[0, 1, 0], delivered_bytes=[10, 20, 30]),
        frame("drops", time_ns=[900, 1000, 1001, 1001], flow=[0, 0, 0, NOBODY], link=[0] * 4, packets=[1, 2, 4, 99]),
        frame("marks", time_ns=[50, 800], flow=[1, 0], link=[0] * 2, packets=[8, 16]),
    )
    seen = [
        (r["flow"], r["transfer"], r["delivered_bytes"], r["lost_packets"], r["marked_packets"])
        for r in tables["flows"]
    ]
    # The interval that ends at 1000 belongs to the earlier transfer, which began at 100.
    assert seen == [(0, 0, 10, 3, 16), (0, 1, 20, 4, 0), (1, 0, 30, 0, 8)]
    assert tables["flows"][0]["end_ns"] is None


def test_what_is_nobodys_is_left_out() -> None:
    tables = finished(
        flows((0, 0, 0)),
        frame("delivered", time_ns=[1, 1], flow=[0, 7], transfer=[3, 0], delivered_bytes=[10, 20]),
        frame("drops", time_ns=[900], flow=[7], link=[0], packets=[1]),
    )
    assert [(r["delivered_bytes"], r["lost_packets"]) for r in tables["flows"]] == [(0, 0)]


def test_events_of_all_are_in_the_order_of_time() -> None:
    def events(times: list[int], kind: int) -> Frame:
        n = len(times)
        columns = frame("events", time_ns=times, kind=[kind] * n, flow=[0] * n, link=[NOBODY] * n).columns
        return Frame("events", {**columns, "value": np.zeros(n, np.int64)})

    rows = finished(events([5, 20], 0), events([1, 10, 30], 12))["events"]
    assert [r["time_ns"] for r in rows] == [1, 5, 10, 20, 30]
    assert [r["kind"] for r in rows] == ["link_change", "flow_start", "link_change", "flow_start", "link_change"]
    assert rows[0]["link"] is None


def test_what_only_some_rows_have_is_left_out() -> None:
    whole = flows((0, 0, 1)).columns
    more = Frame("flows", {**whole, "more": np.array([7], np.uint64)})
    (row,) = finished(more)["flows"]
    assert [found["start_ns"] for found in finished(more, flows((1, 0, 2)))["flows"]] == [row["start_ns"], 2]


def test_complete_rows_pass_at_once() -> None:
    names = {column.name: [1] for column in TABLES["ports"].columns}
    ((table, _),) = Merger(KINDS).take(frame("ports", **names))
    assert table == "ports"
    names = {column.name: [1] for column in TABLES["links"].columns}
    ((table, rows),) = Merger(KINDS).take(frame("links", **names))
    assert table == "links"
    assert rows.num_rows == 1


def test_tables_of_no_run_are_ignored() -> None:
    merger = Merger(KINDS)
    assert list(merger.take(frame("bins", time_ns=[1]))) == []
    assert list(merger.finish()) == []


def test_no_rows_give_no_tables() -> None:
    assert finished(frame("drops", time_ns=[], flow=[], link=[], packets=[])) == {}


def line(**message: object) -> bytes:
    return json.dumps(message).encode() + b"\n"


def test_a_stream_of_messages_and_tables_is_read() -> None:
    columns = [["time_ns", "u64"], ["flow", "u32"], ["kind", "u8"], ["value", "i64"]]
    content = np.array([1, 2], "<u8").tobytes() + np.array([3, 4], "<u4").tobytes() + b"\5\6"
    content += np.array([-7, 8], "<i8").tobytes()
    stream = line(message="ready")
    stream += line(message="table", name="x", rows=2, columns=columns, bytes=len(content)) + content
    stream += line(message="end", stats={})
    first, table, last = read(io.BytesIO(stream))
    assert first == {"message": "ready"}
    assert last == {"message": "end", "stats": {}}
    assert isinstance(table, Frame)
    assert (table.table, table.rows) == ("x", 2)
    assert {name: values.tolist() for name, values in table.columns.items()} == {
        "time_ns": [1, 2],
        "flow": [3, 4],
        "kind": [5, 6],
        "value": [-7, 8],
    }


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        (b"hello\n", "not a message"),
        (b"[1]\n", "not a message"),
        (line(message="table", name="x", rows=1, columns=[["a", "u8"]], bytes=1), "ends after 0 of 1 bytes"),
        (line(message="table", name="x", rows=1, columns=[["a", "f32"]], bytes=4) + b"1234", "unknown type 'f32'"),
        (line(message="table", name="x", rows=1, columns=[["a", "u8"]], bytes=2) + b"12", "has 2 bytes"),
    ],
)
def test_a_stream_that_is_none_is_told(stream: bytes, message: str) -> None:
    with pytest.raises(FrameError, match=message):
        list(read(io.BytesIO(stream)))
