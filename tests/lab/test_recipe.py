"""Changes to the kernel's sources: only known ones, and those for the processor at hand."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from weir.lab import LabError, _recipe

AMX = 11_008
"""Bytes of state of a processor with AMX."""
HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+")


def originals(patch: Path, folder: Path) -> dict[Path, list[str]]:
    """Writes the files that ``patch`` changes, as far as it shows them, with empty lines elsewhere; returns their
    lines.
    """
    found: dict[Path, list[str]] = {}
    lines: list[str] = []
    for line in patch.read_text(encoding="utf-8").split("--- a/", 1)[1].splitlines():
        if not lines and not found:
            lines = found.setdefault(folder / line, [])
        elif line.startswith("--- a/"):
            lines = found.setdefault(folder / line.removeprefix("--- a/"), [])
        elif hunk := HUNK.match(line):
            lines += [""] * (int(hunk[1]) - 1 - len(lines))
        elif line[:1] in {" ", "-"}:
            lines.append(line[1:])
    for file, text in found.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(text) + "\n", encoding="utf-8")
    return found


def test_there_are_patches_and_each_says_why() -> None:
    assert len(_recipe.patches()) >= 11
    for patch in _recipe.patches():
        title, _, rest = patch.read_text(encoding="utf-8").partition("\n\n")
        assert title.endswith("."), patch
        assert len(rest.partition("--- a/")[0]) > 30, patch


@pytest.mark.parametrize("patch", _recipe.patches(), ids=lambda patch: patch.stem)
def test_a_patch_makes_its_changes(tmp_path: Path, patch: Path) -> None:
    before = originals(patch, tmp_path)
    _recipe.apply(patch, tmp_path)
    changes = patch.read_text(encoding="utf-8").split("--- a/", 1)[1]
    added = [line[1:] for line in changes.splitlines() if line.startswith("+") and not line.startswith("+++")]
    after = [line for file in before for line in file.read_text(encoding="utf-8").splitlines()]
    assert all(after.count(line) >= added.count(line) for line in added)
    assert after != [line for text in before.values() for line in text]
    assert not list(tmp_path.rglob("*.rej"))


def test_sources_that_differ_in_a_line_beside_a_change_are_refused(tmp_path: Path) -> None:
    patch = _recipe.patches()[0]
    file = next(iter(originals(patch, tmp_path)))
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("config HZ", "config FREQUENCY"), encoding="utf-8")
    with pytest.raises(LabError, match=r"(?s)01-clock\.patch does not apply to these kernel sources.*Hunk #1 FAILED"):
        _recipe.apply(patch, tmp_path)


def test_sources_that_are_changed_already_are_refused(tmp_path: Path) -> None:
    patch = _recipe.patches()[0]
    originals(patch, tmp_path)
    _recipe.apply(patch, tmp_path)
    with pytest.raises(LabError, match="does not apply"):
        _recipe.apply(patch, tmp_path)


def test_sources_without_the_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"(?s)does not apply.*arch/um/Kconfig"):
        _recipe.apply(_recipe.patches()[0], tmp_path)


def test_jiffies_are_those_of_the_simulator() -> None:
    assert f"+\tdefault {_recipe.HZ}\n" in _recipe.patches()[0].read_text(encoding="utf-8")


def test_a_small_state_gets_the_room_that_the_sources_have() -> None:
    assert _recipe.state(512) == _recipe.state(2696) == "#define WEIR_STATE_BYTES 2696\n"
    patches = [file.read_text(encoding="utf-8") for file in _recipe.patches()]
    assert sum("-\tDEFINE_LONGS(HOST_FP_SIZE, 2696);" in patch for patch in patches) == 1
    assert "KERNEL_STACK_ORDER" not in _recipe.config(2696)


def test_a_large_state_gets_room_in_the_task_and_on_the_stack() -> None:
    assert _recipe.state(AMX) == "#define WEIR_STATE_BYTES 11008\n"
    assert "CONFIG_KERNEL_STACK_ORDER=3\n" in _recipe.config(AMX)


def test_the_recipe_depends_on_the_processor() -> None:
    assert _recipe.recipe(2432) == _recipe.recipe(2696)
    assert _recipe.recipe(2432) != _recipe.recipe(AMX)


def test_an_option_that_did_not_take_effect_is_noticed() -> None:
    options = "# a comment\nCONFIG_NET=y\n\nCONFIG_TUN=y\n"
    assert _recipe.refused(options, "CONFIG_NET=y\n# CONFIG_TUN is not set\n") == ["CONFIG_TUN=y"]
    assert not _recipe.refused(options, "CONFIG_TUN=y\nCONFIG_NET=y\n")


def test_comments_of_the_configuration_cost_no_new_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "lab"
    shutil.copytree(_recipe.sources(), copy, ignore=shutil.ignore_patterns("guest", "host"))
    monkeypatch.setattr(_recipe, "sources", lambda: copy)
    before, config = _recipe.recipe(AMX), copy / "kernel.config"
    assert before
    text = config.read_text(encoding="utf-8")
    config.write_text(f"# Another comment\n\n{text}", encoding="utf-8")
    assert _recipe.recipe(AMX) == before
    config.write_text(text.replace("CONFIG_MPTCP=y\n", ""), encoding="utf-8")
    assert _recipe.recipe(AMX) != before
