"""What `check` filters out of a run: ``--shard``, ``--since`` and ``--baseline``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.base.finding import FileReport
from torchlint.catalog.rules import Catalog
from torchlint.cli.options import Given
from torchlint.cli.scope import Scope, Target
from torchlint.cli.session import Keep
from torchlint.report.run_report import ShardOf

if TYPE_CHECKING:
    from torchlint.cli.baselines import Baselines
    from torchlint.cli.since import Since


class Filters:
    """The filters of one run of `check`; `scope` is what they leave of the files.

    Args:
        whole: all files that the paths stand for.
        catalog: the rules.
        given: the parameters of the command.

    Raises:
        UsageError: there is no such shard, revision, or repository.
        ConfigError: a baseline cannot be used.
    """

    def __init__(self, whole: Scope, catalog: Catalog, given: Given) -> None:
        self.whole = whole
        self.scope = whole
        self.baselines: Baselines | None = None
        self.since: Since | None = None
        self.shard: ShardOf | None = None
        named = whole.settings.baseline or any(target.settings.baseline for target in whole.targets)
        if given["write_baseline"] or named:
            from torchlint.cli.baselines import Baselines

            self.baselines = Baselines(whole, catalog, given)
        if given["shard"] is not None:
            from torchlint.cli.shard import asked_for, parsed_shard

            shard = parsed_shard(given["shard"])
            self.scope = shard.narrowed(self.scope)
            self.shard = ShardOf(shard.number, shard.total, asked_for(whole, given))
        if given["since"] is not None:
            from torchlint.cli.since import Since

            self.since = Since(given["since"])
            self.scope = self.since.narrowed(self.scope)

    @property
    def keep(self) -> Keep | None:
        """What takes findings out of the report of a file; None where nothing does."""
        return None if self.baselines is None and self.since is None else self._filtered

    def _filtered(self, target: Target, report: FileReport) -> FileReport:
        """Return the report of a file without the findings that are left out."""
        wanted = self.since.keep(target, report) if self.since is not None else report
        return self.baselines.keep(target, report, wanted) if self.baselines is not None else wanted

    def words(self) -> str:
        """Return what to say when the run is over: a line or more, or nothing."""
        return self.baselines.words() if self.baselines is not None else ""

    def nothing(self) -> str:
        """Return why there is no file to check although there are files; else an empty string."""
        if self.scope.targets or not self.whole.targets:
            return ""
        if self.since is not None:
            return "no Python file has changed"
        return "no file falls to this shard"

    def watched(self) -> Iterator[str]:
        """Yield the other files that decide on what is left out."""
        if self.baselines is not None:
            yield from self.baselines.looked_at()
