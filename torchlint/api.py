"""The door for neighbours of the linter: what `torchlint.verify` and `torchlint.profile` may ask
it.

They import this module, `torchlint.base` and `torchlint.report.kit`, nothing deeper; a test holds
that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torchlint.base.finding import Finding
from torchlint.catalog.manual import code_blocks
from torchlint.catalog.rule_file import RuleInfo
from torchlint.catalog.rules import Catalog, load_catalog
from torchlint.engine.job import Job
from torchlint.engine.overlaps import independent
from torchlint.engine.syntax import syntax_fault
from torchlint.report.patch import changes as fix_changes
from torchlint.run.run import RunOptions, run
from torchlint.semantic.torch import dtypes, ops
from torchlint.source.document import Document, decode, encode, fixable, generated

__all__ = [
    "Catalog",
    "Document",
    "RuleInfo",
    "code_blocks",
    "encode",
    "fix_changes",
    "fixable",
    "generated",
    "independent",
    "ledger_rows",
    "load_catalog",
    "rule_findings",
    "syntax_fault",
]


def rule_findings(examples: Iterable[tuple[str, str]]) -> Iterator[tuple[Finding, ...]]:
    """Yield what one rule finds in one text, for each (code of the rule, text).

    The engine analyses them in its workers, as it does for a user: libcst stays out of this
    process.
    """
    jobs = []
    for number, (code, text) in enumerate(examples):
        name = f"{code}_{number}.py"
        jobs.append(Job(decode(text.encode(), f"/{name}", name), name, frozenset({code})))
    for report in run(jobs, RunOptions()):
        yield report.findings


def ledger_rows() -> dict[str, object]:
    """Return what the ledger of `verify` reads of the table of operations, as plain data: it counts
    without torchlint.

    Names by operator or function; "factories" are dotted, and sorted by where their tensors lie.
    """
    like, placed = ops.dotted("factory", "like"), ops.dotted("factory", "placed")
    return {
        "cost": ops.values("cost"),
        "says": ops.values("says"),
        "mixes": sorted(ops.having("mixes")),
        "strict": sorted(ops.having("strict")),
        "factories": {
            "plain": sorted(ops.FACTORIES - like - placed),
            "placed": sorted(placed),
            "like": sorted(like),
            "from-data": sorted(ops.dotted("from-data", "lists", "own-dtype")),
        },
        "new": sorted(ops.having("method", "new")),
        "legacy": dtypes.LEGACY,
    }
