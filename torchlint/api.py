"""The door for neighbours of the linter: what `torchlint.verify` and `torchlint.profile` may ask it.

They import this module, `torchlint.base` and `torchlint.report.kit`, nothing deeper; a test holds that.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from torchlint.base.finding import Finding
from torchlint.catalog.manual import code_blocks
from torchlint.catalog.rule_file import RuleInfo
from torchlint.catalog.rules import Catalog, load_catalog
from torchlint.engine.job import Job
from torchlint.engine.overlaps import independent
from torchlint.engine.syntax import syntax_fault
from torchlint.run.run import RunOptions, run
from torchlint.source.document import Document, decode, encode, fixable
from torchlint.source.write import atomically, write_all

__all__ = [
    "Catalog",
    "Document",
    "RuleInfo",
    "code_blocks",
    "encode",
    "fixable",
    "independent",
    "load_catalog",
    "rule_findings",
    "syntax_fault",
    "write_file",
]


def rule_findings(examples: Iterable[tuple[str, str]]) -> Iterator[tuple[Finding, ...]]:
    """Yield what one rule finds in one text, for each (code of the rule, text).

    The engine analyses them in its workers, as it does for a user: libcst stays out of this process.
    """
    jobs = []
    for number, (code, text) in enumerate(examples):
        name = f"{code}_{number}.py"
        jobs.append(Job(decode(text.encode(), f"/{name}", name), name, frozenset({code})))
    for report in run(jobs, RunOptions()):
        yield report.findings


def write_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Put `data` in the place of a file, all of it or nothing; its mode and owner stay.

    Raises:
        OSError: the folder or the disk refuses.
    """
    state = os.stat(path) if os.path.exists(path) else None
    with atomically(os.fspath(path), state) as descriptor:
        write_all(descriptor, data)
