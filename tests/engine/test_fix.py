"""Rounds of fixes: what is applied together, what is taken back, what is reported."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

import libcst as cst
import pytest

from torchlint.base.finding import Edit, Finding, Note, NoteKind, Safety, Severity, TextFix
from torchlint.base.span import LineIndex, Span
from torchlint.edits.validation import Validator
from torchlint.engine.checked import Changed, Checked
from torchlint.engine.fix import MAX_ROUNDS, fixed

Find = Callable[[str], tuple[Finding, ...]]


def edit(text: str, start: int, end: int, new: str) -> Edit:
    index = LineIndex(text)
    return Edit(Span(start, end), new, index.position(start), index.position(end))


def finding(
    text: str, start: int, end: int, *edits: Edit, code: str = "TL101", withheld: str = ""
) -> Finding:
    index = LineIndex(text)
    row = index.position(start).row
    fix = TextFix(Safety.SAFE, "t", edits, withheld=withheld)
    place = (index.position(start), index.position(end))
    return Finding(code, "n", "m", Severity.WARNING, "a.py", *place, row, row, fix=fix)


def substitute(pattern: str, new: str, code: str = "TL101") -> Find:
    """Return a check that wants each match of `pattern` replaced."""

    def check(text: str) -> tuple[Finding, ...]:
        return tuple(
            finding(text, *found.span(), edit(text, *found.span(), found.expand(new)), code=code)
            for found in re.finditer(pattern, text)
        )

    return check


def both(*checks: Find) -> Find:
    return lambda text: tuple(found for check in checks for found in check(text))


def run(text: str, check: Find, *, unsafe: bool | None = False, encoding: str = "utf-8") -> Changed:
    """Fix a text; `unsafe` says whether other fixes than safe ones are allowed too, None allows
    none at all."""

    def allowed(fix: TextFix) -> bool:
        return unsafe is not None and (unsafe or fix.safety is Safety.SAFE)

    return fixed(text, lambda now: Checked(now, check(now)), allowed, encoding)


def test_independent_fixes_apply_in_one_round() -> None:
    seen: list[str] = []

    def check(text: str) -> tuple[Finding, ...]:
        seen.append(text)
        return both(substitute(r"\bold\b", "new"), substitute("hit", "y", "TL102"))(text)

    outcome = run("old = hit; old\r\nold\r\n", check)
    assert outcome.checked.text == "new = y; new\r\nnew\r\n"
    assert outcome.count == 4
    assert outcome.checked.findings == ()
    assert outcome.notes == ()
    assert len(seen) == 2


def test_nothing_to_fix_keeps_the_text() -> None:
    text = "a\r\nb"
    assert run(text, lambda _: ()) == Changed(Checked(text))


def test_of_overlapping_fixes_the_outer_goes_first() -> None:
    outer = substitute(r"f\((\w+)\)", r"g(\1)", "TL102")
    outcome = run("x = f(old)\n", both(substitute(r"\bold\b", "new"), outer))
    assert outcome.checked.text == "x = g(new)\n"
    assert outcome.count == 2


def test_touching_edits_wait_for_the_next_round() -> None:
    rounds: list[str] = []

    def check(text: str) -> tuple[Finding, ...]:
        rounds.append(text)
        return both(substitute(r"aa", "cc"), substitute(r"bb", "dd"))(text)

    assert run("aabb\n", check).checked.text == "ccdd\n"
    assert rounds == ["aabb\n", "ccbb\n", "ccdd\n"]


def test_a_fix_inside_another_finding_waits_even_if_the_edits_do_not_meet() -> None:
    rounds: list[str] = []

    def check(text: str) -> tuple[Finding, ...]:
        rounds.append(text)
        found = list(substitute("inner", "x")(text))
        if "(" in text:
            close = text.index(")")
            found.append(finding(text, 0, close + 1, edit(text, close, close, ", 1"), code="TL102"))
        return (
            tuple(found) if len(rounds) < 4 and not (", 1" in text and "inner" not in text) else ()
        )

    run("f(inner)\n", check)
    assert rounds[1] == "f(inner, 1)\n"


def test_equal_imports_are_written_once_and_edits_of_a_fix_stay_together() -> None:
    def check(text: str) -> tuple[Finding, ...]:
        need = () if "import math" in text else (edit(text, 0, 0, "import math\n"),)
        return tuple(
            finding(text, *found.span(), *need, edit(text, *found.span(), "math.e"))
            for found in re.finditer(r"\bold\b", text)
        )

    outcome = run("old\nold\n", check)
    assert outcome.checked.text == "import math\nmath.e\nmath.e\n"
    assert outcome.count == 2


def test_equal_insertions_that_are_no_imports_are_written_for_one_fix_only() -> None:
    def check(text: str) -> tuple[Finding, ...]:
        if "setup()" in text:
            return ()
        insertion = edit(text, 0, 0, "setup()\n")
        return tuple(finding(text, *found.span(), insertion) for found in re.finditer("old", text))

    outcome = run("old\nold\n", check)
    assert outcome.checked.text == "setup()\nold\nold\n"
    assert (outcome.count, outcome.edits) == (2, 1), "both findings are gone"


@pytest.mark.parametrize("bad", ["(", "x = = 1"])
def test_a_fix_that_breaks_the_file_is_dropped_and_the_others_kept(bad: str) -> None:
    text = "".join(f"old{number}\n" for number in range(7)) + "bad\nold\n"
    outcome = run(text, both(substitute(r"\bold\d?\b", "new"), substitute("bad", bad, "TL666")))
    assert outcome.checked.text == "new\n" * 7 + "bad\nnew\n"
    assert outcome.count == 8
    (note,) = outcome.notes
    assert note.kind is NoteKind.FAILED
    assert (note.filename, note.line) == ("a.py", 8)
    assert note.message == "TL666 in line 8: its fix would break the file; please report this"
    assert [found.code for found in outcome.checked.findings] == ["TL666"]


def test_fixes_that_break_the_file_only_together_apply_one_after_the_other() -> None:
    def check(text: str) -> tuple[Finding, ...]:
        lines = list(re.finditer(r"    old\n", text))
        return tuple(
            finding(
                text,
                *found.span(),
                edit(text, *found.span(), "    pass\n" if len(lines) == 1 else ""),
            )
            for found in lines
        )

    outcome = run("if a:\n    old\n    old\n", check)
    assert outcome.checked.text == "if a:\n    pass\n"
    assert outcome.notes == ()


def test_fixes_that_never_come_to_rest_are_all_taken_back() -> None:
    calls: list[str] = []

    def check(text: str) -> tuple[Finding, ...]:
        calls.append(text)
        return both(substitute(r"\bx\d*\b", r"\g<0>1", "TL777"), substitute("old", "new"))(text)

    text = "x\nold\n"
    outcome = run(text, check)
    assert outcome.checked.text == text
    assert outcome.count == 0
    assert [found.code for found in outcome.checked.findings] == ["TL777", "TL101"]
    (note,) = outcome.notes
    assert note.kind is NoteKind.FAILED
    assert note.message == "TL777 in line 1: its fixes do not come to rest; please report this"
    assert len(calls) == MAX_ROUNDS + 1


def test_ten_rounds_that_end_are_kept() -> None:
    def check(text: str) -> tuple[Finding, ...]:
        return substitute(r"\bx{1,10}\b", r"\g<0>x")(text)

    assert run("x\n", check).checked.text == "x" * 11 + "\n"


def test_a_change_to_a_statement_that_no_edit_touches_is_refused() -> None:
    text = "a\nkeep()\n"
    edits = [edit(text, 0, 1, "b")]
    assert Validator(text).holds(text, edits, "b\nkeep()\n")
    assert not Validator(text).holds(text, edits, "b\nlost()\n")


def test_a_fix_that_draws_the_line_below_into_a_block_is_refused() -> None:
    outcome = run("old\nkeep()\n", substitute("old", r"if a: \\"))
    assert ast.parse("if a: \\\nkeep()\n")
    assert outcome.checked.text == "old\nkeep()\n"
    assert [note.kind for note in outcome.notes] == [NoteKind.FAILED]


def test_statements_around_edits_may_grow_and_shrink() -> None:
    text = "@d\ndef f():\n    for x in y:\n        a\n        # deep\n\ndef g():\n    b\n"
    at = text.index("# deep") + len("# deep")
    edits = [edit(text, at, at, "\n    new()")]
    assert Validator(text).holds(text, edits, text[:at] + "\n    new()" + text[at:])
    decorated = [edit(text, 1, 2, "e")]
    assert Validator(text).holds(text, decorated, "@e" + text[2:])
    cut = text.index("    b")
    assert Validator(text).holds(
        text, [edit(text, cut, len(text), "    pass\n")], text[:cut] + "    pass\n"
    )


def test_removing_a_line_in_front_of_a_blank_one_is_sound() -> None:
    text = "a\nold\n\n# c\nb\n"
    assert run(text, substitute("old\n", "")).checked.text == "a\n\n# c\nb\n"


def test_text_newer_than_this_python_is_judged_by_libcst_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise SyntaxError

    monkeypatch.setattr("torchlint.edits.validation.ast.parse", refuse)
    outcome = run("old\nbad\n", both(substitute("old", "new"), substitute("bad", "(", "TL666")))
    assert outcome.checked.text == "new\nbad\n"
    assert [note.kind for note in outcome.notes] == [NoteKind.FAILED, NoteKind.CHECKED_LESS]
    assert "libcst alone" in outcome.notes[1].message
    assert run("old\n", substitute("other", "new")).notes == ()


def test_what_libcst_refuses_is_refused() -> None:
    # Valid Python, but the next round could not read it.
    assert ast.parse("(x): int = 1")
    with pytest.raises(cst.ParserSyntaxError):
        cst.parse_module("(x): int = 1\n")
    assert not Validator("x = 1\n").holds(
        "x = 1\n", [edit("x = 1\n", 0, 1, "(x): int")], "(x): int = 1\n"
    )


def test_withheld_fixes_are_noted_if_they_are_wanted() -> None:
    def check(text: str) -> tuple[Finding, ...]:
        return (finding(text, 0, 3, edit(text, 0, 3, "new"), withheld="it would lose a comment"),)

    outcome = run("old\n", check)
    assert outcome.checked.text == "old\n"
    (note,) = outcome.notes
    assert (note.kind, note.line) == (NoteKind.WITHHELD, 1)
    assert note.message == "TL101: fix not applied, it would lose a comment"
    assert run("old\n", check, unsafe=None).notes == ()


def test_fixes_that_are_not_allowed_stay_findings() -> None:
    outcome = run("old\n", substitute("old", "new"), unsafe=None)
    assert outcome.checked.text == "old\n"
    assert len(outcome.checked.findings) == 1
    assert outcome.notes == ()


def test_text_that_the_codec_cannot_hold_is_withheld() -> None:
    outcome = run("old\n", substitute("old", "'\u20ac'"), unsafe=True, encoding="latin-1")
    assert outcome.checked.text == "old\n"
    assert [note.message for note in outcome.notes] == [
        "TL101: fix not applied, its text cannot be written in latin-1"
    ]
    assert run("old\n", substitute("old", "'\u20ac'"), unsafe=True).checked.text == "'\u20ac'\n"


def test_a_fix_without_edits_is_nothing_to_apply() -> None:
    outcome = run("old\n", lambda text: (finding(text, 0, 3),))
    assert outcome.checked.text == "old\n"
    assert outcome.notes == ()


def test_where_fixes_are_taken_back_all_that_is_said_speaks_of_the_first_text() -> None:
    find = substitute(r"\bx{1,20}\b", r"\g<0>x")
    changed = fixed(
        "x",
        lambda now: Checked(now, find(now), notes=(Note(NoteKind.SKIPPED, "", now),)),
        lambda _: True,
    )
    assert (changed.checked.text, changed.count, changed.checked.notes[0].message) == ("x", 0, "x")


def test_what_only_the_compiler_refuses_does_not_hold() -> None:
    text = "f(a=1)\n"
    at = text.index(")")
    assert not Validator(text).holds(text, [edit(text, at, at, ", a=2")], "f(a=1, a=2)\n")
    assert Validator(text).holds(text, [edit(text, at, at, ", b=2")], "f(a=1, b=2)\n")


def test_a_cell_that_awaits_is_fixed() -> None:
    text = "await f(a=1)\n"
    at = text.index(")")
    assert Validator(text).holds(text, [edit(text, at, at, ", b=2")], "await f(a=1, b=2)\n")


def test_of_what_the_compiler_refused_before_it_is_not_asked() -> None:
    text = "return f(a=1)\n"
    at = text.index(")")
    assert Validator(text).holds(text, [edit(text, at, at, ", b=2")], "return f(a=1, b=2)\n")
