"""The parts of script mode, each by itself: fixes, variants, the command, judgements, verdicts,
counts, waves."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from torchlint.base.content import text_digest
from torchlint.base.errors import UsageError
from torchlint.base.finding import Edit, FileEdits, Finding, Safety, Severity, TextFix
from torchlint.base.span import LineIndex, Span
from torchlint.catalog.rules import load_catalog
from torchlint.program.command import Command, free_port, parse
from torchlint.program.machine import host
from torchlint.program.machine.doctor import Doctor, Gpu
from torchlint.program.traffic import UNUSED, CountLine
from torchlint.source.document import Document, decode
from torchlint.verify import statistics
from torchlint.verify.fixes import (
    OVERLAPS,
    FixUnit,
    Offered,
    Replacement,
    Rows,
    applied,
    diff,
    joined,
    offered,
)
from torchlint.verify.model import Equality, Expected, Level, Status, Verdict
from torchlint.verify.options import Options
from torchlint.verify.script import (
    count_pass,
    pacing,
    reference,
    script_mode,
    time_pass,
    verdicts,
)
from torchlint.verify.script.check_pass import Checked
from torchlint.verify.script.pacing import ENDING_SECONDS, TURN_SECONDS, Pace
from torchlint.verify.script.reference import Explored, Reference
from torchlint.verify.script.request import Request
from torchlint.verify.script.run_extent import RunExtent, tried
from torchlint.verify.script.runs import NOTHING, Home, Runner, RunRecord, compared_runs, record_in
from torchlint.verify.script.time_pass import capacity
from torchlint.verify.session.promise import Comparison, comparison, judged
from torchlint.verify.session.times import Times
from torchlint.verify.session.timing import Block
from torchlint.verify.session.wire import ProgramError
from torchlint.verify.stopwatch import Stopwatch
from torchlint.verify.variants import (
    ALL,
    MANY,
    NULL,
    ORIGINAL,
    Variant,
    groups,
    planned,
    single,
    sound,
    together,
)

# Fixes


def finding(
    text: str, old: str, new: str, code: str = "TL102", safety: Safety = Safety.SAFE, **more: Any
) -> Finding:
    """Return a finding on the one place where `old` stands, whose fix puts `new` there."""
    start = text.index(old)
    lines = LineIndex(text)
    first, last = lines.position(start), lines.position(start + len(old))
    edit = Edit(Span(start, start + len(old)), new, first, last)
    cell = more.pop("cell", None)
    fix = TextFix(safety, f"Do {code}", (edit,), **more)
    return Finding(
        code,
        "name",
        "message",
        Severity.WARNING,
        "a.py",
        first,
        last,
        first.row,
        last.row,
        fix=fix,
        cell=cell,
    )


def document(data: str | bytes) -> Document:
    return decode(data if isinstance(data, bytes) else data.encode(), "/p/a.py", "a.py")


def offer(text: str | bytes, *findings: Finding, unsafe: bool = True) -> Offered:
    return offered({"a.py": findings}, {"a.py": document(text)}, load_catalog(), unsafe=unsafe)


TEXT = "a = 1\nb = 2\nc = 3\n"


def test_finding_becomes_unit() -> None:
    (unit,) = offer(TEXT, finding(TEXT, "2", "20")).units
    assert unit.id == "TL102@a.py:2"
    assert unit.where == "a.py:2"
    assert unit.title == "Do TL102"
    assert unit.expected is Expected.BITWISE
    assert unit.replacements == (Replacement("a.py", 10, 11, "20"),)
    assert unit.places == (Rows("a.py", 2, 2),)


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (finding(TEXT, "2", "9", safety=Safety.SUGGESTION), "a suggestion, which is never applied"),
        (finding(TEXT, "2", "9", withheld="a comment would be lost"), "a comment would be lost"),
        (finding(TEXT, "2", "9", safety=Safety.UNSAFE), "unsafe (--unsafe-fixes verifies it)"),
        (finding(TEXT, "2", "9", cell=1), "in a notebook, which is not run"),
    ],
)
def test_fix_that_cannot_be_verified_is_named(made: Finding, reason: str) -> None:
    assert offer(TEXT, made, unsafe=False) == Offered((), (f"TL102@a.py:2: {reason}",))


def test_unsafe_fix_promises_what_its_rule_declares() -> None:
    catalog = load_catalog()
    rng = next(info.code for info in catalog.rules if info.equivalence == "rng")
    (unit,) = offer(
        TEXT, finding(TEXT, "2", "9", code=rng, safety=Safety.UNSAFE, note="draws anew")
    ).units
    assert (unit.expected, unit.note) == (Expected.RNG, "draws anew")


def test_overlapping_fix_is_left_out_and_named() -> None:
    found = offer(TEXT, finding(TEXT, "a = 1\nb", "x"), finding(TEXT, "b = 2", "y", code="TL103"))
    assert [unit.id for unit in found.units] == ["TL102@a.py:1"]
    assert found.skipped == (f"TL103@a.py:2: {OVERLAPS}",)


def test_a_fix_that_two_findings_share_is_one_and_left_out_nowhere() -> None:
    first = finding(TEXT, "2", "20")
    second = replace(first, message="another")
    found = offer(TEXT, first, second)
    assert [unit.id for unit in found.units] == ["TL102@a.py:2"]
    assert found.skipped == ()


def test_two_fixes_of_one_rule_in_one_line_have_different_ids() -> None:
    text = "f(1, 2)\n"
    units = offer(text, finding(text, "1", "10"), finding(text, "2", "20")).units
    assert [unit.id for unit in units] == ["TL102@a.py:1:3", "TL102@a.py:1:6"]
    assert [unit.where for unit in units] == ["a.py:1:3", "a.py:1:6"]


def test_pinned_memory_and_asynchronous_copies_are_one_unit() -> None:
    both = offer(
        TEXT, finding(TEXT, "1", "10", code="TL103"), finding(TEXT, "3", "30", code="TL202")
    ).units
    assert [(unit.id, unit.codes) for unit in both] == [("TL103@a.py:1 +1", ("TL103", "TL202"))]
    one = offer(
        TEXT, finding(TEXT, "1", "10", code="TL103"), finding(TEXT, "3", "30", code="TL103")
    ).units
    assert [unit.codes for unit in one] == [("TL103",), ("TL103",)]


OTHER = "d = 4\ne = 5\n"


def joint(old: str, new: str, *, text: str = OTHER, **more: Any) -> Finding:
    """Return a finding in `TEXT` whose fix also puts `new` for `old` in the file ``b.py``."""
    found = finding(TEXT, more.pop("here", "1"), "10", **more)
    other = finding(text, old, new).fix
    assert found.fix is not None
    assert other is not None
    part = FileEdits("b.py", "/p/b.py", text_digest(text), other.edits)
    return replace(found, fix=replace(found.fix, elsewhere=(part,)))


def offer_two(a: Sequence[Finding], b: Sequence[Finding] = (), text: str = OTHER) -> Offered:
    documents = {"a.py": document(TEXT), "b.py": decode(text.encode(), "/p/b.py", "b.py")}
    return offered({"a.py": a, "b.py": b}, documents, load_catalog(), unsafe=True)


def test_fix_of_two_files_is_one_unit() -> None:
    found = offer_two([joint("4", "40")])
    (unit,) = found.units
    assert unit.files == ("a.py", "b.py")
    documents = {"a.py": document(TEXT), "b.py": decode(OTHER.encode(), "/p/b.py", "b.py")}
    after = applied([unit], documents)
    assert after == {"a.py": b"a = 10\nb = 2\nc = 3\n", "b.py": b"d = 40\ne = 5\n"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("d = 4\n", "it also changes b.py, which changed meanwhile"),
        ("# @generated\n" + OTHER, "it also changes b.py, which says that a program wrote it"),
    ],
)
def test_fix_whose_second_file_is_not_for_it_is_named(text: str, reason: str) -> None:
    made = joint("4", "40", text=text if "generated" in text else OTHER)
    found = offer_two([made], text=text)
    assert found == Offered((), (f"TL102@a.py:1: {reason}",))
    alone = offered({"a.py": [made]}, {"a.py": document(TEXT)}, load_catalog(), unsafe=True)
    assert alone.skipped == ("TL102@a.py:1: it also changes b.py, which is not verified",)


def test_fixes_that_meet_in_another_file_are_not_tried_together() -> None:
    own = replace(finding(OTHER, "4", "44"), filename="b.py")
    found = offer_two([joint("4", "40"), joint("4", "41", here="2")], [own])
    assert [unit.id for unit in found.units] == ["TL102@a.py:1"]
    assert found.skipped == (
        f"TL102@a.py:2: {OVERLAPS}",
        f"TL102@b.py:1: {OVERLAPS}",
    )
    same = offer_two([joint("4", "40"), joint("4", "40", here="2")])
    assert len(same.units) == 2


def unit(
    number: int = 1, code: str = "TL102", expected: Expected = Expected.BITWISE, new: str = "9"
) -> FixUnit:
    """Return a unit that replaces the number in line `number` of `TEXT`."""
    start = 6 * (number - 1) + 4
    where = f"a.py:{number}"
    edit = Replacement("a.py", start, start + 1, new)
    return FixUnit(
        f"{code}@{where}",
        (code,),
        code,
        where,
        expected,
        "",
        (edit,),
        (Rows("a.py", number, number),),
    )


def test_joined_units_make_the_weakest_promise() -> None:
    promises = (Expected.CLOSE, Expected.RNG, Expected.BITWISE)
    together = joined([unit(n, expected=promise) for n, promise in enumerate(promises, 1)], "all")
    assert together.expected is Expected.RNG
    assert len(together.replacements) == len(together.places) == 3


@pytest.mark.parametrize(
    ("data", "after"),
    [
        (TEXT.encode(), b"a = 1\nb = 9\nc = 3\n"),
        (TEXT.replace("\n", "\r\n").encode(), b"a = 1\r\nb = 9\r\nc = 3\r\n"),
        (b"\xef\xbb\xbf" + TEXT.encode(), b"\xef\xbb\xbfa = 1\nb = 9\nc = 3\n"),
        (b"# coding: latin-1\nb = 2 # \xe9\n", b"# coding: latin-1\nb = 9 # \xe9\n"),
        ("é = 1\nb = 2\n".encode(), "é = 1\nb = 9\n".encode()),
    ],
    ids=["utf-8", "CRLF", "BOM", "latin-1", "beyond ASCII"],
)
def test_applied_keeps_encoding_and_newlines(data: bytes, after: bytes) -> None:
    source = document(data)
    units = offered(
        {"a.py": [finding(source.text, "2", "9")]}, {"a.py": source}, load_catalog(), unsafe=False
    ).units
    assert applied(units, {"a.py": source}) == {"a.py": after}


def test_fix_that_the_encoding_cannot_hold_is_left_out() -> None:
    data = b"# coding: latin-1\nb = 2\n"
    found = offer(data, finding(data.decode(), "2", "'✓'"))
    assert found == Offered((), ("TL102@a.py:2: its text cannot be written in iso8859-1",))


def test_fix_of_a_file_that_does_not_survive_recoding_is_left_out() -> None:
    data = "# coding: utf-7\nb = 2\n"
    (reason,) = offer(data, finding(data, "2", "9")).skipped
    assert "utf-7" in reason.lower().replace("_", "-")


def test_same_import_of_two_units_is_written_once() -> None:
    both = [
        FixUnit(
            f"u{n}",
            ("T",),
            "",
            "",
            Expected.CLOSE,
            "",
            (Replacement("a.py", 0, 0, "import x\n"), edit),
            (),
        )
        for n, edit in enumerate([unit(1).replacements[0], unit(2).replacements[0]])
    ]
    assert applied(both, {"a.py": document(TEXT)})["a.py"] == b"import x\na = 9\nb = 9\nc = 3\n"


def test_diff_is_unified() -> None:
    shown = diff([unit(2)], {"a.py": document(TEXT)})
    assert shown == "--- a/a.py\n+++ b/a.py\n@@ -1,3 +1,3 @@\n a = 1\n-b = 2\n+b = 9\n c = 3\n"
    last = diff([unit(1)], {"a.py": document("a = 1")})
    assert last.endswith("+a = 9\n\\ No newline at end of file\n")


# Variants


def names(variants: Sequence[Variant]) -> list[str]:
    return [variant.name for variant in variants]


def test_one_fix_is_not_compared_twice() -> None:
    assert names(planned([unit()], "each")) == [ORIGINAL, NULL, "fix:TL102@a.py:1"]


@pytest.mark.parametrize(
    ("ablation", "middle"),
    [
        ("none", []),
        ("each", ["fix:TL102@a.py:1", "fix:TL102@a.py:2", "fix:TL102@a.py:3"]),
    ],
)
def test_ablation(ablation: str, middle: list[str]) -> None:
    found = planned([unit(1), unit(2), unit(3)], ablation)
    assert names(found) == [ORIGINAL, NULL, *middle, ALL]
    assert found[-1].ids == ("TL102@a.py:1", "TL102@a.py:2", "TL102@a.py:3")
    assert found[-1].kind == "all"


def many(code: Callable[[int], str]) -> list[FixUnit]:
    return [unit(number, code=code(number)) for number in range(MANY + 1)]


def test_many_fixes_are_compared_by_rule_first() -> None:
    found = planned(many(lambda n: "TL103" if n < 4 else "TL102" if n < MANY else "TL101"), "each")
    assert names(found)[2:] == ["fix:TL101@a.py:8", "group:TL102", "group:TL103", ALL]
    assert [len(variant.ids) for variant in found[2:]] == [1, 4, 4, 9]
    assert [variant.kind for variant in found[2:]] == ["single", "group", "group", "all"]


def test_many_fixes_of_one_rule_are_not_grouped() -> None:
    assert len(groups(many(lambda n: "TL102"))) == 1
    assert len(planned(many(lambda n: "TL102"), "each")) == MANY + 4


def test_fixes_that_empty_a_block_together_are_compared_one_by_one_only() -> None:
    text = "if a:\n    b\n    c\n"
    units = [
        FixUnit(name, ("T",), "", "", Expected.CLOSE, "", (Replacement("a.py", *span, ""),), ())
        for name, span in (("u1", (6, 12)), ("u2", (12, 18)))
    ]
    kept, notes = sound(planned(units, "each"), {"a.py": document(text)})
    assert names(kept) == [ORIGINAL, NULL, "fix:u1", "fix:u2"]
    (note,) = notes
    assert note.startswith("all is not compared: a.py: the fixes together do not parse")


# The command


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("train.py", "sub/train.py", "run.sh"):
        (tmp_path / "p" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "p" / name).touch()
    (tmp_path / "other.py").touch()
    return tmp_path / "p"


@pytest.mark.parametrize(
    ("typed", "arguments"),
    [
        (["train.py", "--epochs", "1"], ("train.py", "--epochs", "1")),
        (["sub/train.py"], ("sub/train.py",)),
        (["python", "train.py"], ("train.py",)),
        (["/usr/bin/python3.11", "-m", "pkg.train", "-x"], ("-m", "pkg.train", "-x")),
        (["-m", "pkg.train"], ("-m", "pkg.train")),
        (
            ["torchrun", "--nproc-per-node", "2", "t.py"],
            ("-m", "torch.distributed.run", "--nproc-per-node", "2", "t.py"),
        ),
        (
            ["accelerate", "launch", "t.py"],
            ("-m", "accelerate.commands.accelerate_cli", "launch", "t.py"),
        ),
    ],
)
def test_command(tree: Path, typed: list[str], arguments: tuple[str, ...]) -> None:
    command = parse(typed, tree, tree)
    assert command.arguments == arguments
    assert command.typed == tuple(typed)


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ([], "name the program behind --"),
        (["python"], "name the program behind --"),
        (["-m"], "-m needs a module"),
        (["missing.py"], "there is no such file"),
        (["deepspeed", "train.py"], "name a script, -m and a module, or torchrun"),
        (["run.sh"], "name a Python script"),
        (["../other.py"], "lies outside"),
    ],
)
def test_command_that_cannot_be_run(tree: Path, typed: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        parse(typed, tree, tree)
    assert "\n" not in str(caught.value)


def test_absolute_script_is_run_from_its_copy(tree: Path) -> None:
    command = parse([str(tree / "sub/train.py"), str(tree)], tree, tree)
    assert command.in_copy(tree, Path("/copy"), 1) == ["/copy/sub/train.py", str(tree)]
    assert parse(["sub/train.py"], tree, tree).in_copy(tree, Path("/copy"), 1) == ["sub/train.py"]


@pytest.mark.parametrize(
    ("typed", "run"),
    [
        (
            "torchrun --nproc-per-node 2 train.py",
            "-m torch.distributed.run --master-port=7 --nproc-per-node 2 train.py",
        ),
        (
            "torchrun --master_port 29500 train.py",
            "-m torch.distributed.run --master_port=7 train.py",
        ),
        (
            "-m torch.distributed.run --master-port=1 train.py",
            "-m torch.distributed.run --master-port=7 train.py",
        ),
        ("torchrun --standalone train.py", "-m torch.distributed.run --standalone train.py"),
        (
            "torchrun --rdzv-endpoint=h:1 train.py",
            "-m torch.distributed.run --rdzv-endpoint=h:1 train.py",
        ),
        (
            "accelerate launch --main_process_port 1 train.py",
            "-m accelerate.commands.accelerate_cli launch --main_process_port=7 train.py",
        ),
        ("accelerate launch train.py", "-m accelerate.commands.accelerate_cli launch train.py"),
        ("-m pkg.train --master-port 1", "-m pkg.train --master-port 1"),
    ],
)
def test_ranks_of_each_run_meet_on_a_port_of_their_own(tree: Path, typed: str, run: str) -> None:
    assert parse(typed.split(), tree, tree).in_copy(tree, Path("/copy"), 7) == run.split()


RECORD = {"start_seconds": 2.0, "step_seconds": 0.1}
STARTED = ENDING_SECONDS + (2 + 10 * 0.1) * 1.5
"""Of three processes on two cores."""
TURNS = 3 * 24 * TURN_SECONDS


@pytest.mark.parametrize(
    ("changes", "seconds"),
    [
        ({}, 4 * STARTED + TURNS + 3 * 24 * (2 + 10) * 0.1),  # 0.1 s a step: blocks of 10 steps
        ({"block": 5}, 4 * STARTED + TURNS + 3 * 24 * (2 + 5) * 0.1),
        ({"launches": 1, "warmup": 1}, STARTED - 9 * 0.1 * 1.5 + TURNS + 3 * 24 * (2 + 10) * 0.1),
    ],
)
def test_plan_tells_about_how_long_it_takes(changes: dict[str, int], seconds: float) -> None:
    assert Pace.of(RECORD, 3, 2, Options(**changes)).expected == pytest.approx(seconds)


def test_plan_makes_short_steps_into_blocks_of_50_ms() -> None:
    (one, two) = (
        Pace.of({"step_seconds": step}, 1, 1, Options(settle=0, warmup=1)).expected
        for step in (1e-4, 1e-3)
    )
    assert one == pytest.approx(4 * (ENDING_SECONDS + 1e-4) + 24 * (0.05 + TURN_SECONDS))
    assert two == pytest.approx(4 * (ENDING_SECONDS + 1e-3) + 24 * (0.05 + TURN_SECONDS))


@pytest.mark.parametrize(
    ("left", "launches", "warmup", "settle"),
    [
        (100.0, 4, 10, 2),
        (50.0, 4, 10, 2),
        (37.0, 4, 10, 1),
        (33.0, 3, 10, 1),
        (20.0, 2, 10, 1),
        (16.0, 2, 10, 1),
        (8.0, 1, 10, 1),
        (6.0, 1, 10, 1),
    ],
)
def test_where_time_is_short_there_is_less_that_is_not_measured_then_fewer_launches(
    left: float, launches: int, warmup: int, settle: int
) -> None:
    found = Pace.of(RECORD, 3, 2, Options()).fitted(left)
    assert found is not None
    got = found.options
    assert (got.launches, got.warmup, got.settle) == (launches, warmup, settle)


def test_long_steps_are_warmed_up_with_fewer_where_time_is_short() -> None:
    long = {"start_seconds": 1.0, "step_seconds": 0.25}
    found = Pace.of(long, 3, 16, Options()).fitted(15.0)
    assert found is not None
    assert (found.options.launches, found.options.warmup, found.options.settle) == (2, 4, 0)


def test_there_may_be_no_time_for_a_launch() -> None:
    assert Pace.of(RECORD, 3, 2, Options()).fitted(3.0) is None
    assert Pace.of(RECORD, 3, 2, Options()).fitted(-1.0) is None


def test_a_free_port_can_be_bound() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", free_port()))


# Judgements


def compared(level: Level = Level.BITWISE, gap: float | None = 0.0, **more: Any) -> Comparison:
    largest = None if gap is None else {"weights": gap, "loss": gap}
    return Comparison(level, **{"largest": largest, "steps": (6, 6), **more})


SAME = compared()
OFF = compared(Level.DIFFERENT, 1e-3)


@pytest.mark.parametrize(
    ("variant", "itself", "expected", "shaken", "level", "ok"),
    [
        (SAME, SAME, Expected.BITWISE, None, Level.BITWISE, True),
        (compared(Level.CLOSE, 1e-7), SAME, Expected.BITWISE, None, Level.CLOSE, False),
        (compared(Level.CLOSE, 1e-7), SAME, Expected.CLOSE, None, Level.CLOSE, True),
        (OFF, SAME, Expected.CLOSE, None, Level.DIFFERENT, False),
        (OFF, SAME, Expected.ANY, None, Level.DIFFERENT, True),
        (OFF, SAME, Expected.CLOSE, compared(Level.DIFFERENT, 4e-4), Level.BAND, True),
        (OFF, SAME, Expected.CLOSE, compared(Level.DIFFERENT, 3e-4), Level.DIFFERENT, False),
        (OFF, compared(Level.DIFFERENT, 4e-4), Expected.BITWISE, None, Level.CLOSE, True),
        (OFF, compared(Level.DIFFERENT, 3e-4), Expected.BITWISE, None, Level.DIFFERENT, False),
        (compared(Level.CLOSE, 1e-9), compared(Level.CLOSE, 1e-9), Expected.BITWISE, None, Level.CLOSE, True),  # noqa: E501
        (compared(rng_changed=True), SAME, Expected.BITWISE, None, Level.DIFFERENT, False),
        (compared(rng_changed=True), SAME, Expected.CLOSE, None, Level.DIFFERENT, False),
        (compared(rng_changed=True), compared(rng_changed=True), Expected.CLOSE, None, Level.BITWISE, True),  # noqa: E501
        (compared(Level.DISTRIBUTION, 1.0, rng_changed=True), SAME, Expected.RNG, None, Level.DISTRIBUTION, True),  # noqa: E501
        (compared(Level.DIFFERENT, 1.0, rng_changed=True), SAME, Expected.RNG, None, Level.DIFFERENT, False),  # noqa: E501
        (compared(Level.DISTRIBUTION, 1.0), SAME, Expected.CLOSE, None, Level.DISTRIBUTION, False),
        (compared(steps=(6, 5)), SAME, Expected.CLOSE, None, Level.DIFFERENT, False),
        (compared(Level.DIFFERENT, None), SAME, Expected.CLOSE, OFF, Level.DIFFERENT, False),
    ],
)  # fmt: skip
def test_judgement(
    variant: Comparison,
    itself: Comparison,
    expected: Expected,
    shaken: Comparison | None,
    level: Level,
    ok: bool,
) -> None:
    found = judged(variant, itself, expected, shaken=shaken)
    assert (found.level, found.ok) == (level, ok)
    assert found.expected is expected


@pytest.mark.parametrize("itself", [compared(Level.DIFFERENT, 1.0), SAME])
def test_another_dtype_is_no_noise(itself: Comparison) -> None:
    shaken = compared(Level.DIFFERENT, 1.0)
    values, dtype = (
        judged(
            compared(Level.DIFFERENT, 1e-9, different=frozenset(places)),
            itself,
            Expected.CLOSE,
            shaken=shaken,
        )
        for places in (["weights[0]|value"], ["weights[0]|value", "weights[0]|dtype"])
    )
    assert values.ok
    assert (dtype.level, dtype.ok) == (Level.DIFFERENT, False)


def test_outputs_of_evaluation_are_held_to_the_noise_too() -> None:
    itself = compared(Level.DIFFERENT, 1e-3)
    off = compared(Level.DIFFERENT, largest={"weights": 1e-3, "loss": 1e-3, "evaluation": 1.0})
    assert judged(off, itself, Expected.CLOSE).level is Level.DIFFERENT


@pytest.mark.parametrize(
    ("places", "level"), [({"result|text"}, Level.UNKNOWN), ({"x|text"}, Level.DIFFERENT)]
)
def test_what_a_function_never_repeats_is_not_compared(places: set[str], level: Level) -> None:
    itself, other = (
        Comparison(Level.DIFFERENT, different=frozenset(each))
        for each in ({"result|text", "y|text"}, places)
    )
    found = judged(other, itself, Expected.BITWISE)
    assert (found.level, found.ok) == (level, level is Level.UNKNOWN)


def test_noise_is_told() -> None:
    off = replace(OFF, notes=("weights[0]: 3 of 8 numbers differ",), facts=("x: is_leaf",))
    found = judged(off, compared(Level.DIFFERENT, 4e-4), Expected.CLOSE)
    assert found.self_noise == 4e-4
    assert found.notes[0] == "x: is_leaf"
    assert "weights[0]: 3 of 8 numbers differ" not in found.notes, "noise hides the verdict"
    assert off.notes[0] in judged(off, compared(Level.DIFFERENT, 1e-9), Expected.CLOSE).notes
    assert "the original does not reproduce itself" in found.notes
    assert found.excused
    same = judged(SAME, SAME, Expected.CLOSE)
    assert (same.self_noise, same.excused) == (0.0, False)
    band = judged(OFF, SAME, Expected.CLOSE, shaken=compared(Level.DIFFERENT, 4e-4))
    assert (band.level, band.excused) == (Level.BAND, False)


def test_comparison_of_nothing_is_not_called_equal() -> None:
    raw: dict[str, Any] = {
        "level": "bitwise",
        "max_abs": 0.0,
        "max_abs_by_name": {},
        "rng_changed": False,
    }
    record = run_record(seen=0)
    nothing = compared_runs(raw, record, record)
    found = judged(nothing, nothing, Expected.BITWISE)
    assert (found.level, found.ok, found.max_abs) == (Level.UNKNOWN, True, None)
    assert found.notes == (NOTHING,)
    assert compared_runs(raw, run_record(seen=1), record).level is Level.BITWISE
    drawn = compared_runs(
        {**raw, "level": Level.DISTRIBUTION.value, "rng_changed": True}, record, record
    )
    assert not judged(drawn, nothing, Expected.BITWISE).ok


def test_unreadable_results_are_not_called_equal() -> None:
    record = run_record(seen=3)
    raw: dict[str, Any] = {
        "level": "not compared",
        "max_abs": None,
        "max_abs_by_name": {},
        "notes": ["x.pt: gone"],
        "rng_changed": None,
    }
    assert not judged(compared_runs(raw, record, record), SAME, Expected.BITWISE).ok


# Verdicts

SAME_RAW: dict[str, Any] = {"level": "bitwise", "max_abs": 0.0}


def run_record(**more: Any) -> RunRecord:
    return RunRecord(Status.OK, 6, more, 0, "", Path("/nowhere"))


def base_of(ran: bool | None = True) -> Reference:
    return Reference(
        run_record(),
        comparison(SAME_RAW, (6, 6)),
        {unit().id: ran},
        0,
        (),
        (),
        RunExtent(20, False, {}),
        "20 steps",
    )


def test_what_did_not_run_is_told_of_the_run_that_looked_for_it() -> None:
    """It went on for longer than those that are compared, in search of a place."""

    class Compares:
        command = Command(("train.py",), ("train.py",), 0)

        def compare(self, first: RunRecord, others: Sequence[object]) -> list[Comparison]:
            return [comparison(SAME_RAW, (9, 9)) for _ in others]

    home = Home(ORIGINAL, Path("/nowhere"), Path("/nowhere"))
    looked = replace(run_record(ticks=17, steps=17), steps=17)
    shorter = run_record(ticks=9, steps=9, results="r")
    explored = Explored(looked, RunExtent(20, True, {}, until=9), {}, home)
    runs = explored.runs(home)
    base = explored.compared(Compares(), runs, [shorter] * len(runs))  # type: ignore[arg-type]
    assert (base.run_extent.extent, base.watched) == ("9 steps", "17 steps")


def checked(status: Status = Status.OK, error: str = "") -> Checked:
    return Checked({FIX.name: status}, {FIX.name: error})


def timed(ratios: dict[str, float], rounds: int = 12) -> Times:
    """Return recorded blocks: 1 ms a step of the original, a variant faster by its ratio, a little
    apart each round."""
    found = Times()
    for name, ratio in ratios.items():
        pairs = []
        for number in range(rounds):
            wobble = 1 + (-1) ** number * number / 10_000
            blocks = (Block(1e6 * wobble, 1e6, 0.0), Block(1e6 / ratio, 1e6 / ratio, 0.0))
            pairs.append(blocks)
        found.launches[name] = [pairs[: rounds // 2], pairs[rounds // 2 :]]
    return found


OPTIONS = Options(python="python")
FIX = single(unit())


def speed_of(
    found: Times, known: Checked | None = None, options: Options = OPTIONS, ran: bool | None = True
) -> tuple[Verdict, str]:
    variants = [Variant(ORIGINAL, "original"), FIX]
    shown = verdicts.results(variants, base_of(ran), known or checked(), found, {}, {}, options)
    speed = next(each.speed for each in shown if each.id == FIX.name)
    return speed.verdict, speed.why


@pytest.mark.parametrize(
    ("ratio", "verdict"), [(2.0, Verdict.FASTER), (0.5, Verdict.SLOWER), (1.0, Verdict.NO_CHANGE)]
)
def test_verdict_on_recorded_blocks(ratio: float, verdict: Verdict) -> None:
    assert speed_of(timed({FIX.name: ratio, NULL: 1.0}))[0] is verdict


@pytest.mark.parametrize(("null", "verdict"), [(1.5, "INCONCLUSIVE"), (1.2, "FASTER")])
def test_noisy_null_control_takes_away_what_it_may_explain(null: float, verdict: str) -> None:
    found, why = speed_of(timed({FIX.name: 2.0, NULL: null}))
    assert found is Verdict[verdict]
    assert "null control" in why


def test_few_rounds_are_told_with_the_reason() -> None:
    found = timed({FIX.name: 2.0}, rounds=6)
    assert speed_of(found)[0] is Verdict.INCONCLUSIVE
    assert "only 6 rounds" in speed_of(found)[1]
    none = Times(failures={ORIGINAL: ProgramError("ended before its warm-up was over", "done")})
    assert speed_of(none)[1].endswith("it ended before its warm-up was over")


def test_variant_that_was_not_timed() -> None:
    assert speed_of(Times(), ran=False)[0] is Verdict.NOT_EXERCISED
    assert (
        speed_of(timed({FIX.name: 2.0}), ran=None)[0] is Verdict.FASTER
    )  # compiled code cannot be watched
    assert speed_of(Times(), checked(Status.TIMEOUT)) == (Verdict.NOT_MEASURED, "timed out")
    assert (
        speed_of(Times(), None, Options(python="python", device="virtual-cuda"))[0]
        is Verdict.NOT_MEASURED
    )


def test_broken_variant_counts_as_different() -> None:
    known = checked(Status.BROKEN, "failed with exit code 1")
    (result,) = verdicts.results([FIX], base_of(), known, Times(), {}, {}, OPTIONS)
    assert result.equality == Equality(
        Level.DIFFERENT, Expected.BITWISE, ok=False, notes=("failed with exit code 1",)
    )
    assert (result.status, result.error) == (Status.BROKEN, "failed with exit code 1")
    assert (result.blocks_ns, result.memory, result.counts) == ((), None, None)


def test_memory_is_the_median_of_both() -> None:
    found = timed({FIX.name: 2.0})
    found.peaks = {ORIGINAL: [10, 30, 20], FIX.name: [5]}
    (result,) = verdicts.results([FIX], base_of(), checked(), found, {}, {}, OPTIONS)
    assert result.memory is not None
    assert result.memory.peak_bytes == (20, 5)


def test_more_rounds_are_worth_it_only_for_an_open_verdict() -> None:
    assert not verdicts.undecided(timed({FIX.name: 2.0}), [FIX], OPTIONS)
    assert verdicts.undecided(timed({FIX.name: 1.0}, rounds=6), [FIX], OPTIONS) == [FIX]
    assert verdicts.undecided(timed({FIX.name: 1.0}, rounds=6), [FIX], OPTIONS, last=True) == [FIX]
    assert not verdicts.undecided(timed({FIX.name: 1.0}, rounds=0), [FIX], OPTIONS)
    wide = timed({FIX.name: 1.0})
    wide.launches[FIX.name] = [
        [(Block(1e6, 1, 0), Block(1e6 * (0.8 + n / 20), 1, 0)) for n in range(10)]
    ]
    assert verdicts.undecided(wide, [FIX], OPTIONS) == [FIX]


def test_last_look_is_taken_only_where_it_may_decide() -> None:
    wide = timed({FIX.name: 1.0})
    wide.launches[FIX.name] = [
        [(Block(1e6, 1, 0), Block(1e6 * (0.9 + n / 50), 1, 0)) for n in range(11)]
    ]
    assert verdicts.undecided(wide, [FIX], OPTIONS) == [FIX]
    assert verdicts.undecided(wide, [FIX], OPTIONS, last=True) == []


def test_early_look_decides_at_its_own_level() -> None:
    pairs = [
        (Block(1e6, 1, 0), Block(1e6 / 1.1 if number % 6 else 1e6 * 1.05, 1, 0))
        for number in range(12)
    ]
    found = Times({FIX.name: [pairs[:6], pairs[6:]]})
    assert not verdicts.undecided(found, [FIX], OPTIONS)
    assert verdicts.undecided(
        found, [FIX], OPTIONS, level=statistics.levels(statistics.LOOKS)[0]
    ) == [FIX]


@pytest.mark.parametrize(
    ("pairs", "launches", "stages"),
    [
        (24, 4, [[6, 6], [6, 6], [6, 6, 6, 6]]),
        (24, 2, [[12, 12], [12, 12]]),
        (24, 1, [[24], [24]]),
        (12, 4, [[3, 3, 3, 3], [3, 3, 3, 3]]),
        (8, 4, [[2, 2, 2, 2]]),
        (9, 4, [[2, 2, 2, 3]]),
        (8, 12, [[1] * 8]),
    ],
)
def test_looks_follow_the_launches_and_as_many_more_for_what_is_open(
    pairs: int, launches: int, stages: list[list[int]]
) -> None:
    assert pacing.stages_of(pairs, launches) == stages


@pytest.mark.parametrize(
    ("length", "block", "settle", "warmup"),
    [
        (96, 10, 2, 10),  # of these, (96 - 1 - 10) // 7 - 2
        (300, 25, 2, 10),  # no longer than without a limit
        (60, 5, 2, 10),
        (50, 5, 1, 3),
        (30, 4, 0, 1),
        (6, 1, 0, 1),
    ],
)
def test_blocks_of_a_short_program_fit_into_it(
    length: int, block: int, settle: int, warmup: int
) -> None:
    pace = pacing.Pace(0.002, 1.0, 4, 2, Options())
    found = pace.within(length, 6)
    assert (found.block, found.settle, found.warmup) == (block, settle, warmup)
    assert length < 20 or warmup + 7 * (settle + block) < length


def test_too_few_rounds_are_blamed_on_the_program_only_where_it_ended() -> None:
    few = timed({FIX.name: 2.0, NULL: 1.0}, rounds=3)
    found = verdicts.results([FIX], base_of(), checked(), few, {}, {}, OPTIONS)
    assert found[0].speed.why == "only 3 rounds; give verify more time (--budget)"
    few.length = 5
    found = verdicts.results([FIX], base_of(), checked(), few, {}, {}, OPTIONS)
    assert found[0].speed.why == "only 3 rounds; the program ends after 5 steps: have it take more"


def test_one_launch_decides_nothing() -> None:
    found = timed({FIX.name: 2.0, NULL: 1.0}, rounds=24)
    found.launches = {name: [[*one, *two]] for name, (one, two) in found.launches.items()}
    verdict, why = speed_of(found)
    assert verdict is Verdict.INCONCLUSIVE
    assert why.startswith("one launch decides nothing")


def test_a_launch_that_was_broken_off_is_no_sample() -> None:
    found = timed({FIX.name: 2.0, NULL: 1.0}, rounds=24)
    slow = (Block(1e6, 1e6), Block(2e6, 2e6))
    found.launches[FIX.name].append([slow] * 2)
    assert len(found.samples(FIX.name).logs) == 2
    assert speed_of(found)[0] is Verdict.FASTER
    found.launches[FIX.name].append([slow] * 6)
    assert speed_of(found)[0] is Verdict.INCONCLUSIVE


def test_fix_that_is_not_timed_alone_says_why() -> None:
    variants = planned([unit(1), unit(2)], "auto")
    found = timed({ALL: 1.0})
    base = replace(base_of(), exercised={"TL102@a.py:1": True, "TL102@a.py:2": True})
    ran = Checked({variant.name: Status.OK for variant in variants})
    shown = verdicts.results(variants, base, ran, found, {}, {}, OPTIONS)
    speeds = {each.id: each.speed for each in shown}
    assert speeds[variants[2].name].verdict is Verdict.NOT_MEASURED
    assert speeds[variants[2].name].why.startswith(
        "not timed alone, as all together change the time by 1.00x"
    )
    assert speeds[ALL].verdict is Verdict.NO_CHANGE


@pytest.mark.parametrize(
    ("joint", "words"),
    [
        (4.0, "no interaction is shown"),
        (2.0, "the fixes overlap"),
        (8.0, "the fixes help each other"),
    ],
)
def test_interactions(joint: float, words: str) -> None:
    variants = planned([unit(1), unit(2)], "each")
    found = timed({variants[2].name: 2.0, variants[3].name: 2.0, ALL: joint})
    (sentence,) = verdicts.interactions(variants, found)
    assert words in sentence
    assert f"multiply to 4.00x; all together {joint:.2f}x" in sentence


def test_interactions_are_those_of_the_fixes_that_all_together_holds() -> None:
    units = [unit(1), unit(2), unit(3)]
    variants = [*planned(units, "alone"), together(units[:2], "proved together")]
    found = timed({**{variant.name: 2.0 for variant in variants[2:5]}, ALL: 4.0})
    (sentence,) = verdicts.interactions(variants, found)
    assert "multiply to 4.00x; all together 4.00x: no interaction" in sentence


def test_to_prove_fixes_each_is_alone_however_many_there_are() -> None:
    units = [unit(row) for row in range(1, MANY + 3)]
    names = [variant.name for variant in planned(units, "alone")]
    assert names == [ORIGINAL, NULL, *(f"fix:{each.id}" for each in units)]


def test_a_version_that_was_left_out_of_the_timing_says_why() -> None:
    found = timed({ALL: 1.0})
    found.left_out[FIX.name] = "not timed, as its results are not those promised"
    assert speed_of(found) == (Verdict.NOT_MEASURED, found.left_out[FIX.name])


@pytest.mark.parametrize(
    ("failure", "hinted"),
    [
        ("failed with exit code 1: AssertionError: Torch not compiled with CUDA enabled", True),
        ("failed with exit code 1: AssertionError: no more data", False),
    ],
)
def test_a_program_that_needs_a_gpu_is_not_timed_on_a_cpu(failure: str, hinted: bool) -> None:
    found = Times()
    found.failures[ORIGINAL] = ProgramError(failure, "ended")
    verdict, why = speed_of(found)
    assert verdict is Verdict.NOT_MEASURED
    assert why.startswith(f"not timed: the original {failure}")
    assert ("torch.cuda.is_available()" in why) == hinted


def test_interactions_need_all_single_effects() -> None:
    variants = planned([unit(1), unit(2), unit(3)], "each")
    ratios = {variant.name: 2.0 for variant in variants[2:]}
    assert verdicts.interactions(variants, timed(ratios)) != ()
    del ratios[variants[3].name]
    assert verdicts.interactions(variants, timed(ratios)) == ()


def test_group_that_moved_is_split() -> None:
    group = groups([unit(1), unit(2)])[0]
    assert verdicts.moved(timed({group.name: 2.0}), group, OPTIONS)
    assert not verdicts.moved(timed({group.name: 1.0}), group, OPTIONS)
    assert not verdicts.moved(Times(), group, OPTIONS)


# What ran


def test_exercised_by_marks(tmp_path: Path) -> None:
    (tmp_path / "marks").mkdir()
    (tmp_path / "marks" / "1-0").touch()
    units = [unit(1), unit(2)]
    seen = reference._exercised(units, RunRecord(Status.OK, 6, {"watched": True}, 0, "", tmp_path))
    assert seen == {"TL102@a.py:1": False, "TL102@a.py:2": True}
    for hidden in ({"compiled": True, "watched": True}, {"watched": False}):
        unknown = reference._exercised(units, RunRecord(Status.OK, 6, hidden, 0, "", tmp_path))
        assert unknown == {"TL102@a.py:1": None, "TL102@a.py:2": True}
    reached = replace(base_of(), exercised={**seen, "TL102@a.py:3": None}).reached(
        [*units, unit(3)]
    )
    assert [one.id for one in reached] == ["TL102@a.py:2", "TL102@a.py:3"]


def test_variant_is_exercised_if_one_of_its_fixes_ran() -> None:
    together = planned([unit(1), unit(2)], "each")[-1]
    for one, two, known in (
        (False, True, True),
        (False, None, None),
        (False, False, False),
        (None, True, True),
    ):
        base = replace(base_of(), exercised={"TL102@a.py:1": one, "TL102@a.py:2": two})
        assert verdicts._is_exercised(together, base) is known


def test_fix_that_is_not_reached_is_reported_without_being_compared() -> None:
    (result,) = verdicts.unreached([unit(2)], {"a.py": document(TEXT)}, "20 steps")
    assert result.speed.why.startswith("not reached in 20 steps")
    assert (result.id, result.exercised, result.equality) == ("fix:TL102@a.py:2", False, None)
    assert result.speed.verdict is Verdict.NOT_EXERCISED
    assert "+b = 9" in result.diff


def test_record_is_that_of_the_first_process_with_most_steps(tmp_path: Path) -> None:
    for pid, steps in ((1000, 6), (999, 6), (5, 0)):
        (tmp_path / f"record-{pid}.json").write_text(json.dumps({"pid": pid, "steps": steps}))
    (tmp_path / "record-7.json").write_text('{"half')
    (tmp_path / "settings.json.disabled").write_text("recorder disabled: X\n")
    assert record_in(tmp_path) == {"pid": 999, "steps": 6, "trouble": ["recorder disabled: X"]}


# Counts


def counted(**more: Any) -> RunRecord:
    line = {"kind": "sync", "file": "/copy/pkg/a.py", "line": 3, "count": 6, "bytes": 0}
    counts = {
        "steps": 6,
        "syncs": 1.0,
        "h2d_bytes": 2.0,
        "d2h_bytes": 0.0,
        "staged": 0.0,
        "lines": [line],
        **more,
    }
    return run_record(counts=counts)


HOME = Home(ORIGINAL, Path("/copy"), Path("/home"))


def test_counts_of_both_by_line() -> None:
    found = count_pass.paired(counted(), counted(steps=5, syncs=0.0), HOME, HOME, "cpu")
    assert (found.basis, found.steps, found.syncs, found.unavailable) == (
        "virtual-cuda",
        5,
        (1.0, 0.0),
        "",
    )
    assert found.before == (CountLine("sync", "pkg/a.py", 3, 6, 0),)
    assert count_pass.paired(counted(), counted(), HOME, HOME, "cuda").basis == "cuda"


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        (counted(unavailable="no stub for Event"), "no stub for Event"),
        (counted(steps=0), "the program ended before a step was counted"),
        (counted(used=False), UNUSED),
        (RunRecord(Status.BROKEN, 0, {}, 1, "x\nError: no\n\n", Path("/")), ("the program failed "
                                                                             "under it: Error: no")),  # noqa: E501
        (RunRecord(Status.TIMEOUT, 0, {}, None, "", Path("/")), "the program timed out under it: "),
        (run_record(trouble=["ledger disabled"]), "ledger disabled"),
        (run_record(), "nothing was counted"),
    ],
)  # fmt: skip
def test_counts_that_are_not_there_are_no_zeros(after: RunRecord, reason: str) -> None:
    found = count_pass.paired(counted(), after, HOME, HOME, "cpu")
    assert (found.unavailable, found.syncs, found.before) == (reason, None, ())
    assert count_pass.paired(after, counted(), HOME, HOME, "cpu").unavailable == reason


def test_counts_of_evaluation_stand_beside_those_of_training() -> None:
    batch = {
        "steps": 4,
        "syncs": 3.0,
        "h2d_bytes": 0.0,
        "d2h_bytes": 0.0,
        "staged": 0.0,
        "lines": [],
    }
    found = count_pass.paired(
        counted(evaluation=batch), counted(evaluation={**batch, "syncs": 2.0}), HOME, HOME, "cpu"
    )
    assert found.evaluation is not None
    assert (found.syncs, found.evaluation.steps, found.evaluation.syncs) == (
        (1.0, 1.0),
        4,
        (3.0, 2.0),
    )
    assert (
        count_pass.paired(counted(evaluation=batch), counted(), HOME, HOME, "cpu").evaluation
        is None
    )


def test_what_was_cut_is_said() -> None:
    run = {"steps": 20, "schedule": {"epochs": 1, "evaluations": 1, "batches": 6}}
    run_extent = replace(next(tried(True, OPTIONS)), until=26).gone(run)
    assert run_extent.extent == "20 steps and 6 batches of evaluation"
    (note,) = run_extent.notes
    assert note.endswith("epochs shortened to 20 steps; evaluation ran 1 x, 6 batches in all")
    assert run_extent.settings()["until"] == 26
    assert RunExtent(20, False, {}).notes == ()


def test_ways_to_run_the_program_end_with_the_plain_one() -> None:
    assert [(one.ledger, bool(one.cut)) for one in tried(True, OPTIONS)] == [
        (True, True),
        (False, True),
        (False, False),
    ]
    assert [one.ledger for one in tried(False, OPTIONS)] == [False, False]


def test_compiled_program_is_compared_as_it_is() -> None:
    virtual, plain, _ = tried(True, OPTIONS)
    record = {"counts": {"notes": ["torch.compile: counted in eager mode"]}}
    assert virtual.unfit(record)
    assert not plain.unfit(record)
    assert not virtual.unfit({"counts": {"notes": []}})


def test_argument_that_keeps_a_program_on_the_host_is_named() -> None:
    assert count_pass.unused_hint(["train.py", "--use_cpu"]).startswith(
        "the command says --use_cpu: leave it out"
    )
    assert "--no-cuda" in count_pass.unused_hint(["train.py", "--no-cuda"])
    assert count_pass.unused_hint(["train.py", "--epochs", "2"]) == ""


# Waves


def test_each_wave_holds_original_and_null_control() -> None:
    variants = planned([unit(n) for n in range(1, 6)], "each")
    waves = time_pass._waves(variants, 4)
    assert [names(wave)[:2] for wave in waves] == [[ORIGINAL, NULL]] * 3
    assert [name for wave in waves for name in names(wave)[2:]] == names(variants)[2:]
    assert max(map(len, waves)) == 4
    assert len(time_pass._waves(variants, 64)) == 1
    assert names(time_pass._waves(variants[:2], 3)[0]) == [ORIGINAL, NULL]


@pytest.mark.parametrize(
    ("free", "peak", "count"),
    [(10_000, 1_000, 7), (10_000, 9_000, 3), (None, 1_000, 64), (10_000, 0, 64)],
)
def test_capacity(free: int | None, peak: int, count: int) -> None:
    assert capacity(free, peak) == count


def test_merged_times_keep_both() -> None:
    one, two = timed({FIX.name: 2.0}), timed({FIX.name: 2.0, "other": 1.0})
    one.merge(two)
    assert len(one.pairs(FIX.name)) == 24
    assert len(one.pairs("other")) == 12
    assert len(one.launches[FIX.name]) == 4
    assert one.milliseconds("other", 1) == 1.0
    assert one.milliseconds("missing", 0) is None


def test_merged_times_say_whose_memory_their_peaks_are() -> None:
    found = Times()
    found.merge(Times(peaks={FIX.name: [512]}, basis="cuda"))
    found.merge(Times())
    assert (found.peak(FIX.name), found.basis) == (512, "cuda")


@pytest.mark.parametrize(
    ("device", "least", "room"),
    [("cuda", 1, 3), ("cuda", 6, 6), ("cpu", 1, 70)],
)
def test_peaks_on_a_device_are_compared_with_its_memory(
    tmp_path: Path, device: str, least: int, room: int
) -> None:
    one = object.__new__(script_mode._Verification)
    machine = replace(host.look(tmp_path), memory_free=10**11)
    gpus = (Gpu("G", 20 * 10**9, 8 * 10**9),)
    doctor = Doctor("python", machine, gpus=gpus)
    options = Options(device=device)
    command = Command(("train.py",), ("train.py",), 0)
    one.request = Request(tmp_path, tmp_path, command, (), {}, (), options, doctor)
    assert one._room(10**9, least) == room


def test_what_runs_out_of_memory_beside_others_runs_once_more_alone(tmp_path: Path) -> None:
    log: list[tuple[list[int], int]] = []

    class Crowded(Runner):
        def __init__(self) -> None:
            """Start nothing."""

        def _run_all(
            self,
            runs: Any,
            waiting: list[int],
            together: int,
            tick: Any,
            found: dict[int, RunRecord],
        ) -> None:
            log.append((list(waiting), together))
            for number in waiting:
                out = number == 1 and together > 1
                status = Status.OUT_OF_MEMORY if out else Status.OK
                found[number] = RunRecord(status, 6, {}, 0, "", tmp_path)

    home = Home("", tmp_path, tmp_path)
    found = Crowded().all([(home, "check", {})] * 3, 2, lambda name: None)
    assert [each and each.status for each in found] == [Status.OK] * 3
    assert log == [([0, 1, 2], 2), ([1], 1)]
    alone = Crowded().all([(home, "check", {})] * 2, 1, lambda name: None)
    assert [each and each.status for each in alone] == [Status.OK] * 2


def test_memory_that_runs_out_while_timed_is_not_the_fixs_fault() -> None:
    known = checked()
    known.blame({FIX.name: ProgramError("ran out of memory", "memory")})
    assert known.status[FIX.name] is Status.OK
    known.blame({FIX.name: ProgramError("ended", "ended")})
    assert known.status[FIX.name] is Status.BROKEN


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_the_budget_counts_from_the_start_of_the_process() -> None:
    code = "from torchlint.verify.stopwatch import process_start as f; print(f(), f())"
    before = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, second = map(float, done.stdout.split())
    tick = 2 / os.sysconf("SC_CLK_TCK")
    assert before - tick <= first <= second + tick <= time.monotonic() + 2 * tick
    assert abs(first - second) <= tick
    assert Stopwatch(5.0, first).end == first + 5.0
