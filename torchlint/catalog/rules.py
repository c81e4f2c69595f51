"""The catalogue of rules: ours by a walk over ``torchlint/rules``, plugins by their entry points.

Nothing here imports a rule, or libcst, but `load_rules`, which workers call.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from torchlint.base.declaration import ARGUMENTS
from torchlint.base.errors import CatalogError, ConfigError, TorchlintError
from torchlint.base.finding import UNUSED_SUPPRESSION
from torchlint.base.nearest import nearest_rule
from torchlint.base.regex import regex
from torchlint.catalog.plugins import Problem, installed, plugin_rules
from torchlint.catalog.rule_file import FAMILIES, OURS, RuleInfo, read_rule_file, rule_files, stem

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from torchlint.rule import Rule

__all__ = ["Catalog", "Problem", "RuleInfo", "load_catalog", "load_rules"]

OWN_ROOT = (
    os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "rules"),
    "torchlint.rules",
)
_PREFIX = regex(r"[A-Z]+\d*")


class Catalog:
    """All known rules, and what selectors mean among them.

    A *selector* is a code, a prefix of codes that holds all their letters (``TL``, ``TL1``), a
    rule's name, or ``ALL``, in capitals or small letters; or a family or a severity as the rules
    have it, in small letters: no rule may be called that. The engine's own `UNUSED_SUPPRESSION`
    can be selected and ignored like a rule, and is on by default. `problems` are the rules of
    plugins that are left out.
    """

    __slots__ = ("_by_code", "_by_name", "_enabled", "problems", "rules")

    def __init__(self, rules: Iterable[RuleInfo], problems: Iterable[Problem] = ()) -> None:
        """Order `rules` by code.

        Raises:
            CatalogError: two rules share a code or a name; the message names both files.
        """
        self.rules = tuple(sorted(rules, key=lambda info: info.code))
        self.problems = tuple(problems)
        self._by_code: dict[str, RuleInfo] = {}
        self._by_name: dict[str, RuleInfo] = {}
        self._enabled: dict[tuple[tuple[str, ...], ...], frozenset[str]] = {}
        for info in self.rules:
            for table, key in ((self._by_code, info.code), (self._by_name, info.name)):
                if key in table:
                    raise CatalogError(
                        f"{key} is taken twice: by {table[key].path} and by {info.path}"
                    )
                table[key] = info

    def find(self, code_or_name: str) -> RuleInfo | None:
        """Return the rule of this code or name, in capitals or small letters, or None."""
        word = self._spelled(code_or_name)
        return self._by_code.get(word) or self._by_name.get(word)

    def _spelled(self, selector: str) -> str:
        """Return a selector as it stands here: names in small letters, all else in capitals."""
        named = next((word for word in (selector, selector.lower()) if word in self._by_name), "")
        return named or selector.upper()

    @property
    def codes(self) -> frozenset[str]:
        """All codes that can be selected."""
        return frozenset((*self._by_code, UNUSED_SUPPRESSION))

    def resolve(
        self, selectors: Iterable[str], where: str, error: type[TorchlintError] = ConfigError
    ) -> frozenset[str]:
        """Return the codes that `selectors` stand for.

        Args:
            selectors: codes, prefixes, names, families, severities or ``ALL``.
            where: what the message of an error starts with: the file and key, or the option.
            error: the class to raise.

        Raises:
            TorchlintError: of class `error`; a selector stands for nothing, and for no rule that is
                left out either.
        """
        found: set[str] = set()
        for selector in selectors:
            codes = self._meaning(selector)
            # A plugin whose rules cannot be read must not stop the others: that it is left out is
            # reported.
            if not codes and (not self.problems or selector.upper().startswith("TL")):
                raise error(f"{where}: unknown rule {selector[:40]!r}{self._hint(selector)}")
            found |= codes
        return frozenset(found)

    def enabled(
        self, select: Sequence[str], ignore: Sequence[str] = (), extend_select: Sequence[str] = ()
    ) -> frozenset[str]:
        """Return the codes that are on. Of the selectors that hold a code, the most specific one
        decides.

        A longer prefix beats a shorter one, a code or name beats all prefixes, everything beats
        ``ALL``; a family or a severity is as specific as a prefix with one digit. Of two equally
        specific selectors `ignore` wins. Without `select` the default rules are on.

        Raises:
            ConfigError: a selector stands for nothing.
        """
        key = (tuple(select), tuple(ignore), tuple(extend_select))
        if key not in self._enabled:
            self._enabled[key] = self._weigh(*key)
        return self._enabled[key]

    def _weigh(
        self, select: Sequence[str], ignore: Sequence[str], extend: Sequence[str]
    ) -> frozenset[str]:
        chosen = self._strength((*select, *extend))
        refused = self._strength(ignore)
        if not select:
            defaults = (UNUSED_SUPPRESSION, *(info.code for info in self.rules if info.default))
            chosen = {**dict.fromkeys(defaults, -1), **chosen}
        return frozenset(
            code for code, strength in chosen.items() if strength > refused.get(code, -2)
        )

    def _strength(self, selectors: Iterable[str]) -> dict[str, int]:
        """Return each code that is held by a selector, with the strength of the strongest."""
        found: dict[str, int] = {}
        for selector in selectors:
            for code in self.resolve((selector,), "rule selection"):
                found[code] = max(found.get(code, -1), self.strength(selector, code))
        return found

    def strength(self, selector: str, code: str) -> int:
        """Return how specific a selector is that holds a code: 0 for ``ALL``, a prefix's length, a
        code's length for a name."""
        spelled = self._spelled(selector)
        if spelled == "ALL":
            return 0
        if spelled in self._by_name:
            return len(code)
        return len(code) - 2 if selector in self.groups else len(selector)

    @property
    def groups(self) -> frozenset[str]:
        """The families and severities of rules, which are selectors too."""
        return frozenset(word for info in self.rules for word in (info.family, info.severity))

    def stands_for(self, selector: str) -> bool:
        """Say whether a word is a selector."""
        return bool(self._meaning(selector))

    def _meaning(self, selector: str) -> frozenset[str]:
        written, selector = selector, self._spelled(selector)
        if selector == "ALL":
            return self.codes
        if selector in self._by_name:
            return frozenset((self._by_name[selector].code,))
        if written in self.groups:
            return frozenset(
                info.code for info in self.rules if written in (info.family, info.severity)
            )
        if not _PREFIX.fullmatch(selector):
            return frozenset()
        letters = selector.rstrip("0123456789")
        return frozenset(
            code
            for code in self.codes
            if code.startswith(selector) and code.rstrip("0123456789") == letters
        )

    def _hint(self, selector: str) -> str:
        names = (*self._by_name, *sorted(self.groups))
        near = nearest_rule(selector, (*self.codes, "ALL"), names)
        return f"; did you mean {near!r}?" if near else "; 'torchlint rules' lists all"


def load_catalog(
    roots: Sequence[tuple[str | os.PathLike[str], str]] | None = None,
    plugins: Iterable[EntryPoint] | None = None,
) -> Catalog:
    """Read all rule files; none is imported.

    Args:
        roots: (folder, dotted prefix) of trees laid out like ``torchlint/rules``; by default that
            one.
        plugins: entry points; by default the installed ones where `roots` is not given either.

    Raises:
        CatalogError: a rule file of `roots` breaks the contract; the message names it.
    """
    if roots is None and plugins is None:
        return _installed_catalog()
    found = [
        info
        for folder, prefix in ((OWN_ROOT,) if roots is None else roots)
        for info in _walk(folder, prefix)
    ]
    return _with_plugins(found, plugins or ())


@lru_cache(maxsize=1)
def _installed_catalog() -> Catalog:
    # That the manuals of our own rules keep the contract is for the tests to say, not for every
    # start.
    return _with_plugins(list(_walk(*OWN_ROOT, thorough=False)), installed())


def _with_plugins(own: Sequence[RuleInfo], entries: Iterable[EntryPoint]) -> Catalog:
    rules, problems = plugin_rules(entries, own)
    return Catalog((*own, *rules), problems)


def _walk(
    folder: str | os.PathLike[str], prefix: str, *, thorough: bool = True
) -> Iterator[RuleInfo]:
    files, families = rule_files(folder)
    for path in files:
        raise CatalogError(
            f"{path}: a rule file lies in the folder of its family ({', '.join(FAMILIES)})"
        )
    for family in families:
        name = os.path.basename(family)
        for path in rule_files(family)[0]:
            yield read_rule_file(path, f"{prefix}.{name}.{stem(path)}", name, thorough=thorough)


def load_rules(
    codes: Collection[str], catalog: Catalog | None = None
) -> tuple[list[Rule], list[Problem]]:
    """Import the rules of `codes`, in order of code; only workers call this. Engine codes are
    passed over.

    Returns:
        The rules, and what is wrong with those that fail on import or are not what the catalogue
        read in their files.
    """
    catalog = catalog or load_catalog()
    rules: list[Rule] = []
    problems: list[Problem] = []
    for info in catalog.rules:
        if info.code in codes:
            try:
                rules.append(_load(info))
            except CatalogError as error:
                whose = "" if info.package == OURS else f" of the plugin {info.package}"
                problems.append(Problem(info.path, f"rule {info.code}{whose} is left out: {error}"))
    return rules, problems


_loaded: dict[str, tuple[RuleInfo, Rule]] = {}
"""By module the rules that were loaded and looked at."""


def _load(info: RuleInfo) -> Rule:
    known, rule = _loaded.get(info.module, (None, None))
    if known is info and rule is not None:
        return rule
    from torchlint.rule import Rule

    try:
        rule = getattr(importlib.import_module(info.module), "rule", None)
    except MemoryError:
        raise
    except (
        Exception,
        SystemExit,
    ) as error:  # whatever a rule file does on import, the user learns which file it was
        words = " ".join(str(error).split())
        raise CatalogError(f"{type(error).__name__} on import: {words}") from error
    if not isinstance(rule, Rule):
        raise CatalogError(f"module {info.module} binds no Rule to the name 'rule'")
    for name in ("name", *ARGUMENTS):
        if getattr(rule, name) != getattr(info, name):
            raise CatalogError(
                f"{name} was read as {getattr(info, name)!r}, is {getattr(rule, name)!r}"
            )
    if not rule.checks:
        raise CatalogError("no check is marked with @rule.on(...)")
    _loaded[info.module] = info, rule
    return rule
