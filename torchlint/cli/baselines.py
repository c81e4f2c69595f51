"""``--baseline`` and ``--write-baseline`` in one run of `check`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from torchlint.base.errors import UsageError
from torchlint.base.finding import (
    INVALID_SYNTAX,
    NOT_ANALYSED,
    UNANALYSED,
    UNREADABLE,
    FileReport,
    Suppressed,
)
from torchlint.catalog.rules import Catalog
from torchlint.cli.options import Given
from torchlint.cli.scope import Scope, Target, place_under
from torchlint.engine.baseline import Entries, Holding, Key, key, read_baseline, write_baseline
from torchlint.report.kit.words import pluralise, visible, visible_path
from torchlint.settings.keys import Settings
from torchlint.settings.load import codes_for
from torchlint.source.paths import lies_in, shown

_NEVER = frozenset({INVALID_SYNTAX, UNREADABLE, NOT_ANALYSED})
"""Codes that no baseline holds back: what is behind such a file is not known."""
_LISTED = 10
"""Entries that a message names, at most."""
_Entry = tuple[str, Key, int]


class Baselines:
    """The baselines of a run's files: one for each file that the settings name.

    Args:
        scope: the files of the run; all of them, whatever part of them is checked.
        catalog: the rules.
        given: the parameters of the command.

    Raises:
        ConfigError: a baseline cannot be used.
        UsageError: there is none to write.
    """

    def __init__(self, scope: Scope, catalog: Catalog, given: Given) -> None:
        self.scope = scope
        self.catalog = catalog
        self.writes: bool = given["write_baseline"]
        self.part: bool = given["since"] is not None or given["shard"] is not None
        self.named = bool(given["baseline"])
        self._holdings: dict[str, Holding] = {}
        self._codes: dict[tuple[str, str], frozenset[str]] = {}
        self._known: dict[str, set[str]] = {}
        if given["no_baseline"]:
            return
        for settings in {
            scope.settings: None,
            **{target.settings: None for target in scope.targets},
        }:
            if settings.baseline and settings.baseline not in self._holdings:
                self._refuse_outside(settings)
                path = settings.baseline
                baseline = read_baseline(path, visible_path(shown(path)), may_be_new=self.writes)
                folder, root = os.path.dirname(os.path.realpath(path)), self.scope.settings.root
                self._holdings[settings.baseline] = Holding(
                    baseline,
                    folder if os.path.join(root, "").startswith(os.path.join(folder, "")) else root,
                )
        if self.writes and not self._holdings:
            raise UsageError(
                "--write-baseline needs --baseline FILE, or the key 'baseline' in the configuration"
            )
        for target in scope.targets:
            holding = self._holdings.get(target.settings.baseline)
            if holding is not None:
                self._known.setdefault(target.settings.baseline, set()).add(
                    place_under(holding.base, target.found.filename)
                )

    def _refuse_outside(self, settings: Settings) -> None:
        """Refuse to write where only the configuration says so, and that is not in the project.

        Raises:
            UsageError: that is so.
        """
        if self.writes and not self.named and not lies_in(settings.baseline, settings.root):
            raise UsageError(
                f"--write-baseline: the configuration names {visible_path(settings.baseline)}, "
                "which is outside of the "
                "project; to write there, name it yourself with --baseline"
            )

    def keep(self, target: Target, report: FileReport, wanted: FileReport) -> FileReport:
        """Return the `wanted` report of a file in which the findings that are held back are
        suppressed ones.

        Args:
            target: the file.
            report: all that was found in it.
            wanted: the same with some findings left out: of equal ones, these are the old ones.
        """
        holding = self._holdings.get(target.settings.baseline)
        if holding is None:
            return wanted
        place = place_under(holding.base, target.found.filename)
        whole = not any(finding.code in _NEVER for finding in report.findings)
        if whole and not any(note.kind in UNANALYSED for note in report.notes):
            codes = codes_for(target.settings, self.catalog, target.relative)
            self._codes[target.settings.baseline, place] = codes
        takes = self.writes and (target.settings.baseline, place) in self._codes
        late = set(map(id, wanted.findings))
        held = {
            id(finding)
            for finding in sorted(report.findings, key=lambda finding: id(finding) in late)
            if finding.code not in _NEVER
            and (holding.holds(place, key(finding.code, finding.content)) or takes)
        }
        return replace(
            wanted,
            findings=tuple(finding for finding in wanted.findings if id(finding) not in held),
            suppressed=(
                *wanted.suppressed,
                *(Suppressed(finding, False) for finding in wanted.findings if id(finding) in held),
            ),
        )

    def looked_at(self) -> Iterator[str]:
        """Yield the baselines, and the paths whose existence decided on what is held back."""
        yield from self._holdings
        for holding in self._holdings.values():
            yield from holding.looked

    @property
    def held(self) -> int:
        """How many findings are held back."""
        return sum(holding.held for holding in self._holdings.values())

    def words(self) -> str:
        """Return what to say when the run is over: a line or more, or nothing."""
        if self.writes or not self._holdings:
            return ""
        lines = (
            [f"{pluralise(self.held, 'finding')} held back by the baseline.\n"] if self.held else []
        )
        for path, holding in self._holdings.items():
            stale = list(self._stale(path, holding))
            if stale:
                count = sum(entry[2] for entry in stale)
                title = f"{holding.baseline.shown}: {pluralise(count, 'finding')} fixed or gone"
                lines.append(
                    f"{title} since it was written; `torchlint check --write-baseline` takes "
                    "them out:\n"
                )
                lines.append(_listed(stale, ""))
        return "".join(lines)

    def write(self) -> str:
        """Write what was found into the baselines; return what was added and what was removed, in
        words.

        Raises:
            WriteError: a file changed meanwhile, or cannot be written.
        """
        return "".join(self._written(path, holding) for path, holding in self._holdings.items())

    def _written(self, path: str, holding: Holding) -> str:
        before = holding.baseline.entries
        after: dict[str, Counter[Key]] = {}
        for place, name, count in self._covered(path, holding):
            after.setdefault(place, Counter(before[place]))[name] -= count
        for place, counts in holding.found.items():
            if (path, place) in self._codes:
                after.setdefault(place, Counter(before.get(place, {}))).update(counts)
        changed = write_baseline(holding.baseline, {**before, **after})
        return _difference(holding.baseline.shown, before, after, changed)

    def _stale(self, path: str, holding: Holding) -> Iterator[_Entry]:
        for place, name, _ in self._covered(path, holding):
            left = holding.left(place).get(name, 0)
            if left:
                yield place, name, left

    def _covered(self, path: str, holding: Holding) -> Iterator[_Entry]:
        """Yield the entries on which this run has a say: of files that it checked, for rules that
        were on."""
        for place, counts in holding.baseline.entries.items():
            codes = self._codes.get((path, place))
            if codes is None and (
                place in self._known.get(path, ())
                or self.part
                or not self._is_listed(place, holding)
            ):
                continue
            for name, count in counts.items():
                if codes is None or name.partition(" ")[0] in codes:
                    yield place, name, count

    def _is_listed(self, place: str, holding: Holding) -> bool:
        """Say whether a file would have been found by this run, were it there and not excluded."""
        folder = os.path.dirname(os.path.normpath(os.path.join(holding.base, place)))
        while folder not in self.scope.folders:
            if os.path.dirname(folder) == folder:
                return False
            folder = os.path.dirname(folder)
        return True


def _listed(entries: list[_Entry], sign: str) -> str:
    """Return a line for each file and code, as far as these are not too many."""
    counts: Counter[tuple[str, str]] = Counter()
    for place, name, count in entries:
        counts[place, name.partition(" ")[0]] += count
    lines = [
        f" {sign} {visible(place)}: {count} of {code}\n" for (place, code), count in counts.items()
    ]
    if len(lines) > _LISTED:
        lines[_LISTED - 1 :] = [f" {sign} and {len(lines) - _LISTED + 1} more\n"]
    return "".join(lines)


def _difference(shown_name: str, before: Entries, after: Entries, written: bool) -> str:
    """Say how the entries of some files have changed."""
    changes = [
        (place, entry, counts.get(entry, 0) - before.get(place, {}).get(entry, 0))
        for place, counts in sorted(after.items())
        for entry in sorted({*counts, *before.get(place, {})})
    ]
    added = [change for change in changes if change[2] > 0]
    removed = [(place, entry, -count) for place, entry, count in changes if count < 0]
    total = sum(sum(counts.values()) for counts in {**before, **after}.values())
    if not written:
        return f"{shown_name}: {pluralise(total, 'finding')}, as before.\n"
    said = f"{sum(entry[2] for entry in added)} added, {sum(entry[2] for entry in removed)} removed"
    return (
        f"Wrote {shown_name}: {pluralise(total, 'finding')} "
        f"({said}).\n{_listed(added, '+')}{_listed(removed, '-')}"
    )
