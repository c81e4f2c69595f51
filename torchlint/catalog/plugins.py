"""The rules of plugins: packages that name rule files under the entry point `GROUP`.

What is installed is told without importlib.metadata where there are none: its import costs 15 ms.
No plugin is imported here, and what is wrong with one costs its own rules only: it becomes a
`Problem`.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from torchlint.base.errors import CatalogError
from torchlint.base.records import frozen
from torchlint.catalog.rule_file import RuleInfo, read_rule_file, rule_files, stem

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "torchlint.rules"
"""The entry point group of plugins; each entry names a package of rule files, or one rule file."""
_METADATA = (".dist-info", ".egg-info")


@frozen
class Problem:
    """Why a rule, or a whole plugin, is left out: the file at fault, and a line that names the
    package."""

    path: str
    message: str


def plugin_rules(
    entries: Iterable[EntryPoint], own: Iterable[RuleInfo]
) -> tuple[tuple[RuleInfo, ...], tuple[Problem, ...]]:
    """Read the rules of plugins.

    A code or name that another rule has is refused: ours go first, then plugins in the order of
    their names.

    Args:
        entries: the entry points of the plugins.
        own: our own rules.
    """
    taken = {key: info for info in own for key in (info.code, info.name)}
    rules: list[RuleInfo] = []
    problems: list[Problem] = []
    for package, entry in sorted(((_package(entry), entry) for entry in entries), key=_order):
        for found in _read(package, entry):
            other = (
                taken.get(found.code) or taken.get(found.name)
                if isinstance(found, RuleInfo)
                else None
            )
            if isinstance(found, Problem):
                problems.append(found)
            elif other is not None:
                what = f"code {found.code}" if found.code == other.code else f"name {found.name}"
                words = f"{what} is already taken by {other.package} ({other.path})"
                problems.append(_left_out(found.path, package, words))
            else:
                rules.append(found)
                taken.update({found.code: found, found.name: found})
    return tuple(rules), tuple(problems)


def _package(entry: EntryPoint) -> str:
    """Return the name of the distribution that an entry point belongs to."""
    return entry.dist.name if entry.dist is not None else entry.name


def _order(item: tuple[str, EntryPoint]) -> tuple[str, str, str]:
    return item[0], item[1].name, item[1].value


def _left_out(path: str, package: str, reason: str) -> Problem:
    return Problem(path, f"rules of the plugin {package} are left out: {reason}")


def _read(package: str, entry: EntryPoint) -> Iterator[RuleInfo | Problem]:
    """Read the rules of one entry point: a rule file, or all in a package and in the folders right
    in it."""
    try:
        place, dotted = _module_place(entry)
        files = list(_files(place, dotted))
    except (CatalogError, OSError) as error:
        yield _left_out(_expected(entry), package, str(error))
        return
    if not files:
        yield _left_out(place, package, "it holds no rule file")
    # A package of rules may rest on the modules beside it.
    root = os.path.dirname(place) if "." in dotted else place
    for path, module, family in files:
        try:
            info = read_rule_file(path, module, family, plugin=True)
        except CatalogError as error:
            yield _left_out(path, package, str(error).removeprefix(f"{path}: "))
        else:
            yield replace(info, package=package, root=root)


def _module_place(entry: EntryPoint) -> tuple[str, str]:
    """Return where the module of an entry point lies (a file or a folder), and its dotted name;
    nothing is run.

    Raises:
        CatalogError: it is not there.
    """
    import importlib.util

    top, *rest = entry.value.partition(":")[0].strip().split(".")
    # The top-level package is found without running it; of what lies in it, the path follows from
    # the name.
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        spec = None
    origins = list(spec.submodule_search_locations or ()) if spec else []
    if not rest and spec and spec.origin and not origins:
        return spec.origin, top
    dotted = ".".join((top, *rest))
    for origin in origins:
        place = os.path.join(origin, *rest)
        if rest and os.path.isfile(f"{place}.py"):
            return f"{place}.py", dotted
        if os.path.isdir(place):
            return place, dotted
    raise CatalogError(
        f"its entry point {entry.name!r} ({GROUP}) names {entry.value!r}, which is not installed"
    )


def _expected(entry: EntryPoint) -> str:
    """Return the path where the module of an entry point would lie."""
    names = entry.value.partition(":")[0].strip().split(".")
    return os.path.join(str(entry.dist.locate_file("")) if entry.dist is not None else "", *names)


def _files(place: str, dotted: str) -> Iterator[tuple[str, str, str]]:
    """Yield path, module and family of the rule files in a place."""
    if place.endswith(".py"):
        yield place, dotted, os.path.basename(os.path.dirname(place)) if "." in dotted else ""
        return
    files, folders = rule_files(place)
    for path in files:
        yield path, f"{dotted}.{stem(path)}", os.path.basename(place)
    for folder in folders:
        name = os.path.basename(folder)
        for path in rule_files(folder)[0] if name.isidentifier() else ():
            yield path, f"{dotted}.{name}.{stem(path)}", name


def installed() -> Sequence[EntryPoint]:
    """Return the entry points of the installed plugins."""
    if not any(map(_may_hold_plugins, sys.path)) and not _has_other_finders():
        return ()
    import importlib.metadata

    return tuple(importlib.metadata.entry_points(group=GROUP))


def _may_hold_plugins(place: str) -> bool:
    """Say whether an entry of the import path has to be looked at properly: it names our group, or
    is no folder."""
    if place.lower().endswith(".egg"):
        return os.path.exists(place)
    try:
        names = os.listdir(place or os.curdir)
    except NotADirectoryError:  # a zip file, say
        return True
    except OSError:
        return False
    return any(
        _names_group(os.path.join(place, name))
        for name in names
        if name.lower().endswith(_METADATA)
    )


def _names_group(metadata: str) -> bool:
    try:
        with io.FileIO(os.path.join(metadata, "entry_points.txt")) as file:
            return GROUP.encode() in file.readall()
    except OSError:
        return False


def _has_other_finders() -> bool:
    """Say whether something besides Python's own finder can know of distributions."""
    from importlib.machinery import PathFinder

    return any(
        hasattr(finder, "find_distributions")
        for finder in sys.meta_path
        if finder is not PathFinder
    )
