"""``torchlint rules``: one line for each rule."""

from __future__ import annotations

import json

import click

from torchlint.catalog.rules import load_catalog
from torchlint.cli.rule import as_json, left_out, rules_text


@click.command("rules")
@click.option(
    "--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True
)
def rules_command(output_format: str) -> int:
    """List all rules with severity, default and kinds of fix; those of plugins with their package.

    Exit code: 0, or 2 where rules of a plugin are left out because something is wrong with it.
    """
    catalog = load_catalog()
    if output_format == "json":
        click.echo(json.dumps([as_json(info) for info in catalog.rules], indent=2))
    else:
        click.echo(rules_text(catalog.rules), nl=False)
    return left_out(catalog)
