"""Requests as inventories write them: what is read, and what is refused with which key."""

from __future__ import annotations

from typing import Any

import pytest

from weir import reserve
from weir.reserve import FrontEnd, Request, RequestError

SLURM: dict[str, Any] = {"by": "slurm", "nodes": 5, "time": "1h"}


def test_a_request_is_typed() -> None:
    said = SLURM | {"partition": "p", "properties": "ib&gpu", "account": "a", "options": ["--switches=1"]}
    assert reserve.parse(said) == Request(
        by="slurm",
        nodes=5,
        time_s=3600,
        partition="p",
        properties="ib&gpu",
        options=(("account", "a"), ("options", ("--switches=1",))),
    )


def test_queue_is_another_name_of_partition() -> None:
    assert reserve.parse(SLURM | {"queue": "q"}) == reserve.parse(SLURM | {"partition": "q"})


@pytest.mark.parametrize(
    ("said", "front_end"),
    [
        ("lyon.example.org", FrontEnd("lyon.example.org")),
        (
            {"address": "10.0.0.2", "user": "me", "port": 2222, "key": "/k", "jump": "a@b,c", "known_hosts": "/h"},
            FrontEnd("10.0.0.2", "me", 2222, "/k", "a@b,c", "/h"),
        ),
    ],
)
def test_a_front_end(said: Any, front_end: FrontEnd) -> None:
    assert reserve.parse(SLURM | {"front_end": said}).front_end == front_end


@pytest.mark.parametrize(
    "said",
    [
        SLURM,
        SLURM | {"partition": "p", "front_end": {"address": "f", "port": 22}, "options": ["a", "b"]},
        {"by": "static", "names": ["a", "b"]},
    ],
)
def test_a_request_is_written_and_read_back(said: dict[str, Any]) -> None:
    request = reserve.parse(said)
    assert reserve.parse(reserve.to_json(request)) == request


@pytest.mark.parametrize(
    ("said", "key", "text"),
    [
        ({}, "by", "is missing"),
        ({"by": "slrum"}, "by", "there are: static, slurm"),
        ({"by": "slurm", "time": "1h"}, "nodes", "is missing"),
        ({"by": "slurm", "nodes": 5}, "time", "is missing"),
        (SLURM | {"nodes": 0}, "nodes", "from 1 to"),
        (SLURM | {"nodes": True}, "nodes", "from 1 to"),
        (SLURM | {"nodes": "5"}, "nodes", "from 1 to"),
        (SLURM | {"time": "5"}, "time", "such as 1h"),
        (SLURM | {"time": "1Mbps"}, "time", "such as 1h"),
        (SLURM | {"time": "0s"}, "time", "such as 1h"),
        (SLURM | {"partition": "p", "queue": "q"}, "queue", "another name"),
        (SLURM | {"partition": "a\nb"}, "partition", "one line"),
        (SLURM | {"partition": ["a"]}, "partition", "expected text"),
        (SLURM | {"names": ["a"]}, "names", "no key of a reservation by slurm"),
        (SLURM | {"front_end": "-oProxyCommand=x"}, "front_end.address", "expected an address"),
        (SLURM | {"front_end": {"user": "me"}}, "front_end.address", "expected an address"),
        (SLURM | {"front_end": {"address": "a", "user": "-x"}}, "front_end.user", "name of a user"),
        (SLURM | {"front_end": {"address": "a", "host": "b"}}, "front_end.host", "no key of a front end"),
        ({"by": "static"}, "nodes", "is missing"),
        ({"by": "static", "nodes": 3, "names": ["a"]}, "nodes", "1 are named"),
    ],
)
def test_what_is_wrong_is_said_with_its_key(said: dict[str, Any], key: str, text: str) -> None:
    with pytest.raises(RequestError) as error:
        reserve.parse(said)
    assert error.value.key == key
    assert text in error.value.text
