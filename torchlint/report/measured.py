"""What a report of `torchlint profile` says of findings, put beside those of another run.

Only what fixing them saves at most is taken from it, and nothing that gates asks for it.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from torchlint.base.errors import UsageError
from torchlint.base.finding import FileReport, Finding, Measured
from torchlint.base.records import frozen
from torchlint.report.kit.words import visible

READS = 1
"""The version of the report's schema."""


class Measurements:
    """What was measured of findings, by fingerprint, and by code and line where that is unknown:
    the code around it has changed since."""

    def __init__(self, entries: Iterable[tuple[str, str, str, int, Measured]]) -> None:
        """Take (fingerprint, code, file, line, what was measured) of each finding."""
        self._by_fingerprint: dict[str, Measured] = {}
        self._by_line: dict[tuple[str, int], list[tuple[str, Measured]]] = {}
        for fingerprint, code, filename, line, measured in entries:
            if fingerprint:
                self._by_fingerprint[fingerprint] = measured
            self._by_line.setdefault((code, line), []).append((_posix(filename), measured))

    def of(self, finding: Finding) -> Measured | None:
        """Return what was measured of a finding."""
        known = self._by_fingerprint.get(finding.fingerprint)
        if known is not None or finding.cell is not None:
            return known
        path = _posix(finding.filename)
        here = self._by_line.get((finding.code, finding.start.row), ())
        return next((measured for name, measured in here if _may_be_same_file(path, name)), None)

    def beside(self, file: FileReport) -> FileReport:
        """Return a file's report with what was measured of its findings."""
        findings = (
            dataclasses.replace(finding, measured=self.of(finding)) for finding in file.findings
        )
        return dataclasses.replace(file, findings=tuple(findings))


@frozen
class Waited:
    """How long the host waited at a statement, in nanoseconds, and which part of the time that is;
    and how often a step would wait there, where that was predicted without a GPU."""

    ns: int
    share: float
    per_step: float


class WaitedAt:
    """How long the host waited at each line, as a profile measured it."""

    def __init__(self, places: Iterable[tuple[str, int, int, float]], span: int) -> None:
        """Take (file, line, nanoseconds, waits in a step) of each place, and the time that was
        looked at."""
        self._places = [(_posix(file), line, ns, often) for file, line, ns, often in places]
        self._span = span

    def of(self, finding: Finding) -> Waited | None:
        """Return what was measured at the statement of a finding; None where it did not wait."""
        path = _posix(finding.filename)
        rows = range(finding.statement, finding.statement_end + 1)
        here = [
            (ns, often)
            for file, line, ns, often in self._places
            if line in rows and _may_be_same_file(path, file)
        ]
        if not here or finding.cell is not None:
            return None
        waited = sum(ns for ns, _ in here)
        share = min(waited / self._span, 1.0) if self._span else 0.0
        return Waited(waited, share, sum(often for _, often in here))


def read_measurements(path: str) -> Measurements:
    """Read what a report of ``torchlint profile --output-format json`` says of findings.

    Raises:
        UsageError: it cannot be read, is none, or is of another version.
    """
    found = _document(path)
    try:
        return Measurements(_entries(found))
    except _DAMAGES:
        raise _damaged(path) from None


def read_waits(path: str) -> WaitedAt:
    """Read what such a report says of waits.

    Raises:
        UsageError: as of `read_measurements`.
    """
    report = _document(path)
    found = report.get("waits") or {}
    try:
        return WaitedAt(_places(report), int(found.get("span_ns", 0)))
    except _DAMAGES:
        raise _damaged(path) from None


def _places(report: Mapping[str, Any]) -> Iterator[tuple[str, int, int, float]]:
    """Yield the lines that waited, and those of which it was predicted."""
    for each in (report.get("waits") or {"places": ()})["places"]:
        if each["file"] and each["line"]:
            yield str(each["file"]), int(each["line"]), int(each["waited_ns"]), 0.0
    for each in (report.get("predicted") or {"lines": ()})["lines"] or ():
        if each["waits"]:
            yield str(each["file"]), int(each["line"]), 0, float(each["waits"])


_DAMAGES = (KeyError, TypeError, ValueError, AttributeError)


def _damaged(path: str) -> UsageError:
    return UsageError(f"--profile {visible(path)}: is a damaged report of torchlint profile")


def _document(path: str) -> Mapping[str, Any]:
    name = visible(path)
    try:
        found = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise UsageError(f"--profile {name}: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        raise UsageError(f"--profile {name}: is no JSON; {_HOW}") from None
    if not isinstance(found, dict) or not {"window", "figures", "findings"} <= found.keys():
        raise UsageError(f"--profile {name}: is no report of torchlint profile; {_HOW}")
    version = found.get("schema_version")
    if version != READS:
        shown = visible(f"{version!r:.40}")
        raise UsageError(
            f"--profile {name}: has schema_version {shown}; this torchlint reads {READS}"
        )
    return found


_HOW = "torchlint profile PATHS --trace FILE --output-format json -o FILE writes one"


def _entries(found: Mapping[str, Any]) -> Iterator[tuple[str, str, str, int, Measured]]:
    """Yield the findings that have a bound.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: the report is damaged.
    """
    span = (found.get("bounds") or {}).get("span_ns") or 0
    for entry in found["findings"]:
        bound = entry.get("bound")
        if bound is not None:
            joint = min(int(bound["joint_ns"]) / span, 1.0) if span else 0.0
            share = float(bound["share"])
            if not 0 <= share <= 1:
                raise ValueError("a share is a part of 1")
            yield (
                str(entry["fingerprint"]),
                str(entry["code"]),
                str(entry["filename"]),
                int(entry["line"]),
                Measured(share, joint, int(bound["alone_ns"]), bool(bound["negligible"])),
            )


def _posix(path: str) -> str:
    return os.path.normpath(path).replace(os.sep, "/")


def _may_be_same_file(path: str, name: str) -> bool:
    """Say whether two paths may mean one file: one ends as the other."""
    return path == name or path.endswith(f"/{name}") or name.endswith(f"/{path}")
