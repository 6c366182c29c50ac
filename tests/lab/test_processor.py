"""Each lab has its own processor, as long as there are free ones."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from weir.lab._processor import Processor

NAME = f"\0weir-test-{os.getpid()}-"


@pytest.fixture
def taken() -> Iterator[list[Processor]]:
    """Takes every processor."""
    with ExitStack() as stack:
        yield [stack.enter_context(Processor(NAME)) for _ in os.sched_getaffinity(0)]


def seen_by_a_process() -> set[int]:
    program = "import os; print(*os.sched_getaffinity(0))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return {int(word) for word in done.stdout.split()}


def test_each_has_another_one(taken: list[Processor]) -> None:
    assert {processor.number for processor in taken} == os.sched_getaffinity(0)


def test_when_all_are_taken_there_is_none(taken: list[Processor]) -> None:
    with Processor(NAME) as late, late.bound():
        assert late.number is None
        assert seen_by_a_process() == os.sched_getaffinity(0)


def test_one_that_was_released_is_taken_again(taken: list[Processor]) -> None:
    taken[0].release()
    with Processor(NAME) as found:
        assert found.number == taken[0].number


def test_processes_started_meanwhile_run_on_it_alone() -> None:
    before = os.sched_getaffinity(0)
    with Processor(NAME) as found, found.bound():
        assert seen_by_a_process() == {found.number}
    assert os.sched_getaffinity(0) == before
