"""Trees made from CPython's: the same nodes as libcst's, which learn how they are written from
libcst."""

from __future__ import annotations

import ast
import os
import sysconfig
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import libcst as cst
import pytest
from libcst._nodes.deep_equals import deep_equals

from tests.engine.explaining import program, report
from torchlint.engine import hits, placing, syntax
from torchlint.engine.analyse import analyse
from torchlint.explain.counterfactual import World
from torchlint.semantic.code import lean_tree as lean_trees
from torchlint.semantic.code.lean_tree import UnreadableError, lean_tree
from torchlint.semantic.code.spelling import Block, Part, Spelling, Unit, meant, spelled
from torchlint.semantic.code.tree import Tree
from torchlint.source.python import MisreadError
from torchlint.testing.source import job

_STDLIB = Path(sysconfig.get_paths()["stdlib"])
_NAMES = ("dataclasses.py", "json/decoder.py")
_FIXTURES = Path(__file__).parents[2] / "fixtures"
_CODE = {
    "operators": (
        "x = a + b - c * d @ e / f % g ** h << i >> j | k ^ l & m // n\nx = not ~a, +b, -c\n"
    ),
    "in place": (
        "a += 1; a -= 1; a *= 1; a @= 1; a /= 1; a %= 1; a **= 1; a <<= 1; a >>= 1; a |= 1; a ^= "
        "1; a &= 1\na //= 1\n"
    ),
    "comparisons": "x = a == b != c < d <= e > f >= g is h is  not i in j not  in k\n",
    "conditions": "x = a and b and (c or d or e) and not f\nx = a if b else c\n(y := 1)\n",
    "numbers": "x = 1, 0x_1F, 1_000, 1., 1e5, 2J, None, True, ..., -1\n",
    "strings": (
        "x = 'a', \"b\\\"\", r'''c\n''', b\"\"\"d\" \"\"\", u'e', ''\ny = 'a' \"b\" r'c'\nz = "
        "(b'a'\n    b'b')\n"
    ),
    "formatted": (
        "x = f'{a!r:>{b}} {c=}' 'd'\ny = f'''{\n  a\n}'''\n\n\ndef f():\n    return (f'a {b}'\n  "
        "          'é')\n"
    ),
    "not ascii": "é = 'ü' + 'x'; ß = [é, 'ß']\n",
    "parentheses": (
        "x = ((a)), (b, ), (), [(c)], (yield_)\nx[(1)], x[(1, 2)], x[1, 2], x[()], x[a,], x[b:c, "
        "::d, ...]\n"
    ),
    "calls": (
        "f(a, *b, c, d=1, **e)\nf(a=1, *b)\nf(x for x in y)\nf(\n    a,  # why\n    b\n)\n(f . "
        "g) (h)\n"
    ),
    "displays": "x = {1, *a}, {}, {'a': 1, **b}, [*a, b], (*a, b)\n*a, b = c\n",
    "comprehensions": (
        "x = [a async for a in b if c if d for e in f]\ny = {a: b for a, b in c}, {a for a in "
        "b}, (a for a in b)\n"
    ),
    "lambdas": (
        "x = lambda: 0\ny = lambda a, /, b=1, *c, d, e=2, **f: (yield)\nz = lambda *, a: a\n"
    ),
    "functions": (
        "@a\n@b(c)\n\nasync def f(a: int, /, b: str = 'c', *args, d, e=1, **k) -> None:\n"
        "    await g; yield\n    yield from h\n"
    ),
    "classes": (
        "class A: pass\nclass B(): x: int; y: str = 'a'\n\n@c\nclass D(E, F, metaclass=G, "
        "**k):\n    '''Doc.'''\n"
    ),
    "branches": "if a: b\nelif c:\n    d\nelse:\n    if e: f; g\n    else: pass\n",
    "loops": (
        "for a, b in c:\n    continue\nelse:\n    d\nwhile (a): break\nasync def f():\n    async "
        "for a in b: pass\n"
    ),
    "with": (
        "with a as b, c: pass\nwith (a as b, c): pass\nwith (a, b): pass\nwith (a): pass\nwith a "
        "as (b, c): pass\n"
    ),
    "try": (
        "try:\n    a\nexcept (B, C) as d:\n    e\nexcept:\n    raise\nelse:\n    f\nfinally:\n   "
        " g\n"
    ),
    "imports": (
        "import a.b.c as d, e\nfrom . import f\nfrom ...g.h import (i as j, k,)\nfrom l import *\n"
    ),
    "small": (
        "del a, b\ndel (a, b)\ndel a,\ndel (a)\nassert a, b\nraise A from b\nglobal c, d\nreturn\n"
    ),
    "one line": "a = 1; b = 2;\nif a: b = (1,\n  2); c = 3\nd = 4  # why\n",
    "white space": (
        "# top\n\nif  a :  # one\n\n    # two\n    b  =  [ 1 , 2 ]\n    # three\n\n  # four\n# "
        "five\nc\n# end"
    ),
    "deeper": (
        "class A:\n  def f(self):\n      x = g(1,\n        2,\n\n      3)\n      return (\n  a)\n"
    ),
    "tabs": "if a:\n\tb = [\n\t\t1]\n",
    "windows": "if a:\r\n    b = (1,\r\n      2)\r\n",
    "old mac": "a = 1\rb = (1,\r 2)\r",
    "mixed newlines": "a = (1,\r\n 2)\nb = (1,\n 2)\n",
    "empty": "",
    "comment": "# nothing else",
}
_LEFT = {
    "match": "match a:\n    case [1, *_]: pass\n",
    "backslash line": "if a:\n\\\n    b\n",
    "backslash behind a colon": "if a: \\\n    b\n",
    "form feed": "a\n\fb\n",
    "tabs and blanks": "if a:\n\tif b:\n            c\n",
    "annotated": "(a): int = 1\n",
    "starred base": "class A(k=1, *b): pass\n",
    "parentheses in brackets": "a[((b)), (c)]\n",
}


def _lean(text: str) -> cst.Module:
    return lean_tree(text, ast.parse(text), syntax.exactly)


def _nodes(tree: cst.Module) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Yield each node of a tree and the values of its fields that carry meaning; nothing is learned
    by that."""
    todo: list[Any] = [tree]
    while todo:
        node = todo.pop()
        values = tuple(slot.get(node) for slot in meant(type(node)))
        yield node, values
        for value in values:
            todo.extend(
                each
                for each in (value if isinstance(value, (list, tuple)) else [value])
                if _is_node(each)
            )


def _is_node(value: object) -> bool:
    return isinstance(value, cst.CSTNode)


def _agree(text: str) -> None:
    """Compare statement by statement, then with all that is in compound ones and in those of the
    module, then the whole, with libcst's tree."""
    exact = syntax.exactly(text)
    _learned(text, exact, Unit)
    _learned(text, exact, Unit, Block)
    _learned(text, exact, Part)
    learned = _lean(text)
    assert deep_equals(learned, exact)
    assert learned.code == exact.code


def _learned(text: str, exact: cst.Module, *kinds: type[Unit] | type[Part]) -> None:
    """Compare what the nodes of a tree learn from units, blocks or parts alone."""
    tree = _lean(text)
    assert (tree.default_indent, tree.default_newline) == (
        exact.default_indent,
        exact.default_newline,
    )
    asked = {
        value: node
        for node, _ in _nodes(tree)
        for slot in spelled(type(node))[:1]
        if type(value := slot.get(node)) in kinds
    }
    for each in sorted(asked, key=lambda each: kinds.index(type(each))):
        each.learn(asked[each])
    compared = 0
    for (node, _), (other, _) in zip(_nodes(tree), _nodes(exact), strict=True):
        assert type(node) is type(other)
        for slot in spelled(type(node)):
            try:
                value = slot.get(node)
            except AttributeError:
                continue
            if type(value) not in (Unit, Block, Part, Spelling):
                assert _same(value, slot.get(other)), (slot.name, text)
                compared += 1
    assert compared or not asked


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(_same, one, other))
    return deep_equals(one, other) if isinstance(one, cst.CSTNode) else bool(one == other)


@pytest.mark.parametrize("name", _CODE)
def test_each_construct_gives_the_tree_of_libcst(name: str) -> None:
    _agree(_CODE[name])


def test_fixtures_give_the_trees_of_libcst() -> None:
    for path in sorted(_FIXTURES.glob("rules/t*/*.py"))[::4]:
        _agree(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", _NAMES)
def test_the_standard_library_gives_the_trees_of_libcst(name: str) -> None:
    path = _STDLIB / name
    if not path.exists():
        pytest.skip(f"this Python comes without {name}")
    try:
        _agree(path.read_text(encoding="utf-8"))
    except UnreadableError:
        pytest.skip("left to libcst")


@pytest.mark.slow
@pytest.mark.skipif("TORCHLINT_CORPUS" not in os.environ, reason="TORCHLINT_CORPUS names no folder")
def test_a_corpus_gives_the_trees_of_libcst() -> None:
    for path in sorted(Path(os.environ["TORCHLINT_CORPUS"]).rglob("*.py")):
        text = path.read_bytes().decode("utf-8-sig", "replace")
        try:
            _agree(text)
        except (UnreadableError, SyntaxError, cst.ParserSyntaxError):
            continue


@pytest.mark.parametrize("name", _LEFT)
def test_what_the_two_parsers_may_see_otherwise_is_left_to_libcst(name: str) -> None:
    with pytest.raises(UnreadableError):
        _lean(_LEFT[name])


def test_meaning_is_read_without_a_parse() -> None:
    text = "for a in b:\n    x = f(a, [1], key='c')[0] + -d\n"
    tree = lean_tree(text, ast.parse(text), lambda _: pytest.fail("parsed"))
    found = [node.value for node in Tree(tree).nodes(cst.Name) if isinstance(node, cst.Name)]
    assert found == ["a", "b", "x", "f", "a", "key", "d"]


def test_one_statement_is_parsed_for_its_own_spelling() -> None:
    parsed: list[str] = []

    def parse(text: str) -> cst.Module:
        parsed.append(text)
        return syntax.exactly(text)

    text = "# top\nif a:\n    x = (  b )\n    y = 2\n"
    tree = lean_tree(text, ast.parse(text), parse)
    name = Tree(tree).named("b")[0]
    assert tree.code_for_node(name) == "(  b )"
    assert parsed == ["if 1:\n    x = (  b )\n"]
    assert tree.code == text
    assert parsed[1:] == [text]


def test_what_a_statement_does_not_tell_is_read_in_that_of_the_module_around_it() -> None:
    parsed: list[str] = []

    def parse(text: str) -> cst.Module:
        parsed.append(text)
        return syntax.exactly(text)

    around = "if a:\n    # why\n    x = b  # what\n    # end\n# end\n"
    text = f"import c\n\n# top\n{around}\n\n# below\nd()\n"
    tree = lean_tree(text, ast.parse(text), parse)
    branch: Any = tree.body[1]
    line = branch.body.body[0]
    assert [each.comment.value for each in line.leading_lines] == ["# why"]
    assert line.trailing_whitespace.comment.value == "# what"
    assert [each.comment.value for each in branch.body.footer] == ["# end"]
    assert parsed == [f"{around}\n\n# below\npass\n"]
    assert [each.comment and each.comment.value for each in branch.leading_lines] == [None, "# top"]
    assert parsed[1:] == [text]


@pytest.mark.parametrize(
    ("text", "readings"),
    [
        ("if a:\n    b\nif c:\n    d\n", 1),
        ("if a:\n    b\nif c:\n  d\n", 2),  # another step of indentation
        ("if a:\r\n    b\nif c:\n    d\n", 2),  # another end of the line
    ],
)
def test_what_is_written_otherwise_than_the_file_begins_is_read_in_the_whole(
    text: str, readings: int
) -> None:
    parsed: list[str] = []

    def parse(part: str) -> cst.Module:
        parsed.append(part)
        return syntax.exactly(part)

    tree = lean_tree(text, ast.parse(text), parse)
    block: Any = tree.body[1]
    exact: Any = syntax.exactly(text).body[1]
    assert block.body.indent == exact.body.indent
    assert len(parsed) == readings


def test_nodes_that_differ_in_meaning_are_compared_without_a_parse() -> None:
    text = "x = f(a, [1])\ny = f(a, [2])\nx = f(a, *[1])\nx = f(a)\n"
    tree = lean_tree(text, ast.parse(text), lambda _: pytest.fail("parsed"))
    first, *others = Tree(tree).nodes(cst.Call)
    assert not any(first.deep_equals(each) for each in others)
    assert first.deep_equals(first)


def test_code_is_compared_by_what_it_means_and_spelling_as_it_is() -> None:
    text = "x = f(a, [1])\ny = f(a, [1])\ny = (f(a,  [1]))\ny = f(a, [2])\ny = f(a, (1))\n"
    tree = _lean(text)
    first, alike, spaced, number, name = Tree(tree).nodes(cst.Call)
    assert first.deep_equals(alike)
    assert first.deep_equals(spaced)
    assert not first.deep_equals(number)
    assert not first.deep_equals(name)
    assert first.args[0].comma.deep_equals(alike.args[0].comma)
    assert not first.args[0].comma.deep_equals(spaced.args[0].comma)


def test_a_tree_that_nobody_holds_is_freed_at_once() -> None:
    text = "if a:\n    x = (b)\n"
    tree = _lean(text)
    body = weakref.ref(tree.body)  # type: ignore[type-var]
    assert tree.code_for_node(Tree(tree).named("b")[0]) == "(b)"
    del tree
    assert body() is None


def test_a_tree_that_is_misread_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(lean_trees._UNARY, ast.USub, "Plus")
    tree = _lean("x = -(a)\n")
    with pytest.raises(MisreadError) as found:
        _ = tree.code
    assert found.value.text == "x = -(a)\n"


def test_a_misread_file_is_left_to_libcst(monkeypatch: pytest.MonkeyPatch) -> None:
    source = "import torch\n\n\ndef f(x):\n    y = torch.zeros(-(3)).to('cuda')\n    return x + y\n"
    monkeypatch.setattr(syntax, "left_to_libcst", set())
    usual = analyse(job(source))
    assert usual.findings
    assert not syntax.left_to_libcst
    monkeypatch.setitem(lean_trees._UNARY, ast.USub, "Plus")
    syntax._recent.clear()
    assert analyse(job(source)) == usual
    assert syntax.left_to_libcst == {source}


class _Once:
    """What is misread when it is first asked, and as it was from then on."""

    def __init__(self, usual: Any, text: str) -> None:
        self.usual = usual
        self.text = text

    def __get__(self, holder: Any, _: Any) -> Any:
        return lambda *given: self(holder, *given)

    def __call__(self, *given: Any) -> Any:
        text, self.text = self.text, ""
        if text:
            raise MisreadError(text)
        return self.usual(*given)


@pytest.mark.parametrize(
    ("owner", "name"),
    [(hits, "_reported"), (placing, "text_fix"), (World, "tell")],
    ids=["check", "fix", "explanation"],
)
def test_wherever_a_file_turns_out_to_be_misread_it_is_left_to_libcst(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str
) -> None:
    source, row = program("total = total + loss.item()", "rare")
    source = source.replace("host = x.cpu()", "host = torch.zeros(3).to(device)")
    monkeypatch.setattr(syntax, "left_to_libcst", set())
    usual = report(source, row)
    assert any(finding.fix is not None for finding in usual.findings)
    assert usual.explanations
    assert not syntax.left_to_libcst
    monkeypatch.setattr(owner, name, _Once(getattr(owner, name), source))
    assert report(source, row) == usual
    assert syntax.left_to_libcst == {source}
