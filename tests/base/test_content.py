"""What a baseline remembers of a statement survives a formatter, and nothing else."""

from __future__ import annotations

import pytest

from torchlint.base.content import content_digest


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x=f(a,b)", "    x = f(a, b)"),
        ("x = f(a, b)", "x = f(\n    a,\n    b,\n)"),
        ("x = a + b", "x = (\n    a\n    + b\n)"),
        ("x = a + b", "x = a \\\n    + b"),
        ("x = a + b", "x = a \\\r\n    + b"),
        ("f('a')", 'f("a")'),
        ("f(R'a', F'{x}')", 'f(r"a", f"{x}")'),
        ("x = [1, 2]  # a, b", "x = [\n  1,  # 'one\n  2,\n]"),
        ("f('''a''')", 'f("""a""")'),
        ("for x in y:", "for (x) in y :"),
    ],
)
def test_layout_does_not_count(one: str, other: str) -> None:
    assert content_digest("TL101", one) == content_digest("TL101", other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x = a", "x = b"),
        ("x = ab", "x = a b"),
        ("f('a b')", "f('a  b')"),
        ("f('a#b')", "f('a#c')"),
        ("f('a')", "f(a)"),
        ("f('a')", "f(b'a')"),
        ("f('''a # b\n''')", "f('''a # c\n''')"),
        ("f(a, b)", "f(a b)"),
        ("x = 1, ", "x = 1"),
    ],
)
def test_words_count(one: str, other: str) -> None:
    assert content_digest("TL101", one) != content_digest("TL101", other)


def test_the_code_counts() -> None:
    assert content_digest("TL101", "x") != content_digest("TL102", "x")


def test_the_digest_never_changes() -> None:
    """Baselines hold it: another digest for the same words would make all of them stale."""
    assert content_digest("TL603", "x = torch.cat([x, y], dim=0)  # grown") == "a62a38e76a064a5c"


@pytest.mark.parametrize(
    "text", ["'" * 9_999, '"""' + "'" * 9_000, "f(" * 5_000, "\\" * 9_999, "x = [" + "1, " * 10**6]
)
def test_hostile_text_comes_to_an_end(text: str) -> None:
    assert len(content_digest("TL101", text)) == 16
