"""``torchlint verify --apply``: write the fixes that were proved, to the files, as commits or as a
patch."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from torchlint import __version__
from torchlint.base.errors import TorchlintError, UsageError, WriteError
from torchlint.base.finding import FileReport
from torchlint.cli.options import Given
from torchlint.cli.output import check_output_file, complain, emit_bytes, write_output_file
from torchlint.cli.patches import patch_bytes
from torchlint.cli.scope import STDIN, Scope, Target
from torchlint.cli.undisturbed import undisturbed
from torchlint.report.kit.words import pluralise, visible
from torchlint.report.run_report import RunReport
from torchlint.source.commits import Commit, Committer
from torchlint.source.document import Document, encode, read_bytes
from torchlint.source.write import refused, written
from torchlint.verify.fixes import OVERLAPS, FixUnit, texts
from torchlint.verify.model import Report
from torchlint.verify.options import Options
from torchlint.verify.output.commit_message import commit_message

UNPROVEN = 5
"""The exit code where nothing was proved, and so nothing was written."""


@dataclass(slots=True)
class Applying:
    """What ``--apply``, ``--commit`` and ``--patch`` ask for, before the run and after it.

    Args:
        given: the command's parameters.
        command: the whole command line, for the messages of commits.
    """

    given: Given
    command: tuple[str, ...]
    code: int = field(init=False, default=0)
    units: dict[str, FixUnit] = field(init=False, default_factory=dict)
    documents: dict[str, Document] = field(init=False, default_factory=dict)
    refused: list[str] = field(init=False, default_factory=list)
    _committer: Committer | None = field(init=False, default=None)

    @property
    def patch(self) -> str | None:
        """Where the patch goes; ``-`` is standard output."""
        file: str | None = self.given["patch"]
        return file

    def prepared(self, found: Scope) -> None:
        """Refuse what cannot be written, before the run begins.

        Raises:
            UsageError: no commit can be made here.
            OutputError: the patch cannot go to where it shall.
        """
        if self.given["commit"]:
            self._committer = Committer(os.path.realpath(found.settings.root), "--commit")
        if self.patch is not None and self.patch != STDIN:
            inputs = {target.found.path for target in found.targets}
            check_output_file(self.patch, inputs, f"--patch {visible(self.patch)}")

    def writable(
        self, units: Sequence[FixUnit], documents: Mapping[str, Document], found: Scope
    ) -> tuple[FixUnit, ...]:
        """Return the fixes of which every file may be written, and say which are refused."""
        self.documents = dict(documents)
        targets = {Target(each.found, found.settings).relative: each for each in found.targets}
        kept = []
        for unit in units:
            reason = next(filter(None, (self._refused(f, targets, found) for f in unit.files)), "")
            if reason:
                line = f"{unit.id}: {reason}"
                self.code = 1
                self.refused.append(line)
                complain(f"torchlint: not applied: {visible(line)}")
            else:
                kept.append(unit)
        self.units = {unit.id: unit for unit in kept}
        return tuple(kept)

    def _refused(self, file: str, targets: Mapping[str, Target], found: Scope) -> str:
        document = self.documents.get(file)
        if document is None or file not in targets:
            return f"{file}: is excluded, not fixed"
        if self.patch is not None:
            return ""
        reason = refused(document)
        if not reason and not found.holds(targets[file]):
            reason = f"is a link to {document.path}, outside of what is fixed"
        if not reason and self._committer is not None:
            reason = self._committer.refused(document)
        return f"{document.filename}: {reason}" if reason else ""

    def written(self, report: Report) -> Report:
        """Write what was proved, all of it or nothing; return the report with what came of it."""
        proof = report.proof
        assert proof is not None
        units = [self.units[name] for name in proof.proven]
        if units:
            try:
                outcome = f"{self._write(units, report)}{_what_is_left(report)}"
                proof = replace(proof, outcome=outcome, written=proof.proven)
            except TorchlintError as error:
                self.code = 1
                proof = replace(proof, outcome=f"Nothing was written: {error}")
        else:
            self.code = self.code or UNPROVEN
            why = "no fix was proved"
            if proof.together is not None:
                why = f"the program with all proved fixes does not hold ({proof.together.why})"
            proof = replace(proof, outcome=f"Nothing was written: {why}.")
        lines = (f"not applied: {line}" for line in self.refused)
        return replace(report, proof=proof, skipped=(*report.skipped, *lines))

    def _write(self, units: Sequence[FixUnit], report: Report) -> str:
        after = texts(units, self.documents)
        what = f"{pluralise(len(units), 'fix')} in {pluralise(len(after), 'file')}"
        changes = {file: (self.documents[file], text) for file, text in after.items()}
        if self.patch is not None:
            assert self.patch is not None
            for document, _ in changes.values():
                if read_bytes(document.path, document.filename, 0) != document.data:
                    raise WriteError(f"{document.filename}: changed meanwhile")
            cwd = os.getcwd()
            run = RunReport((), __version__, {}, root=cwd, cwd=cwd)
            data = b"".join(
                patch_bytes(run, FileReport(each.filename, before=each.text, after=text), each)
                for each, text in changes.values()
            )
            if self.patch == STDIN:
                emit_bytes(data)
                return f"The patch holds {what}; no file was changed."
            write_output_file(self.patch, data, f"--patch {visible(self.patch)}")
            return f"{self.patch} holds {what}; no file was changed."
        with undisturbed():
            last = self._committed(units, report) if self._committer is not None else ""
            with written(changes):
                if self._committer is not None:
                    self._committer.publish(
                        last, [each for each, _ in changes.values()], "torchlint verify"
                    )
        if self._committer is not None:
            return f"Committed {what}, each fix by itself; the last commit is {last[:10]}."
        return f"Applied {what}."

    def _committed(self, units: Sequence[FixUnit], report: Report) -> str:
        """Make a commit of each fix, none of which is seen yet; return the last one's name."""
        assert self._committer is not None
        commits = []
        for number, unit in enumerate(units, 1):
            after = texts(units[:number], self.documents)
            files = {
                file: (self.documents[file], encode(self.documents[file], after[file]))
                for file in unit.files
            }
            message = commit_message(unit, report, shlex.join(("torchlint", *self.command)))
            commits.append(Commit(message, files))
        return self._committer.prepared(commits)


def _what_is_left(report: Report) -> str:
    """Say that there is more to prove where fixes overlap with others."""
    count = sum(line.endswith(OVERLAPS) for line in report.skipped)
    if not count:
        return ""
    return f" {pluralise(count, 'fix')} overlapped with others: another run looks at what is left."


def asked(given: Given, command: tuple[str, ...], mode_words: Sequence[str]) -> Applying | None:
    """Return what there is to apply, or None where nothing of the kind is asked for.

    Args:
        given: the command's parameters.
        command: the whole command line.
        mode_words: what is verified that is no program; nothing of that is applied.

    Raises:
        UsageError: options that cannot be meant together.
    """
    if given["commit"] and not given["apply"]:
        raise UsageError("--commit goes with --apply")
    if given["patch"] is not None and given["apply"]:
        raise UsageError("--patch and --apply cannot be used together: a patch changes no file")
    if not given["apply"] and given["patch"] is None:
        return None
    what = "--apply" if given["apply"] else "--patch"
    if mode_words:
        raise UsageError(f"{what} needs a program behind --: {' '.join(mode_words)} is none")
    if given["device"] == "virtual-cuda":
        raise UsageError(f"{what}: --device virtual-cuda takes no times, so it can prove nothing")
    if given["ablation"] == "none":
        raise UsageError(f"{what}: --ablation none times no fix alone, so it can prove none")
    return Applying(given, command)


def proving(chosen: Options) -> Options:
    """Return the options of a run that proves: each fix alone, then all that are proved."""
    return replace(chosen, ablation="each")
