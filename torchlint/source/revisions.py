"""What the files of a folder were at a revision, read from git's objects: neither the working tree
nor the index is written."""

from __future__ import annotations

import os
from collections.abc import Iterator

from torchlint.base.errors import UsageError
from torchlint.base.records import frozen
from torchlint.source.changes import commit_of
from torchlint.source.git import Git, GitError, working_tree

EXECUTABLE, LINK = "100755", "120000"
_FILES = ("100644", EXECUTABLE, LINK)
_POINTER = b"version https://git-lfs.github.com/spec/"


@frozen
class OldFile:
    """A file at a revision: its contents (of a link, its text), and its mode as git writes it."""

    data: bytes
    mode: str


@frozen
class Difference:
    """How a folder's tracked files differ from a revision.

    Args:
        commit: the revision's name.
        files: what differs, by posix path under the folder: as it was, or None where it was not
            there.
    """

    commit: str
    files: dict[str, OldFile | None]


def difference(revision: str, folder: str, what: str) -> Difference:
    """Compare the tracked files below a folder with a revision. Files that git does not know, and
    those of which a revision holds a pointer of Git LFS alone, do not differ.

    Args:
        revision: as git understands it.
        folder: absolute, links resolved.
        what: what the user asked for, which messages start with.

    Raises:
        UsageError: there is no repository, no git or no such revision, or git fails.
    """
    top = working_tree(folder)
    if not top:
        raise UsageError(
            f"{what}: there is no such file or folder, and {folder} is in no git repository"
        )
    git = Git(os.path.realpath(top), what)
    commit = commit_of(git, revision)
    place = os.path.relpath(folder, git.root).replace(os.sep, "/")
    raw = git.run(
        *"diff --raw -z --no-renames --no-abbrev --no-ext-diff --no-relative".split(),
        *("--ignore-submodules=all", commit, "--", place),
        more={"GIT_LITERAL_PATHSPECS": "1"},
    )
    words = raw.split(b"\0")
    rows = [
        (head.decode("ascii").split(), os.fsdecode(name))
        for head, name in zip(words[::2], words[1::2], strict=False)
    ]
    wanted = sorted({row[2] for row, _ in rows if row[0][1:] in _FILES})
    blobs = dict(zip(wanted, _blobs(git, wanted), strict=True))
    files: dict[str, OldFile | None] = {}
    for (mode, _, blob, *_), name in rows:
        under = name if place == "." else name[len(place) + 1 :]
        if mode[1:] not in _FILES:
            files.setdefault(under, None)
        elif not blobs[blob].startswith(_POINTER):
            files[under] = OldFile(blobs[blob], mode[1:])
    return Difference(commit, files)


def _blobs(git: Git, names: list[str]) -> Iterator[bytes]:
    """Yield the contents of objects, in their order."""
    data = git.run("cat-file", "--batch", given="".join(f"{each}\n" for each in names).encode())
    at = 0
    for name in names:
        end = data.index(b"\n", at)
        head = data[at:end].split()
        if head[-1] == b"missing":
            raise GitError(
                f"{git.what}: this clone lacks the object {name}, and it is not fetched, as that "
                "can start programs that the repository names; fetch it yourself first"
            )
        at = end + 2 + int(head[2])
        yield data[end + 1 : at - 1]


def patched(patch: bytes, copy: str, depth: int, what: str, *, back: bool) -> None:
    """Apply a patch to a copy that is in no repository, or take it back there.

    Args:
        patch: as ``git diff`` or ``diff -u`` write it.
        copy: absolute, links resolved.
        depth: how many folders lie between the top of the repository, which the patch's names may
            begin with, and what was copied.
        what: what the user asked for, which messages start with.
        back: whether to take it back.

    Raises:
        GitError: it does not apply.
    """
    git = Git(copy, what)
    how = ("--whitespace=nowarn", *(("--reverse",) if back else ()), "-")
    for strip in dict.fromkeys((1 + depth, 1)):
        try:
            git.run("apply", f"-p{strip}", *how, given=patch)
        except GitError as error:
            failed = error
        else:
            return
    raise failed


def described(folder: str) -> str:
    """Return what git calls the working tree that holds a folder: the nearest tag or the commit,
    and whether files differ from it; empty where there is none."""
    top = working_tree(folder)
    if not top:
        return ""
    try:
        git = Git(os.path.realpath(top), "git describe")
        # --dirty would write the index anew.
        differs = git.run("diff", "--name-only", "--ignore-submodules=all", "HEAD")
        name = git.run("describe", "--always", "--tags").decode().strip()
        return f"{name}-dirty" if differs else name
    except UsageError:
        return ""
