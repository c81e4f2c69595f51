"""Programs that nobody would write: torchlint reports, never fails, and keeps its promises on all
of them.

What must hold is in ``benchmarks/fuzz_trial.py``; ``benchmarks/fuzz.py`` runs the same for as long
as one likes.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import libcst as cst
import pytest

from benchmarks import fuzz, fuzz_bytes, fuzz_edits, fuzz_fixes, fuzz_names, fuzz_shapes, fuzz_trial
from benchmarks.fuzz_fixes import Executors, Verdict
from benchmarks.fuzz_programs import Material, Program, hypothesmith_programs, material
from tests.checking import every_code, job, rules
from torchlint.base.finding import UNUSED_SUPPRESSION, FileReport, Note, NoteKind, Safety
from torchlint.base.span import Position
from torchlint.catalog.rules import load_rules
from torchlint.engine.job import Job
from torchlint.run.run import RunOptions
from torchlint.run.worker import analyse_job, failed
from torchlint.semantic.module import Module

PROGRAMS = {"generated": 45, "mutated": 300, "spliced": 60}
HYPOTHESMITH = 20
CHUNKS = 4
"""The mutations are this many tests, so that they can run side by side."""
BYTES = 300
EXECUTED = 154
"""Programs that are run before and after their safe fixes; `fuzz.py --target fixes` runs as many as
one likes."""
LONG_NAMES = 40
"""Programs of each kind whose names are made long."""
FOUND = {
    "the module torch itself is called": "import torch\ntorch()\n# .cpu .item\n",
    "a class in a training loop": """\
import torch
for x in loader:
    class Net:
        y = model(x).backward()
    optimizer.zero_grad()
    optimizer.step()
""",
}
"""What fuzzing has found, cut down by hand."""


@cache
def stuff() -> Material:
    load_rules(every_code())  # here, so that no worker has to
    return material()


def assert_holds(programs: Iterator[Program]) -> fuzz.Tally:
    tally = fuzz.Tally()
    fuzz.try_all(programs, tally, jobs=1, cut=False)
    broken = [
        f"{f.note}\n({f.program.generator}:{f.program.seed})\n{f.smallest.decode()}"
        for f in tally.failures
    ]
    assert not broken, "\n\n".join(broken)
    return tally


@pytest.mark.slow
@pytest.mark.parametrize("part", range(CHUNKS))
@pytest.mark.parametrize("generator", PROGRAMS)
def test_programs(generator: str, part: int) -> None:
    seeds = range(part, PROGRAMS[generator], CHUNKS)
    tally = assert_holds(fuzz.MAKERS[generator](f"test:{seed}", stuff()) for seed in seeds)
    counts = tally.counts[generator]
    assert counts["programs"] == len(seeds)
    assert counts["valid"] > len(seeds) / 2


@pytest.mark.slow
def test_hypothesmith_programs() -> None:
    tally = assert_holds(iter(hypothesmith_programs(1, HYPOTHESMITH, stuff())))
    assert tally.counts["generated"]["programs"] == HYPOTHESMITH


def test_programs_are_made_again_from_their_seeds() -> None:
    for make in fuzz.MAKERS.values():
        assert make("again", stuff()) == make("again", stuff())


@pytest.mark.parametrize("name", FOUND)
def test_found_before(name: str) -> None:
    assert not fuzz_trial.failures(fuzz_trial.trial(job(FOUND[name])))


def test_a_file_may_become_empty() -> None:
    asked = job("  # torchlint: ignore[TL1]", codes=every_code() | {UNUSED_SUPPRESSION})
    report = fuzz_trial.trial(asked)
    assert (report.applied, report.after, fuzz_trial.failures(report)) == (1, "", [])


@pytest.mark.parametrize("target", fuzz_bytes.TARGETS)
def test_bytes(target: str) -> None:
    chance = random.Random(target)
    seeds = fuzz_bytes.SEEDS[target]
    for _ in range(BYTES):
        data = bytearray(b"".join(chance.choices(seeds, k=2))[: chance.randrange(120)])
        for _ in range(chance.randrange(6)):
            data.insert(
                chance.randrange(len(data) + 1),
                chance.choice(b"\n\r\\*/[]!#\"'({: ,\x00\xff\x80aT1"),
            )
        fuzz_bytes.TARGETS[target](bytes(data))


@pytest.mark.slow
def test_the_length_of_names_does_not_matter() -> None:
    """A sample; `fuzz.py --target names` checks all."""
    chosen = fuzz_names.sample(fuzz_names.fixed_programs(), 25, LONG_NAMES)
    drawn = fuzz_names.drawn(25, LONG_NAMES, stuff(), fuzz.MAKERS)
    found = [fuzz_names.verdict(text) for text in (*chosen, *drawn)]
    checked = [each for each in found if each is not None]
    assert [each.differing for each in checked if each.differing] == []
    assert sum(each.fixes for each in checked) > LONG_NAMES / 4


STACKED = """\
import torch
from torch import nn


def train(model, loader, optimizer, rows):
    model.cuda()
    for x, y in loader:
        out = model(x.cuda())
        loss = nn.functional.mse_loss(out, y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rows.append((loss.item(), out.mean().item(), out.norm().item(), len(x)))
"""


@pytest.mark.parametrize("mark", ["…", ""])
def test_code_that_is_built_from_cut_text_is_seen(
    mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fuzz_names.verdict(STACKED) == fuzz_names.Verdict(findings=5, fixes=5, names=9)
    whole = Module.source_of

    def cut(self: Module, node: cst.CSTNode) -> str:
        text = whole(self, node)
        return text if len(text) <= 60 else text[:59] + mark

    monkeypatch.setattr(Module, "source_of", cut)
    found = fuzz_names.verdict(STACKED)
    assert found is not None
    assert found.differing


# A trial that finds nothing is only worth something if it can find something.

CLEAN = "import torch\nfor x in loader:\n    total += model(x.cuda()).sum().item()  # words\n"
FIXABLE = "import torch\n\ndef f():\n    x = torch.zeros(3).cuda()  # words\n\ny = 1\n"


def broken(monkeypatch: pytest.MonkeyPatch, source: str, changed: object) -> list[str]:
    """Return what the trial says when the engine's reports go through `changed`."""

    def spoiled(job: Job) -> FileReport:
        return changed(job, analyse_job(job))  # type: ignore[no-any-return, operator]

    monkeypatch.setattr(fuzz_trial, "analyse_job", spoiled)
    report = fuzz_trial.trial(job(source, fix="unsafe"))
    return [note.message.removeprefix(fuzz_trial.BROKEN) for note in fuzz_trial.failures(report)]


def moved(job: Job, report: FileReport) -> FileReport:
    findings = [replace(found, end=Position(99, 1)) for found in report.findings]
    return replace(report, findings=tuple(findings))


def forgetful(job: Job, report: FileReport) -> FileReport:
    return report if job.document.text.startswith("import") else replace(report, findings=())


def silent_when_fixing(job: Job, report: FileReport) -> FileReport:
    return replace(report, findings=()) if job.fix else report


def after(old: str, new: str) -> object:
    def changed(job: Job, report: FileReport) -> FileReport:
        return replace(report, after=report.after.replace(old, new))

    return changed


def uncounted(job: Job, report: FileReport) -> FileReport:
    return replace(report, applied=0)


def restless(job: Job, report: FileReport) -> FileReport:
    text = job.document.text
    return replace(report, before=text, after=text + "z = 1\n", applied=1) if job.fix else report


def crashed(job: Job, report: FileReport) -> FileReport:
    return replace(
        report, notes=(Note(NoteKind.FAILED, report.filename, "TL999 failed on line 1"),)
    )


@pytest.mark.parametrize(
    ("source", "changed", "words"),
    [
        (CLEAN, moved, "points outside the text"),
        (CLEAN, forgetful, "not the same findings one line further down"),
        (FIXABLE, uncounted, "0 fixes applied, but the text is changed"),
        (FIXABLE, after("y = 1", "y = "), "the fixed text does not parse"),
        (FIXABLE, after("# words", ""), "a comment is lost"),
        (FIXABLE, after("\ny", "\r\ny"), "the fixed text has other newlines"),
        (FIXABLE, after("y = 1", "y = '\ud800'"), "cannot be written in the file's encoding"),
        (FIXABLE, after("x = ", "x = '''"), "does not parse"),
        (FIXABLE, after("y = 1", "'''\ny = 1\n'''"), "an untouched statement changed: y = 1"),
        (CLEAN, crashed, "TL999 failed on line 1"),
        (FIXABLE, restless, "a second fix run changes the text again"),
    ],
    ids=lambda value: value if isinstance(value, str) and "\n" not in value else None,
)
def test_a_broken_promise_is_seen(
    monkeypatch: pytest.MonkeyPatch, source: str, changed: object, words: str
) -> None:
    assert broken(monkeypatch, source, lambda job, report: report) == []
    assert any(words in message for message in broken(monkeypatch, source, changed))


def test_a_fix_run_without_fixes_finds_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    source = (
        "import torch\nfor x in loader:\n    loss = model(x).sum().cuda()\n    loss.backward()\n"
        "    while loss > 0:\n        f(x)\n"
    )
    assert broken(monkeypatch, source, lambda job, report: report) == []
    messages = broken(monkeypatch, source, silent_when_fixing)
    assert messages == ["a fix run that changes nothing finds something else"]


def test_a_wrong_edit_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    source = "a = b * c\nd(e)\nf = g\n"
    assert fuzz_edits.wrong_edits(job(source)) == []
    right = fuzz_edits.text_fix

    def without_parentheses(fix: object, context: object) -> object:
        made = right(fix, context)  # type: ignore[arg-type]
        if isinstance(made, str):
            return made
        edits = [dataclasses.replace(edit, text=f"zz + {edit.text}") for edit in made.edits]
        return dataclasses.replace(made, edits=tuple(edits))

    monkeypatch.setattr(fuzz_edits, "text_fix", without_parentheses)
    assert fuzz_edits.wrong_edits(job(source))


@pytest.mark.parametrize(("depth", "to_blame"), [(1, False), (16, True)])
def test_what_the_parser_alone_cannot_take_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, depth: int, to_blame: bool
) -> None:
    monkeypatch.setattr(fuzz, "LIMITS", RunOptions(jobs=1, timeout=0.5, quarantine_timeout=0.5))
    source = (
        "match x:\n    case " + "(" * depth + "a,".ljust(depth + 2, ")").replace("))", ")),")[:-1]
    )
    source = "match x:\n    case " + "(" * depth + "a" + ",)" * depth + ": pass\n"
    program = Program("found", "parser", source.encode())
    asked = job(source)
    messages, limit = fuzz.verdicts(
        program, failed("train.py", "took more than 0.5 s of CPU time"), asked
    )
    assert bool(limit) is to_blame
    assert bool(messages) is not to_blame


def test_failures_are_cut_down() -> None:
    lines = b"".join(b"x%d = 1\n" % number for number in range(9))
    assert (
        fuzz.fewer_lines(lines, lambda data: b"x3" in data and b"x7" in data) == b"x3 = 1\nx7 = 1\n"
    )


# Programs that try to make a safe fix unsafe.


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_safe_fixes_of_generated_programs_change_nothing() -> None:
    pytest.importorskip("torch")
    with Executors(1) as executors:
        tally = fuzz_fixes.try_all(fuzz_fixes.drawn(0, EXECUTED), executors, cut=False)
    found = [
        f"{v.program.shape}:{v.program.seed} {v.program.strange}\n{v.patch}\n{v.difference}"
        for v in tally.differing
    ]
    assert not found, "\n\n".join(found)
    # Of eleven programs of a shape, none may be one that a safe fix suits.
    assert set(tally.dead) <= {"TL105", "TL107"}
    assert (tally.invalid, tally.timed_out) == (0, 0)
    assert tally.fixed.total() > EXECUTED / 3


@pytest.mark.parametrize("shape", fuzz_shapes.SHAPES)
def test_shapes_give_valid_programs_and_the_same_ones_again(shape: str) -> None:
    programs = [fuzz_shapes.make(shape, f"valid:{number}") for number in range(60)]
    assert [program for program in programs if not fuzz_fixes.parses(program)] == []
    assert programs == [fuzz_shapes.make(shape, program.seed) for program in programs]
    assert len({program.files["main.py"] for program in programs}) > 50


@pytest.mark.parametrize("shape", fuzz_shapes.SHAPES)
def test_a_program_whose_choices_are_all_plain_has_nothing_strange(shape: str) -> None:
    strange = fuzz_shapes.make(shape, "plain").strange
    plain = fuzz_shapes.make(shape, "plain", frozenset(strange))
    assert not plain.strange or not strange.keys() & plain.strange.keys()


SURROUNDED = 24


@pytest.mark.slow
def test_what_fixes_change_in_other_surroundings_is_what_they_say() -> None:
    pytest.importorskip("torch")
    from benchmarks import fuzz_surroundings

    with Executors(1) as executors:
        tally = fuzz_surroundings.try_all(fuzz_surroundings.drawn(14, SURROUNDED), executors)
    found = [f"{v.codes} {v.program.changes} {v.words}\n{v.program.text}" for v in tally.found]
    assert not found, "\n\n".join(found)
    assert tally.fixed["unsafe"] > SURROUNDED / 5
    assert tally.invalid == 0


def test_a_difference_that_no_note_speaks_of_is_told() -> None:
    pytest.importorskip("torch")
    from benchmarks.fuzz_surroundings import allowed, difference

    one = '# ["x", {"tensor": "torch.float32", "grad": true, "values": [0.5]}]\nstep 1\nstep 2\n'
    other = one.replace("true", "false").replace("0.5", "0.50001").replace("step 1\n", "")
    notes = (
        "The outputs lose their grad_fn.",
        "Results round differently in the last place.",
        "Only every 50th step is logged.",
    )
    assert difference((0, one), (0, other), allowed(notes)) == ""
    for left in notes:
        may = allowed([note for note in notes if note is not left])
        assert difference((0, one), (0, other), may) != "", left
    assert difference((0, one), (0, one.replace("step 2", "step 3")), allowed(notes)) != ""
    assert difference((0, one), (256, one), allowed(notes)) != ""
    assert difference((0, one), (0, one.replace("float32", "float64")), frozenset()) != ""


PINNED = "import torch\nx = torch.ones(2).pin_memory()\n"
EXECUTED_ALONE = {
    "an exception": ("cpu", "print(1)\nraise ValueError('two')", "1\nEXC ValueError two\n"),
    "an exit": ("cpu", "import sys\nsys.exit(3)", "SystemExit 3\n"),
    "what is left to the end": (
        "cpu",
        "import atexit\natexit.register(print, 'late')\nprint('early')",
        "early\nlate\n",
    ),
    "a pinned source that changes too early": (
        "cuda",
        f"{PINNED}y = x.to('cuda', non_blocking=True)\nx += 1\nprint(y.sum().item())",
        "a copy to the device was under way when its source changed\n2.0\n",
    ),
    "a pinned source that changes in time": (
        "cuda",
        f"{PINNED}y = x.to('cuda', non_blocking=True)\nprint(y.sum().item())\nx += 1",
        "2.0\n",
    ),
    "a source in pageable memory": (
        "cuda",
        (
            "import torch\nx = torch.ones(2)\ny = x.to('cuda', non_blocking=True)\nx += "
            "1\nprint(y, "
            "x.is_pinned())"
        ),
        "tensor([1., 1.]) False\n",
    ),
    "a copy to the host": (
        "cuda",
        (
            "import torch\nx = torch.ones(2, device='cuda')\ny = x.cpu()\nx += "
            "1\nprint(y.sum().item())"
        ),
        "2.0\n",
    ),
}


@pytest.mark.slow
def test_programs_are_executed_with_all_that_they_do(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    tasks = []
    for number, (mode, source, _) in enumerate(EXECUTED_ALONE.values()):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "main.py").write_text(source)
        tasks.append((str(tmp_path / str(number)), mode))
    with Executors(2) as executors:
        outputs = [output for _, output in executors.run(tasks)]
    assert dict(zip(EXECUTED_ALONE, outputs, strict=True)) == {
        k: out for k, (_, _, out) in EXECUTED_ALONE.items()
    }


def test_differences_are_cut_down_and_grouped_by_their_cause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def judged(programs: list[fuzz_shapes.Made], *others: object) -> list[Verdict]:
        return [
            Verdict(
                each, ("TL112",), "patch", "other" if "inf" in each.strange.get("data", "") else ""
            )
            for each in programs
        ]

    monkeypatch.setattr(fuzz_fixes, "judged", judged)
    programs = fuzz_fixes.drawn(0, 300, "TL112")
    tally = fuzz_fixes.try_all(programs, executors=None)  # type: ignore[arg-type]
    assert len(tally.differing) > len(tally.causes) > 1
    assert all(set(each.program.strange) == {"data"} for each, _ in tally.causes)
    assert sum(count for _, count in tally.causes) == len(tally.differing)


def test_a_shape_that_no_rule_fixes_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        fuzz_fixes, "judged", lambda programs, *others: [Verdict(each) for each in programs]
    )
    tally = fuzz_fixes.try_all(fuzz_fixes.drawn(0, 22), executors=None)  # type: ignore[arg-type]
    safe = {info.code for info in rules() if Safety.SAFE in info.fixes}
    assert tally.dead == [code for code in fuzz_shapes.SHAPES if code in safe]


def test_each_rule_with_a_safe_fix_has_a_shape() -> None:
    """But TL202: without a GPU its fix pins nothing, so that there is nothing to compare."""
    safe = {info.code for info in rules() if Safety.SAFE in info.fixes}
    assert safe - {"TL202"} <= fuzz_shapes.SHAPES.keys()
