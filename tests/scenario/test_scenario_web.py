"""Pages: compilation of `kind: web` into the plan. Its errors are in `bad/web*.yaml`."""

from __future__ import annotations

import json
from typing import Any

from scenario_support import plan_of, workload

from weir import _weir

MS = 1_000_000
S = 1000 * MS


def web(keys: str) -> list[dict[str, Any]]:
    """The flows of one user with these keys, for ten seconds."""
    return list(plan_of(workload(f"name: web, kind: web, between: 'pairs[0]', {keys}"))["flows"])


def lists(flows: list[dict[str, Any]]) -> list[list[tuple[int, int, int, list[tuple[int, int]]]]]:
    """Page, wait, size and dependencies of each transfer, per connection."""
    return [
        [
            (t["page"], t["wait_ns"], t["bytes"], [(a["stream"], a["transfer"]) for a in t.get("after", [])])
            for t in flow["source"]["transfers"]
        ]
        for flow in flows
    ]


def test_a_page_is_a_document_then_its_objects_then_a_pause() -> None:
    found = web(
        "objects: [4, 2], document: 9kB, size: [1kB, 2kB, 3kB], parse: [5ms, 6ms], think: 1s, count: 2, connections: 2"
    )
    assert [f["name"] for f in found] == ["web[0].0", "web[0].1"]
    assert [(f["group"], f["index"], f["stream"]) for f in found] == [("web", 0, 0), ("web", 0, 1)]
    assert lists(found) == [
        [
            (0, 0, 9000, []),
            (0, 5 * MS, 1000, []),  # after the document, which it follows
            (0, 0, 3000, []),  # this connection has less to do
            (1, 1 * S, 9000, [(1, 0)]),  # after the last object of the other connection; it follows its own
            (1, 6 * MS, 1000, []),
        ],
        [(0, 5 * MS, 2000, [(0, 0)])],
    ]
    assert all(f["source"]["keep_connection"] for f in found)


def test_the_last_objects_of_all_connections_end_a_page() -> None:
    found = web("objects: 7, document: 1kB, size: 1kB, think: 0s, count: 2, connections: 3")
    first, second, third = lists(found)
    assert [len(x) for x in (first, second, third)] == [6, 4, 4]
    assert first[3] == (1, 0, 1000, [(1, 1), (2, 1)])
    assert second[2] == (1, 0, 1000, [(0, 3)])


def test_small_objects_go_around_a_large_one() -> None:
    found = web("objects: 6, document: 1B, size: [100kB, 1kB, 1kB, 1kB, 1kB], connections: 2")
    assert [x[2] for x in lists(found)[0]] == [1, 100_000]
    assert [x[2] for x in lists(found)[1]] == [1000] * 4


def test_one_connection_needs_no_waiting_for_others() -> None:
    (flow,) = web("objects: 3, size: 1kB, think: 1s, count: 2, connections: 1")
    assert flow["name"] == "web[0]"
    assert [t.get("after") for t in flow["source"]["transfers"]] == [None] * 6
    assert [t["wait_ns"] for t in flow["source"]["transfers"]] == [0, 0, 0, S, 0, 0]


def test_connections_that_nothing_goes_over_are_not_there() -> None:
    assert [f["name"] for f in web("objects: 1, size: 1kB")] == ["web[0].0"]
    assert [f["stream"] for f in web("objects: 3, size: 1kB")] == [0, 1]


def test_defaults_are_those_of_a_browser() -> None:
    found = web("objects: 30, size: 1kB")
    assert len(found) == 6
    assert all(t["page"] == 0 for f in found for t in f["source"]["transfers"]), "one page"
    assert not web("objects: 3, size: 1kB, keep_connection: false")[0]["source"]["keep_connection"]


def test_with_a_pause_there_are_as_many_pages_as_there_is_time_for() -> None:
    # At least 20 ms for the document, 20 ms for the objects and 960 ms of thought: ten pages fit into ten seconds.
    pages = {t["page"] for f in web("objects: 2, size: 1B, think: 960ms") for t in f["source"]["transfers"]}
    assert pages in (set(range(10)), set(range(11)))


def test_draws_are_those_of_the_user_and_the_purpose() -> None:
    drawn = "objects: {uniform: [1, 9]}, size: {exponential: 9kB}, think: {exponential: 1s}, parse: {exponential: 50ms}"
    entry = f"name: web, kind: web, between: pairs, {drawn}"
    alone = plan_of(workload(f"{entry}, flows: 1"))["flows"]
    beside = plan_of(workload("name: a, kind: bulk, between: pairs", f"{entry}, flows: 2"))["flows"]
    assert [f for f in beside if f["group"] == "web" and f["index"] == 0] == alone
    users = [[f["source"] for f in beside if f["group"] == "web" and f["index"] == i] for i in (0, 1)]
    assert users[0] != users[1]
    more = web(f"{drawn}, count: 40, connections: 3")
    fewer = web(f"{drawn}, count: 39, connections: 3")
    assert [x[: len(y)] for x, y in zip(lists(more), lists(fewer), strict=True)] == lists(fewer)


def test_a_drawn_plan_is_one_that_the_simulator_takes() -> None:
    plan = plan_of(
        workload("name: web, kind: web, between: pairs, objects: {uniform: [1, 30]}, size: 5kB, think: 100ms")
    )
    assert _weir.Simulator(json.dumps(plan)) is not None


def test_a_plan_without_pages_is_as_it_was() -> None:
    transfers = plan_of(workload("name: a, kind: transfer, between: pairs, size: 1kB"))["flows"][0]["source"][
        "transfers"
    ]
    assert transfers == [{"wait_ns": 0, "bytes": 1000}]
