"""The configuration keys in words, for the documentation and `torchlint init`. The keys themselves are the engine's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType

from torchlint import __version__
from torchlint.base.finding import Severity
from torchlint.base.places import CACHE_NAME
from torchlint.engine.config import Settings
from torchlint.engine.options import OPTIONS


@dataclass(frozen=True, slots=True)
class Key:
    """What a page says of one key.

    Args:
        takes: the kind of value, in words.
        words: what the key does, plain text.
        sample: a line of TOML, or a table, that sets it.
        more: what else there is to say, markdown.
    """

    takes: str
    words: str
    sample: str
    more: str = ""


_FILES = "list of globs"
_RULES = "list of codes, prefixes of codes, names or `ALL`"
_SEVERITIES = '`"error"`, `"warning"` or `"info"`'
KEYS: Mapping[str, Key] = MappingProxyType(
    {
        "select": Key(
            _RULES,
            "Rules to check, in place of the default ones: codes, prefixes of codes, names or ALL.",
            'select = ["TL1", "TL503"]',
        ),
        "ignore": Key(
            _RULES,
            "Rules to leave out.",
            'ignore = ["TL202"]',
            "Of several selectors that hold a rule the most specific one decides; of two equally specific ones, "
            "`ignore` wins.",
        ),
        "extend-select": Key(_RULES, "Rules to check besides the default ones.", 'extend-select = ["TL407"]'),
        "fail-on": Key(
            _SEVERITIES,
            "The lowest severity that makes the exit code 1: error, warning or info.",
            'fail-on = "warning"',
        ),
        "baseline": Key(
            "path, relative to the project's root",
            "A file of findings that are not reported; `torchlint check --write-baseline` writes it.",
            'baseline = "torchlint-baseline.json"',
        ),
        "unsafe-fixes": Key(
            "true or false",
            "Whether to count and apply fixes that may change rounding, random numbers and the like.",
            "unsafe-fixes = false",
            "A configuration that lies with the code may be a stranger's, so `true` counts only in a file that "
            "`--config` names; it is ignored elsewhere, with a line that says so. Use `--unsafe-fixes`.",
        ),
        "target-torch": Key(
            "version in quotes",
            "The oldest torch that fixes must work on; else read from your dependencies.",
            'target-torch = "2.4"',
            "That is the lower bound of torch in the nearest folder, from the file's own up to the root, where "
            "`pyproject.toml`, `setup.py`, `setup.cfg`, `requirements*.txt`, `requirements/*.txt` or `environment.yml` "
            "has one; the lowest of several, and 2.4 where there is none. Of `torch<2` it is 1.13. Nothing of these "
            "files is run. `--show-settings` prints the file under `target-torch-from`.",
        ),
        "accelerator": Key(
            '`"auto"`, `"cuda"`, `"mps"` or `"cpu"`',
            "What the code runs on: auto, cuda, mps or cpu.",
            'accelerator = "auto"',
            "`auto` reads it from the code: a file that never mentions an accelerator is taken for CPU code, and the "
            "rules on transfers are silent in it.",
        ),
        "assume-hot": Key(
            "list of globs of function names",
            "Functions that run every step although no loop here shows it.",
            'assume-hot = ["act", "*_update"]',
            "Callbacks of a framework that torchlint does not know, say.",
        ),
        "include": Key(_FILES, "Which files to take from a folder.", 'include = ["*.py", "*.pyi", "*.ipynb"]'),
        "extend-exclude": Key(
            _FILES, "What to leave out besides what is left out anyway.", 'extend-exclude = ["third_party/"]'
        ),
        "exclude": Key(
            _FILES,
            "What to leave out of a folder, in place of what is left out anyway.",
            'exclude = [".git", ".venv", "build"]',
            "A path that is named on the command line is checked nevertheless, unless `force-exclude` is set.",
        ),
        "force-exclude": Key(
            "true or false",
            "Whether excludes hold for files that are named, too.",
            "force-exclude = false",
            "pre-commit names files; the hooks set it.",
        ),
        "respect-gitignore": Key("true or false", "Whether what git ignores is left out.", "respect-gitignore = true"),
        "max-file-size": Key(
            "bytes",
            "Larger files are left out, in bytes; 0 for no limit.",
            "max-file-size = 1_000_000",
            "Each is named in the report.",
        ),
        "timeout": Key(
            "seconds",
            "CPU seconds for one file.",
            "timeout = 30",
            "A file that takes more is named in the report.",
        ),
        "jobs": Key(
            "whole number",
            "Worker processes at most; 0 for one a core.",
            "jobs = 0",
            "Small runs use one anyway.",
        ),
        "cache-dir": Key(
            "path, relative to the project's root",
            "Where results are kept.",
            'cache-dir = ".torchlint_cache"',
            "`torchlint clean` removes the folder. A place outside of the project counts only in a file that "
            "`--config` names; it is ignored elsewhere, with a line that says so. Use `--cache-dir`.",
        ),
        "output-format": Key("name of a format", "How findings are printed.", 'output-format = "ranked"'),
        "required-version": Key(
            "version specifier",
            "Which torchlint this file is made for.",
            f'required-version = ">={__version__}"',
            "Any other refuses to run, with exit code 2.",
        ),
        "extend": Key(
            "path of a configuration file",
            "A configuration that this one adds to.",
            'extend = "../torchlint.toml"',
            "What stands here wins.",
        ),
        "per-file-ignores": Key(
            f"table of glob = {_RULES}",
            "Rules to leave out in some files.",
            '[per-file-ignores]\n"scripts/*" = ["TL101"]',
        ),
        "severity": Key(
            f"table of rule = {_SEVERITIES}",
            "Severities other than the rules' own.",
            '[severity]\nTL107 = "warning"',
            "Of several selectors that hold a rule the most specific one decides.",
        ),
    }
)
"""Every key of `OPTIONS`, as somebody who writes a configuration asks for them; tables come last, as TOML has it."""
_FIELDS = {field.name: field.default for field in fields(Settings)}


def default_of(key: str) -> str:
    """Return a key's default as TOML would have it, in words where there is no such value."""
    value = _FIELDS.get(key.replace("-", "_"), ())  # extend-exclude is merged into another field
    if key in ("extend", "required-version") or (value == "" and key != "cache-dir"):
        return "none"
    if key == "target-torch":
        return "read from your dependencies"
    if key == "cache-dir":
        return f"`{CACHE_NAME!r}`".replace("'", '"')
    if key == "select":
        return "the rules that are on by default"
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
        said = f"{told.words} {told.more}".strip()
        parts.append(f"### `{key}`\n\n{said}\n\n- Takes: {told.takes}\n- Default: {default_of(key)}")
        parts.append(f"```toml\n{_in_pyproject(told.sample)}\n```")
    return "\n\n".join(parts) + "\n"


def configuration(section: str = "") -> str:
    """Return a configuration with all keys, commented out; `section` is the table that holds it in a pyproject.toml."""
    parts = [f"[{section}]"] if section else []
    for told in KEYS.values():
        lines = [told.words, *_below(section, told.sample).split("\n")]
        parts.append("".join(f"# {line}\n" for line in lines))
    return "\n".join(parts)


def _in_pyproject(sample: str) -> str:
    """Return a sample as it stands in pyproject.toml."""
    below = _below("tool.torchlint", sample)
    return below if below != sample else f"[tool.torchlint]\n{sample}"


def _below(section: str, sample: str) -> str:
    """Return a sample as it stands in a table; only one that is a table itself names it."""
    return sample.replace("[", f"[{section}.", 1) if section and sample.startswith("[") else sample
