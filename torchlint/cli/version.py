"""``torchlint version``: which torchlint this is."""

from __future__ import annotations

import json

import click

from torchlint import __version__


@click.command("version")
@click.option(
    "--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True
)
def version_command(output_format: str) -> None:
    """Print the version of torchlint; in JSON the fields are those of `ruff version`, where
    commit_info is null for an installed release."""
    if output_format == "json":
        click.echo(json.dumps({"version": __version__, "commit_info": None}, indent=2))
    else:
        click.echo(f"torchlint {__version__}")
