"""``torchlint check train.py:88 --explain``: why a line is flagged, or why it is not."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing

from torchlint.base.errors import SourceError, UsageError
from torchlint.base.explanation import Asked, ExplainedReport, Place
from torchlint.base.finding import INVALID_SYNTAX, FileReport, NoteKind
from torchlint.cli.options import Given, wants_color
from torchlint.cli.output import complain, emit
from torchlint.cli.progress import is_terminal
from torchlint.cli.scope import Scope, Target, read_stdin, scope
from torchlint.engine.catalog import Catalog
from torchlint.engine.config import Settings, codes_for
from torchlint.engine.explain import Explainer
from torchlint.engine.job import Job
from torchlint.engine.run import RunOptions, run
from torchlint.report.text import pluralise, visible
from torchlint.source.discover import SkipKind
from torchlint.source.document import Document, decode, read
from torchlint.source.globs import matches

_PLACE = re.compile(r"(?P<path>.+?):(?P<row>\d{1,9})(?::(?P<column>\d{1,9}))?")
_EXAMPLE = "name a line, as in train.py:88"


def explain(given: Given, catalog: Catalog) -> int:
    """Explain the places that the paths name, print that, and return the exit code.

    Raises:
        UsageError: a path names no line, the file has no such line, or an option does not go with --explain.
    """
    places = _places(given)
    found = scope({**given, "paths": tuple(places)}, catalog)
    format_ = _format(given, found)
    explained: list[ExplainedReport] = []
    code = 0
    for skip in found.skipped:
        complain(f"{visible(skip.filename)}: {visible(skip.reason)}")
        code = max(code, int(skip.kind is SkipKind.ERROR))
    documents, trouble = _documents(found)
    for report in _reports(documents, places, given, catalog):
        code = max(code, _complaints(report))
        if isinstance(report, ExplainedReport):
            _check_rows(report, places)
            explained.append(report)
    _print(explained, format_, given)
    return max(code, trouble)


def _places(given: Given) -> dict[str, tuple[Place, ...]]:
    """Return the places asked about, by path."""
    if given["output_file"] is not None:
        raise UsageError("--explain and --output-file cannot be used together: redirect standard output")
    if not given["paths"]:
        raise UsageError(f"--explain: {_EXAMPLE}")
    places: dict[str, tuple[Place, ...]] = {}
    for argument in given["paths"]:
        match = None if os.path.exists(argument) else _PLACE.fullmatch(argument)
        if match is None:
            raise UsageError(f"--explain: {argument}: {_EXAMPLE}")
        if os.path.isdir(match["path"]):
            raise UsageError(f"--explain: {argument}: {match['path']} is a directory; {_EXAMPLE}")
        row, column = int(match["row"]), int(match["column"]) if match["column"] else None
        if row == 0 or column == 0:
            raise UsageError(f"--explain: {argument}: lines and columns are counted from 1")
        places[match["path"]] = (*places.get(match["path"], ()), Place(row, column))
    return places


def _format(given: Given, found: Scope) -> str:
    """Return ``json`` or ``text``; a format that the configuration chooses for findings means text."""
    for asked in given["output_format"]:
        if asked.file or asked.format not in ("full", "json"):
            raise UsageError(f"--explain prints text or json, not {asked.option}")
    return "json" if found.settings.output_format == "json" else "text"


def _documents(found: Scope) -> tuple[list[tuple[Document, Target]], int]:
    """Read the files; return those that can be read, and 1 where one could not be."""
    out: list[tuple[Document, Target]] = []
    code = 0
    for target in found.targets:
        name, limit = target.found.filename, target.settings.max_file_size
        try:
            stdin = not target.found.path
            document = decode(read_stdin(limit, name), "", name) if stdin else read(target.found.path, name, limit)
        except SourceError as error:
            complain(visible(str(error)))
            code = 1
        else:
            out.append((document, target))
    return out, code


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
        codes = codes_for(settings, catalog, relative)
        named = sorted({info.code for word in _named(given) if (info := catalog.find(word)) is not None})
        off = _off(settings, catalog, relative, codes, given)
        asked[document.filename] = Asked(_of(document.filename, places), off, tuple(named))
        options = (settings.target_torch, settings.accelerator, settings.assume_hot)
        jobs.append(Job(document, relative, codes, *options, root=settings.root))
    options_ = (
        RunOptions(jobs=given["jobs"] or None, timeout=documents[0][1].settings.timeout) if documents else RunOptions()
    )
    with closing(run(jobs, options_, Explainer(asked))) as reports:
        yield from reports


def _named(given: Given) -> tuple[str, ...]:
    return (*(given["select"] or ()), *(given["extend_select"] or ()))


def _of(filename: str, places: Mapping[str, tuple[Place, ...]]) -> tuple[Place, ...]:
    """Return the places in a file that was found under a name, which may be spelled otherwise than the user did."""
    if filename in places:
        return places[filename]
    same = [path for path in places if os.path.realpath(path) == os.path.realpath(filename)]
    return places[same[0]] if same else places.get("-", ())


def _off(settings: Settings, catalog: Catalog, relative: str, codes: frozenset[str], given: Given) -> dict[str, str]:
    """Return why each rule that is off for a file is off."""

    def source(key: str) -> str:
        return f"--{key}" if given[key] else f"`{key}` in {os.path.basename(settings.config) or 'the configuration'}"

    chosen = catalog.resolve(settings.select, "select") if settings.select else None
    ignored = catalog.resolve(settings.ignore, "ignore")
    on = catalog.enabled(settings.select, settings.ignore, settings.extend_select)
    out: dict[str, str] = {}
    for info in catalog.rules:
        if info.code in codes:
            continue
        glob = next((glob for glob, _ in settings.per_file_ignores if matches(relative, (glob,))), "")
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
    """Say what is wrong with a file that cannot be explained, and return the exit code that this demands."""
    code = 0
    for finding in report.findings:
        if finding.code == INVALID_SYNTAX:
            place = f"{visible(report.filename)}:{finding.start.row}:{finding.start.column}"
            complain(f"{place}: {INVALID_SYNTAX}: {visible(finding.message)}")
            code = 1
    for note in report.notes:
        line = f":{note.line}" if note.line else ""
        complain(f"{visible(note.filename)}{line}: not analysed: {visible(note.message)}")
        code = max(code, 2 if note.kind is NoteKind.FAILED else 0)
    return code


def _check_rows(report: ExplainedReport, places: Mapping[str, tuple[Place, ...]]) -> None:
    for place in _of(report.filename, places):
        if place.row > report.rows:
            lines = pluralise(report.rows, "line")
            raise UsageError(f"--explain: {report.filename}:{place.row}: the file has {lines}")


def _print(explained: list[ExplainedReport], format_: str, given: Given) -> None:
    if format_ == "json":
        from torchlint.report import explained_json

        emit(explained_json.render(explained))
        return
    from torchlint.report import explained as text

    emit(text.render(explained, wants_color(given["color"], is_terminal(sys.stdout))))
