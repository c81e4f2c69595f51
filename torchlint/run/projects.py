"""The project around a job's file, as a worker keeps it: other files are read when a question needs
them."""

from __future__ import annotations

import os
from collections.abc import Iterable

from torchlint.base.errors import SourceError
from torchlint.base.trail import Dependencies, answered, listing, question_of, states, tree
from torchlint.engine import syntax
from torchlint.engine.job import Job
from torchlint.run.digests import LARGEST, UNREADABLE, State, digest, state_of
from torchlint.semantic.module import Module
from torchlint.semantic.project.outside import Outside
from torchlint.semantic.project.project import Project
from torchlint.source.document import decode, read_bytes

_LARGEST = 400_000
"""Bytes of the largest file that is read for what others import from it; larger ones are data, not
helpers."""
_PICTURES = 16_000_000
"""Bytes of the largest notebook that is read, with its pictures."""

_CHANGED = "changed"
"""The digest of a file that was read twice and did not hold the same; no content has it."""

_projects: dict[tuple[object, ...], Project] = {}
_states: dict[str, State | str | None] = {}
_unsaved: dict[str, str] = {}
_trails: dict[str, Dependencies] = {}
_digests: dict[str, str] = {}
_trees: dict[str, str] = {}


def outside_of(job: Job) -> Outside:
    """Return what the file of a job may ask about its project; nothing where the job names no
    root."""
    if not job.root:
        return Outside()
    # The torch that fixes are for decides on no fact; a file that was misread may have given some.
    key = (job.root, job.accelerator, job.assume_hot, len(syntax.left_to_libcst))
    if key not in _projects:
        forget()  # A run is about one project at a time.
        _projects[key] = Project(job.root, _text, _Analyst(job).module)
    _projects[key].settle()
    path = _path_of(job)
    trail = _trails.setdefault(path, Dependencies()) if job.traced else Dependencies()
    return Outside(_projects[key].view(trail), path, deep=True)


def rests_on(job: Job) -> tuple[tuple[str, str], ...]:
    """Return what the analysis of a job's file knows from elsewhere: each other path with its
    state, see `states`.

    To be asked once, after the analysis.
    """
    trail = _trails.pop(_path_of(job), None)
    if trail is None:
        return ()
    (project,) = _projects.values()
    search = project.files.search
    whole = project.rests_on(trail)
    if whole.asked:
        whole.add(project.beyond())
    found = list(states(whole, search.files, _digests, search.listings))
    if whole.asked:
        found.append((search.root, _tree(project)))
        found += [answered(asked, project.files.asked.get(asked)) for asked in sorted(whole.asked)]
    return tuple(found)


def confirmed(job: Job) -> tuple[tuple[str, str], ...]:
    """Return those of a job's facts that hold, which are answers to questions about all files, what
    these files hold, and what else these answers rest on.

    Nothing is analysed for it: such questions are about what the files say.
    """
    forget()
    project = Project(job.root, _text, lambda project, path, text: None)
    held = [
        (path, state)
        for path, state in job.facts
        if (asked := question_of(path, state)) is not None
        and answered(asked, project.files.ask(asked)) == (path, state)
    ]
    search = project.files.search
    beyond = states(project.beyond(), search.files, _digests, search.listings)
    return (*beyond, (search.root, _tree(project)), *held)


def programs(root: str, paths: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return by file, all absolute, the scripts of a project that run it, the likeliest first."""
    project = Project(root, _text, lambda project, path, text: None)
    return {path: project.files.ask(("started", path)) for path in paths}


def _tree(project: Project) -> str:
    """Return the state of all files of a project, as they were read."""
    search = project.files.search
    if search.root not in _trees:
        every = search.every_file()
        for path in every or ():
            if path not in _digests:
                _text(path)
        contents = [(path, _digests[path]) for path in every] if every is not None else None
        _trees[search.root] = tree(search.listings, contents)
    return _trees[search.root]


def _path_of(job: Job) -> str:
    return os.path.normpath(os.path.join(job.root, job.relative))


def forget() -> None:
    """Forget all projects: files may have changed."""
    for project in _projects.values():
        project.close()
    _projects.clear()
    _trails.clear()
    _digests.clear()
    _trees.clear()
    _states.clear()


def refresh(unsaved: Iterable[tuple[str, str]]) -> None:
    """Forget all projects where a file that was read, or looked for, is not as it was: for a worker
    that lives long.

    `unsaved` are paths and texts of files that are open in an editor: these texts count, not what
    the disk holds.
    """
    _unsaved.clear()
    _unsaved.update(unsaved)
    looked = (item for project in _projects.values() for item in project.files.search.files.items())
    listed = (
        item for project in _projects.values() for item in project.files.search.listings.items()
    )
    if (
        any(_state(path) != state for path, state in _states.items())
        or any(os.path.isfile(path) != there for path, there in looked if "\0" not in path)
        or any(listing(folder)[2] != state for folder, state in listed)
    ):
        forget()


def _state(path: str) -> State | str | None:
    """Return what tells a file's content from any other: its state, or of an unsaved one the digest
    of its text."""
    if path in _unsaved:
        return digest(_bytes(_unsaved[path]))
    try:
        return state_of(os.stat(path))
    except (OSError, ValueError):
        return None


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(path: str) -> str | None:
    _states[path] = _state(path)
    if path in _unsaved:
        text = _unsaved[path]
        _note(path, digest(_bytes(text)))
        return _code(path, text)
    try:
        data = read_bytes(path, path, LARGEST)
    except SourceError:
        _note(path, UNREADABLE)
        return None
    _note(path, digest(data))
    try:
        return _code(path, decode(data, path, path).text) if len(data) <= _PICTURES else None
    except SourceError:
        return None


def _code(path: str, text: str) -> str | None:
    """Return the code of a file, of a notebook that of its cells as they are typed; None for too
    much."""
    if path.endswith(".ipynb"):
        from torchlint.source.notebook_json import read_notebook  # most runs meet no notebook

        try:
            notebook = read_notebook(text, path)
        except SourceError:
            notebook = ""
        if not isinstance(notebook, str):
            text = "\n".join(part.cell.source for part in notebook.parts)
    return text if len(text) <= _LARGEST else None


def _note(path: str, content: str) -> None:
    """Remember what a file held; what was read first may still be in use."""
    if _digests.setdefault(path, content) != content:
        _digests[path] = _CHANGED
        _trees.clear()


class _Analyst:
    """Analyses files with the settings of a job; the settings of all files of one run's project are
    the same."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def module(self, project: Project, path: str, text: str) -> Module | None:
        """Return the analysis of a file that may hold facts for others; None for what cannot be
        read.

        What does not name torch counts as well: the loop that calls an agent's `learn()` is often
        in such a file."""
        try:
            python = syntax.python_tree(text)
            if isinstance(python, syntax.SyntaxFault):
                return None
            tree = syntax.parse(text, python)
        except (syntax.TooDeepError, RecursionError):
            return None
        if isinstance(tree, str):
            return None
        return Module(
            tree,
            text,
            os.path.relpath(path, self._job.root).replace(os.sep, "/"),
            accelerator=self._job.accelerator,
            assume_hot=self._job.assume_hot,
            structure=syntax.structure(text, tree),
            outside=Outside(project.helper(path), path, deep=False),
        )
