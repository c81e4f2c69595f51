"""Suppression comments, unused ones, and the fixes that remove them."""

from __future__ import annotations

import string

import pytest

from torchlint.base.finding import INVALID_SYNTAX, UNUSED_SUPPRESSION, Finding, Safety, Severity
from torchlint.base.span import Position
from torchlint.source.suppress import Suppressions

NAMES = {
    "TL101": "host-sync-in-loop",
    "TL102": "late-move",
    "TL201": "slow-loader",
    "TL301": "opt-in",
    "XY101": "plugged",
}
ON = frozenset({"TL101", "TL102", "TL201", "XY101", UNUSED_SUPPRESSION})


def hit(row: int, code: str = "TL101", statement: int = 0, end: int = 0) -> Finding:
    place = Position(row, 1)
    name = NAMES.get(code, "engine")
    return Finding(
        code, name, "m", Severity.WARNING, "a.py", place, place, statement or row, end or row
    )


def run(
    text: str, *findings: Finding, on: frozenset[str] = ON
) -> tuple[list[Finding], list[Finding]]:
    found = Suppressions.parse(text).filter(findings, on, NAMES, "a.py")
    return found.kept, found.unused


def kept(text: str, *findings: Finding) -> list[tuple[int, str]]:
    return [(finding.start.row, finding.code) for finding in run(text, *findings)[0]]


def complaints(text: str, *findings: Finding, on: frozenset[str] = ON) -> list[str]:
    return [finding.message for finding in run(text, *findings, on=on)[1]]


def fixed(text: str, *findings: Finding) -> str:
    """Apply the first fix again and again, as the engine does in rounds."""
    for _ in range(10):
        fixes = [finding.fix for finding in run(text, *findings)[1] if finding.fix]
        if not fixes:
            return text
        [edit] = fixes[0].edits
        assert fixes[0].safety is Safety.SAFE
        text = text[: edit.span.start] + edit.text + text[edit.span.end :]
    raise AssertionError("no fixed point")


@pytest.mark.parametrize(
    "comment",
    [
        "# torchlint: ignore[TL101]",
        "# torchlint: ignore[TL101] because #12",
        "#torchlint:ignore [ TL102 , TL101 ]",
        "# Torchlint: Ignore[tl101]",
        "# torchlint: ignore[TL1]",
        "# torchlint: ignore[host-sync-in-loop]",
        "# why  # torchlint: ignore[TL101]",
        "# torchlint: ignore[TL101]  # noqa: E501",
        "# type: ignore # noqa:TL101,E501",
        "# NoQA : E501 TL101 reason",
        "# noqa: tl101",
        "# noqa",
        "#noqa  # type: ignore",
        "# torchlint: file-ignore[TL101]",
        "# torchlint: disable[TL101]",
    ],
)
def test_honoured(comment: str) -> None:
    assert kept(f"x  {comment}\n", hit(1)) == []


@pytest.mark.parametrize(
    "comment",
    [
        "# torchlint: ignore",
        "# torchlint: ignore TL101",
        "# torchlint: ignore[]",
        "# torchlint: ignore[TL101",
        "# torchlint: ignored[TL101]",
        "# torchlint: ignore[TL2]",
        "# torchlint: ignore[host-sync]",
        "# torchlint: ignore[T]",
        "# see torchlint: ignore[TL101]",
        "# torchlint: enable[TL101]",
        "# noqa: E501",
        "# noqa: because",
        "# noqa-like",
        "# noqa: TL101x",
        "# ruff: noqa",
        "'# noqa'",
    ],
)
def test_not_honoured(comment: str) -> None:
    assert kept(f"x  {comment}\n", hit(1)) == [(1, "TL101")]


@pytest.mark.parametrize(
    ("comment", "reason"),
    [
        ("# torchlint: ignore[TL101] because #12", "because #12"),
        ("# torchlint: ignore[TL101]: because  ", "because"),
        ("# noqa: TL101, E501 - because # and more", "because"),
        ("# noqa", ""),
        ("# why  # torchlint: ignore[TL101]  # noqa: E501", ""),
        ("# torchlint: file-ignore[TL101] slow by design", "slow by design"),
        ("# torchlint: disable[TL101] slow by design", "slow by design"),
        ("# torchlint: ignore[TL101] first  # noqa: TL101 second", "first"),
    ],
)
def test_what_is_silenced_has_its_comment(comment: str, reason: str) -> None:
    text = f"x  {comment}\n"
    suppressions = Suppressions.parse(text)
    found = suppressions.filter([hit(1), hit(2, INVALID_SYNTAX)], ON, NAMES, "a.py")
    [(finding, pragma)] = found.silenced
    assert (finding, pragma.reason) == (hit(1), reason)
    assert suppressions.silencer(hit(1), NAMES) == pragma


def test_only_what_is_named() -> None:
    text = "x  # torchlint: ignore[TL102]\n"
    assert kept(text, hit(1), hit(1, "TL102"), hit(2, "TL102")) == [(1, "TL101"), (2, "TL102")]


def test_the_engine_is_never_suppressed() -> None:
    assert kept("x  # noqa\n", hit(1, INVALID_SYNTAX)) == [(1, INVALID_SYNTAX)]


@pytest.mark.parametrize("form", ["# torchlint: ignore[TL101]", "# noqa: TL101", "# noqa"])
def test_rows_of_a_statement(form: str) -> None:
    inside = [hit(row, statement=1, end=4) for row in (1, 2, 3, 4)]
    assert kept(f"f(  {form}\n1,\n2,\n)\ny", *inside, hit(5)) == [(5, "TL101")]
    assert kept(f"f(\n1,\n2,\n)  {form}\ny", *inside, hit(5)) == [(5, "TL101")]
    assert kept(f"f(\n1,  {form}\n2,\n)\ny", *inside) == [(1, "TL101"), (3, "TL101"), (4, "TL101")]
    assert kept(f"x = '''\n1\n2\n'''  {form}\n", *inside) == []


def test_a_header_is_not_its_body() -> None:
    text = "for x in y:  # torchlint: ignore[TL101]\n    a\n    b  # torchlint: ignore[TL101]\n"
    assert kept(text, hit(1, end=3), hit(2), hit(3)) == [(2, "TL101")]
    assert complaints("for x in y:\n    b  # torchlint: ignore[TL101]\n", hit(1, end=2)) != []


def test_a_line_above() -> None:
    text = "# torchlint: ignore[TL101]\n\n# why\nf(\n1)\ny\n"
    assert kept(text, hit(4, end=5), hit(5, statement=4, end=5), hit(6)) == [(6, "TL101")]
    decorated = "# torchlint: ignore[TL101]\n@d\ndef f():\n    x\n"
    assert kept(decorated, hit(2), hit(3, statement=2), hit(4)) == [(4, "TL101")]
    assert (
        kept("f(\n    # torchlint: ignore[TL101]\n    x,\n    y)\n", hit(3, statement=1, end=4))
        == []
    )


def test_a_noqa_on_its_own_line_does_nothing() -> None:
    assert kept("# noqa: TL101\nx\n", hit(2)) == [(2, "TL101")]


def test_ranges() -> None:
    text = (
        "a\n# torchlint: disable[TL1]\nb\n# torchlint: enable[TL101]\nc\n# torchlint: "
        "disable[TL101]\nd\n"
    )
    everything = [hit(row, code) for row in (1, 3, 5, 7) for code in ("TL101", "TL102")]
    assert kept(text, *everything) == [(1, "TL101"), (1, "TL102"), (5, "TL101")]
    assert complaints(text, *everything) == []


def test_a_file_ignore_holds_everywhere() -> None:
    assert kept("a\nb\n# torchlint: file-ignore[TL101]\n", hit(1), hit(2), hit(1, "TL102")) == [
        (1, "TL102")
    ]


def test_file_ignores_add_up() -> None:
    text = "# torchlint: file-ignore[TL101]\n# torchlint: file-ignore[TL102]\n"
    assert kept(text, hit(3), hit(3, "TL102")) == []


def test_near_matches_are_bounded() -> None:
    letters = (string.ascii_lowercase + string.digits)[:30]
    found = complaints(
        f"x  # torchlint: ignore[{', '.join(f'TL101{letter}' for letter in letters)}]"
    )
    assert ["did you mean" in message for message in found] == [True] * 20 + [False] * 10


def test_texts_without_a_suppression_are_not_tokenized(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("torchlint.source.suppress.comments")
    assert Suppressions.parse("x  # a comment\n").pragmas == ()


def test_where_the_text_cannot_be_tokenized() -> None:
    text = "(\nf(\n1\n)  # torchlint: ignore[TL101]\n"
    assert kept(text, hit(3, statement=2, end=4), hit(4, statement=2, end=4), hit(3)) == [
        (3, "TL101")
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x  # torchlint: ignore[TL101]", "unused suppression: there is no TL101 finding here"),
        ("# torchlint: file-ignore[TL101]\n", "unused suppression: there is no TL101 finding here"),
        (
            "# torchlint: disable[late-move]\n",
            "unused suppression: there is no late-move finding here",
        ),
        ("# torchlint: enable[TL101]\n", "unused 'enable': no 'disable' of TL101 stands above it"),
        ("x  # noqa: E501, TL102", "unused suppression: there is no TL102 finding here"),
        (
            "x  # torchlint: ignore[TL3O1]",
            "unknown rule 'TL3O1' in a suppression; did you mean TL301?",
        ),
        (
            "x  # torchlint: ignore[lat-move]",
            "unknown rule 'lat-move' in a suppression; did you mean late-move?",
        ),
        ("x  # torchlint: ignore[zzzzzz]", "unknown rule 'zzzzzz' in a suppression"),
        ("x  # noqa: TL3999", "unknown rule 'TL3999' in a suppression"),
        ("x  # noqa: TL3019", "unknown rule 'TL3019' in a suppression; did you mean TL301?"),
        (
            "x  # torchlint: ignore",
            "suppression without codes is not honoured; write '# torchlint: ignore[TL101]'",
        ),
        *(
            (
                f"x  # torchlint: {written}",
                f"unknown suppression '{written.partition('[')[0].partition(':')[0]}'; "
                f"did you mean '# torchlint: {meant}'?",
            )
            for written, meant in (
                ("ignor[TL101]", "ignore[TL101]"),
                ("ignore-file", "file-ignore[TL101]"),
                ("skip-file", "file-ignore[TL101]"),
                ("disable-file[TL101]", "file-ignore[TL101]"),
                ("ignore-next-line[TL101]", "ignore[TL101]"),
                ("disable-line[TL101]", "ignore[TL101]"),
                ("noqa", "ignore[TL101]"),
                ("noqa: TL101", "ignore[TL101]"),
                ("skip", "ignore[TL101]"),
                ("off", "disable[TL101]"),
                ("type-ignore", "ignore[TL101]"),
                ("allow-waits[ada] x", "allow-wait[owner] reason"),
            )
        ),
    ],
)
def test_complaints(text: str, message: str) -> None:
    [complaint] = run(text)[1]
    assert complaint.message == message
    assert (complaint.code, complaint.name) == (UNUSED_SUPPRESSION, "unused-suppression")
    assert (complaint.severity, complaint.filename) == (Severity.WARNING, "a.py")
    assert (complaint.fix is None) is not message.startswith("unused")


@pytest.mark.parametrize(
    "text",
    [
        "x  # torchlint: ignore[TL301]",
        "x  # torchlint: ignore[TL3]",
        "x  # torchlint: ignore[TL]",
        "x  # torchlint: ignore[TL001]",
        "x  # noqa",
        "x  # noqa: E501, XYZ1, PT101",
        "# torchlint: see the manual",
        "# torchlint: skip it when the log is off",
        "# torchlint: on Mondays",
        "# torchlint: off-by-one, says the review",
        "# torchlint: 12",
        "'torchlint: ignore'",
        "x  # torchlint: ignore[TL101, TL001]",
        "x  # torchlint: ignore[TL101]  # noqa",
        "# torchlint: file-ignore[TL001]\nx  # torchlint: ignore[TL101]",
        "# torchlint: disable[TL0]\nx  # torchlint: ignore[nope]",
    ],
)
def test_no_complaint(text: str) -> None:
    assert complaints(text) == []


def test_a_rule_that_is_off_is_not_called_unused() -> None:
    text = "x  # torchlint: ignore[TL101, TL1, TL102]"
    assert complaints(text, on=frozenset({"TL101"})) == [
        "unused suppression: there is no TL101 finding here"
    ]


def test_complaints_point_at_the_code() -> None:
    [complaint] = run("y\nx  # torchlint: ignore[TL101, TL102]", hit(2))[1]
    assert (complaint.start, complaint.end) == (Position(2, 31), Position(2, 36))
    assert (complaint.statement, complaint.statement_end) == (2, 2)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x  # torchlint: ignore[TL101] why\ny", "x\ny"),
        ("x\t# torchlint: ignore[TL101]\r\ny", "x\r\ny"),
        ("x\n    # torchlint: ignore[TL201]\r\ny", "x\ny"),
        ("x\n# torchlint: ignore[TL201]", "x\n"),
        ("x  # torchlint: ignore[TL102, TL101, TL201]", "x"),
        ("x  # torchlint: ignore[TL101, TL301]", "x  # torchlint: ignore[TL301]"),
        ("x  # torchlint: ignore[TL301 , TL101]", "x  # torchlint: ignore[TL301]"),
        ("x  # torchlint: ignore[TL301, TL101, E] why", "x  # torchlint: ignore[TL301, E] why"),
        ("x  # noqa: TL101", "x"),
        ("x  # noqa: E501,TL101,F401", "x  # noqa: E501,F401"),
        ("x  # noqa: TL101 TL102  # type: ignore", "x  # type: ignore"),
        ("x  # keep  # torchlint: ignore[TL101] #12", "x  # keep"),
        ("x  # keep # noqa: TL101 # and this", "x  # keep # and this"),
        ("\n\n# torchlint: enable[TL101]\n", "\n\n"),
        ("# keep  # torchlint: ignore[TL101]\nx", "# keep\nx"),
        ("# coding: utf-8\n\n# torchlint: ignore[TL101]\nx", "# coding: utf-8\n\nx"),
        ("# torchlint: ignore[TL101]\nx", "x"),
        (
            "# a\n# torchlint: ignore[TL101]\n# coding: x\n",
            "# a\n# torchlint: ignore[TL101]\n# coding: x\n",
        ),
    ],
)
def test_fixes(before: str, after: str) -> None:
    assert fixed(before) == after


def test_a_fix_keeps_what_is_used() -> None:
    assert (
        fixed("x  # torchlint: ignore[TL101, TL102]\n", hit(1)) == "x  # torchlint: ignore[TL101]\n"
    )


def test_the_edit_knows_its_positions() -> None:
    [complaint] = run("y\nx  # noqa: TL101\n")[1]
    assert complaint.fix is not None
    [edit] = complaint.fix.edits
    assert (edit.start, edit.end) == (Position(2, 2), Position(2, 17))


@pytest.mark.cpu(60)
@pytest.mark.parametrize(
    "text",
    [
        "# noqa" + " " * 300_000 + "x",
        "#" + " " * 300_000 + "noqa: TL101" + "," * 300_000,
        "# torchlint: ignore[" + "TL1O1," * 20_000 + "]",
        "# torchlint: ignore[TL101]\n" * 3000 + "f(" + "\n1," * 3000 + ")\n",
        "f(" + "\n# noqa\n1," * 3000 + ")\n",
    ],
    ids=["spaces", "commas", "unknown", "stacked", "inside"],
)
def test_hostile_comments_end(text: str) -> None:
    run(text, hit(3001, statement=3001, end=6001))
