"""``torchlint agents``, the page for coding agents, and what their reports know of a run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from torchlint.cli.options import Given
from torchlint.cli.output import emit
from torchlint.report.run_report import Portion, RunReport

SKILL = Path(__file__).parent.parent / "manual" / "skills" / "torchlint"
"""The skill folder; agents that know skills take a copy of it."""
_OF_OUTPUT = ("--output-format", "-o", "--output-file", "--skip")


@click.command("agents")
@click.option("--path", is_flag=True, help="Print where the skill folder lies, to copy it.")
def agents_command(path: bool) -> int:
    """Print instructions for a coding agent: which commands, in which order, and what never to do.

    The page is a skill: `cp -r "$(torchlint agents --path)" .claude/skills/` installs it where
    agents look for skills there.
    """
    emit(f"{SKILL}\n" if path else (SKILL / "SKILL.md").read_text(encoding="utf-8"))
    return 0


def portion(run: RunReport, given: Given, typed: Sequence[str]) -> Portion:
    """Return what the report for agents shows of a run.

    Args:
        run: what was found.
        given: the command's parameters.
        typed: the command as it was typed.
    """
    again = ("torchlint", "check", "--output-format", "agent", *_without_output_options(typed[1:]))
    return Portion(given["max_tokens"], given["skip"], again, _programs(run))


def _without_output_options(typed: Sequence[str]) -> list[str]:
    """Return the words of a command without the options that say how and where it prints."""
    kept: list[str] = []
    words = iter(typed)
    for word in words:
        if word in _OF_OUTPUT:
            next(words, None)
        elif word.partition("=")[0] not in _OF_OUTPUT:
            kept.append(word)
    return kept


def _programs(run: RunReport) -> Mapping[str, str]:
    """Return by file with findings the likeliest script that runs it, from the working folder."""
    from torchlint.run.projects import programs  # the model of code, which no other format needs

    names = {run.absolute(file.filename): file.filename for file in run.files if file.findings}
    started = programs(run.root, names)
    here = run.cwd or run.root
    return {
        names[path]: os.path.relpath(scripts[0], here)
        for path, scripts in started.items()
        if scripts
    }
