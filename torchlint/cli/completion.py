"""``torchlint completion``: what a shell needs to complete commands, options and their values."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from torchlint.base.errors import UsageError
from torchlint.cli.output import emit


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> None:
    """Print the completion script for SHELL.

    \b
    bash: in ~/.bashrc  eval "$(torchlint completion bash)"
    zsh:  in ~/.zshrc   eval "$(torchlint completion zsh)"
    fish: in ~/.config/fish/config.fish  torchlint completion fish | source
    """
    from torchlint.cli.commands import main

    found = get_completion_class(shell)
    if found is None:
        raise UsageError(f"click knows no completion for {shell}")
    emit(found(main, {}, "torchlint", "_TORCHLINT_COMPLETE").source() + "\n")
