"""``weir completion``."""

from __future__ import annotations

import click

from weir.cli._common import examples, say

__all__ = ["command"]

_EPILOG = examples(
    ('eval "$(weir completion bash)"', "put this into ~/.bashrc"),
    ('eval "$(weir completion zsh)"', "put this into ~/.zshrc"),
    ("weir completion fish > ~/.config/fish/completions/weir.fish", "run this once"),
)


@click.command(epilog=_EPILOG)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print a completion script for SHELL: commands, options, scenarios and metrics."""
    from click.shell_completion import get_completion_class

    from weir.cli._app import cli

    completer = get_completion_class(shell)
    assert completer is not None  # the choices are click's own
    source = completer(cli, {}, "weir", "_WEIR_COMPLETE")
    # Only the text: bash's `source()` would start bash to check its version.
    say(source.source_template % source.source_vars())
