"""The generated parts of docs/: keys, options, questions, rules, what fixes take for granted, and
what was tried of folklore.

Each stands in its page between ``<!-- generated: NAME -->`` and ``<!-- end: NAME -->``;
``python -m tests.docs.test_docs_examples`` writes them anew.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import click

from tests.test_readme import ROOT
from torchlint.base.places import VARIABLES
from torchlint.catalog.rules import OWN_ROOT, load_catalog
from torchlint.cli.commands import COMMANDS, main
from torchlint.manual.engine_codes import ENGINE_PAGES
from torchlint.manual.questions import questions_page
from torchlint.semantic.uses.assumptions import ASSUMPTIONS
from torchlint.settings.documentation import keys_page

FOLKLORE = ROOT / "benchmarks" / "results" / "folklore-2026-11-21.json"
_PART = re.compile(r"<!-- generated: ([a-z-]+) -->\n.*?<!-- end: \1 -->", re.DOTALL)


def filled(page: str) -> str:
    """Return a page with its generated parts made anew."""

    def made(found: re.Match[str]) -> str:
        text = part(found[1]).strip()
        return f"<!-- generated: {found[1]} -->\n\n{text}\n\n<!-- end: {found[1]} -->"

    return _PART.sub(made, page)


def part(name: str) -> str:
    """Return the markdown of a generated part."""
    makers = {
        "keys": keys_page,
        "commands": commands_page,
        "questions": questions_page,
        "rules": rules_page,
        "variables": variables_page,
        "assumptions": assumptions_page,
    }
    return makers[name]() if name in makers else belief(name)


def variables_page() -> str:
    """Return the table of the variables that set options, with the commands that read them."""
    rows = []
    for option, variable in VARIABLES.items():
        users = [f"`{name}`" for name in COMMANDS if f"[env: {variable}]" in _helps(name)]
        rows.append(f"| `{variable}` | `--{option}` | {', '.join(users)} |")
    return "\n".join(("| Variable | Option | Used by |", "| --- | --- | --- |", *rows))


def _helps(name: str) -> str:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    return " ".join(getattr(parameter, "help", None) or "" for parameter in command.params)


def rules_page() -> str:
    """Return the table of the rules, each with a place to link to and its file, and what the
    engine's own codes mean."""
    rows = []
    # Rules of plugins that happen to be installed here are no part of the documentation.
    for info in load_catalog([OWN_ROOT]).rules:
        file, title = Path(info.path).relative_to(ROOT).as_posix(), info.title.replace("|", r"\|")
        rows.append(
            f'| <a id="{info.code}"></a>{info.code} | [`{info.name}`](../{file}) | {title} |'
        )
    table = "\n".join(("| Code | Rule | What |", "| --- | --- | --- |", *rows))
    codes = (f'<a id="{code}"></a>\n\n### {code}\n\n{text}' for code, text in ENGINE_PAGES.items())
    return "\n\n".join((table, "## Codes of the engine", *codes))


def assumptions_page() -> str:
    """Return the table of what safe fixes take for granted."""
    rows = [f"| `{name}` | {each.sentence} |" for name, each in ASSUMPTIONS.items()]
    return "\n".join(("| Name | An ordinary program |", "| --- | --- |", *rows))


def belief(name: str) -> str:
    """Return in a sentence what ``benchmarks/folklore.py`` saw."""
    kept = json.loads(FOLKLORE.read_text(encoding="utf-8"))
    machine = (
        f"torch {kept['versions']['torch'].partition('+')[0]}, {kept['machine']}, "
        f"{kept['date'][:10]}"
    )
    return f"*Tried here* ({machine}): {kept['facts'][name]}."


def commands_page() -> str:
    """Return a section of markdown for each command, with its options."""
    return "\n\n".join(_command(name) for name in COMMANDS) + "\n"


def _command(name: str) -> str:
    context = click.Context(main, info_name="torchlint")
    command = main.get_command(context, name)
    assert command is not None
    inner = click.Context(command, context, info_name=name)
    usage = command.collect_usage_pieces(inner)
    summary = " ".join((command.help or "").split())
    rows = list(_options(command, inner))
    table = ["| Option | What it does |", "| --- | --- |", *rows] if rows else []
    parts = [
        f"## torchlint {name}",
        summary,
        f"```text\ntorchlint {name} {' '.join(usage)}\n```",
        "\n".join(table),
    ]
    return "\n\n".join(part for part in parts if part)


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    for parameter in command.get_params(context):
        shown = parameter.get_help_record(context)
        if isinstance(parameter, click.Option) and shown is not None:
            flags, words = (text.replace("|", r"\|") for text in shown)
            if "--help" in parameter.opts:  # click keeps the option of the first context that asked
                flags = ", ".join(context.help_option_names)
            yield f"| `{flags}` | {words} |"
