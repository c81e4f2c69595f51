"""Node edits into text edits: what changes, what stays byte for byte, what is withheld."""

from __future__ import annotations

import ast
from collections.abc import Callable

import libcst as cst
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from torchlint.base.finding import Safety, TextFix
from torchlint.base.span import LineIndex
from torchlint.edits.positions import Layout
from torchlint.edits.text_fix import EditContext, text_fix
from torchlint.rule import (
    Append,
    Fix,
    InsertAfter,
    InsertBefore,
    NeedImport,
    NodeEdit,
    Prepend,
    Remove,
    Replace,
)
from torchlint.semantic.code.tree import Tree

Make = Callable[[Tree], list[NodeEdit]]


def context_of(text: str) -> tuple[EditContext, Tree]:
    module = cst.parse_module(text)
    tree = Tree(module)
    return EditContext(module, text, LineIndex(text), Layout(module, text), tree.parents.get), tree


def attempt(text: str, make: Make) -> TextFix | str:
    context, tree = context_of(text)
    return text_fix(Fix(tuple(make(tree)), Safety.SAFE, "t"), context)


def fixed(text: str, make: Make) -> str:
    """Return the text after the fix, or ``withheld: ...``."""
    fix = attempt(text, make)
    if isinstance(fix, str):
        return f"withheld: {fix}"
    if fix.withheld:
        return f"withheld: {fix.withheld}"
    for edit in reversed(fix.edits):
        text = text[: edit.span.start] + edit.text + text[edit.span.end :]
    return text


def call(tree: Tree, name: str = "hit") -> cst.Call:
    """Return the call of the function `name`."""
    calls = [node for node in tree.nodes(cst.Call) if isinstance(node, cst.Call)]
    return next(
        node for node in calls if isinstance(node.func, cst.Name) and node.func.value == name
    )


def to(code: str) -> Make:
    return lambda tree: [Replace(call(tree), cst.parse_expression(code))]


def expression(code: str) -> cst.BaseExpression:
    return cst.parse_expression(code)


def line(tree: Tree, name: str = "hit") -> cst.CSTNode:
    return tree.statement(call(tree, name))


def small(tree: Tree, name: str = "hit") -> cst.CSTNode:
    found = tree.small_statement(call(tree, name))
    assert found is not None
    return found


_REPLACED = {
    "plain": ("x = hit(1)  # c\n", "new(2)", "x = new(2)  # c\n"),
    "crlf": ("a = 1\r\nx = hit(1)\r\n", "new(\n    2)", "a = 1\r\nx = new(\r\n    2)\r\n"),
    "cr": ("a = 1\rx = hit(1)\r", "new(\n2)", "a = 1\rx = new(\r2)\r"),
    "tab": ("if a:\n\tx = hit(1)", "y", "if a:\n\tx = y"),
    "form-feed": ("a\n\x0cx = hit(1)\n", "y", "a\n\x0cx = y\n"),
    "no-final-newline": ("x = hit(1)", "y", "x = y"),
    "decorator": ("@hit(1)\ndef f(): pass\n", "new", "@new\ndef f(): pass\n"),
    "lambda-default": ("f = lambda a=hit(1): a\n", "y", "f = lambda a=y: a\n"),
    "chained-call": ("x = hit(1).b(2)  .c()\n", "y + z", "x = (y + z).b(2)  .c()\n"),
    "semicolon-line": ("a; hit(1); b\n", "y", "a; y; b\n"),
    "backslash": ("x = 1 + \\\n    hit(1)  # c\n", "y", "x = 1 + \\\n    y  # c\n"),
    "one-line-if": ("if a: hit(1)\n", "y", "if a: y\n"),
    "word-before": ("def f():\n    return(hit(1))\n", "y", "def f():\n    return(y)\n"),
    "parentheses-dropped": ("x = (hit(1)+1)\n", "y", "x = (y+1)\n"),
    "layout-kept": (
        "x = (\n    # why\n    hit(1)\n)\n",
        "new(1)",
        "x = (\n    # why\n    new(1)\n)\n",
    ),
    "operand": ("x = a * hit(1)\n", "b + c", "x = a * (b + c)\n"),
    "operand-of-not": ("x = not hit(1)\n", "a in b", "x = not a in b\n"),
    "operand-comparison": ("x = a == hit(1)\n", "b or c", "x = a == (b or c)\n"),
    "argument": ("f(hit(1))\n", "a if b else c", "f(a if b else c)\n"),
    "walrus": ("f(a=hit(1))\n", "(b := 1)", "f(a=(b := 1))\n"),
    "iterated": (
        "x = [i for i in hit(1)]\n",
        "a if b else c",
        "x = [i for i in (a if b else c)]\n",
    ),
    "star": ("f(*hit(1))\n", "a or b", "f(*a or b)\n"),
    "power": ("x = hit(1) ** 2\n", "-a", "x = (-a) ** 2\n"),
    "integer-attribute": ("x = hit(1).real\n", "1", "x = (1).real\n"),
    "index": ("x[hit(1)]\n", "a + b", "x[a + b]\n"),
    "tuple-among-indices": ("x[hit(1), 2]\n", "(a, b)", "x[(a, b), 2]\n"),
    "newline-needs-brackets": ("x = hit(1)\n", "(a\n+ b)", "x = (a\n+ b)\n"),
    "expression-of-its-own": ("await_ = 0\nhit(1)\n", "a, b", "await_ = 0\na, b\n"),
}


@pytest.mark.parametrize(("text", "code", "expected"), _REPLACED.values(), ids=_REPLACED.keys())
def test_replace(text: str, code: str, expected: str) -> None:
    assert fixed(text, to(code)) == expected
    ast.parse(expected)


def test_replace_takes_away_parentheses_an_atom_does_not_need() -> None:
    def make(tree: Tree) -> list[NodeEdit]:
        return [Replace(tree.nodes(cst.BinaryOperation)[0], cst.Name("c"))]

    assert fixed("x = (a + b).item()\n", make) == "x = c.item()\n"
    assert fixed("def f():\n    return(a + b)\n", make) == "def f():\n    return c\n"
    assert fixed("x = [(a + b)for d in e]\n", make) == "x = [c for d in e]\n"


def test_replace_by_a_bare_tuple_wraps_it_unless_a_statement_takes_it() -> None:
    bare = to("a, b")
    assert fixed("x[hit(1), 2]\n", bare) == "x[(a, b), 2]\n"
    assert fixed("f(hit(1))\n", bare) == "f((a, b))\n"
    assert fixed("x = hit(1)\n", bare) == "x = a, b\n"


def test_replace_wraps_what_spans_lines_outside_of_brackets() -> None:
    def make(tree: Tree) -> list[NodeEdit]:
        inner = call(tree).args[0].value
        return [Replace(call(tree), inner)]

    assert fixed("x = hit(a\n  + b)\n", make) == "x = (a\n  + b)\n"


def test_replace_is_cut_to_the_difference() -> None:
    def make(tree: Tree) -> list[NodeEdit]:
        node = call(tree)
        return [
            Replace(
                node, node.with_changes(args=(*node.args, cst.Arg(cst.Name("d"), cst.Name("k"))))
            )
        ]

    text = "x = hit(a,  # first\n        b)\n"
    fix = attempt(text, make)
    assert isinstance(fix, TextFix)
    (edit,) = fix.edits
    assert (edit.span.start, edit.span.end) == (text.index(")"), text.index(")"))
    assert (edit.start.row, edit.start.column) == (2, 10)
    assert fixed(text, make) == "x = hit(a,  # first\n        b, k = d)\n"


def test_replace_by_the_same_code_is_no_fix() -> None:
    assert attempt("x = hit(1)\n", to("hit(1)")) == "it changes nothing"


def test_replace_statement_keeps_comments_and_decorators_around() -> None:
    text = "# a\n@d\ndef f():  # b\n    hit(1)  # c\n    # e\n# g\n"

    def make(tree: Tree) -> list[NodeEdit]:
        return [Replace(line(tree), cst.parse_statement("if p:\n    q\n"))]

    assert fixed(text, make) == "# a\n@d\ndef f():  # b\n    if p:\n        q  # c\n    # e\n# g\n"

    def decorated(tree: Tree) -> list[NodeEdit]:
        node = tree.nodes(cst.FunctionDef)[0]
        return [Replace(node, node.with_changes(name=cst.Name("g"), leading_lines=()))]

    assert fixed(text, decorated) == text.replace("f()", "g()")


def test_replace_statement_among_others() -> None:
    def make(tree: Tree) -> list[NodeEdit]:
        return [Replace(small(tree), cst.Pass())]

    assert fixed("a; hit(1) ; b\n", make) == "a; pass ; b\n"
    assert fixed("if a: hit(1)\n", make) == "if a: pass\n"

    def block(tree: Tree) -> list[NodeEdit]:
        return [Replace(small(tree), cst.parse_statement("if p: q\n"))]

    assert fixed("hit(1)\n", block) == "if p: q\n"
    assert fixed("a; hit(1)\n", block).startswith("withheld: a statement inside a line")

    def by_small(tree: Tree) -> list[NodeEdit]:
        return [Replace(line(tree), cst.Pass())]

    assert fixed("hit(1)  # c\n", by_small) == "pass  # c\n"


def test_replace_elif_stays_elif() -> None:
    def make(tree: Tree) -> list[NodeEdit]:
        inner = tree.nodes(cst.If)[1]
        return [Replace(inner, inner.with_changes(test=cst.Name("z")))]

    text = "if a:\n    pass\nelif b:\n    pass\nelse:\n    c\n"
    assert fixed(text, make) == text.replace("b:", "z:")

    def other(tree: Tree) -> list[NodeEdit]:
        return [Replace(tree.nodes(cst.If)[1], cst.parse_statement("pass"))]

    assert fixed(text, other) == "withheld: an elif can only become an elif"


IN_STRINGS = [
    'f"{hit(1)}"\n',
    'f"{a:{hit(1)}}"\n',
    'print(f"{[hit(1)]!r}")\n',
    "x = 'ä' f'{b}\\n{ hit(1) :>{w}.3f}' rf\"\\d{c}\"\n",
    'f"""\n  {a}\n  { \n hit(1)}\n"""\n',
    "f'{f\"{hit(1)}\"}'\n",
]


@pytest.mark.parametrize("text", IN_STRINGS)
def test_plain_code_is_written_inside_an_f_string(text: str) -> None:
    for edit, due in (
        (lambda node: Replace(node, cst.Name("y")), "y"),
        (lambda node: Append(node, ".y()[0]"), "hit(1).y()[0]"),
        (lambda node: Replace(node, cst.parse_expression("float(hit(1), x)")), "float(hit(1), x)"),
    ):
        found = fixed(text, lambda tree, edit=edit: [edit(call(tree))])
        assert found == text.replace("hit(1)", due)


@pytest.mark.parametrize("text", IN_STRINGS)
@pytest.mark.parametrize("code", ["x['a']", 'g("a")', "{1}", "a[1:2]", "lambda: 1", "-x"])
def test_other_code_is_not_written_inside_an_f_string(text: str, code: str) -> None:
    for edit in (
        lambda node: Replace(node, cst.parse_expression(f"({code})")),
        lambda node: Append(node, f"[{code}]"),
        lambda node: Prepend(node, "-"),
    ):
        found = fixed(text, lambda tree, edit=edit: [edit(call(tree))])
        assert found == "withheld: the code is inside an f-string"


def test_a_field_that_shows_its_own_code_stays() -> None:
    found = fixed('f"{hit(1)=}"\n', to("y"))
    assert found == "withheld: the code is inside an f-string"


@pytest.mark.parametrize("text", ["x = hit(1,  # why\n  2)\n", "x = hit(  # why\n  )\n"])
def test_a_comment_inside_the_edited_span_withholds_the_fix(text: str) -> None:
    fix = attempt(text, to("y"))
    assert isinstance(fix, TextFix)
    assert fix.withheld == "it would lose a comment"


def test_a_comment_that_the_new_code_keeps_does_not() -> None:
    def make(tree: Tree) -> list[NodeEdit]:
        return [Replace(call(tree), cst.Call(cst.Name("new"), [cst.Arg(call(tree))]))]

    assert fixed("x = hit(1,  # why\n  2)\n", make) == "x = new(hit(1,  # why\n  2))\n"


def test_a_hash_in_a_string_is_no_comment() -> None:
    assert fixed('x = hit("# no")\n', to("y")) == "x = y\n"


def remove(tree: Tree) -> list[NodeEdit]:
    return [Remove(small(tree))]


_REMOVED = {
    "line": ("a\nhit(1)\nb\n", "a\nb\n"),
    "crlf": ("a\r\nhit(1)\r\nb\r\n", "a\r\nb\r\n"),
    "tab": ("if a:\n\tb\n\thit(1)\n", "if a:\n\tb\n"),
    "no-final-newline": ("a\nhit(1)", "a"),
    "only-line-no-newline": ("hit(1)", ""),
    "trailing-semicolon": ("a\nhit(1);\nb\n", "a\nb\n"),
    "multi-line": ("a\nhit(\n  1)\nb\n", "a\nb\n"),
    "form-feed": ("a\n\x0chit(1)\nb\n", "a\n\x0cb\n"),
    "comment-above": ("# why\nhit(1)\nb\n", "# why\nb\n"),
    "comment-behind": ("hit(1)  # why\nb\n", "withheld: it would lose a comment"),
    "comment-inside": ("hit(  # why\n1)\nb\n", "withheld: it would lose a comment"),
    "first-small": ("hit(1); b\n", "b\n"),
    "middle-small": ("a; hit(1) ; b\n", "a; b\n"),
    "last-small": ("a; hit(1)  # c\n", "a  # c\n"),
    "last-small-semicolon": ("a; hit(1);\n", "a;\n"),
    "only-of-block": ("if a:\n    hit(1)  # c\n", "if a:\n    pass  # c\n"),
    "one-line-if": ("if a: hit(1)\n", "if a: pass\n"),
    "one-line-if-two": ("if a: b; hit(1)\n", "if a: b\n"),
    "backslash-above": (
        "a\n\\\nhit(1)\nb\n",
        "withheld: the statement's line starts with a backslash continuation",
    ),
}


@pytest.mark.parametrize(("text", "expected"), _REMOVED.values(), ids=_REMOVED.keys())
def test_remove(text: str, expected: str) -> None:
    assert fixed(text, remove) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    {
        "one above, one below": ("a\n\nhit(1)\n\nb\n", "a\n\nb\n"),
        "none above": ("a\nhit(1)\n\nb\n", "a\n\nb\n"),
        "none below": ("a\n\nhit(1)\nb\n", "a\n\nb\n"),
        "fewer above": ("a\n\nhit(1)\n\n\nb\n", "a\n\n\nb\n"),
        "fewer below": ("a\n\n\nhit(1)\n\nb\n", "a\n\n\nb\n"),
        "two, apart": ("a\n\nhit(1)\n\n\nhit(2)\n\nb\n", "a\n\nb\n"),
        "two, together": ("a\n\nhit(1)\nhit(2)\n\nb\n", "a\n\nb\n"),
        "a comment between": (
            "a\n\nhit(1)\n\n# b\n\nhit(2)\n\nb\n",
            "a\n\n# b\n\nb\n",
        ),
        "first of a block": ("if a:\n    hit(1)\n\n    b\n", "if a:\n    b\n"),
        "first two": ("if a:\n    hit(1)\n\n    hit(2)\n\n    b\n", "if a:\n    b\n"),
        "first of an else": ("if a: c\nelse:\n  hit(1)\n\n\n  b\n", "if a: c\nelse:\n  b\n"),
        "first of the file": ("hit(1)\n\nb\n", "b\n"),
        "a block that starts with a blank line": (
            "if a:\n\n    hit(1)\n\n    b\n",
            "if a:\n\n    b\n",
        ),
        "a comment above the first": (
            "if a:\n    # b\n    hit(1)\n\n    b\n",
            "if a:\n    # b\n\n    b\n",
        ),
        "a comment at the head of the file": ("# b\nhit(1)\n\nb\n", "# b\n\nb\n"),
    }.values(),
)
def test_what_goes_leaves_no_blank_lines_behind(text: str, expected: str) -> None:
    def goes(tree: Tree) -> list[NodeEdit]:
        lines = tree.nodes(cst.SimpleStatementLine)
        return [Remove(each) for each in lines if list(tree.within(each, cst.Call))]

    assert fixed(text, goes) == expected


def test_blank_lines_stay_behind_what_takes_the_place_of_the_first_of_a_block() -> None:
    def goes(tree: Tree) -> list[NodeEdit]:
        return [InsertBefore(line(tree), "new"), Remove(line(tree))]

    assert fixed("if a:\n    hit(1)\n\n    b\n", goes) == "if a:\n    new\n\n    b\n"


def test_remove_takes_a_line_or_the_expression_of_a_statement() -> None:
    assert fixed("a\nhit(1)\n", lambda tree: [Remove(line(tree))]) == "a\n"
    assert fixed("a\nhit(1)\n", lambda tree: [Remove(call(tree))]) == "a\n"
    loop = "for a in hit(1):\n    b\n"
    assert (
        fixed(loop, lambda tree: [Remove(line(tree))])
        == "withheld: only simple statements can be removed"
    )


def test_removing_all_of_a_block_leaves_pass() -> None:
    def make(tree: Tree) -> list[NodeEdit]:
        return [
            Remove(small(tree, "one")),
            Remove(small(tree, "two")),
            Remove(small(tree, "three")),
        ]

    assert fixed("if a:\n    one(); two()\n    three()\n", make) == "if a:\n    pass\n"
    assert fixed("if a: one(); two(); three()\n", make) == "if a: pass\n"


def before(tree: Tree) -> list[NodeEdit]:
    return [InsertBefore(line(tree), "new(\n    1)\nif c:\n    d")]


_BEFORE = {
    "plain": ("a\nhit(1)\n", "a\nnew(\n    1)\nif c:\n    d\nhit(1)\n"),
    "crlf-indented": (
        "if a:\r\n    hit(1)\r\n",
        "if a:\r\n    new(\r\n        1)\r\n    if c:\r\n        d\r\n    hit(1)\r\n",
    ),
    "tab": ("if a:\n\thit(1)", "if a:\n\tnew(\n\t    1)\n\tif c:\n\t\td\n\thit(1)"),
    "form-feed": ("a\n\x0chit(1)\n", "a\n\x0cnew(\n    1)\nif c:\n    d\nhit(1)\n"),
    "compound": (
        "# w\nfor x in hit(1): pass\n",
        "# w\nnew(\n    1)\nif c:\n    d\nfor x in hit(1): pass\n",
    ),
    "decorated": (
        "@hit(1)\ndef f(): pass\n",
        "new(\n    1)\nif c:\n    d\n@hit(1)\ndef f(): pass\n",
    ),
    "semicolon": ("hit(1); b\n", "withheld: the statement shares its line with other code"),
    "backslash-above": (
        "\\\nhit(1)\n",
        "withheld: the statement's line starts with a backslash continuation",
    ),
}


@pytest.mark.parametrize(("text", "expected"), _BEFORE.values(), ids=_BEFORE.keys())
def test_insert_before(text: str, expected: str) -> None:
    assert fixed(text, before) == expected


@pytest.mark.parametrize("kind", [InsertBefore, InsertAfter])
def test_no_line_next_to_a_statement_in_a_one_line_suite_or_an_elif(kind: type) -> None:
    shares = "withheld: the statement shares its line with other code"
    assert fixed("if a: hit(1)\n", lambda tree: [kind(small(tree), "new()")]) == shares
    text = "if a:\n    b\nelif hit(1):\n    c\n"
    expected = "withheld: no statement can stand next to an elif"
    assert fixed(text, lambda tree: [kind(line(tree), "new()")]) == expected
    bad = "withheld: the code to insert does not parse"
    assert fixed("hit(1)\n", lambda tree: [kind(small(tree), "new(")]) == bad


def after(tree: Tree) -> list[NodeEdit]:
    return [InsertAfter(line(tree), "new()")]


_AFTER = {
    "plain": ("hit(1)  # c\nb\n", "hit(1)  # c\nnew()\nb\n"),
    "crlf": ("a\r\nhit(1)\r\n", "a\r\nhit(1)\r\nnew()\r\n"),
    "no-final-newline": ("a\r\nif b:\r\n\thit(1)", "a\r\nif b:\r\n\thit(1)\r\n\tnew()"),
    "one-line-file": ("hit(1)", "hit(1)\nnew()"),
    "trailing-semicolon": ("hit(1);\nb\n", "hit(1);\nnew()\nb\n"),
    "semicolon": ("hit(1); b\n", "withheld: the statement shares its line with other code"),
    "loop": ("for x in hit(1):\n    a\nb\n", "for x in hit(1):\n    a\nnew()\nb\n"),
    "loop-else": (
        "for x in hit(1):\n    a\nelse:\n    c\nb\n",
        "for x in hit(1):\n    a\nelse:\n    c\nnew()\nb\n",
    ),
    "loop-comments": (
        "for x in hit(1):\n    a\n\n    # of the loop\n  # too\n# not\nb\n",
        "for x in hit(1):\n    a\n\n    # of the loop\n  # too\nnew()\n# not\nb\n",
    ),
    "one-line-loop": ("for x in hit(1): a; b;\nc\n", "for x in hit(1): a; b;\nnew()\nc\n"),
    "nested": (
        "def f():\n  for x in hit(1):\n    a\n",
        "def f():\n  for x in hit(1):\n    a\n  new()\n",
    ),
}


@pytest.mark.parametrize(("text", "expected"), _AFTER.values(), ids=_AFTER.keys())
def test_insert_after(text: str, expected: str) -> None:
    assert fixed(text, after) == expected


_APPENDED = {
    "call": ("x = hit(1)\n", cst.Call, "x = hit(1).d()\n"),
    "operation": ("x = a + b\n", cst.BinaryOperation, "x = (a + b).d()\n"),
    "parenthesised": ("x = (a + b)\n", cst.BinaryOperation, "x = (a + b).d()\n"),
    "integer": ("x = 1\n", cst.Integer, "x = (1).d()\n"),
    "float": ("x = 1.5\n", cst.Float, "x = 1.5.d()\n"),
    "backslash": ("x = a + \\\n b\n", cst.BinaryOperation, "x = (a + \\\n b).d()\n"),
    "generator": ("f(a for a in b)\n", cst.GeneratorExp, "f((a for a in b).d())\n"),
    "tuple": ("x = (1, 2)\n", cst.Tuple, "x = (1, 2).d()\n"),
}


@pytest.mark.parametrize(("text", "kind", "expected"), _APPENDED.values(), ids=_APPENDED.keys())
def test_append(text: str, kind: type[cst.CSTNode], expected: str) -> None:
    assert fixed(text, lambda tree: [Append(tree.nodes(kind)[0], ".d()")]) == expected
    ast.parse(expected)


def test_append_and_prepend_together_wrap() -> None:
    def make(tree: Tree) -> list[NodeEdit]:
        node = tree.nodes(cst.BinaryOperation)[0]
        return [Prepend(node, "float("), Append(node, ")")]

    assert fixed("x = a + b\n", make) == "x = float(a + b)\n"


def test_prepend_a_decorator_line() -> None:
    def make(tree: Tree) -> list[NodeEdit]:
        return [Prepend(tree.nodes(cst.Decorator)[0], "@new\n")]

    text = "class A:\r\n\t@old\r\n\tdef f(self): pass\r\n"
    assert fixed(text, make) == "class A:\r\n\t@new\r\n\t@old\r\n\tdef f(self): pass\r\n"


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_what_stands_behind_a_line_that_goes_takes_its_place(newline: str) -> None:
    def make(tree: Tree) -> list[NodeEdit]:
        return [Remove(line(tree)), InsertAfter(tree.nodes(cst.For)[0], "end = 1")]

    text = "for a in b:\n    c\n    hit(1)\nd\n".replace("\n", newline)
    assert fixed(text, make) == "for a in b:\n    c\nend = 1\nd\n".replace("\n", newline)


def test_what_ends_a_line_comes_before_what_stands_behind_it() -> None:
    def make(tree: Tree) -> list[NodeEdit]:
        return [InsertAfter(tree.nodes(cst.For)[0], "end = 1"), Append(call(tree), ".x()")]

    assert fixed("for a in b:\n    hit(1)\n", make) == "for a in b:\n    hit(1).x()\nend = 1\n"


def test_edits_of_one_fix_that_overlap_are_withheld() -> None:
    def make(tree: Tree) -> list[NodeEdit]:
        return [
            Replace(call(tree), expression("y")),
            Replace(call(tree).args[0].value, expression("z")),
        ]

    assert fixed("hit(1)\n", make) == "withheld: two of its edits change the same code"

    def twice(tree: Tree) -> list[NodeEdit]:
        return [Remove(line(tree)), Remove(line(tree))]

    assert fixed("a\nhit(1)\n", twice) == "withheld: two of its edits change the same code"


def test_insertions_at_one_place_keep_their_order() -> None:
    def make(tree: Tree) -> list[NodeEdit]:
        return [
            InsertBefore(line(tree), "one()"),
            InsertBefore(line(tree), "two()"),
            Remove(line(tree)),
        ]

    assert fixed("a\nhit(1)\n", make) == "a\none()\ntwo()\n"


def test_a_node_of_another_file_is_withheld() -> None:
    foreign = cst.Name("other")
    assert fixed("hit(1)\n", lambda _: [Append(foreign, ".x")]).startswith("withheld: ")


_WORDS = st.sampled_from(["alpha", "b", "hit", "été", "_x1"])
_LINES = st.sampled_from(
    [
        "{} = {} + {}  # {}",
        "if {}: {}({}, k={})",
        "for q in {}:\n\t{}[{}] ; {}",
        "def f(a={}):\r\n  return({})",
        "\x0cx = ( {} ,\n  {} ) # c",
        "y = {}. z .w( {} )\\\n  or {}",
    ]
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_replacing_names_keeps_all_other_bytes(data: st.DataObject) -> None:
    lines = data.draw(st.lists(_LINES, min_size=1, max_size=6))
    text = "\n".join(
        part.format(*data.draw(st.tuples(_WORDS, _WORDS, _WORDS, _WORDS))) for part in lines
    )
    text += data.draw(st.sampled_from(["", "\n", "\r\n", "\n\n  \n"]))
    context, tree = context_of(text)
    names = [node for node in tree.nodes(cst.Name) if isinstance(node, cst.Name)]
    chosen = data.draw(st.lists(st.sampled_from(names), unique=True, min_size=1))
    fix = text_fix(
        Fix(tuple(Replace(node, cst.Name("N")) for node in chosen), Safety.SAFE, "t"), context
    )
    assert isinstance(fix, TextFix)
    expected = text
    for node in sorted(chosen, key=lambda node: -context.span(node, whole=False).start):
        span = context.span(node, whole=False)
        assert text[span.start : span.end] == node.value
        expected = expected[: span.start] + "N" + expected[span.end :]
    for edit in reversed(fix.edits):
        text = text[: edit.span.start] + edit.text + text[edit.span.end :]
    assert text == expected


def need(module: str = "math", alias: str | None = None) -> Make:
    return lambda tree: [Replace(call(tree), cst.Name("y")), NeedImport(module, alias)]


_IMPORTED = {
    "after-imports": (
        "import a\nfrom b import (\n  c)  # d\n\nhit(1)\n",
        "import a\nfrom b import (\n  c)  # d\nimport math\n\ny\n",
    ),
    "crlf": ("import a\r\nhit(1)\r\n", "import a\r\nimport math\r\ny\r\n"),
    "present": ("import math\nhit(1)\n", "import math\ny\n"),
    "present-submodule": ("import math.x\nhit(1)\n", "import math.x\ny\n"),
    "future": ("from __future__ import x\nhit(1)\n", "from __future__ import x\nimport math\ny\n"),
    "docstring": ('"""d"""\nhit(1)\n', '"""d"""\n\nimport math\ny\n'),
    "shebang-licence": (
        "#!/x\n# coding: utf-8\n\n# (c)\nhit(1)\n",
        "#!/x\n# coding: utf-8\n\n# (c)\nimport math\ny\n",
    ),
    "no-final-newline": ("hit(1)", "import math\ny"),
    "after-settings": (
        "import os\nos.x = 1\nimport b\nhit(1)\n",
        "import os\nos.x = 1\nimport b\nimport math\ny\n",
    ),
    "before-definitions": (
        "import a\ndef f():\n    hit(1)\nimport b\n",
        "import a\nimport math\ndef f():\n    y\nimport b\n",
    ),
    "too-late": ("import a\nhit(1)\nimport math\n", "import a\nimport math\ny\nimport math\n"),
    "type-checking": (
        "from t import TYPE_CHECKING\nif TYPE_CHECKING:\n    import math\nhit(1)\n",
        "from t import TYPE_CHECKING\nimport math\nif TYPE_CHECKING:\n    import math\ny\n",
    ),
    "parameter-elsewhere": (
        "import a\ndef f(math): pass\nhit(1)\n",
        "import a\nimport math\ndef f(math): pass\ny\n",
    ),
    "star-before": ("from a import *\nimport math\nhit(1)\n", "from a import *\nimport math\ny\n"),
    "star-after-and-still-read": (
        "import math\nfrom a import *\nmath.pi\nhit(1)\n",
        "import math\nfrom a import *\nmath.pi\ny\n",
    ),
    "star-after-and-still-read-in-a-function": (
        "import math\ndef f():\n    return math.pi\nfrom a import *\nhit(1)\n",
        "import math\ndef f():\n    return math.pi\nfrom a import *\ny\n",
    ),
}


@pytest.mark.parametrize(("text", "expected"), _IMPORTED.values(), ids=_IMPORTED.keys())
def test_need_import(text: str, expected: str) -> None:
    assert fixed(text, need()) == expected


_TAKEN = {
    "assigned": "math = 1\nhit(1)\n",
    "other-import": "import numpy as math\nhit(1)\n",
    "from-import": "from x import math\nhit(1)\n",
    "parameter": "def f(math):\n    hit(1)\n",
    "local-import": "def f():\n    hit(1)\n    import math\n",
    "global": "import math\ndef f():\n    global math\n    math = 1\nhit(1)\n",
    "conditional": "try:\n    import math\nexcept ImportError:\n    pass\nhit(1)\n",
    "class": "class math: pass\nhit(1)\n",
    "star": "from a import *\nhit(1)\n",
    "star-after": "import math\nfrom a import *\nhit(1)\n",
    "star-after-and-not-read-any-more": "import math\nmath.pi\nfrom a import *\nhit(1)\n",
    "star-after-and-a-name-of-no-import": "from a import *\nmath.pi\nhit(1)\n",
    "loop": "for math in a: pass\nhit(1)\n",
    "except": "try: pass\nexcept A as math: pass\nhit(1)\n",
    "match": "match a:\n    case {**math}: pass\nhit(1)\n",
}


@pytest.mark.parametrize("text", _TAKEN.values(), ids=_TAKEN.keys())
def test_need_import_of_a_name_that_may_mean_something_else(text: str) -> None:
    assert fixed(text, need()).startswith(
        "withheld: 'math' is or may be bound to something else in line "
    )


def test_need_import_with_alias() -> None:
    wanted = need("torch.nn.functional", "F")
    for present in ("import torch.nn.functional as F", "from torch.nn import functional as F"):
        assert fixed(f"{present}\nhit(1)\n", wanted) == f"{present}\ny\n"
    assert (
        fixed("import torch\nhit(1)\n", wanted)
        == "import torch\nimport torch.nn.functional as F\ny\n"
    )
    assert fixed("from torchvision import F\nhit(1)\n", wanted).startswith("withheld: 'F' is")
    # Other packages have an F as well.
    starred = "import torch.nn.functional as F\nfrom a import *\nF.pad\nhit(1)\n"
    assert fixed(starred, wanted).startswith("withheld: 'F' is")
    assert (
        fixed("import torch\nhit(1)\n", need("torch.amp")) == "import torch\nimport torch.amp\ny\n"
    )


def test_need_import_alone_and_unparsable_text_are_withheld(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert fixed("a\n", lambda _: [NeedImport("math")]) == "withheld: the import of math has no use"

    def refuse(*_: object) -> None:
        raise SyntaxError

    monkeypatch.setattr("torchlint.edits.imports.ast.parse", refuse)
    assert (
        fixed("hit(1)\n", need()) == "withheld: this Python cannot tell which names the file binds"
    )
