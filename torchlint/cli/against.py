"""``torchlint verify --against`` and ``--between``: which two versions of a project are compared,
and how each comes into the workspace."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from torchlint.base.errors import UsageError
from torchlint.base.records import frozen
from torchlint.cli.options import Given
from torchlint.program.machine.copying import SKIPPED
from torchlint.program.machine.workspace import Workspace
from torchlint.source.git import GitError, working_tree
from torchlint.source.revisions import EXECUTABLE, LINK, Difference, OldFile, difference, patched
from torchlint.verify.script.versions import Version, Versions

HERE = "the working tree"


@frozen
class Asked:
    """What is compared with what, as the user named it.

    Args:
        option: ``--against`` or ``--between``.
        before: a revision, a folder, or (``--against``) a patch file.
        after: a revision or a folder; None for the working tree.
    """

    option: str
    before: str
    after: str | None

    def root(self, root: Path) -> Path:
        """Return the project that the program runs in: the newer version, where it is a folder."""
        folder = self.after is not None and os.path.isdir(self.after)
        return Path(os.path.realpath(self.after or "")) if folder else root

    def maker(self, project: Path) -> Callable[[Workspace], Versions]:
        """Return what makes the versions in a workspace.

        Args:
            project: the folder that revisions and patches are about.
        """

        def make(workspace: Workspace) -> Versions:
            if self.after is None and os.path.isfile(self.before):
                # The working tree with a patch and without it: it may be there already.
                what = f"{self.option} {self.before}"
                try:
                    patch = Path(self.before).read_bytes()
                except OSError as error:
                    raise UsageError(f"{what}: {error.strerror}") from None
                top = working_tree(str(project))
                depth = len(project.relative_to(os.path.realpath(top)).parts) if top else 0
                here, copy = Version(HERE, project), _copied(workspace, project, "patched")
                name = os.path.basename(self.before)
                try:
                    patched(patch, str(copy), depth, what, back=True)
                except GitError:
                    try:
                        patched(patch, str(copy), depth, what, back=False)
                    except GitError as error:
                        raise UsageError(
                            f"{error}; the patch is neither in the working tree nor applies to it"
                        ) from None
                    return Versions(here, Version(f"{HERE} with {name}", copy))
                return Versions(Version(f"{HERE} without {name}", copy), here)
            after = self._version(workspace, project, self.after, "after")
            return Versions(self._version(workspace, project, self.before, "before"), after)

        return make

    def _version(
        self, workspace: Workspace, project: Path, named: str | None, side: str
    ) -> Version:
        if named is None:
            return Version(HERE, project)
        if os.path.isdir(named):
            return Version(named, Path(os.path.realpath(named)))
        if os.path.isfile(named):
            raise UsageError(f"{self.option} {named}: is a file; name a revision or a folder")
        found = difference(named, str(project), f"{self.option} {named}")
        copy = _copied(workspace, project, side)
        _put_back(copy, found)
        return Version(named, copy, found.commit)


def asked(given: Given) -> Asked | None:
    """Return what is to be compared; None where fixes are.

    Raises:
        UsageError: options that cannot be meant together.
    """
    against, between = given["against"], given["between"]
    if against is None and between is None:
        if given["history"] is not None:
            raise UsageError("--history goes with --against or --between")
        return None
    option = "--against" if between is None else "--between"
    if against is not None and between is not None:
        raise UsageError("--against and --between cannot be used together")
    for name in ("apply", "commit", "patch"):
        if given[name]:
            raise UsageError(
                f"{option} and --{name} cannot be used together: there is no fix to write"
            )
    others = [each for each in given["targets"] if each == "rules" or "::" in each]
    if others:
        raise UsageError(f"{option} needs a program behind --: {' '.join(others)} is none")
    if between is None:
        return Asked(option, against, None)
    return Asked(option, *between)


def _copied(workspace: Workspace, project: Path, side: str) -> Path:
    return workspace.copy(project, f"{side}/{project.name or 'project'}")


def _put_back(copy: Path, found: Difference) -> None:
    """Make the tracked files of a copy what they were at a revision; what git does not know stays,
    as programs need their data, and what no copy holds stays out, though git knows it.

    Raises:
        UsageError: a file lies in a folder that the project links to, or something is in its place.
    """
    files = {k: old for k, old in found.files.items() if SKIPPED.isdisjoint(k.split("/"))}
    for name in files:
        if not (copy / name).parent.resolve().is_relative_to(copy.resolve()):
            raise UsageError(
                f"{name} lies in a folder that the project links to, so it cannot be put back to "
                "what it was"
            )
    gone = [name for name, old in files.items() if old is None]
    for name in sorted(gone, reverse=True):
        (copy / name).unlink(missing_ok=True)
        for folder in (copy / name).parents:
            if folder == copy or any(folder.iterdir()):
                break
            folder.rmdir()
    for name, old in files.items():
        if old is not None:
            try:
                _write(copy / name, old)
            except OSError as error:
                raise UsageError(f"{name} cannot be put back to what it was: {error}") from None


def _write(path: Path, old: OldFile) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)  # a link out of the copy is replaced, never followed
    if old.mode == LINK:
        path.symlink_to(os.fsdecode(old.data))
    else:
        path.write_bytes(old.data)
        path.chmod(0o755 if old.mode == EXECUTABLE else 0o644)
