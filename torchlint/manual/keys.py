"""The configuration keys in words: what the documentation says of each. The keys themselves are the engine's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType

from torchlint.base.finding import Severity
from torchlint.base.places import CACHE_NAME
from torchlint.engine.config import Settings
from torchlint.engine.options import OPTIONS


@dataclass(frozen=True, slots=True)
class Key:
    """What a page says of one key.

    Args:
        takes: the kind of value, in words.
        words: what the key does, markdown.
        sample: a line of TOML, or a table, that sets it.
    """

    takes: str
    words: str
    sample: str


_FILES = "list of globs"
_RULES = "list of codes, prefixes of codes, names or `ALL`"
KEYS: Mapping[str, Key] = MappingProxyType(
    {
        "accelerator": Key(
            '`"auto"`, `"cuda"`, `"mps"` or `"cpu"`',
            "What the code runs on. `auto` reads it from the code: a file that never mentions an accelerator is "
            "taken for CPU code, and the rules on transfers are silent in it.",
            'accelerator = "cuda"',
        ),
        "assume-hot": Key(
            "list of globs of function names",
            "Functions that run every step although no loop in the project shows it: callbacks of a framework that "
            "torchlint does not know, say.",
            'assume-hot = ["act", "*_update"]',
        ),
        "cache-dir": Key(
            "path, relative to the project's root",
            "Where results are kept. `torchlint clean` removes the folder.",
            'cache-dir = "/tmp/torchlint"',
        ),
        "exclude": Key(
            _FILES,
            "What is left out of a directory; replaces the default. A path that is named on the command line is "
            "checked nevertheless, unless `force-exclude` is set.",
            'exclude = ["third_party/"]',
        ),
        "extend": Key(
            "path of a configuration file",
            "Another file that this one builds on. What stands here wins.",
            'extend = "../torchlint.toml"',
        ),
        "extend-exclude": Key(_FILES, "Left out as well as what `exclude` says.", 'extend-exclude = ["*_pb2.py"]'),
        "extend-select": Key(
            _RULES, "Rules that are on as well as the selected or default ones.", 'extend-select = ["TL407"]'
        ),
        "fail-on": Key(
            '`"error"`, `"warning"` or `"info"`',
            "The lowest severity that makes a run fail with exit code 1.",
            'fail-on = "error"',
        ),
        "force-exclude": Key(
            "true or false",
            "Excludes hold also for paths that are named, as pre-commit names them. The hooks set it.",
            "force-exclude = true",
        ),
        "ignore": Key(
            _RULES,
            "Rules that are off. Of several selectors that hold a rule the most specific one decides; of two equally "
            "specific ones, `ignore` wins.",
            'ignore = ["TL202"]',
        ),
        "include": Key(_FILES, "The files to take from a directory.", 'include = ["*.py", "*.pyi"]'),
        "jobs": Key(
            "whole number", "Worker processes at most; 0 for one a core. Small runs use one anyway.", "jobs = 2"
        ),
        "max-file-size": Key(
            "bytes", "Larger files are left out, with a note; 0 for no limit.", "max-file-size = 2_000_000"
        ),
        "output-format": Key("name of a format", "How findings are printed.", 'output-format = "concise"'),
        "per-file-ignores": Key(
            f"table of glob = {_RULES}",
            "Rules that are off in the files that a glob matches.",
            '[per-file-ignores]\n"scripts/*" = ["TL101"]',
        ),
        "required-version": Key(
            "version specifier",
            "Refuse to run (exit code 2) where this torchlint does not fit.",
            'required-version = ">=0.1"',
        ),
        "respect-gitignore": Key("true or false", "What git ignores is left out.", "respect-gitignore = false"),
        "select": Key(_RULES, "The rules to check, in the place of the default ones.", 'select = ["TL1", "TL503"]'),
        "severity": Key(
            '`"error"`, `"warning"` or `"info"` by rule',
            "Replaces the rules' own severities; the more specific selector decides.",
            '[severity]\nTL1 = "error"\nTL107 = "info"',
        ),
        "target-torch": Key(
            "version in quotes",
            "The oldest torch that fixes must work on. Left out, it is the lower bound of torch in the project's "
            "dependencies (`pyproject.toml`), else 2.4.",
            'target-torch = "2.4"',
        ),
        "timeout": Key(
            "seconds", "Time for one file; a file that takes longer is named in the report.", "timeout = 60"
        ),
        "unsafe-fixes": Key("true or false", "Count and apply unsafe fixes too.", "unsafe-fixes = false"),
    }
)
"""Every key of `OPTIONS`, in its order."""
_FIELDS = {field.name: field.default for field in fields(Settings)}


def default_of(key: str) -> str:
    """Return a key's default as TOML would have it, in words where there is no such value."""
    if key in ("extend", "required-version"):
        return "none"
    if key == "target-torch":
        return "read from your dependencies"
    if key == "cache-dir":
        return f"`{CACHE_NAME!r}`".replace("'", '"')
    if key == "select":
        return "the rules that are on by default"
    value = _FIELDS.get(key.replace("-", "_"), ())  # extend-exclude is merged into another field
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        listed = ", ".join(f'"{item}"' for item in value)
        return "`{}`" if key in ("per-file-ignores", "severity") else f"`[{listed}]`"
    if isinstance(value, int | float):
        return f"`{value:.15g}`"
    return f'`"{value.value if isinstance(value, Severity) else value}"`'


def keys_page() -> str:
    """Return a section of markdown for each key, in the order of `OPTIONS`."""
    parts = []
    for key in OPTIONS:
        told = KEYS[key]
        parts.append(f"### `{key}`\n\n{told.words}\n\n- Takes: {told.takes}\n- Default: {default_of(key)}")
        parts.append(f"```toml\n{_in_table(told.sample)}\n```")
    return "\n\n".join(parts) + "\n"


def _in_table(sample: str) -> str:
    """Return a sample as it stands in pyproject.toml."""
    if sample.startswith("["):
        return sample.replace("[", "[tool.torchlint.", 1)
    return f"[tool.torchlint]\n{sample}"
