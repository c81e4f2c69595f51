"""The path from text to findings: syntax, prefilter, yielding, identity, crashes, suppression."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.checking import check, fixed, job
from torchlint.base.finding import NoteKind
from torchlint.engine.analyse import analyse

BAD = """import torch

for step in range(9):
    loss.backward()
    noise = torch.zeros(3).to("cuda"){}
"""


def codes(source: str, **settings: object) -> list[str]:
    return [finding.code for finding in check(source, **settings).findings]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("source", "row", "words"),
    [
        ("import torch\nx = (1,\n", 2, "never closed"),
        ("import torch\nprint 'x'\n", 2, "print"),
        ("import torch\ntry:\n    pass\nexcept A, e:\n    pass\n", 4, "parenthes"),
        ("import torch\nx = '\0'\n", 2, "null bytes"),
        ("import torch\nif x:\n\ty = 1\n        z = 2\n", 4, "tabs and spaces"),
        ("<<<<<<< HEAD\nimport torch\n", 1, "invalid syntax"),
    ],
)
def test_syntax_errors_are_findings_with_the_line_of_cpython(
    source: str, row: int, words: str
) -> None:
    (found,) = check(source).findings
    assert found.code == "invalid-syntax"
    assert found.start.row == row
    assert words in found.message


def test_python_that_the_parser_does_not_support_is_a_note() -> None:
    report = check("import torch\n(x): int = torch.zeros(3).cuda()\n")
    assert report.findings == ()
    assert [note.kind for note in report.notes] == [NoteKind.UNSUPPORTED]
    assert "does not support" in report.notes[0].message


def test_nesting_beyond_cpython_is_a_note() -> None:
    report = check("import torch\nx = " + "not " * 20_000 + "y\n")
    assert [note.kind for note in report.notes] == [NoteKind.FAILED]


@pytest.mark.parametrize("source", ["", "\n\n", "# torch only in a comment\n", "x = 1\n"])
def test_nothing_to_say(source: str) -> None:
    report = check(source)
    assert (report.findings, report.notes) == ((), ())


def test_files_without_torch_are_not_parsed_by_libcst(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchlint.engine.syntax.parse", lambda *_: pytest.fail("parsed"))
    assert codes("x = y.to(device)\n") == []


MXNET = """from mxnet import gluon
{}
def evaluate(net, test_iter):
    for x, y in test_iter:  # See https://pytorch.org
        total(net(x), y)
"""


@pytest.mark.parametrize(("line", "expected"), [("", []), ("import torch", ["TL501"])])
def test_networks_of_another_framework_are_left_alone(line: str, expected: list[str]) -> None:
    assert codes(MXNET.format(line)) == expected


def test_a_finding_has_place_statement_reason_and_identity() -> None:
    (found,) = check(BAD.format("")).findings
    assert (found.code, found.start.row, found.start.column) == ("TL102", 5, 13)
    assert (found.statement, found.statement_end) == (5, 5)
    assert found.why_hot[0].line == 3
    assert len(found.fingerprint) == 16


def test_the_identity_survives_line_shifts_and_tells_twins_apart() -> None:
    (one,) = check(BAD.format("")).findings
    (moved,) = check("# a\n\n" + BAD.format("")).findings
    assert one.fingerprint == moved.fingerprint
    twins = check(BAD.format("") + '    noise = torch.zeros(3).to("cuda")\n').findings
    assert len({f.fingerprint for f in twins}) == 2


def test_suppressed_findings_are_left_out_and_unused_comments_reported() -> None:
    on = frozenset(("TL102", "TL001"))
    assert codes(BAD.format("  # torchlint: ignore[TL102] measured, no gain"), codes=on) == []
    assert codes(BAD.format("  # noqa: TL102"), codes=on) == []
    assert codes(BAD.format("  # NOQA: TL102"), codes=on) == []
    assert codes("import torch\nx = 1  # torchlint: ignore[TL102]\n", codes=on) == ["TL001"]


def test_an_unused_comment_is_not_reported_where_the_rules_could_not_run() -> None:
    on = frozenset(("TL102", "TL001"))
    assert (
        codes(
            "import torch\n(x): int = torch.zeros(3).cuda(y)  # torchlint: ignore[TL102]\n",
            codes=on,
        )
        == []
    )


def test_a_rule_that_is_off_still_takes_precedence() -> None:
    """TL113 yields to TL104: with TL104 off, the same expression is not reported under the weaker
    code."""
    source = """import numpy as np
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        y = torch.relu(x)
        return torch.from_numpy(np.exp(y.detach().cpu().numpy())).to(x.device)
"""
    assert set(codes(source, codes=frozenset(("TL104", "TL113")))) == {"TL104"}
    assert codes(source, codes=frozenset(("TL113",))) == []


def test_a_crash_in_a_rule_names_rule_and_line_and_keeps_the_rest() -> None:
    import torchlint.rules.distributed.data_parallel as other

    def crash(node: object, module: object) -> object:
        raise ValueError("boom")

    kept = other.rule.checks[:]
    other.rule.checks[:] = [(kept[0][0], replace(kept[0][1], check=crash, about=None, calls=()))]
    try:
        report = check(BAD.format("") + "\nmodel = torch.nn.DataParallel(model)\n")
    finally:
        other.rule.checks[:] = kept
    assert "TL102" in [f.code for f in report.findings]
    assert any(
        n.kind is NoteKind.FAILED and "TL301 failed on line" in n.message and "boom" in n.message
        for n in report.notes
    )


def test_fix_modes() -> None:
    report = fixed(BAD.format(""), "safe", codes=frozenset(("TL102",)))
    assert 'torch.zeros(3, device="cuda")' in report.after
    assert report.applied == 1
    assert report.findings == ()
    assert check(BAD.format("")).after == ""


def test_an_encoding_that_cannot_be_written_withholds_fixes() -> None:
    source = ("# coding: utf-7\n" + BAD.format("")).encode()
    from torchlint.engine.job import Job
    from torchlint.source.document import decode

    document = decode(source, "/project/a.py", "a.py")
    report = analyse(Job(document, "a.py", frozenset(("TL102",)), fix="safe"))
    assert report.after == ""
    assert report.findings[0].fix is not None
    assert report.findings[0].fix.withheld


def test_source_rows_for_the_excerpt() -> None:
    report = check(BAD.format(""), show_source=True)
    assert [(cell, row) for cell, row, _ in report.source] == [(None, row) for row in (3, 4, 5)]
    assert check(BAD.format("")).source == ()


def test_target_accelerator_and_globs_reach_the_rules() -> None:
    assert codes(BAD.format(""), codes=frozenset(("TL102",)), accelerator="cpu") == []
    assert job("x", assume_hot=("act",)).assume_hot == ("act",)


def test_suppressed_findings_are_kept_beside_the_others() -> None:
    bad = BAD.replace('to("cuda")', "cuda()")
    (open_one,) = check(bad.format("")).findings
    report = check(bad.format("  # torchlint: ignore[TL102] measured, no gain"))
    (held,) = report.suppressed
    assert (held.in_source, held.reason) == (True, "measured, no gain")
    assert (held.finding.start, held.finding.fingerprint) == (open_one.start, open_one.fingerprint)
    assert (held.finding.fix, held.finding.why_hot) == (None, ())
    twins = check(bad.format("  # noqa") + "    noise = torch.zeros(3).cuda()\n")
    assert {held.finding.fingerprint for held in twins.suppressed}.isdisjoint(
        f.fingerprint for f in twins.findings
    )
    assert [(f.start.row, f.fingerprint) for f in twins.findings] == [(6, open_one.fingerprint)]
