"""What mkdocs calls while it builds the site: it adds the pages that are made from the rules, keys
and options.

None of these pages is kept in the repository, so none can be out of date.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from torchlint.catalog.rules import OWN_ROOT, load_catalog
from torchlint.cli.commands import COMMANDS, main
from torchlint.manual.questions import questions_page
from torchlint.manual.site import generated_pages, navigation
from torchlint.settings.documentation import keys_page

ROOT = Path(__file__).parent.parent
# Rules of plugins that happen to be installed here are no part of the site.
CATALOG = load_catalog([OWN_ROOT])
FOLKLORE = ROOT / "benchmarks" / "results" / "folklore-2026-11-21.json"
_MARK = re.compile(r"^<!-- generated: ([a-z-]+) -->$", re.MULTILINE)
_PART = re.compile(r"^<!-- from-readme: ([a-z-]+) -->$", re.MULTILINE)
_BELIEF = re.compile(r"^<!-- folklore: ([a-z-]+) -->$", re.MULTILINE)
_RULES = "Rules"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the rules into the navigation, in the place of their index."""
    assert config.nav
    for entry in config.nav:
        if isinstance(entry, dict) and _RULES in entry:
            entry[_RULES] = navigation(CATALOG)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    for path, text in generated_pages(CATALOG).items():
        files.append(File.generated(config, path, content=text))
    for name in ("CHANGELOG", "CONTRIBUTING"):
        text = (ROOT / f"{name}.md").read_text(encoding="utf-8")
        files.append(File.generated(config, f"{name.lower()}.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Fill in what a page leaves to be generated."""
    markdown = _PART.sub(lambda found: from_readme(found[1]), markdown)
    markdown = _BELIEF.sub(lambda found: belief(found[1]), markdown)
    return _MARK.sub(lambda found: generated(found[1]), markdown)


def belief(name: str) -> str:
    """Return in a sentence what ``benchmarks/folklore.py`` saw."""
    kept = json.loads(FOLKLORE.read_text(encoding="utf-8"))
    machine = (
        f"torch {kept['versions']['torch'].partition('+')[0]}, {kept['machine']}, "
        f"{kept['date'][:10]}"
    )
    return f"*Tried here* ({machine}): {kept['facts'][name]}."


def from_readme(name: str) -> str:
    """Return the part of the README between ``<!-- NAME -->`` and ``<!-- end -->``."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return text.split(f"<!-- {name} -->\n", 1)[1].split("\n<!-- end -->", 1)[0]


def generated(name: str) -> str:
    """Return the markdown that a mark stands for."""
    makers = {"keys": keys_page, "commands": commands_page, "questions": questions_page}
    return makers[name]()


def commands_page() -> str:
    """Return a section of markdown for each command, with its options."""
    return "\n\n".join(_command(name) for name in COMMANDS) + "\n"


def _command(name: str) -> str:
    context = click.Context(main, info_name="torchlint")
    command = main.get_command(context, name)
    assert command is not None
    usage = command.collect_usage_pieces(click.Context(command, context, info_name=name))
    summary = " ".join((command.help or "").split())
    rows = list(_options(command))
    table = ["| Option | What it does |", "| --- | --- |", *rows] if rows else []
    parts = [
        f"## torchlint {name}",
        summary,
        f"```text\ntorchlint {name} {' '.join(usage)}\n```",
        "\n".join(table),
    ]
    return "\n\n".join(part for part in parts if part)


def _options(command: click.Command) -> Iterator[str]:
    context = click.Context(command)
    for parameter in command.get_params(context):
        shown = parameter.get_help_record(context)
        if isinstance(parameter, click.Option) and shown is not None:
            flags, words = (text.replace("|", r"\|") for text in shown)
            yield f"| `{flags}` | {words} |"
