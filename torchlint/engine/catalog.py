"""The catalogue of rules: ours by a walk over ``torchlint/rules``, plugins by the entry points `GROUP`.

Nothing here imports a rule, or libcst, but `load_rules`, which workers call.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from torchlint.base.errors import CatalogError, ConfigError, TorchlintError
from torchlint.base.finding import UNUSED_SUPPRESSION
from torchlint.engine.plugins import GROUP, installed
from torchlint.engine.rule_file import FAMILIES, RuleInfo, read_rule_file

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from torchlint.rule import Rule

__all__ = ["GROUP", "Catalog", "RuleInfo", "load_catalog", "load_rules"]

OWN_ROOT = (os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "rules"), "torchlint.rules")
_PREFIX = re.compile(r"[A-Z]+\d*")
_AGREEING = ("code", "name", "message", "severity", "default", "triggers", "yields_to", "equivalence")


class Catalog:
    """All known rules, and what selectors mean among them.

    A *selector* is a code, a prefix of codes that holds all their letters (``TL``, ``TL1``), a rule's name, or
    ``ALL``. The engine's own `UNUSED_SUPPRESSION` can be selected and ignored like a rule, and is on by default.
    """

    __slots__ = ("_by_code", "_by_name", "_enabled", "rules")

    def __init__(self, rules: Iterable[RuleInfo]) -> None:
        """Order `rules` by code.

        Raises:
            CatalogError: two rules share a code or a name; the message names both files.
        """
        self.rules = tuple(sorted(rules, key=lambda info: info.code))
        self._by_code: dict[str, RuleInfo] = {}
        self._by_name: dict[str, RuleInfo] = {}
        self._enabled: dict[tuple[tuple[str, ...], ...], frozenset[str]] = {}
        for info in self.rules:
            for table, key in ((self._by_code, info.code), (self._by_name, info.name)):
                if key in table:
                    raise CatalogError(f"{info.path}: {key} is already taken by {table[key].path}")
                table[key] = info

    def find(self, code_or_name: str) -> RuleInfo | None:
        """Return the rule of this code or name, or None."""
        return self._by_code.get(code_or_name) or self._by_name.get(code_or_name)

    @property
    def codes(self) -> frozenset[str]:
        """All codes that can be selected."""
        return frozenset((*self._by_code, UNUSED_SUPPRESSION))

    def resolve(
        self, selectors: Iterable[str], where: str, error: type[TorchlintError] = ConfigError
    ) -> frozenset[str]:
        """Return the codes that `selectors` stand for.

        Args:
            selectors: codes, prefixes, names or ``ALL``.
            where: what the message of an error starts with: the file and key, or the option.
            error: the class to raise.

        Raises:
            TorchlintError: of class `error`; a selector stands for nothing.
        """
        found: set[str] = set()
        for selector in selectors:
            codes = self._meaning(selector)
            if not codes:
                raise error(f"{where}: unknown rule {selector[:40]!r}{self._hint(selector)}")
            found |= codes
        return frozenset(found)

    def enabled(
        self, select: Sequence[str], ignore: Sequence[str] = (), extend_select: Sequence[str] = ()
    ) -> frozenset[str]:
        """Return the codes that are on. Of the selectors that hold a code, the most specific one decides.

        A longer prefix beats a shorter one, a code or name beats all prefixes, everything beats ``ALL``; of two
        equally specific selectors `ignore` wins. Without `select` the default rules are on.

        Raises:
            ConfigError: a selector stands for nothing.
        """
        key = (tuple(select), tuple(ignore), tuple(extend_select))
        if key not in self._enabled:
            self._enabled[key] = self._weigh(*key)
        return self._enabled[key]

    def _weigh(self, select: Sequence[str], ignore: Sequence[str], extend: Sequence[str]) -> frozenset[str]:
        chosen = self._strength((*select, *extend))
        refused = self._strength(ignore)
        if not select:
            defaults = (UNUSED_SUPPRESSION, *(info.code for info in self.rules if info.default))
            chosen = {**dict.fromkeys(defaults, -1), **chosen}
        return frozenset(code for code, strength in chosen.items() if strength > refused.get(code, -2))

    def _strength(self, selectors: Iterable[str]) -> dict[str, int]:
        """Return each code that is held by a selector, with the strength of the strongest."""
        found: dict[str, int] = {}
        for selector in selectors:
            for code in self.resolve((selector,), "rule selection"):
                found[code] = max(found.get(code, -1), self.strength(selector))
        return found

    def strength(self, selector: str) -> int:
        """Return how specific a selector is: 0 for ``ALL``, a prefix's length, a code's length for a name."""
        if selector == "ALL":
            return 0
        info = self._by_name.get(selector)
        return len(info.code if info else selector)

    def _meaning(self, selector: str) -> frozenset[str]:
        if selector == "ALL":
            return self.codes
        if selector in self._by_name:
            return frozenset((self._by_name[selector].code,))
        if not _PREFIX.fullmatch(selector):
            return frozenset()
        letters = selector.rstrip("0123456789")
        return frozenset(
            code for code in self.codes if code.startswith(selector) and code.rstrip("0123456789") == letters
        )

    def _hint(self, selector: str) -> str:
        import difflib

        known = (*self.codes, *self._by_name, "ALL")
        selector = selector[:40]
        near = difflib.get_close_matches(selector, known, 1)
        near = near or difflib.get_close_matches(selector.upper(), known, 1)
        return f"; did you mean {near[0]!r}?" if near else "; 'torchlint rules' lists all"


def load_catalog(
    roots: Sequence[tuple[str | os.PathLike[str], str]] | None = None, plugins: Iterable[EntryPoint] | None = None
) -> Catalog:
    """Read all rule files; none is imported.

    Args:
        roots: (folder, dotted prefix) of trees laid out like ``torchlint/rules``; by default that one.
        plugins: entry points; by default the installed ones where `roots` is not given either.

    Raises:
        CatalogError: a rule file breaks the contract; the message names it.
    """
    if roots is None and plugins is None:
        return _installed_catalog()
    found = [info for folder, prefix in ((OWN_ROOT,) if roots is None else roots) for info in _walk(folder, prefix)]
    return Catalog((*found, *(info for entry in plugins or () for info in _plugin_rules(entry))))


@lru_cache(maxsize=1)
def _installed_catalog() -> Catalog:
    # That the manuals of our own rules keep the contract is for the tests to say, not for every start.
    own = _walk(*OWN_ROOT, thorough=False)
    return Catalog((*own, *(info for entry in installed() for info in _plugin_rules(entry))))


def _walk(folder: str | os.PathLike[str], prefix: str, *, thorough: bool = True) -> Iterator[RuleInfo]:
    files, families = _entries(folder)
    for path in files:
        raise CatalogError(f"{path}: a rule file lies in the folder of its family ({', '.join(FAMILIES)})")
    for family in families:
        name = os.path.basename(family)
        for path in _entries(family)[0]:
            yield read_rule_file(path, f"{prefix}.{name}.{_stem(path)}", name, thorough=thorough)


def _entries(folder: str | os.PathLike[str]) -> tuple[list[str], list[str]]:
    """Return the rule files and the folders right in `folder`, in order; an editor's lock files are not among them."""
    files, folders = [], []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                if entry.name != "__init__.py" and not entry.name.startswith("."):
                    files.append(entry.path)
            elif entry.is_dir() and entry.name != "__pycache__":
                folders.append(entry.path)
    return sorted(files), sorted(folders)


def _stem(path: str) -> str:
    return os.path.basename(path)[: -len(".py")]


def _plugin_rules(entry: EntryPoint) -> Iterator[RuleInfo]:
    """Read the rules of one plugin: a module, or all modules of a package and of the folders right in it."""
    import importlib.util

    top, *rest = entry.value.partition(":")[0].strip().split(".")
    # The top-level package is found without running it; of what lies in it, the path follows from the name.
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        spec = None
    origins = list(spec.submodule_search_locations or ()) if spec else []
    if not rest and spec and spec.origin and not origins:
        yield read_rule_file(spec.origin, top, "", plugin=True)
        return
    dotted = ".".join((top, *rest))
    for origin in origins:
        place = os.path.join(origin, *rest)
        if rest and os.path.isfile(f"{place}.py"):
            yield read_rule_file(f"{place}.py", dotted, os.path.basename(os.path.dirname(place)), plugin=True)
            return
        if os.path.isdir(place):
            yield from _plugin_folder(place, dotted)
            return
    raise CatalogError(f"plugin {entry.name!r} ({GROUP}): no module {entry.value!r} is installed")


def _plugin_folder(place: str, dotted: str) -> Iterator[RuleInfo]:
    files, folders = _entries(place)
    for path in files:
        yield read_rule_file(path, f"{dotted}.{_stem(path)}", os.path.basename(place), plugin=True)
    for folder in folders:
        name = os.path.basename(folder)
        for path in _entries(folder)[0]:
            yield read_rule_file(path, f"{dotted}.{name}.{_stem(path)}", name, plugin=True)


def load_rules(codes: Collection[str], catalog: Catalog | None = None) -> list[Rule]:
    """Import the rules of `codes`, in order of code; only workers call this. Engine codes are passed over.

    Raises:
        CatalogError: a rule file fails on import, or is not what the catalogue read in it.
    """
    catalog = catalog or load_catalog()
    return [_load(info) for info in catalog.rules if info.code in codes]


def _load(info: RuleInfo) -> Rule:
    from torchlint.rule import Rule

    try:
        rule = getattr(importlib.import_module(info.module), "rule", None)
    except Exception as error:  # whatever a rule file does on import, the user learns which file it was
        raise CatalogError(f"{info.path}: {type(error).__name__} on import: {error}") from error
    if not isinstance(rule, Rule):
        raise CatalogError(f"{info.path}: module {info.module} binds no Rule to the name 'rule'")
    for name in _AGREEING:
        if getattr(rule, name) != getattr(info, name):
            raise CatalogError(f"{info.path}: {name} was read as {getattr(info, name)!r}, is {getattr(rule, name)!r}")
    if not rule.checks:
        raise CatalogError(f"{info.path}: no check is marked with @rule.on(...)")
    return rule
