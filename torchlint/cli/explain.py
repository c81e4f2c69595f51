"""``torchlint check train.py:88 --explain``: why a line is flagged, or why it is not."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing

from torchlint.base.errors import SourceError, UsageError
from torchlint.base.explanation import Asked, ExplainedReport, Place
from torchlint.base.finding import FAILING, INVALID_SYNTAX, FileReport, NoteKind
from torchlint.base.span import LineIndex
from torchlint.catalog.rules import Catalog
from torchlint.cli.options import Given, wants_color
from torchlint.cli.output import complain, emit
from torchlint.cli.scope import PLACE, Scope, Target, read_target, scope
from torchlint.cli.terminal import is_terminal
from torchlint.engine.job import Job
from torchlint.explain.explainer import Explainer
from torchlint.report.kit.words import visible, visible_path
from torchlint.report.text import place
from torchlint.run.jobs import job_for
from torchlint.run.run import RunOptions, run
from torchlint.settings.keys import Settings
from torchlint.settings.load import is_for
from torchlint.source.discover import SkipKind
from torchlint.source.document import Document

_EXAMPLE = "name a line as FILE:LINE, such as train.py:88"
_IN_NOTEBOOK = "name a line of a cell as FILE:cell N:LINE, such as 'train.ipynb:cell 3:5'"


def explain(given: Given, catalog: Catalog) -> int:
    """Explain the places that the paths name, print that, and return the exit code.

    Raises:
        UsageError: a path names no line, the file or cell has no such line, or an option does not
            go with --explain.
    """
    places = _places(given)
    found = scope({**given, "paths": tuple(places), "here": True}, catalog)
    # ``json`` or ``text``; a format that the configuration chooses for findings means text.
    for asked in given["output_format"]:
        if asked.file or asked.format not in ("full", "json"):
            raise UsageError(f"--explain prints text or json, not {asked.option}")
    format_ = "json" if found.settings.output_format == "json" else "text"
    explained: list[ExplainedReport] = []
    code = 0
    for skip in found.skipped:
        complain(f"{visible(skip.filename)}: {visible(skip.reason)}")
        code = max(code, int(skip.kind is SkipKind.ERROR))
    documents, trouble = _documents(found, places)
    for report in _reports(documents, places, given, catalog):
        code = max(code, _complaints(report))
        if isinstance(report, ExplainedReport):
            explained.append(report)
    _print(explained, format_, given)
    return max(code, trouble)


def _places(given: Given) -> dict[str, tuple[Place, ...]]:
    """Return the places asked about, by path."""
    if given["output_file"] is not None:
        raise UsageError(
            "--explain and --output-file cannot be used together: redirect standard output"
        )
    if not given["paths"]:
        raise UsageError(f"--explain: {_EXAMPLE}")
    places: dict[str, tuple[Place, ...]] = {}
    for argument in given["paths"]:
        match = None if os.path.exists(argument) else PLACE.fullmatch(argument)
        if match is None:
            example = _IN_NOTEBOOK if ".ipynb" in argument.lower() else _EXAMPLE
            raise UsageError(f"--explain: {argument}: {example}")
        if ".ipynb:" in match["path"].lower() and not os.path.exists(match["path"]):
            raise UsageError(f"--explain: {argument}: {_IN_NOTEBOOK}")
        if os.path.isdir(match["path"]):
            raise UsageError(f"--explain: {argument}: {match['path']} is a directory; {_EXAMPLE}")
        row, column, cell = (
            int(match[name]) if match[name] else None for name in ("row", "column", "cell")
        )
        if not row or 0 in (column, cell):
            raise UsageError(f"--explain: {argument}: cells, lines and columns are counted from 1")
        places[match["path"]] = (*places.get(match["path"], ()), Place(row, column, cell))
    return places


def _documents(
    found: Scope, places: Mapping[str, tuple[Place, ...]]
) -> tuple[list[tuple[Document, Target]], int]:
    """Read the files; return those that can be read, and 1 where one could not be.

    Raises:
        UsageError: a file has no such place.
    """
    out: list[tuple[Document, Target]] = []
    code = 0
    for target in found.targets:
        try:
            document = read_target(target)
        except SourceError as error:
            complain(visible(str(error)))
            code = 1
        else:
            if document.left_out:
                complain(
                    f"{visible_path(document.filename)}: not analysed: {visible(document.left_out)}"
                )
                continue
            asked = _places_in(document.filename, places)
            for each in asked:
                fault = _fault(document, each)
                if fault:
                    raise UsageError(f"--explain: {document.filename}:{each.words}: {fault}")
            out.append((document, target))
    return out, code


def _fault(document: Document, asked: Place) -> str:
    """Return why a file has no such place, or an empty string."""
    if document.notebook is None:
        if asked.cell is not None:
            return f"only notebooks have cells; {_EXAMPLE}"
        rows, whole = len(LineIndex(document.text)) - document.text.endswith("\n"), "file"
    else:
        if asked.cell is None:
            return _IN_NOTEBOOK
        sources = {part.cell.number: part.cell.source for part in document.notebook.parts}
        if asked.cell not in sources:
            return "the notebook has no such cell, or it holds no Python"
        rows, whole = len(LineIndex(sources[asked.cell])), "cell"
    return "" if asked.row <= rows else f"the {whole} has {rows} line{'s' * (rows != 1)}"


def _reports(
    documents: list[tuple[Document, Target]],
    places: Mapping[str, tuple[Place, ...]],
    given: Given,
    catalog: Catalog,
) -> Iterator[FileReport]:
    jobs: list[Job] = []
    asked: dict[str, Asked] = {}
    for document, target in documents:
        settings, relative = target.settings, target.relative
        job = job_for(document, relative, settings, catalog)
        named = sorted(
            {
                info.code
                for word in (*(given["select"] or ()), *(given["extend_select"] or ()))
                if (info := catalog.find(word)) is not None
            }
        )
        off = _why_off(settings, catalog, relative, job.codes, given)
        asked[document.filename] = Asked(_places_in(document.filename, places), off, tuple(named))
        jobs.append(job)
    options_ = (
        RunOptions(jobs=given["jobs"] or None, timeout=documents[0][1].settings.timeout)
        if documents
        else RunOptions()
    )
    with closing(run(jobs, options_, Explainer(asked))) as reports:
        yield from reports


def _places_in(filename: str, places: Mapping[str, tuple[Place, ...]]) -> tuple[Place, ...]:
    """Return the places in a file that was found under a name, which may be spelled otherwise than
    the user did."""
    if filename in places:
        return places[filename]
    same = [path for path in places if os.path.realpath(path) == os.path.realpath(filename)]
    return places[same[0]] if same else places.get("-", ())


def _why_off(
    settings: Settings, catalog: Catalog, relative: str, codes: frozenset[str], given: Given
) -> dict[str, str]:
    """Return why each rule that is off for a file is off."""

    def source(key: str) -> str:
        return (
            f"--{key}"
            if given[key]
            else f"`{key}` in {os.path.basename(settings.config) or 'the configuration'}"
        )

    chosen = catalog.resolve(settings.select, "select") if settings.select else None
    ignored = catalog.resolve(settings.ignore, "ignore")
    on = catalog.enabled(settings.select, settings.ignore, settings.extend_select)
    out: dict[str, str] = {}
    for info in catalog.rules:
        if info.code in codes:
            continue
        glob = next((glob for glob, _ in settings.per_file_ignores if is_for(glob, relative)), "")
        if info.code in on:
            out[info.code] = f"`per-file-ignores` switches it off for `{glob}`"
        elif info.code in ignored:
            out[info.code] = f"{source('ignore')} leaves it out"
        elif chosen is not None:
            out[info.code] = f"{source('select')} names other rules only"
        else:
            out[info.code] = f"it is off by default: --extend-select {info.code} switches it on"
    return out


def _complaints(report: FileReport) -> int:
    """Say what is wrong with a file that cannot be explained, and return the exit code that this
    demands."""
    code = 0
    for finding in report.findings:
        if finding.code == INVALID_SYNTAX:
            complain(f"{place(finding)}: {INVALID_SYNTAX}: {visible(finding.message)}")
            code = 1
    for note in report.notes:
        cell = "" if note.cell is None else f":cell {note.cell}"
        line = f":{note.line}" if note.line else ""
        complain(
            f"{visible_path(note.filename)}{cell}{line}: not analysed: {visible(note.message)}"
        )
        code = max(code, 2 if note.kind is NoteKind.FAILED else note.kind in FAILING)
    return code


def _print(explained: list[ExplainedReport], format_: str, given: Given) -> None:
    if format_ == "json":
        from torchlint.report import explained_json

        emit(explained_json.render(explained))
        return
    from torchlint.report import explained as text

    emit(text.render(explained, wants_color(given["color"], is_terminal(sys.stdout))))
