"""``torchlint config``: the keys of the configuration, in words, as JSON or as a JSON Schema."""

from __future__ import annotations

import json
import sys

import click

from torchlint.base.errors import UsageError
from torchlint.base.regex import regex
from torchlint.cli.terminal import terminal_width
from torchlint.report.kit.terminal import readable, wrapped
from torchlint.settings.documentation import default_of, in_pyproject
from torchlint.settings.keys import KEYS, Key, nearest_key

_LINK = regex(r"\[([^\]]*)\]\([^)]*\)")


@click.command("config")
@click.argument("key", required=False)
@click.option(
    "--output-format",
    type=click.Choice(["text", "json", "schema"]),
    default="text",
    show_default=True,
)
def config_command(key: str | None, output_format: str) -> int:
    """List the keys of the configuration, or say what KEY takes, does and is by default."""
    if key is not None and key not in KEYS:
        raise UsageError(f"unknown key {key[:60]!r}{nearest_key(key)}")
    if output_format == "schema":
        from torchlint.settings.schema import schema

        click.echo(json.dumps(schema(), indent=2))
        return 0
    asked = KEYS if key is None else {key: KEYS[key]}
    if output_format == "json":
        rows = {name: _as_json(row) for name, row in asked.items()}
        click.echo(json.dumps(rows if key is None else rows[key], indent=2))
    elif key is None:
        width = max(map(len, asked))
        click.echo(
            "".join(f"{name:{width}}  {row.words}\n" for name, row in asked.items()), nl=False
        )
    else:
        click.echo(_text(key, asked[key]))
    return 0


def _as_json(row: Key) -> dict[str, object]:
    return {
        "description": f"{row.words} {row.more}".strip(),
        "takes": row.takes,
        "default": default_of(row).strip("`"),
        "example": in_pyproject(row.sample),
    }


def _text(key: str, row: Key) -> str:
    said = _as_json(row)
    words = (str(said["description"]), "", f"Takes: {row.takes}", f"Default: {said['default']}")
    plain = (_LINK.sub(r"\1", line).replace("`", "") for line in words)
    lines = (part for line in plain for part in wrapped(line, readable(terminal_width(sys.stdout))))
    return "\n".join([key, "", *lines, "Example:", str(said["example"])])
