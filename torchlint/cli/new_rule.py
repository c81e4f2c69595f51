"""``torchlint rule --new FAMILY/NAME``: write a rule that works, to be made into another one.

In a checkout of torchlint it becomes one of its own, in the folder of a plugin one more of that
plugin, and anywhere else the first of a new plugin.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from torchlint.base.errors import ConfigError, UsageError
from torchlint.base.regex import regex
from torchlint.catalog.plugins import GROUP
from torchlint.catalog.rule_file import FAMILIES, checked_name
from torchlint.catalog.rules import load_catalog
from torchlint.cli.output import emit
from torchlint.manual import new_rule
from torchlint.report.kit.words import visible, visible_path

_FAMILY = regex(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_CODE = regex(r"""\bcode=["']([A-Z]{2,5})(\d{3})["']""")
_LETTERS = 5
"""The most letters of a plugin's codes."""


def create(asked: str) -> None:
    """Write the files of a new rule and say what to do with them.

    Args:
        asked: ``FAMILY/NAME``.

    Raises:
        UsageError: the name cannot be used, or a file is there already; nothing is written then.
        ConfigError: the ``pyproject.toml`` of this folder cannot be read.
        OSError: a file cannot be written.
    """
    family, slash, name = asked.replace("-", "_").partition("/")
    if not slash or not _FAMILY.fullmatch(family):
        raise UsageError(
            f"rule --new: {visible(asked[:60])!r} is not of the form FAMILY/NAME, two names in "
            "lower-case letters, "
            "as in 'acme/double-detach'"
        )
    above = [Path(os.getcwd()), *Path(os.getcwd()).parents]
    checkout = next(
        (
            folder
            for folder in above
            if (folder / "torchlint" / "rule.py").is_file()
            and (folder / "fixtures" / "rules").is_dir()
        ),
        None,
    )
    plugin = checkout is None
    try:
        checked_name(name, plugin)
    except ValueError as error:
        raise UsageError(f"rule --new: {visible(name[:60])!r}: {error}") from None
    info = load_catalog().find(name.replace("_", "-"))
    if info is not None:
        raise UsageError(
            f"rule --new: the name {info.name} is already taken by {info.code} of {info.package}"
        )
    home = _plugin_rules(above) if checkout is None else None
    if checkout is not None:
        if family not in FAMILIES:
            raise UsageError(
                f"rule --new: torchlint has no family {family!r} (known: {', '.join(FAMILIES)})"
            )
        code = _next(f"TL{FAMILIES[family]}", checkout / "torchlint" / "rules" / family)
        _write(checkout, new_rule.own_rule(family, name, code))
        tests = (
            "python -m pytest tests/test_rules.py tests/test_fixtures.py "
            f"tests/test_fixes_run.py -k '{code} or {name}'"
        )
        steps = [tests, f"torchlint rule {code}", "python -m tests.test_readme"]
    else:
        steps = _plugin_rule(home, family, name) if home is not None else _plugin(family, name)
    emit(
        "".join(
            ("It works as it is; try it, then make it yours:\n", *(f"  {step}\n" for step in steps))
        )
    )


def _plugin_rule(home: Path, family: str, name: str) -> list[str]:
    # The letters of the codes that a plugin uses already; empty where it has no rule.
    code = _next(
        next((letters for letters, _ in sorted(_codes(home))), "") or _letters(family), home
    )
    files = new_rule.plugin_rule(family, name, code)
    # The family may be there already, and its __init__.py with it.
    _write(
        home,
        {
            path: text
            for path, text in files.items()
            if path.endswith(f"/{name}.py") or _is_free(home / path)
        },
    )
    return ["python -m pytest", f"torchlint rule {code}"]


def _plugin(family: str, name: str) -> list[str]:
    code = f"{_letters(family)}101"
    other = load_catalog().find(code)
    if other is not None:
        raise UsageError(
            f"rule --new: the code {code} is already taken by {other.package}; choose another "
            "family"
        )
    folder, files = new_rule.plugin(family, name, code)
    if not _is_free(Path(folder)):
        raise UsageError(
            f"rule --new: {folder} is there already; run this inside it to add a rule to it"
        )
    _write(Path(folder), files)
    return [
        f"cd {folder}",
        'python -m pip install -e ".[test]"',
        "python -m pytest",
        f"torchlint rule {code}",
    ]


def _plugin_rules(above: list[Path]) -> Path | None:
    """Return the folder of rules of the plugin that this is the project of, or None where it is no
    plugin's."""
    path = next(
        (folder / "pyproject.toml" for folder in above if (folder / "pyproject.toml").is_file()),
        None,
    )
    if path is None:
        return None
    import tomli

    try:
        value: Any = tomli.loads(path.read_text("utf-8"))
        for key in ("project", "entry-points", GROUP):
            value = value.get(key, {})
        names = [str(name) for name in value.values()]
    except (ValueError, AttributeError) as error:
        raise ConfigError(f"{visible_path(str(path))}: {visible(str(error))}") from None
    for name in names:
        for base in (path.parent / "src", path.parent):
            folder = base.joinpath(*name.split("."))
            if folder.is_dir():
                return folder
    if names:
        raise UsageError(
            f"{visible_path(str(path))}: {GROUP}: there is no folder {visible(names[0])!r} of "
            "rules here"
        )
    return None


def _letters(family: str) -> str:
    """Return the letters of a new plugin's codes."""
    letters = re.sub(r"[^a-z]", "", family)[:_LETTERS].upper()
    if len(letters) < 2 or letters == "TL":
        reason = (
            "is torchlint's own"
            if letters == "TL"
            else "is too short: codes begin with two to five letters"
        )
        raise UsageError(
            f"rule --new: the prefix {letters!r} of the family {family!r} {reason}; choose "
            "another family"
        )
    return letters


def _codes(folder: Path) -> Iterator[tuple[str, int]]:
    for path in folder.rglob("*.py"):
        for letters, digits in _CODE.findall(path.read_text("utf-8", "replace")):
            yield letters, int(digits)


def _next(prefix: str, folder: Path) -> str:
    """Return the first code behind all those of `folder`; a code is never given twice.

    Args:
        prefix: letters, for one of our own families with its digit.
        folder: of the rules.
    """
    letters = prefix.rstrip("0123456789")
    least = int(f"{prefix.removeprefix(letters) or 1}00")
    number = max([least, *(number for found, number in _codes(folder) if found == letters)]) + 1
    if number > (least + 99 if letters == "TL" else 999):
        raise UsageError(f"rule --new: all codes {prefix}… are given")
    return f"{letters}{number}"


def _is_free(path: Path) -> bool:
    return not os.path.lexists(path)


def _write(base: Path, files: Mapping[str, str]) -> None:
    for path in files:
        if not _is_free(base / path):
            raise UsageError(
                f"rule --new: {visible_path(str(base / path))} is there already; nothing was "
                "written"
            )
    for path, text in files.items():
        (base / path).parent.mkdir(parents=True, exist_ok=True)
        with (base / path).open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
        emit(f"Wrote {visible_path(str(base / path))}\n")
