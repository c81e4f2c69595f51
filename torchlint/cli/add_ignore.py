"""``--add-ignore`` and ``--add-noqa``: what is found is silenced by comments, and what cannot be is
reported."""

from __future__ import annotations

from dataclasses import replace

from torchlint.cli.options import Given
from torchlint.cli.output import complain
from torchlint.cli.session import BROKEN, Keep, Session
from torchlint.engine.job import Silence
from torchlint.report.kit.words import pluralise
from torchlint.report.run_report import RunReport
from torchlint.source.add_ignore import checked_reason


def wanted(given: Given) -> bool:
    """Say whether the command is to write suppressions."""
    return given["add_ignore"] is not None or given["add_noqa"] is not None


def add_ignore(session: Session, given: Given, keep: Keep | None) -> tuple[Session, RunReport]:
    """Find what there is, and silence it; return the session that wrote, and what is left to
    report.

    Args:
        session: finds the findings.
        given: the parameters of the command.
        keep: the filter of the session that writes, see `Session`.

    Raises:
        UsageError: the reason cannot stand in a comment.
    """
    noqa = given["add_noqa"] is not None
    reason = checked_reason(given["add_noqa"] if noqa else given["add_ignore"])
    before = session.execute()
    silences = {}
    for file in before.files:
        prints = frozenset(
            finding.fingerprint for finding in file.findings if finding.code not in BROKEN
        )
        if prints:
            silences[file.filename] = Silence(prints, noqa, reason)
    targets = tuple(target for target in session.scope.targets if target.found.filename in silences)
    scope = replace(session.scope, targets=targets, skipped=())
    writing = replace(session, scope=scope, apply=True, cache=None, silences=silences, keep=keep)
    after = writing.execute()
    if not given["quiet"]:
        files = sum(1 for file in after.files if file.applied)
        complain(
            f"Silenced {pluralise(after.fix_applied, 'finding')} in {pluralise(files, 'file')}."
        )
    others = tuple(file for file in before.files if file.filename not in silences)
    both = tuple(sorted((*others, *after.files), key=lambda file: file.filename))
    return writing, replace(after, files=both, files_checked=before.files_checked, fix_applied=0)
