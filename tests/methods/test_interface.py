"""The declarations of methods, and that they are true."""

from __future__ import annotations

import pytest

from shared import dumbbell, execute, plan_of
from weir import methods
from weir.plan import typed
from weir.run import TABLES


@pytest.mark.parametrize("name", methods.METHODS)
def test_each_says_what_a_sentence_needs(name: str) -> None:
    method = methods.get(name)
    assert method.name == name
    assert method.title
    assert method.needs
    assert "because" in method.refusal("because")
    assert method.options == methods.OPTIONS.get(name, ())


def test_all_tables_of_a_run_are_known_to_methods() -> None:
    assert set(TABLES) == methods.TABLES | methods.INSIDE | methods.REAL


def test_what_the_simulator_writes_is_what_it_declares() -> None:
    sink, _ = execute("sim", plan_of(dumbbell(measure="goodput: 500ms, tcp: 50ms, links: 50ms, delay: 50ms")))
    written = {table for table, batches in sink.batches.items() if any(batch.num_rows for batch in batches)}
    assert {"flows", "goodput", "samples", "links", "delays"} <= written <= methods.get("sim").tables


def test_a_plan_that_names_no_option_means_the_defaults_that_are_declared() -> None:
    plan = plan_of(dumbbell())
    del plan["methods"]
    given = typed(plan).methods
    for method, options in methods.OPTIONS.items():
        for option in options:
            assert str(getattr(getattr(given, method), option.name)) == option.default
            assert option.default in option.values
