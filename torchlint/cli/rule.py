"""``torchlint rule``: the manual of one rule, or of all."""

from __future__ import annotations

import json
from collections.abc import Iterable

import click

from torchlint.base.declaration import FIRST_RELEASE
from torchlint.base.errors import UsageError
from torchlint.catalog.rule_file import OURS
from torchlint.catalog.rules import Catalog, RuleInfo, load_catalog
from torchlint.cli.options import complete_rules
from torchlint.cli.output import complain
from torchlint.manual.engine_codes import ENGINE_PAGES, engine_code
from torchlint.manual.pages import page_text, sections
from torchlint.report.kit.terminal import aligned
from torchlint.report.kit.words import visible, visible_path


def as_json(info: RuleInfo) -> dict[str, object]:
    """Return what the JSON formats of ``rule`` and ``rules`` say of a rule, less its manual."""
    return {
        "code": info.code,
        "name": info.name,
        "family": info.family,
        "title": info.title,
        "message": info.message,
        "severity": info.severity,
        "default": info.default,
        "fixes": [safety.value for safety in info.fixes],
        "yields_to": list(info.yields_to),
        "effect": info.effect,
        "package": info.package,
        "since": info.since or (FIRST_RELEASE if info.package == OURS else None),
    }


def left_out(catalog: Catalog) -> int:
    """Say which rules of plugins are left out, and return the exit code that follows from it."""
    for problem in catalog.problems:
        complain(f"torchlint: error: {visible_path(problem.path)}: {visible(problem.message)}")
    return 2 if catalog.problems else 0


def _with_manual(info: RuleInfo) -> dict[str, object]:
    return {**as_json(info), "sections": dict(sections(info))}


def _print_manuals(rules: Iterable[RuleInfo]) -> None:
    click.echo(json.dumps([_with_manual(info) for info in rules], indent=2))


def rules_text(rules: Iterable[RuleInfo]) -> str:
    """Return a table of rules, a line each; empty without rules."""
    rows = [
        (
            info.code,
            info.name,
            info.severity,
            "on" if info.default else "off",
            ", ".join(safety.value for safety in info.fixes) or "-",
            visible(info.title if info.package == OURS else f"{info.title} [{info.package}]"),
        )
        for info in rules
    ]
    return "".join(f"{line}\n" for line in aligned(rows))


@click.command("rule")
@click.argument("code_or_name", metavar="CODE|NAME", required=False, shell_complete=complete_rules)
@click.option("--all", "all_rules", is_flag=True, help="Show every rule.")
@click.option(
    "--new",
    metavar="FAMILY/NAME",
    help="Write a new rule: one of this plugin, or a new plugin with it.",
)
@click.option(
    "--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True
)
def rule_command(
    code_or_name: str | None, all_rules: bool, new: str | None, output_format: str
) -> None:
    """Explain a rule: why it matters, bad and good code, when it is silent, how safe its fix is.

    Of a prefix of several codes (TL1), a family (memory) or a severity (warning) it lists the
    rules.
    """
    if new is not None and not all_rules and code_or_name is None:
        from torchlint.cli.new_rule import create

        create(new)
        return
    if new is not None or all_rules == (code_or_name is not None):
        raise UsageError(
            "name one rule by code or name, or pass --all or --new; 'torchlint rules' lists them"
        )
    catalog = load_catalog()
    if all_rules:
        if output_format == "json":
            _print_manuals(catalog.rules)
        else:
            click.echo("\n\n".join(page_text(info) for info in catalog.rules), nl=False)
        return
    asked = code_or_name or ""
    info = catalog.find(asked)
    code = engine_code(asked)
    if info is None and code is not None:
        text = ENGINE_PAGES[code]
        click.echo(
            json.dumps({"code": code, "title": text.strip()}, indent=2)
            if output_format == "json"
            else text
        )
        return
    if info is None:
        # Raises unless it is a prefix, or could be a rule that is left out.
        codes = catalog.resolve((asked,), "rule", UsageError)
        if not codes:
            problem = catalog.problems[0]
            raise UsageError(f"rule: unknown rule {asked!r}; {problem.path}: {problem.message}")
        some = [info for info in catalog.rules if info.code in codes]
        if not some:
            raise UsageError(f"rule: {asked!r} stands for {', '.join(sorted(codes))}")
        if output_format == "json":
            _print_manuals(some)
        else:
            click.echo(rules_text(some), nl=False)
        return
    if output_format == "json":
        click.echo(json.dumps(_with_manual(info), indent=2))
    else:
        click.echo(page_text(info), nl=False)
