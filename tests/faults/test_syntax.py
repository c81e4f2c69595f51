"""The faults of a file's syntax: X01 to X08."""

from __future__ import annotations

import ast
import sys

import pytest

from tests.faults.harness import Fault
from tests.faults.slow_code import (
    CODE,
    applied,
    checked,
    linted,
    linted_and_fixed,
    refused,
    unchanged,
)

STAR = "from others import *\n"
"""What gives the names that a piece of syntax reads."""
ROWS = CODE.count("\n")


def broken(fault: Fault, tails: dict[str, str], line: int | None = None) -> None:
    """Hold that ordinary code with these last lines is refused with this Python's own message and
    line.

    Where `line` is given, the fault is in that line of the tail, whatever this Python says.
    """
    files = {name: f"{CODE}{tail}".encode() for name, tail in tails.items()}
    due = {}
    for name, data in files.items():
        with pytest.raises(SyntaxError) as caught:
            ast.parse(data)
        due[name] = ("invalid-syntax", caught.value.lineno, caught.value.msg)
        assert line is None or caught.value.lineno == ROWS + line, name
    refused(fault, files, due)


@pytest.mark.fault("X01")
def test_x01_python_2(fault: Fault) -> None:
    tails = {
        "print.py": "print 'a'\n",
        "exec.py": "exec 'a' in b\n",
        "raise.py": "raise ValueError, 'a'\n",
        "backticks.py": "x = `a`\n",
        "unequal.py": "x = a <> b\n",
        "octal.py": "x = 0777\n",
        "long.py": "x = 12L\n",
        "raw.py": "x = ur'a'\n",
        "tuple.py": "def g((a, b)): pass\n",
    }
    broken(fault, tails, line=1)


@pytest.mark.fault("X01")
@pytest.mark.skipif(sys.version_info >= (3, 14), reason="this Python reads it as two classes")
def test_x01_python_2_except(fault: Fault) -> None:
    handlers = ("OSError, e", "(OSError, ValueError), error", "socket.error , _e ", "A,e")
    tails = {
        f"except{k}.py": f"try: pass\nexcept {handler}: pass\n"
        for k, handler in enumerate(handlers)
    }
    broken(fault, tails, line=2)


@pytest.mark.fault("X02")
def test_x02_half_written(fault: Fault) -> None:
    tails = {
        "merge.py": "<<<<<<< HEAD\nx = 1\n=======\nx = 2\n>>>>>>> branch\n",
        "merge_end.py": "x = 1\n>>>>>>> branch\n",
        "string.py": "x = 'a\n",
        "long_string.py": 'x = """a\nb\n',
        "bracket.py": "x = (1,\ny = 2\n",
        "square.py": "x = [1\n",
        "mismatch.py": "x = (1]\n",
        "closed.py": "x = 1)\n",
        "formatted.py": "x = f'{a'\n",
        "formatted_empty.py": "x = f'{}'\n",
        "dedent.py": "if a:\n        b\n    c\n",
        "indent.py": "x = 1\n  y = 2\n",
        "no_block.py": "def g():\nx = 1\n",
        "backslash.py": "x = 1 \\ \n",
        "backslash_last.py": "x = 1 + \\",
        "character.py": "x = 1 €\n",
        "blank.py": "x\u200b = 1\n",
        "number.py": "x = 0b2\n",
        "keyword.py": "class = 1\n",
        "target.py": "f() = 1\n",
        "delete.py": "del f()\n",
        "order.py": "f(a=1, 2)\n",
        "default.py": "def g(a=1, b): pass\n",
        "bytes.py": "x = f'', b'é'\n",
        "escape.py": "x = '\\x1'\n",
        "letter.py": "x = f'', '\\N{no such letter}'\n",
        "else.py": "else:\n    pass\n",
        "try.py": "try:\n    x = 1\ny = 2\n",
        "half.py": "for x in",
        "star.py": "x = *\n",
    }
    broken(fault, tails)


NEWER = {
    "pep695_type.py": ((3, 12), "type Pair[T] = tuple[T, T]\n"),
    "pep695_class.py": ((3, 12), "class A[T: int, *S, **P]:\n    def f[U](self, u: U) -> T: ...\n"),
    "pep696.py": ((3, 13), "class A[T = int]: pass\n"),
    "pep701_quotes.py": ((3, 12), "x = f'{'a' + f'{'b'}'}'\n"),
    "pep701_backslash.py": ((3, 12), "x = f'{'\\n'.join(a)}'\n"),
    "pep701_comment.py": ((3, 12), "x = f'{\n    a  # why\n}'\n"),
    "pep750.py": ((3, 14), "x = t'{a!r:>{b}} {c}'\n"),
    "pep758.py": ((3, 14), "try: pass\nexcept OSError, ValueError: pass\n"),
    "pep758_dotted.py": ((3, 14), "try: pass\nexcept socket.error, socket.timeout: pass\n"),
    "pep758_three.py": ((3, 14), "try: pass\nexcept A, B, C: pass\n"),
    "pep798.py": ((3, 15), "x = [*a for a in b]\ny = {**a for a in b}\n"),
    "pep810.py": ((3, 15), "lazy import json\nlazy from os import path\n"),
    "pep654.py": ((3, 11), "try: pass\nexcept* OSError: pass\n"),
    "pep646.py": ((3, 11), "def f(*args: *T): return a[*args]\n"),
    "pep634.py": ((3, 10), "match x:\n    case {'a': [1, *_], **k} | A(b=2): pass\n"),
}
"""The version that a piece of syntax came with, and the piece."""


@pytest.mark.fault("X03")
def test_x03_syntax_of_newer_pythons(fault: Fault) -> None:
    files = {name: f"{STAR}{code}{CODE}" for name, (_, code) in NEWER.items()}
    done = linted_and_fixed(fault, files)
    for name, (version, _) in NEWER.items():
        said = f"{name}: fixed with fewer checks: Python" in done.text
        fault.holds("I3", said is (version > sys.version_info[:2]), f"{name}\n{done.text}")


@pytest.mark.fault("X04")
def test_x04_syntax_newer_than_the_project_supports(fault: Fault) -> None:
    """There is no option for the oldest Python of a project: all syntax is read, whatever the
    project declares."""
    fault.write(
        "pyproject.toml", '[project]\nname = "x"\nversion = "1"\nrequires-python = ">=3.6"\n'
    )
    code = {
        "match.py": "match x:\n    case [1, *_]: pass\n",
        "walrus.py": "if (y := 1): pass\n",
        "positional.py": "def g(a, /, b): pass\n",
        "with.py": "with (a as b, c as d): pass\n",
        "type.py": "type A = int\n",
    }
    linted_and_fixed(fault, {name: f"{STAR}{text}{CODE}" for name, text in code.items()})


@pytest.mark.fault("X05")
def test_x05_valid_python_that_the_parser_refuses(fault: Fault) -> None:
    code = {
        "annotated.py": "(x): int = 1\n",
        "star_base.py": "class A(k=1, *b): pass\n",
        "star_base_2.py": "class A(B, metaclass=M, *C): pass\n",
        "strings.py": "x = (" + '"a" ' * 3_500 + ")\n",
        "backslash.py": "if x:\n\\\n  y = 1\n",
        "backslash_2.py": "def g():\n    \\\n    return 1\n",
        "form_feed.py": "if x:\n    if y:\n\f        z = 1\n",
    }
    files = {name: f"{CODE}{text}".encode() for name, text in code.items()}
    for name, data in files.items():
        compile(data, name, "exec", dont_inherit=True)
        fault.write(name, data)
    done = checked(fault, bad=len(files))
    fault.holds("I3", done.code == 1, f"exit code {done.code}\n{done.text[-800:]}")
    for name in files:
        entries = [(entry["code"], entry["message"].partition(" (")[0]) for entry in done.of(name)]
        due = [("not-analysed", "the parser does not support this valid Python")]
        fault.holds("I3", entries == due, f"{name}: {entries}")
    done = applied(fault)
    fault.holds("I3", done.code == 1, done.text[-800:])
    fault.holds("I3", all(f"{name}: not analysed" in done.text for name in files), done.text[-800:])
    unchanged(fault, files)


@pytest.mark.fault("X05")
def test_x05_tabs_that_only_python_understands_are_read_and_nothing_is_fixed(fault: Fault) -> None:
    code = {
        "tab_then_spaces.py": "if x:\n\tif y:\n            z = 1\n",
        "spaces_then_tabs.py": "class A:\n    def f(self):\n\t    return 1\n",
        "text.py": 'class A:\n    def f(self):\n\t    """One.\n\n\tTwo.\n    """\n',
    }
    files = {name: f"{CODE}{text}".encode() for name, text in code.items()}
    for name, data in files.items():
        compile(data, name, "exec", dont_inherit=True)
        fault.write(name, data)
    done = checked(fault)
    for name in files:
        entries = [entry["code"] for entry in done.of(name)]
        fault.holds("I3", entries == ["TL102"], f"{name}: {entries}")
    unchanged(fault, files)


@pytest.mark.fault("X06")
def test_x06_what_only_the_compiler_refuses(fault: Fault) -> None:
    """CPython's parser takes these, so that fixes can be checked with it.

    What its parser refuses and libcst takes is either newer (X03) or valid in no Python (``b'é'``):
    then it is a syntax error and nothing is fixed, see X02.
    """
    code = {
        "return.py": "return 1\n",
        "keywords.py": "y = dict(a=1, a=2)\n",
        "arguments.py": "def g(a, a): pass\n",
        "break.py": "break\n",
        "nonlocal.py": "nonlocal x\n",
        "await.py": "await print()\n",
        "yield.py": "x = yield\n",
        "star.py": "x = *[]\n",
        "future.py": "from __future__ import no_such_feature\n",
        "import.py": "def g():\n    from x import *\n",
        "capture.py": "match 1:\n    case a: pass\n    case b: pass\n",
    }
    files = {name: f"{CODE}{text}" for name, text in code.items()}
    for text in files.values():
        ast.parse(text)
        with pytest.raises(SyntaxError):
            compile(text, "x", "exec", dont_inherit=True)
    linted_and_fixed(fault, files)


@pytest.mark.fault("X07")
def test_x07_notebook_magics_in_a_module(fault: Fault) -> None:
    lines = ("%matplotlib inline", "%%time", "!ls", "x = !ls", "x?", "?x", "%time x = 1")
    broken(fault, {f"magic{k}.py": f"{line}\n" for k, line in enumerate(lines)}, line=1)


STUB = """import torch
from torch import Tensor

class Model(torch.nn.Module):
    weight: Tensor
    def forward(self, x: Tensor, *, mask: Tensor | None = ...) -> Tensor: ...
    @property
    def device(self) -> torch.device: ...

def train(model: Model, loader: torch.utils.data.DataLoader[Tensor], epochs: int = ...) -> float: ...
def item(x: Tensor) -> float: ...
loader: torch.utils.data.DataLoader[Tensor] = ...
default = torch.zeros(3)
"""  # noqa: E501


@pytest.mark.fault("X08")
def test_x08_stubs(fault: Fault) -> None:
    """No rule finds anything in what stubs hold: they have no loops, and no bodies."""
    stubs = {
        "model.pyi": STUB,
        "model.py": STUB,
        "empty.pyi": "",
        "crlf.pyi": STUB.replace("\n", "\r\n"),
    }
    linted(fault, stubs, "--extend-select", "ALL")
    refused(
        fault,
        {"bad.pyi": b"import torch\ndef f(x: -> int: ...\n"},
        {"bad.pyi": ("invalid-syntax", 2, "")},
    )
    unchanged(fault, {name: text.encode() for name, text in stubs.items()})
