"""What a file's comments say is looked for in its lines: libcst reads the whole text only for those
that may say it. CPython reads it once, and a line that gets too long is split into tokens alone."""

from __future__ import annotations

import ast
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import libcst as cst
import pytest

from tests.checking import check, job
from tests.semantic.test_project import write
from torchlint.base.finding import Safety
from torchlint.run.projects import forget
from torchlint.run.worker import analyse_job
from torchlint.semantic.code.spelling import Part, Spelling
from torchlint.semantic.code.statements import Statements

PROGRAM = """\
import torch

# Must stay below the imports, because of the seed.
SEED = 3


def train(model, loader, optimizer):
    {above}
    for x, y in loader:
        {first}
        loss = model(x.cuda()).sum(){behind}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # otherwise nothing is learned


train(model, torch.utils.data.DataLoader(samples, pin_memory=True), optimizer)
"""


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[cst.CSTNode]:
    """The nodes for which more was read than their own statement."""
    found: list[cst.CSTNode] = []
    kinds: tuple[Any, ...] = (Part, Spelling)
    for kind in kinds:
        learn = kind.learn

        def learning(self: Any, node: cst.CSTNode, learn: Callable[..., None] = learn) -> None:
            found.append(node)
            learn(self, node)

        monkeypatch.setattr(kind, "learn", learning)
    return found


def safety(above: str = "pass", first: str = "pass", behind: str = "") -> Safety:
    """Return how safe the fix of the copy is."""
    program = PROGRAM.format(above=above, first=first, behind=behind)
    report = check(program, codes=frozenset({"TL103"}))
    (fix,) = [each.fix for each in report.findings if each.code == "TL103"]
    assert fix is not None
    return fix.safety


@pytest.mark.parametrize(
    "places",
    [
        {"first": "# the batch"},
        {"first": "# the batch\n\n        # on the device"},
        {"behind": "  # the batch"},
        {"above": "with torch.autocast('cuda'):  # must be"},
        {"first": "y = 'because'"},
    ],
)
def test_a_comment_that_gives_no_reason_costs_no_reading(
    places: dict[str, str], readings: list[cst.CSTNode]
) -> None:
    places = {
        key: f"{text}\n        pass" if "with" in text else text for key, text in places.items()
    }
    assert safety(**places) is Safety.SAFE
    assert not readings


@pytest.mark.parametrize(
    "places",
    [
        {"first": "# it must wait here"},
        {"first": "# it must wait here\n\n        # the batch"},
        {"behind": "  # a workaround"},
        {"behind": "; y = 1  # a workaround"},
    ],
)
def test_a_comment_that_gives_a_reason_is_found(
    places: dict[str, str], readings: list[cst.CSTNode]
) -> None:
    assert safety(**places) is Safety.SUGGESTION
    assert readings


SPARE = """\
import torch
{above}import gc{behind}
from torch import nn


def train(model, loader, optimizer):
    # Why not?
    for x in loader:
        model(x).sum().backward()
        optimizer.step()
        gc.collect()
"""


@pytest.mark.parametrize(
    ("above", "behind", "stays"),
    [
        ("", "", False),
        ("\n\n", "", False),
        ("# frees memory\n", "", True),
        ("# frees memory\n\n", "", True),
        ("", "  # frees memory", True),
    ],
)
def test_an_import_that_goes_costs_no_reading(
    above: str, behind: str, stays: bool, readings: list[cst.CSTNode]
) -> None:
    report = check(SPARE.format(above=above, behind=behind), codes=frozenset({"TL702"}))
    (fix,) = [each.fix for each in report.findings]
    assert fix is not None
    assert len(fix.edits) == (1 if stays else 2)
    assert not readings


LAYOUTS = {
    "above": "x = 1\n# why\ny = 2\n",
    "far above": "x = 1\n# why\n\n\ny = 2\n",
    "the first line": "# what the file is\nx = 1\n",
    "behind": "x = 1  # why\ny = '#'\nz = 2; w = 3;  # both\n",
    "below a block": "if a:\n    x = 1\n    # of the block\ny = 2\n",
    "below a block, as far left": "if a:\n    x = 1\n# of y\ny = 2\n",
    "in a block": "if a:  # why\n    # of x\n    x = 1\n\n  # odd\n    y = 2\n",
    "the end of a string": 'x = """\n# no comment """\ny = 2\n',
    "in brackets": "x = f(  # why\n    1,\n    # of 2\n    2,\n)\ny = 3\n",
    "crlf": "x = 1\r\n# why\r\ny = 2  # how\r\n",
    "tabs": "if a:\n\t# why\n\tx = 1\n",
}


@pytest.mark.parametrize("text", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_where_comments_stand_is_what_libcst_says(text: str) -> None:
    root = cst.parse_module(text)
    places = Statements(root, text, ast.parse(text))
    for line in lines_of(root):
        above = any(each.comment is not None for each in line.leading_lines)
        assert places.comment_above(line.body[0]) in (above, None)
        behind = line.trailing_whitespace.comment is not None
        assert places.comment_after(line.body[-1]) is behind


def lines_of(node: cst.CSTNode) -> Iterator[cst.SimpleStatementLine]:
    """Yield the lines of simple statements at or below a node."""
    if isinstance(node, cst.SimpleStatementLine):
        yield node
    for child in node.children:
        yield from lines_of(child)


def test_most_comments_are_told_without_libcst() -> None:
    text = "x = 1\n# why\ny = 2\n\nz = 3\n"
    root = cst.parse_module(text)
    places = Statements(root, text, ast.parse(text))
    told = [places.comment_above(line.body[0]) for line in lines_of(root)]
    assert told == [False, True, False]


def test_a_text_is_read_by_cpython_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = PROGRAM.format(above="pass", first="pass", behind="")
    files = {
        "train.py": f"import lib.models\n{program}",
        "lib/models.py": "import torch\n\n\ndef build():\n    return torch.nn.Linear(3, 3)\n",
        "lib/__init__.py": "",
    }
    write(tmp_path, files)
    read: Counter[str] = Counter()
    parse = ast.parse

    def parsing(source: str, *more: Any, **named: Any) -> ast.AST:
        read[source] += 1
        found: ast.AST = parse(source, *more, **named)
        return found

    monkeypatch.setattr("torchlint.source.python.ast.parse", parsing)
    monkeypatch.setattr("torchlint.source.python._trees", {})
    forget()
    for name, text in files.items():
        analyse_job(job(text, name=name, root=str(tmp_path)))
    assert [read[text] for text in files.values() if text] == [1, 1]


def test_a_long_line_is_wrapped_without_the_tokens_of_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    args = ", ".join(f"argument_{number}" for number in range(3))
    text = PROGRAM.format(above="pass", first="pass", behind="")
    text = text.replace("model(x.cuda())", f"model(x.cuda(), {args})") + 300 * "z = [1, 2, 3]\n"
    split: list[tokenize.TokenInfo] = []
    tokens = tokenize.generate_tokens

    def splitting(read: Callable[[], str]) -> Iterator[tokenize.TokenInfo]:
        for each in tokens(read):
            split.append(each)
            yield each

    monkeypatch.setattr("torchlint.edits.wrapping.tokenize.generate_tokens", splitting)
    report = check(text, codes=frozenset({"TL103"}))
    (fix,) = [each.fix for each in report.findings]
    assert fix is not None
    assert any("\n" in edit.text for edit in fix.edits)
    assert 0 < len(split) < 100
