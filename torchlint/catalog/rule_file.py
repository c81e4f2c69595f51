"""Reads a rule file with `ast`, never importing it: the docstring and the literals of ``rule =
Rule(...)``.

All rule files are read at each start. So only that one statement is parsed, and the manual is cut
into sections when somebody asks for them.
"""

from __future__ import annotations

import ast
import io
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import field

from torchlint.base.declaration import ARGUMENTS, CODE, Declaration, checked
from torchlint.base.errors import CatalogError
from torchlint.base.finding import Safety, Severity
from torchlint.base.records import dataclass
from torchlint.base.regex import regex
from torchlint.catalog.manual import Sections, check_manual, title_of

FAMILIES: Mapping[str, str] = {
    "transfer": "1",
    "loading": "2",
    "distributed": "3",
    "precision": "4",
    "training": "5",
    "vectorize": "6",
    "memory": "7",
    "debug": "8",
    "frameworks": "9",
}
"""Folder → hundreds digit of its rules' codes."""
OURS = "torchlint"
"""The package of our own rules."""
_OWN = regex(r"TL\d{3}")
_STEM = regex(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_SHY_NAMES = ("use-", "avoid-", "prefer-")
_HEAD = regex(r"\nrule\b[^=\n]*=\s*Rule\(.*?\n\)(?=\n|\Z)", re.DOTALL)
"""As the next ones it begins with what is written out, which `re` finds ten times as fast as a
pattern that begins with a place or with a choice."""
_SAFETY = regex(r"Safety\.(SAFE|UNSAFE|SUGGESTION)\b")
_ASSUMES = regex(r"assumes=\{")
_BESIDE = regex(r"\nfrom [\w.]*\.(_[a-z]\w*(?:\.\w+)?) import(?: (\w+))?")
_BINDING = regex(r"\nrule\b")
_QUOTES = '"""'


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleInfo(Declaration):
    """What the parent process knows of a rule, all read from its file: what is declared there, and
    more.

    Args:
        name: the file's stem with dashes.
        family: the folder's name.
        title: the docstring's first line.
        fixes: the kinds of fix that the file and what stands beside it construct, in the order
            safe, unsafe, suggestion; empty for none.
        manual: the docstring.
        sections: the manual's text by heading; cut when asked for.
        module: the dotted module name, for the worker that imports it.
        path: the file.
        package: the distribution that brings the rule.
        root: of a plugin's rule, the folder (or the one file) whose code decides what the rule
            finds.
    """

    name: str
    family: str
    title: str
    fixes: tuple[Safety, ...]
    manual: str = field(repr=False)
    sections: Mapping[str, str] = field(repr=False, compare=False)
    module: str
    path: str
    package: str = OURS
    root: str = ""


def rule_files(folder: str | os.PathLike[str]) -> tuple[list[str], list[str]]:
    """Return the rule files and the folders right in `folder`, in order.

    What has ``_`` in front stands beside rules that need it; what has a dot is an editor's lock
    file.
    """
    files, folders = [], []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                if not entry.name.startswith((".", "_")):
                    files.append(entry.path)
            elif entry.is_dir() and not entry.name.startswith("_"):
                folders.append(entry.path)
    return sorted(files), sorted(folders)


def stem(path: str) -> str:
    """Return the name of the module in a file."""
    return os.path.basename(path)[: -len(".py")]


def read_rule_file(
    path: str, module: str, family: str, *, plugin: bool = False, thorough: bool = True
) -> RuleInfo:
    """Read one rule file.

    Args:
        path: the file.
        module: its dotted name.
        family: its folder's name, which must be one of `FAMILIES` unless `plugin`.
        plugin: whether the rule is not torchlint's own; then the code must not start with ``TL``.
        thorough: whether to hold message and manual to the contract too; for our own rules a test
            does that.

    Raises:
        CatalogError: the file breaks the contract of a rule; the message names it.
    """
    try:
        text = _text(path)
        info = _read(text, path, module, family, plugin)
        if thorough:
            _check_placeholders(info.message)
            check_manual(info.sections, unsafe=Safety.UNSAFE in info.fixes)
    except (ValueError, OSError, SyntaxError, RecursionError) as error:
        raise CatalogError(f"{path}: {error}") from None
    return info


def _text(path: str) -> str:
    with io.FileIO(path) as file:
        return file.readall().decode("utf-8").replace("\r\n", "\n")


def _read(text: str, path: str, module: str, family: str, plugin: bool) -> RuleInfo:
    """Do the work of `read_rule_file`; every breach is a ValueError without the file's name."""
    manual, end, literals = _quick_head(text) or _parsed_head(text)
    declared = checked(literals)
    _check_code(declared["code"], family, plugin)
    kinds = {*_kinds(text, end), *_kinds_beside(text, end, os.path.dirname(path), set())}
    return RuleInfo(
        **declared,
        name=checked_name(module, plugin),
        family=family,
        title=title_of(manual),
        fixes=tuple(safety for safety in Safety if safety.name in kinds),
        manual=manual,
        sections=Sections(manual),
        module=module,
        path=path,
    )


def _quick_head(text: str) -> tuple[str, int, dict[str, object]] | None:
    """Return the manual, the offset of its end and the literals of a file in the usual form; None
    for any other."""
    end = text.find(_QUOTES, 3)
    if not text.startswith(_QUOTES) or end < 0 or "\\" in text[:end]:
        return None
    head, binding = _HEAD.search(text, end), _BINDING.search(text, end)
    if head is None or binding is None or binding.start() != head.start():
        return None
    try:
        return text[3:end], end + 3, _literals(ast.parse(head[0]))
    except (SyntaxError, ValueError):
        return None  # the slow way knows the line


def _parsed_head(text: str) -> tuple[str, int, dict[str, object]]:
    tree = ast.parse(text)
    manual = ast.get_docstring(tree, clean=False)
    if manual is None:
        raise ValueError("a rule file needs a docstring: it is the rule's manual")
    lines = text.split("\n")
    end = len("\n".join(lines[: tree.body[0].end_lineno]))
    return manual, end, _literals(tree)


def _kinds(text: str, start: int) -> Iterator[str]:
    """Yield the names of the kinds of fix in the code from `start` on, comments left out."""
    for pattern in (_SAFETY, _ASSUMES):
        for found in pattern.finditer(text, start):
            before = text[text.rfind("\n", 0, found.start()) + 1 : found.start()]
            if "#" not in before and not before[-1:].isidentifier():
                # Where the project shows that an assumption does not hold, the fix is unsafe.
                yield found[1] if pattern is _SAFETY else "UNSAFE"


def _kinds_beside(text: str, start: int, family: str, seen: set[str]) -> Iterator[str]:
    """Yield the names of the kinds of fix in the files and folders with ``_`` in front that a rule
    file imports from the folder of its family, and that these import."""
    for found in _BESIDE.finditer(f"\n{text[start:]}"):
        beside = os.path.join(family, *found[1].split("."))
        for helper in (f"{beside}.py", os.path.join(beside, f"{found[2]}.py")):
            if helper not in seen and os.path.isfile(helper):
                seen.add(helper)
                inner = _text(helper)
                yield from _kinds(inner, 0)
                yield from _kinds_beside(inner, 0, family, seen)


def _literals(tree: ast.Module) -> dict[str, object]:
    """Return the keyword arguments of ``rule = Rule(__name__, __doc__, ...)``."""
    calls = [
        statement.value
        for statement in tree.body
        if isinstance(statement, ast.Assign | ast.AnnAssign)
        and [target.id for target in _targets(statement) if isinstance(target, ast.Name)]
        == ["rule"]
    ]
    call = calls[0] if len(calls) == 1 else None
    if not (
        isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Rule"
    ):
        raise ValueError("a rule file binds one Rule(__name__, __doc__, ...) to the name 'rule'")
    given = [argument.id for argument in call.args if isinstance(argument, ast.Name)]
    if given != ["__name__", "__doc__"] or len(call.args) > len(given):
        raise ValueError("the positional arguments of Rule are __name__ and __doc__")
    literals: dict[str, object] = {}
    for keyword in call.keywords:
        if keyword.arg not in ARGUMENTS:
            raise ValueError(
                f"Rule takes no argument {keyword.arg or '**'!r} (known: {', '.join(ARGUMENTS)})"
            )
        try:
            literals[keyword.arg] = ast.literal_eval(keyword.value)
        except ValueError:
            raise ValueError(
                f"{keyword.arg}= is not a literal, so it cannot be read without an import"
            ) from None
    return literals


def _targets(statement: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    return statement.targets if isinstance(statement, ast.Assign) else [statement.target]


def _check_code(code: object, family: str, plugin: bool) -> None:
    if not isinstance(code, str) or not (CODE if plugin else _OWN).fullmatch(code):
        form = "two to five capitals and three digits" if plugin else "TL and three digits"
        raise ValueError(f"code= is {code!r}; it must be {form}")
    if plugin:
        if _OWN.fullmatch(code):
            raise ValueError(
                f"code {code} is torchlint's own; a plugin needs another prefix than TL"
            )
    elif code.startswith("TL0"):
        raise ValueError(f"code {code} is the engine's own (TL000 to TL099)")
    elif code[2] != FAMILIES.get(family):
        raise ValueError(
            f"code {code} does not belong to the family {family!r} ({FAMILIES.get(family)}xx)"
        )


def checked_name(module: str, plugin: bool) -> str:
    """Return the name of the rule in a module.

    Raises:
        ValueError: a rule cannot be called that.
    """
    stem = module.rpartition(".")[2]
    name = stem.replace("_", "-")
    if not _STEM.fullmatch(stem):
        raise ValueError("a rule's file name, which is its name, is lower-case words joined by '_'")
    if not plugin and name.startswith(_SHY_NAMES):
        raise ValueError(f"the name {name!r} must name the smell, not the remedy")
    if name in FAMILIES or name in [severity.value for severity in Severity]:
        raise ValueError(f"the name {name!r} is that of a family or a severity, which are selected")
    return name


def _check_placeholders(message: str) -> None:
    """Raise a ValueError for a lone brace, which would fail on each finding."""
    import string

    list(string.Formatter().parse(message))
