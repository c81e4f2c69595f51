"""Makes commits of new contents of files, all of them or none, in a working tree without other
changes.

The commits are made beside the user's index and files, which nothing sees; then the branch is moved
to the last of them. Hooks, filters and signatures are programs of the repository: none is run, see
`torchlint.source.git`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence

from torchlint.base.errors import UsageError
from torchlint.base.records import frozen
from torchlint.source.document import Document
from torchlint.source.git import Git, GitError, working_tree

_UNDER_WAY = {
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
}
"""Files in git's folder, and what they are the sign of."""
_MOST_NAMED = 3


@frozen
class Commit:
    """One commit to make: its message, and each file that it changes with its new content."""

    message: str
    files: Mapping[str, tuple[Document, bytes]]


class Committer:
    """Makes commits in the working tree that holds a folder.

    Args:
        folder: absolute, links resolved.
        what: what the user asked for, which messages start with.

    Raises:
        UsageError: there is no repository, or no git, or what is there is not ready for a commit.
    """

    def __init__(self, folder: str, what: str) -> None:
        top = working_tree(folder)
        if not top:
            raise UsageError(f"{what}: {folder} is in no git repository")
        self.what = what
        self.git = Git(top, what)
        self.head = self._parent_commit()

    def _parent_commit(self) -> str:
        """Return the commit that the new ones follow."""
        head = self.git.run("rev-parse", "--verify", "--quiet", "HEAD", codes=(0, 1)).strip()
        if not head:
            raise UsageError(f"{self.what}: {self.git.root} has no commit yet")
        for name, what in _UNDER_WAY.items():
            place = os.fsdecode(self.git.run("rev-parse", "--git-path", name).rstrip(b"\n"))
            if os.path.lexists(os.path.join(self.git.root, place)):
                raise UsageError(f"{self.what}: {what} is under way; finish or abort it first")
        changed = self.git.run("status", "--porcelain", "-z", "--untracked-files=no").split(b"\0")
        names = [os.fsdecode(each[3:]) for each in changed if each[2:3] == b" "]
        if names:
            shown = ", ".join(names[:_MOST_NAMED])
            more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
            raise UsageError(
                f"{self.what}: there are changes since the last commit ({shown}{more}); commit or "
                "stash them first"
            )
        for who in ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"):
            try:
                self.git.run("var", who)
            except GitError:
                raise UsageError(
                    f"{self.what}: git does not know whose commit it is; set user.name and "
                    "user.email"
                ) from None
        return os.fsdecode(head)

    def refused(self, document: Document) -> str:
        """Return why a file cannot be part of a commit, or an empty string: a commit holds the fix
        and nothing else."""
        folder = os.path.dirname(document.path)
        if working_tree(folder) != self.git.root:
            return f"lies in another git repository than {self.git.root}"
        name = self._name(document)
        entry = self._entry(name)
        if entry is None:
            return "is not known to git, so that its fix cannot be a commit"
        driver = self.git.run("check-attr", "-z", "filter", "--", name).split(b"\0")[2]
        if driver not in (b"unspecified", b"unset"):
            return f"goes through git's filter {os.fsdecode(driver)!r}, which is not run"
        blob = self.git.run("hash-object", "--stdin", f"--path={name}", given=document.data)
        return "" if os.fsdecode(blob.strip()) == entry[1] else "differs from the last commit"

    def prepared(self, commits: Sequence[Commit]) -> str:
        """Make the commits, one on the other, where nobody sees them; return the last one's name.

        Raises:
            UsageError: the working tree or the branch changed since it was looked at, or git fails.
        """
        if self._parent_commit() != self.head:
            raise UsageError(f"{self.what}: the branch has moved meanwhile")
        with tempfile.TemporaryDirectory(prefix="torchlint-index-") as folder:
            own = {"GIT_INDEX_FILE": os.path.join(folder, "index")}
            self.git.run("read-tree", self.head, more=own)
            parent = self.head
            for commit in commits:
                for document, data in commit.files.values():
                    self._stage(document, data, own)
                tree = os.fsdecode(self.git.run("write-tree", more=own).strip())
                said = commit.message.encode("utf-8", "backslashreplace")
                made = self.git.run("commit-tree", tree, "-p", parent, "-F", "-", given=said)
                parent = os.fsdecode(made.strip())
        return parent

    def _stage(self, document: Document, data: bytes, own: Mapping[str, str]) -> None:
        name = self._name(document)
        entry = self._entry(name)
        if entry is None:
            raise UsageError(f"{self.what}: {name} is gone from the last commit")
        blob = self.git.run("hash-object", "-w", "--stdin", f"--path={name}", given=data)
        line = f"{entry[0]} {os.fsdecode(blob.strip())}\t{name}\0"
        self.git.run("update-index", "-z", "--index-info", given=os.fsencode(line), more=own)

    def publish(self, commit: str, documents: Iterable[Document], message: str) -> None:
        """Move the branch to a commit that was prepared, once the files hold what it does.

        Raises:
            GitError: the branch has moved meanwhile, or git fails; then nothing is changed.
        """
        names = b"".join(os.fsencode(self._name(each)) + b"\0" for each in documents)
        self.git.run("update-index", "-z", "--stdin", given=names)
        try:
            self.git.run("update-ref", "-m", message, "HEAD", commit, self.head)
        except BaseException:
            self.git.run("read-tree", self.head)
            raise

    def _name(self, document: Document) -> str:
        return os.path.relpath(document.path, self.git.root).replace(os.sep, "/")

    def _entry(self, name: str) -> tuple[str, str] | None:
        """Return mode and blob of a regular file of the last commit."""
        lines = self.git.run("ls-tree", "-z", self.head, "--", name).split(b"\0")
        for line in filter(None, lines):
            mode, kind, blob = os.fsdecode(line.partition(b"\t")[0]).split()
            if kind == "blob" and mode.startswith("100"):
                return mode, blob
        return None
