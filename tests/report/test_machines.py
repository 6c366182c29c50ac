"""The picture of an inventory: what it shows, and that nothing covers anything else."""

from __future__ import annotations

import itertools
import math
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from shared import Weir
from weir.inventory import parse
from weir.report.machines import draw

SVG = "{http://www.w3.org/2000/svg}"
INVENTORY = """\
sets:
  ClusterA: {nodes: "a[1..12]", rate: 1Gbps, interface: eth1}
  ClusterB: {reserve: {by: slurm, nodes: 200, time: 90min}}
connections:
  - {between: [ClusterA, ClusterB], rate: 10Gbps, rtt: 12ms}
roles: {sources: "ClusterB[1..5]", sinks: ClusterA, extra: "ClusterB[7]"}
"""


def mesh(sites: int) -> str:
    """Every site joined to every other."""
    names = [f"S{number}" for number in range(sites)]
    lines = [f"  {name}: {{nodes: '{name.lower()}-[1..{10 + 20 * n}]'}}" for n, name in enumerate(names)]
    pairs = itertools.combinations(names, 2)
    links = [f"  - {{between: [{one}, {other}], rate: {n + 1}Gbps, rtt: 3ms}}" for n, (one, other) in enumerate(pairs)]
    return "\n".join(["sets:", *lines, "connections:", *links]) if links else "\n".join(["sets:", *lines])


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(svg).iter(f"{SVG}text")]


def rectangles(svg: str, rounded: bool) -> list[tuple[float, float, float, float]]:
    """Left, top, right, bottom of the boxes of sets, or of those below words."""
    found = []
    for element in [*ET.fromstring(svg).iter(f"{SVG}rect")][1:]:
        if ("rx" in element.attrib) == rounded:
            x, y, width, height = (float(element.attrib[name]) for name in ("x", "y", "width", "height"))
            found.append((x, y, x + width, y + height))
    return found


def overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def test_what_it_says() -> None:
    assert texts(draw(parse(INVENTORY))) == [
        *("10 Gbps", "RTT 12 ms"),
        *("ClusterA", "12 nodes, 1 Gbps each", "interface eth1", "sinks"),
        *("ClusterB", "200 nodes", "by slurm for 90 min", "and 72 more", "sources [1..5]", "extra [7]"),
        "The network is what is there; rates and round-trip times are those that the inventory states.",
    ]
    emulated = texts(draw(parse(INVENTORY + "network: emulated\n")))
    assert emulated[-1].startswith("weir makes the delay, rate and loss")


def test_a_dot_a_node_in_the_colour_of_its_role() -> None:
    svg = draw(parse(INVENTORY))
    dots = [*ET.fromstring(svg).iter(f"{SVG}circle")]
    first, second = dots[:12], dots[13 : 13 + 128]
    (sinks,) = {dot.attrib["fill"] for dot in first}
    assert dots[12].attrib["fill"] == sinks, "the chip of the role"
    looks = [dot.attrib["stroke"] for dot in second]
    assert {dot.attrib["fill"] for dot in second} == {"white"}, "not reserved yet"
    sources, extra = looks[0], looks[6]
    assert looks[:5] == [sources] * 5
    assert len({sources, extra, sinks, looks[5]}) == 4
    assert set(looks[7:]) == {looks[5]}


@pytest.mark.parametrize("sites", [1, 2, 3, 5, 7, 10])
def test_nothing_covers_anything(sites: int) -> None:
    svg = draw(parse(mesh(sites)))
    boxes, words = rectangles(svg, rounded=True), rectangles(svg, rounded=False)
    assert len(boxes) == sites
    assert len(words) == math.comb(sites, 2)
    assert not [pair for pair in itertools.combinations(boxes, 2) if overlap(*pair)]
    assert not [(box, word) for box in boxes for word in words if overlap(box, word)]
    if sites <= 7:
        assert not [pair for pair in itertools.combinations(words, 2) if overlap(*pair)]
    root = ET.fromstring(svg)
    left, top, width, height = map(float, root.attrib["viewBox"].split())
    for box in boxes:
        assert left <= box[0]
        assert top <= box[1]
        assert box[2] <= left + width
        assert box[3] <= top + height


def test_the_command(weir: Weir, tmp_path: Path) -> None:
    file = tmp_path / "it.yaml"
    file.write_text(INVENTORY, encoding="utf-8")
    done = weir("hosts", "show", str(file), "--out", str(tmp_path / "it.svg"))
    assert done.code == 0
    assert "ClusterA - ClusterB: 10Gbps, RTT 12ms" in done.out
    assert (tmp_path / "it.svg").read_text(encoding="utf-8") == draw(parse(INVENTORY))
    for kind, begin in (("pdf", b"%PDF-"), ("png", b"\x89PNG")):
        assert weir("hosts", "show", str(file), "--out", str(tmp_path / f"it.{kind}")).code == 0
        assert (tmp_path / f"it.{kind}").read_bytes().startswith(begin)
    wrong = weir("hosts", "show", str(file), "--out", str(tmp_path / "it.gif"))
    assert wrong.code == 2
    assert "ends with .svg, .pdf, .png" in wrong.err
