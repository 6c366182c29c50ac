"""What is changed in the kernel's sources: only what is known, and for the processor at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from weir.lab import LabError, _recipe

AMX = 11_008
"""Bytes of state of a processor with AMX."""


def tree(folder: Path, edit: _recipe.Edit, text: str) -> Path:
    file = folder / edit.file
    file.parent.mkdir(parents=True)
    file.write_text(text, encoding="utf-8")
    return file


def test_an_edit_changes_its_text_and_nothing_else(tmp_path: Path) -> None:
    for number, edit in enumerate(_recipe.edits(AMX)):
        file = tree(tmp_path / str(number), edit, f"before\n{edit.old}after\n")
        _recipe.apply(edit, tmp_path / str(number))
        assert file.read_text(encoding="utf-8") == f"before\n{edit.new}after\n"


@pytest.mark.parametrize("times", [0, 2])
def test_sources_that_differ_are_refused(tmp_path: Path, times: int) -> None:
    edit = _recipe.edits(AMX)[-1]
    file = tree(tmp_path, edit, edit.old * times)
    with pytest.raises(LabError, match="cannot be made safely"):
        _recipe.apply(edit, tmp_path)
    assert file.read_text(encoding="utf-8") == edit.old * times


def test_sources_without_the_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"have no arch/um/Kconfig"):
        _recipe.apply(_recipe.edits(512)[0], tmp_path)


def test_a_small_state_needs_no_room() -> None:
    assert all("HOST_FP_SIZE" not in edit.new for edit in _recipe.edits(2696))
    assert "KERNEL_STACK_ORDER" not in _recipe.config(2696)


def test_a_large_state_gets_room_in_the_task_and_on_the_stack() -> None:
    (edit,) = (edit for edit in _recipe.edits(AMX) if "HOST_FP_SIZE" in edit.new)
    assert "HOST_FP_SIZE, 11008)" in edit.new
    assert "CONFIG_KERNEL_STACK_ORDER=3\n" in _recipe.config(AMX)


def test_the_recipe_depends_on_the_processor() -> None:
    assert _recipe.recipe(2432) == _recipe.recipe(2696)
    assert _recipe.recipe(2432) != _recipe.recipe(AMX)


def test_an_option_that_did_not_take_effect_is_noticed() -> None:
    options = "# a comment\nCONFIG_NET=y\n\nCONFIG_TUN=y\n"
    assert _recipe.refused(options, "CONFIG_NET=y\n# CONFIG_TUN is not set\n") == ["CONFIG_TUN=y"]
    assert not _recipe.refused(options, "CONFIG_TUN=y\nCONFIG_NET=y\n")
