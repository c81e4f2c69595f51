"""The `junit` format: JUnit's XML, which nearly every CI server shows; a suite per file, a failed
case per finding."""

from __future__ import annotations

from itertools import groupby
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from torchlint.base.finding import NOT_ANALYSED, Finding, Severity
from torchlint.base.regex import regex
from torchlint.report.kit.words import visible
from torchlint.report.run_report import RunReport
from torchlint.report.text import file_row, in_file

_HEADER = '<?xml version="1.0" encoding="UTF-8"?>\n'
_NO_XML = regex("[\ufffe\uffff]")
"""What XML cannot hold even as a reference, besides what `visible` spells out."""


def render(run: RunReport) -> str:
    """Return the document, in ASCII.

    A file that torchlint failed on is a case with an error, one that was left out a skipped case. A
    run without any of these holds one case that passed, since servers take a report without cases
    for a broken build.
    """
    root = Element("testsuites", name="torchlint")
    entries = sorted(run.entries(), key=lambda finding: finding.filename)
    for filename, findings in groupby(entries, lambda finding: finding.filename):
        suite = SubElement(root, "testsuite", name=_text(filename))
        for finding in findings:
            _case(suite, finding)
        _count(suite)
    if not entries:
        suite = SubElement(root, "testsuite", name="torchlint")
        SubElement(suite, "testcase", name="No findings", classname="torchlint")
        _count(suite)
    _count(root)
    indent(root)
    return (
        f"{_HEADER}{tostring(root, encoding='us-ascii', xml_declaration=False).decode('ascii')}\n"
    )


def _case(suite: Element, finding: Finding) -> None:
    """Add a case; its name holds the place, as servers show cases of one name as one."""
    filename, row = _text(finding.filename), str(file_row(finding))
    place = in_file(finding)
    case = SubElement(
        suite,
        "testcase",
        name=f"{finding.code} {place}",
        classname=filename,
        file=filename,
        line=row,
    )
    message = _text(finding.said)
    if finding.code == NOT_ANALYSED:
        kind = "error" if finding.severity is Severity.ERROR else "skipped"
    else:
        kind = "failure"
    fault = SubElement(case, kind, message=message)
    if kind != "skipped":
        fault.set("type", finding.severity.value)
    fault.text = f"{filename}:{place}: {finding.code} {message}"


def _count(suite: Element) -> None:
    """Write the numbers of cases of each kind, which readers expect on a suite."""
    suite.set("tests", str(sum(1 for _ in suite.iter("testcase"))))
    for kind, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(name, str(sum(1 for _ in suite.iter(kind))))


def _text(text: str) -> str:
    return _NO_XML.sub(lambda found: f"\\u{ord(found[0]):04x}", visible(text))
