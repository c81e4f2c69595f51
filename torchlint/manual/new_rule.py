"""The files of a new rule, made from the one template: for torchlint itself, for a plugin, and a
whole plugin."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from string import Template

from torchlint import __version__

TEMPLATE = Path(__file__).parent / "template"
"""A rule that works, with its manual, and what belongs around it; ``$name`` is filled in."""


def own_rule(family: str, stem: str, code: str) -> dict[str, str]:
    """Return what a rule of torchlint's own needs: paths in the checkout with their text."""
    fixture = f"fixtures/rules/{family}/{stem}"
    return {
        f"torchlint/rules/{family}/{stem}.py": _filled(
            "rule.py", {"code": code, "since": f'    since="{__version__}",\n'}
        ),
        f"{fixture}.py": _filled("fixture.py", {"code": code}),
        f"{fixture}.diff": _filled("fixture.diff", {"code": code}),
    }


def plugin_rule(family: str, stem: str, code: str) -> dict[str, str]:
    """Return what one more rule of a plugin needs: paths in its package of rules with their
    text."""
    return {
        f"{family}/__init__.py": _filled("init.py", {"what": f"Rules of the family {family}."}),
        f"{family}/{stem}.py": _filled("rule.py", {"code": code, "since": ""}),
    }


def plugin(family: str, stem: str, code: str) -> tuple[str, dict[str, str]]:
    """Return the name of a plugin's folder, and what it needs: paths in it with their text.

    Args:
        family: of its first rule; the plugin is named after it.
        stem: the rule's file name without ``.py``.
        code: the rule's.
    """
    project, package = f"torchlint-{family.replace('_', '-')}", f"torchlint_{family}"
    values = {
        "code": code,
        "family": family,
        "package": package,
        "prefix": code.rstrip("0123456789"),
        "project": project,
        "version": __version__,
    }
    rules = f"src/{package}/rules"
    return project, {
        "pyproject.toml": _filled("pyproject.toml", values),
        "README.md": _filled("README.md", values),
        f"src/{package}/__init__.py": _filled("init.py", {"what": "A plugin of torchlint."}),
        f"{rules}/__init__.py": _filled("init.py", {"what": "The rules, by family."}),
        **{f"{rules}/{path}": text for path, text in plugin_rule(family, stem, code).items()},
        "tests/test_manual.py": _filled("test_manual.py", values),
    }


def _filled(name: str, values: Mapping[str, str]) -> str:
    return Template((TEMPLATE / f"{name}.txt").read_text("utf-8")).substitute(values)
