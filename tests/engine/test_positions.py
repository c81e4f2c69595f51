"""Spans: equal to libcst's where it round-trips, right or absent where it does not."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Collection
from pathlib import Path

import libcst as cst
import pytest
from libcst.metadata import MetadataWrapper, PositionProvider

from torchlint.base.span import LineIndex, Span
from torchlint.edits.positions import Layout, rendered, ws_free
from torchlint.edits.wrapping import comments_of

_STDLIB = Path(sysconfig.get_paths()["stdlib"])
_NAMES = [
    path.relative_to(_STDLIB).as_posix()
    for folder in ("json", "asyncio", "email")
    for path in sorted((_STDLIB / folder).glob("*.py"))
    if path.stat().st_size < 40_000
]
_CHECKED = (
    cst.BaseExpression,
    cst.BaseStatement,
    cst.BaseSmallStatement,
    cst.Arg,
    cst.Decorator,
    cst.Else,
)


def spans(tree: cst.Module, text: str, nodes: Collection[cst.CSTNode]) -> dict[cst.CSTNode, Span]:
    layout = Layout(tree, text)
    return {node: span for node in nodes if (span := layout.span(node)) is not None}


def _read(path: Path) -> str:
    with path.open(encoding="utf-8", newline="") as file:
        return file.read()


def _compare(text: str) -> None:
    tree = cst.parse_module(text)
    index = LineIndex(text)
    positions = MetadataWrapper(tree, unsafe_skip_copy=True).resolve(PositionProvider)
    nodes = [node for node in positions if isinstance(node, _CHECKED)]
    found = spans(tree, text, nodes)
    for node in nodes:
        place = positions[node]
        start = index.starts[place.start.line - 1] + place.start.column
        end = index.starts[place.end.line - 1] + place.end.column
        if text[start:end].strip():
            span = found[node]
            assert text[span.start : span.end] == text[start:end].strip()
            assert start <= span.start <= span.end <= end


@pytest.mark.slow
@pytest.mark.parametrize("name", _NAMES)
def test_stdlib_spans_equal_libcst_positions(name: str) -> None:
    _compare(_read(_STDLIB / name))


@pytest.mark.slow
@pytest.mark.skipif("TORCHLINT_CORPUS" not in os.environ, reason="TORCHLINT_CORPUS names no folder")
def test_corpus_spans_equal_libcst_positions() -> None:
    for path in sorted(Path(os.environ["TORCHLINT_CORPUS"]).rglob("*.py"))[::20]:
        text = _read(path)
        try:
            same = cst.parse_module(text).code == text
        except cst.ParserSyntaxError:
            continue
        if same:
            _compare(text)


_SHIFTED = {
    "except-space": "try:\n    pass\nexcept OSError :\n    x = target(1)\n",
    "except-star-space": "try:\n    pass\nexcept* OSError :\n    x = target(1)\n",
    "conversion-space": 'f"{3!s  }"; x = target(1)\n',
    "conversion-space-format": 'y = f"{z!r  :10}"\nx = target(1)\n',
    "form-feed-glued": "import a\n\x0cclass A:\n    x = target(1)\n",
    "form-feed-at-start": "\x0cx = target(1)\n",
    "backslash-line-first": "\\\nx = target(1)\n",
    "backslash-line-between": "y = 1\n\\\nx = target(1)\nz = 2\n",
    "backslash-line-in-block": "if y:\n    z\n    \\\n    x = target(1)\n",
    "cr": "y = 1\rx = target(1)\r",
    "semicolon-blank-comment-at-end": "x = target(1);\n\n# end",
    "blanks-at-end": "x = target(1)\n   \n   ",
}


@pytest.mark.parametrize("text", _SHIFTED.values(), ids=_SHIFTED.keys())
def test_spans_survive_what_libcst_does_not_round_trip(text: str) -> None:
    tree = cst.parse_module(text)
    layout = Layout(tree, text)
    seen = []

    class Collector(cst.CSTVisitor):
        def on_visit(self, node: cst.CSTNode) -> bool:
            seen.append(node)
            return True

    tree.visit(Collector())
    calls = [node for node in seen if isinstance(node, cst.Call)]
    assert [_of(layout, call) for call in calls] == ["target(1)"]
    lines = [node for node in seen if isinstance(node, cst.SimpleStatementLine)]
    assert "x = target(1)" in {_of(layout, line) for line in lines} | {
        _of(layout, small) for line in lines for small in line.body
    }
    for node in seen:
        span = layout.span(node)
        if span is not None and isinstance(node, _CHECKED):
            assert ws_free(text[span.start : span.end]) in ws_free(tree.code_for_node(node))


def _of(layout: Layout, node: cst.CSTNode) -> str:
    span = layout.span(node)
    assert span is not None
    return layout.text[span.start : span.end]


def test_whole_adds_parentheses_and_decorators() -> None:
    text = (
        "# why\n@a\n@b(1)\ndef f(x=(  # note\n    1 + 2)):  # c\n    return (1, 2)  # d\n    # e\n"
    )
    tree = cst.parse_module(text)
    layout = Layout(tree, text)
    function = cst.ensure_type(tree.body[0], cst.FunctionDef)
    default = function.params.params[0].default
    assert default is not None
    whole = layout.whole(function)
    assert whole == Span(text.index("@a"), text.index("  # d"))
    assert layout.span(function) == Span(text.index("def"), text.index("  # d"))
    assert _of(layout, default) == "1 + 2"
    assert layout.whole(default) == Span(text.index("(  # note"), text.index("):  # c"))
    assert [text[c.start : c.end] for c in comments_of(text)] == [
        "# why",
        "# note",
        "# c",
        "# d",
        "# e",
    ]


def test_whole_of_a_decorated_class_and_of_a_starred_element() -> None:
    text = "if a:\n    @b\n    class C(D):\n        e\nx = [*(f), 1]\n"
    tree = cst.parse_module(text)
    layout = Layout(tree, text)
    block = cst.ensure_type(cst.ensure_type(tree.body[0], cst.If).body, cst.IndentedBlock)
    assert layout.whole(block.body[0]) == Span(text.index("@b"), text.index("\nx"))
    value = cst.ensure_type(
        cst.ensure_type(tree.body[1], cst.SimpleStatementLine).body[0], cst.Assign
    ).value
    starred = cst.ensure_type(value, cst.List).elements[0]
    assert layout.whole(starred) == Span(text.index("*"), text.index(", 1"))


def test_another_text_gives_no_spans_behind_the_first_difference() -> None:
    tree = cst.parse_module("a = 1\nb = 2\nc = 3\n")
    found = spans(tree, "a = 1\nB = 2\nc = 3\n", tree.body)
    assert found == {tree.body[0]: Span(0, 5)}


def test_the_self_check_refuses_a_span_whose_text_is_not_the_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = "a = bb\n"
    tree = cst.parse_module(text)
    layout = Layout(tree, text)
    monkeypatch.setattr(layout._alignment, "span", lambda start, end: Span(start + 1, end))
    assert layout.span(tree.body[0]) is None


def test_no_span_for_foreign_and_for_empty_nodes() -> None:
    tree = cst.parse_module("def f(): pass\n")
    function = cst.ensure_type(tree.body[0], cst.FunctionDef)
    assert spans(tree, tree.code, [cst.Name("f"), function.params]) == {}
    assert spans(tree, tree.code, []) == {}


def test_elif_is_found_with_its_keyword() -> None:
    text = "if a:\n    pass\nelif b:\n    pass\n"
    tree = cst.parse_module(text)
    inner = cst.ensure_type(tree.body[0], cst.If).orelse
    assert isinstance(inner, cst.If)
    assert _of(Layout(tree, text), inner) == "elif b:\n    pass"


def test_rendered_indents_block_lines_but_not_strings() -> None:
    tree = cst.parse_module("if a:\n\tb\n")
    new = cst.parse_statement('# gone\nif x:\n    y = """p\nq"""\n    z\n    # gone\n')
    assert rendered(new, tree, "\t") == 'if x:\n\t\ty = """p\nq"""\n\t\tz'
