"""The guard: what it refuses, what it only watches, and what it lets pass."""

from __future__ import annotations

import ast

import pytest

from torchlint.run.prescan import MOST_OPEN, TOO_DEEP, Prescan, prescan

FINE = Prescan()
SLOW = Prescan(quarantine=True)


def nested(depth: int, opening: str = "(", closing: str = ")") -> bytes:
    return (opening * depth + "1" + closing * depth).encode()


@pytest.mark.parametrize("pair", ["()", "[]", "{}"])
def test_refuses_exactly_what_cpython_refuses(pair: str) -> None:
    assert not prescan(nested(MOST_OPEN - 1, *pair)).refuse
    assert prescan(nested(MOST_OPEN + 1, *pair)) == Prescan(TOO_DEEP, 1)
    with pytest.raises(SyntaxError, match=TOO_DEEP):
        ast.parse(nested(MOST_OPEN + 1, *pair))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_names_the_line_of_the_bracket_that_is_too_many(end: str) -> None:
    source = f'"""one{end}two"""{end}# ((({end}' + f"({end}" * 300
    with pytest.raises(SyntaxError) as caught:
        ast.parse(source.replace("\r\n", "\n").replace("\r", "\n"))
    assert prescan(source.encode()).line == caught.value.lineno


@pytest.mark.parametrize(
    "source",
    [
        b"'" + b"(" * 300 + b"'",
        b'"' + b"(" * 300 + b'"',
        b'"""\n' + b"(" * 300 + b'\n"quoted" \\""" """',
        b"'''" + b"(" * 300 + b"\\''' '''",
        b"# " + b"(" * 300,
        b"'it\\'s' # '\n'" + b"(" * 300 + b"'",
        b"()" * 300,
    ],
)
def test_strings_and_comments_do_not_count(source: bytes) -> None:
    assert prescan(source) == FINE


def test_nested_quotes_of_new_f_strings_are_no_ground_to_refuse() -> None:
    source = b'x = f"{ \'(\'  + "(" }"\n' * 300
    assert prescan(source) == SLOW


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        (nested(60), FINE),
        (nested(61), SLOW),
        (b"elif x: pass\n" * 200, FINE),
        (b"elif x: pass\n" * 201, SLOW),
        ((b"elif x: pass\n" + b"y = 1\n" * 200) * 201, FINE),
        ((b"elif x: pass\n" + b"y = 1\n" * 100) * 201, SLOW),
        (b"x" * 20_000 + b"\n", FINE),
        (b"x" * 20_001 + b"\n", SLOW),
        (b"'" + b"x" * 20_001 + b"'\n# " + b"x" * 20_001, FINE),
        (b"    case (((a))): pass\n", FINE),
        (b"    case ([{(a,),},]): pass\n", SLOW),
        (b"    showcase((((a))))\n", FINE),
        (b"    case = f(g(a[0]), g(a[1]))\n", FINE),
        (b"    case.run(f(g(a[0]), g(a[1])))\n", FINE),
        (b"    case, x = f(g(a[0]), g(a[1]))\n", FINE),
        (b"    x = 1  # case ((((\n", FINE),
        (b"", FINE),
        (bytes(range(256)), FINE),
    ],
)
def test_thresholds(source: bytes, wanted: Prescan) -> None:
    assert prescan(source) == wanted


def test_unfinished_strings_are_no_trouble() -> None:
    assert prescan(b"'''" + b'"' * 9 + b"\\") == FINE
