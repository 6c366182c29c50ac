"""Losses and delays in the kernel's terms, also those of a kind that the kernel lacks."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Struct

from weir.hosts.impairments import DELAYS, LOSSES, DelayModel, delay_model, loss_model
from weir.plan import Delay, Loss

BERNOULLI = {"kind": "bernoulli", "p": 0.5}
GILBERT = {"kind": "gilbert_elliott", "p": 0.1, "r": 0.2, "good": 0.3, "bad": 0.4}
LIST = {"kind": "list", "packets": [3, 1]}


class _Burst(Struct, tag_field="kind", tag="burst"):
    """A kind that a later version may have."""

    delay_ns: int = 7


def loss(document: dict[str, Any]) -> Any:
    return msgspec.convert(document, Loss)


def test_every_kind_of_the_plan_has_a_model() -> None:
    assert set(LOSSES) == set(Loss.__args__)
    assert set(DELAYS) == set(Delay.__args__)


def test_probabilities_are_in_the_order_that_generators_take_them() -> None:
    found = [loss_model(made).probabilities(made) for made in map(loss, (BERNOULLI, GILBERT, LIST))]
    assert found == [(0.5,), (0.1, 0.2, 0.3, 0.4), ()]


def test_the_share_of_a_chain_is_that_of_its_states() -> None:
    made = loss(GILBERT)
    assert loss_model(made).share(made) == pytest.approx(0.4 / 3 + 0.3 * 2 / 3)
    assert loss_model(made).inflation(made) == pytest.approx(1.7 / 0.3)


def test_listed_packets_are_ascending() -> None:
    made = loss(LIST)
    assert list(loss_model(made).numbers(made) or ()) == [1, 3]
    assert loss_model(made).share(made) is None


def test_a_probability_below_those_of_netem_is_refused() -> None:
    assert loss_model(loss(BERNOULLI)).obstacle(loss(BERNOULLI)) is None
    rare = loss({"kind": "bernoulli", "p": 1e-9})
    assert loss_model(rare).obstacle(rare) == "a probability of less than 1e-08"


def test_a_kind_that_the_kernel_lacks_is_refused_by_name() -> None:
    losses, delays = loss_model(_Burst()), delay_model(_Burst())  # type: ignore[arg-type]
    assert losses.obstacle(_Burst()) == "losses of kind burst"
    assert delays.obstacle(_Burst()) == "a delay of kind burst"
    assert delays.varies
    assert (losses.numbers(_Burst()), losses.probabilities(_Burst()), losses.share(_Burst())) == (None, (), None)
    for model in (losses, delays):
        with pytest.raises(ValueError, match=r"netem has no .* of kind burst"):
            model.netem(_Burst())


@pytest.mark.parametrize(("normal", "spread"), [(True, 4000), (False, 1000)])
def test_jitter_spreads_over_four_deviations_or_its_half_width(normal: bool, spread: int) -> None:
    document = {"kind": "jitter", "delay_ns": 5000, "jitter_ns": 1000, "normal": normal, "reorder": True}
    jitter: Any = msgspec.convert(document, Delay)
    model: DelayModel[Any] = delay_model(jitter)
    assert model.spread_ns(jitter) == spread
    assert model.netem(jitter) == (("1us", "distribution", "normal") if normal else ("1us",))
