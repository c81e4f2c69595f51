"""No fix makes a line longer than the project allows, where it was not longer before.

Each fixture, with all fixes of all rules: what is too long afterwards was so before, and what is
wrapped is the same program.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest import mock

import pytest

from tests.checking import fixed
from torchlint.edits import text_fix
from torchlint.edits.splice import EditContext, Splice
from torchlint.edits.wrapping import Style, limit_of, style_of, width, wrapped

FIXTURES = Path(__file__).parents[2] / "fixtures"
RULES, CASES = (sorted(FIXTURES.glob(f"{folder}/*/*.py")) for folder in ("rules", "cases"))
FILES = sorted((*RULES, *CASES))
STEP = """\
import torch
from torch import nn
from torch.utils.data import DataLoader


def train(model: nn.Module, device, dataset, criterion, optimizer):
{loader}
    for epoch in range(3):
        for images, labels in loader:
            optimizer.zero_grad()
{step}
            loss.backward()
            optimizer.step()
"""
LOADER = "    loader = DataLoader(dataset, pin_memory=True)"
COPY = "            loss = criterion(model(images.to(device)), labels)"


def too_long(before: str, after: str, limit: int) -> Iterator[str]:
    """Yield the lines that are too long, and were not there or no longer than allowed before."""
    old, new = before.splitlines(), after.splitlines()
    for tag, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal" and all(width(line) <= limit for line in old[a:b]):
            yield from (line for line in new[c:d] if width(line) > limit)


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(FIXTURES)))
def test_no_fix_makes_a_line_too_long_that_was_not(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    wraps: list[bool] = []

    def noted(splices: Sequence[Splice], context: EditContext) -> list[Splice]:
        found = wrapped(splices, context)
        wraps.append(found != list(splices))
        return found

    with mock.patch.object(text_fix, "wrapped", noted):
        after = fixed(text, "unsafe", name="src/train.py").after
    assert list(too_long(text, after, limit_of(text, 0))) == [] or not after
    if after and any(wraps):
        assert ast.dump(ast.parse(after)) == ast.dump(ast.parse(unwrapped(text)))


def unwrapped(text: str) -> str:
    """Return what all fixes give when no line is wrapped."""
    with mock.patch.object(text_fix, "wrapped", lambda splices, _: splices):
        return fixed(text, "unsafe", name="src/train.py").after


def test_files_that_fixes_wrap_are_among_them() -> None:
    texts = (path.read_text(encoding="utf-8") for path in FILES[::5])
    assert any(
        list(too_long(text, plain, limit_of(text, 0)))
        for text in texts
        if (plain := unwrapped(text))
    )


def added(loader: str = LOADER, step: str = COPY, code: str = "TL103", **settings: object) -> str:
    """Return the lines that fixes add to a training loop."""
    text = STEP.format(loader=loader, step=step)
    new = fixed(text, "unsafe", codes=frozenset((code,)), name="src/train.py", **settings).after
    assert new
    ast.parse(new)
    rows = difflib.ndiff(text.splitlines(), new.splitlines())
    return "\n".join(row[2:] for row in rows if row.startswith("+ "))


def test_a_call_that_gets_too_long_goes_on_in_its_brackets() -> None:
    step = (
        "            loss = criterion(model(images.ravel().to(device)), labels[:, :9].to(device))"
    )
    assert added(step=step).split("\n") == [
        "            loss = criterion(",
        "                model(images.ravel().to(device, non_blocking=True)),",
        "                labels[:, :9].to(device, non_blocking=True),",
        "            )",
    ]


def test_what_fits_on_one_line_of_its_own_stays_together() -> None:
    step = "            loss = criterion(model(images.ravel().to(device)), labels, weights)"
    assert added(step=step).split("\n") == [
        "            loss = criterion(",
        "                model(images.ravel().to(device, non_blocking=True)), labels, weights",
        "            )",
    ]


def test_what_is_short_enough_stays_on_its_line() -> None:
    assert added() == COPY.replace("(device)", "(device, non_blocking=True)")


@pytest.mark.parametrize("limit", [90, 120])
def test_the_limit_is_that_of_the_project(limit: int) -> None:
    step = "            loss = criterion(model(images.ravel().to(device)), labels[:, :9])  # mean"
    lines = added(step=step, line_length=limit).split("\n")
    assert len(lines) == (3 if limit == 90 else 1)
    assert all(width(line) <= limit for line in lines)
    assert lines[-1].endswith("  # mean")


@pytest.mark.parametrize(
    ("longest", "limit"),
    [(5, 88), (88, 88), (89, 100), (100, 100), (101, 120), (103, 120), (120, 120), (160, 120)],
)
def test_without_a_formatter_the_limit_is_the_lowest_usual_one_that_holds_the_code(
    longest: int, limit: int
) -> None:
    code = f"x = {'1' * (longest - 4)}"
    assert limit_of(f"{code}\n", 0) == limit
    assert limit_of(f"{code}  # {'long ' * 40}\ny = '''\n{'long' * 40}\n'''\n", 0) == limit
    assert limit_of(code, 77) == 77


def test_a_line_longer_than_all_code_of_its_file_stays_one_within_the_limit() -> None:
    step = "            loss = criterion(model(images.ravel().to(device)), labels, weights)"
    long = f"            names = [{', '.join(repr(name * 8) for name in 'abcdef')}]\n"
    comment = f"            # {'long ' * 30}\n"
    assert width(step) < 88 < width(long) < width(added(step=long + step)) <= 100
    assert added(step=step).count("\n") == 2
    assert added(step=long + step).count("\n") == 0
    assert added(step=comment + step).count("\n") == 2


def test_one_very_long_line_does_not_make_the_limit() -> None:
    step = "            loss = criterion(model(images.ravel().to(device)), labels[:, :9], labels)"
    long = f"            names = [{', '.join(repr(name * 9) for name in 'abcdefghijklmnopq')}]\n"
    words = ", ".join(f"label_{name}" for name in "abc")
    more = step.replace("labels)", f"labels, {words})")
    assert added(step=long + step).count("\n") == 0
    assert added(step=long + more).count("\n") > 0


def test_values_that_are_assigned_side_by_side_get_a_line_each_in_parentheses() -> None:
    step = f"""\
            images, labels = images.ravel().to(device), labels[:, :9].to(device)
{COPY.replace(".to(device)", "")}"""
    assert added(step=step).split("\n") == [
        "            images, labels = (",
        "                images.ravel().to(device, non_blocking=True),",
        "                labels[:, :9].to(device, non_blocking=True),",
        "            )",
    ]


def test_a_sum_is_put_in_parentheses_and_not_torn_apart() -> None:
    step = f"""\
            labels = labels * weights - old_labels / 2 + images.to(device)
{COPY.replace(".to(device)", "")}"""
    assert added(step=step).split("\n") == [
        "            labels = (",
        "                labels * weights - old_labels / 2 + images.to(device, non_blocking=True)",
        "            )",
    ]


def test_a_line_that_was_too_long_before_stays_one_unless_it_outgrows_the_file() -> None:
    words = ", ".join(f"label_{name}" for name in "abcdefghijk")
    step = f"            loss = criterion(model(images.to(device)), [{words}])"
    assert added(step=step, line_length=80).count("\n") > 0
    longer = f"            names = [{words}, {words}]\n"
    assert added(step=longer + step, line_length=80).count("\n") == 0


def test_arguments_below_the_first_one_stay_there() -> None:
    loader = """\
    loader = DataLoader(dataset, batch_size=len(dataset) // 100, shuffle=True,
                        num_workers=8, drop_last=True, timeout=600, prefetch_factor=4)"""
    assert added(loader, code="TL202").split("\n") == [
        "                        num_workers=8, drop_last=True, timeout=600, prefetch_factor=4,",
        "                        pin_memory=torch.cuda.is_available())",
    ]
    short = "    loader = DataLoader(dataset, batch_size=len(dataset) // 100, num_workers=8)"
    other = """
    settings = dict(a=1,
                    b=2)"""
    assert added(short + other, code="TL202").split("\n") == [
        "    loader = DataLoader(dataset, batch_size=len(dataset) // 100, num_workers=8,",
        "                        pin_memory=torch.cuda.is_available())",
    ]


def test_arguments_that_are_all_on_one_line_get_one_each() -> None:
    loader = """\
    loader = DataLoader(
        dataset, batch_size=len(dataset) // 100, shuffle=True, num_workers=8
    )"""
    assert added(loader, code="TL202").split("\n") == [
        "        dataset,",
        "        batch_size=len(dataset) // 100,",
        "        shuffle=True,",
        "        num_workers=8,",
        "        pin_memory=torch.cuda.is_available(),",
    ]


def test_a_pragma_is_not_counted_and_a_string_is_not_broken() -> None:
    step = f"{COPY}  # type: ignore[no-untyped-call]  # noqa: ANN201"
    assert added(step=step).count("\n") == 0
    text = f'            loss = criterion(images.to(device), """one\n two {"x" * 60}"""); a = 1'
    assert added(step=text).count("\n") == 0


def test_two_fixes_that_only_together_are_too_long_are_wrapped() -> None:
    loader = "    loader = DataLoader(dataset, batch_size=16, num_workers=8, timeout=6)\n"
    text = STEP.format(loader=loader, step=COPY)
    new = fixed(text, "unsafe", name="src/train.py", line_length=100).after
    assert "pin_memory" in new
    assert "persistent_workers" in new
    assert max(map(width, new.splitlines())) <= 100


def test_the_style_is_that_of_most_calls() -> None:
    hanging = "f(\n    a,\n)\n"
    below = "f(a,\n  b)\n"
    assert not style_of(hanging).aligned
    assert style_of(below).aligned
    assert not style_of(hanging + below).aligned
    assert style_of(hanging + below + below).aligned
    assert style_of(f"x = 1  # {'long ' * 40}\ny = '''\n{'long' * 40}\n'''\n").longest == 5


@pytest.mark.parametrize(
    ("text", "longest", "aligned"),
    [
        ("x = 'a # b'\n", 11, False),
        ("x = 1 + \\\n    2222222222\n", 14, False),
        ("x = 'it\\'s'  # don't\ny = 1\n", 11, False),
        ('x = r"\\"  # "\n', 13, False),
        ("x = '''\n'a' # (\n'''\nf(a,\n  b)\n", 4, True),
        ("f(  # why (\n  a)\n", 4, False),
        ("f(a,\n  'b'\n  '''c\n''', (\n  d))\n", 5, True),
        ("f(a,\n  [b,\n   c])\n", 6, True),
        ("x = 'a\\\nb'\ny = 1\n", 5, False),
        ("f(g(a),\r\n  b)\r\n", 7, True),
        ("\tx = 1\n", 9, False),
    ],
)
def test_strings_and_comments_are_no_code(text: str, longest: int, aligned: bool) -> None:
    assert style_of(text) == Style(longest, aligned)


def test_carriage_returns_and_tabs_stay() -> None:
    step = "            loss = criterion(model(images.ravel().to(device)), labels, labels, labels)"
    text = STEP.format(loader=LOADER, step=step)
    due = fixed(text, "unsafe", codes=frozenset(("TL103",))).after
    for old, new in (("\n", "\r\n"), ("    ", "\t")):
        after = fixed(text.replace(old, new), "unsafe", codes=frozenset(("TL103",))).after
        assert after.replace(new, old) == due
