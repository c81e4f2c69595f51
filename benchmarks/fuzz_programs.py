"""Programs to fuzz with, each from a seed alone: generated, mutated, and spliced from torch code.

`generated`: any Python at all (pysource-codegen and hypothesmith), half of its names replaced by
torch's. `mutated`: real files, damaged or merely laid out differently.
`spliced`: statements of the fixtures and of the rules' own examples in random nestings.
"""

from __future__ import annotations

import ast
import contextlib
import keyword
import random
import re
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tests.corner_cases import corners_of
from torchlint.catalog.manual import WITH_CODE
from torchlint.catalog.rules import load_catalog
from torchlint.testing.promises import programs

FIXTURES = Path(__file__).parent.parent / "fixtures"
LARGEST = 24_000
"""Bytes of a file to mutate; larger ones only cost time."""
_WORD = re.compile(r"\.?[A-Za-z_]\w*")
_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
_OBJECTS = (
    "torch nn F np x y loss out model optimizer loader batch target device logits i step "
    "epoch self data"
).split()
_METHODS = """item cuda to cpu numpy tolist backward step zero_grad detach cat stack append
DataLoader Tensor tensor zeros size shape float half long train eval parameters nn functional
softmax log optim Adam no_grad synchronize empty_cache requires_grad grad data dtype device argmax
nonzero load save state_dict forward sum mean""".split()
# What the names are, so that rules have something to say.
_HOT = """
from torch import nn
model = nn.Linear(3, 3).cuda()
optimizer = torch.optim.Adam(model.parameters())
loader = torch.utils.data.DataLoader(data, batch_size=4)
x = torch.ones(3, device="cuda")
for epoch in range(10):
    for step, (batch, target) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(batch), target)
        optimizer.zero_grad(); loss.backward(); optimizer.step()
"""
_PRAGMAS = (
    "  # noqa",
    "  # noqa: TL101",
    "  # torchlint: ignore[TL1] because",
    "  # torchlint: ignore[TL101, TL104]",
    "  # torchlint: disable[TL101]",
    "  # torchlint: enable[TL101]",
    "  # torchlint: file-ignore[TL5]",
    "  # torchlint: ignore",
    "  # type: ignore # noqa: TL102, E501",
)


@dataclass(frozen=True, slots=True)
class Program:
    """One input: its bytes and where they come from."""

    generator: str
    seed: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Material:
    """What programs are made of; `statements` of one file stand together, so that they share their
    names."""

    files: Sequence[bytes]
    statements: Sequence[Sequence[str]]
    expressions: Sequence[str]
    imports: Sequence[str]
    triggers: str = field(repr=False)


@cache
def examples() -> list[str]:
    """Return the fixtures, and the rules' examples and corner cases behind their Setup."""
    whole = [
        path
        for path in sorted(FIXTURES.rglob("*.py"))
        if not {"projects", "corners"} & set(path.parts)
    ]
    found = [path.read_text(encoding="utf-8") for path in whole]
    for info in load_catalog().rules:
        found += [text for heading in WITH_CODE for text in programs(info, heading)]
        found += [text for corner in corners_of(info) for text in corner.programs]
    return found


def material(folder: Path | None = None) -> Material:
    """Return what to make programs of.

    Args:
        folder: real torch files to mutate besides the fixtures, all ``*.py`` below it that name
            torch.
    """
    found = examples()
    statements: list[list[str]] = []
    expressions: set[str] = set()
    imports: set[str] = {"import torch"}
    for text in found:
        tree = ast.parse(text)
        lines = text.split("\n")
        mine: list[str] = []
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                imports.add(ast.unparse(node))
            elif (
                isinstance(node, ast.stmt)
                and node.end_lineno is not None
                and node.end_lineno - node.lineno < 25
            ):
                if not lines[node.lineno - 1][: node.col_offset].strip():
                    mine.append(
                        textwrap.dedent("\n".join(lines[node.lineno - 1 : node.end_lineno]))
                    )
            elif isinstance(node, ast.Call | ast.Subscript | ast.BinOp):
                expressions.add(ast.unparse(node))
        statements.append(mine)
    real = (
        []
        if folder is None
        else sorted(path for path in folder.rglob("*.py") if path.stat().st_size <= LARGEST)
    )
    files = [data for path in real if b"torch" in (data := path.read_bytes())]
    triggers = sorted(
        {trigger.decode() for info in load_catalog().rules for trigger in info.triggers}
    )
    return Material(
        [
            *files,
            *(text.encode() for text in found for _ in range(1 + len(files) // (2 * len(found)))),
        ],
        [mine for mine in statements if mine],
        sorted(expressions),
        sorted(imports - {line for line in imports if "__future__" in line}),
        "# " + " ".join(triggers),
    )


def parses(text: str) -> bool:
    """Say whether this Python accepts the text."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def generated(seed: str, stuff: Material) -> Program:
    """Return any program at all, with torch's names in it."""
    import pysource_codegen

    chance = random.Random(seed)
    limit = chance.choice((60, 200, 500))
    text = "x = 1\n"
    with contextlib.suppress(ValueError):  # this Python cannot write down all that it can parse
        text = pysource_codegen.generate(
            chance.randrange(2**32), node_limit=limit, depth_limit=chance.randrange(4, 9)
        )
    return Program(
        "generated", seed, _flavoured(text, chance, stuff).encode("utf-8", "surrogatepass")
    )


def hypothesmith_programs(seed: int, count: int, stuff: Material) -> list[Program]:
    """Return `count` programs from the grammar and from libcst's nodes, with torch's names in
    them."""
    import hypothesis
    import hypothesmith

    found: list[str] = []
    relaxed = hypothesis.settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )

    @hypothesis.seed(seed)
    @relaxed
    @hypothesis.given(
        hypothesmith.from_grammar(auto_target=False) | hypothesmith.from_node(auto_target=False)
    )
    def collect(text: str) -> None:
        found.append(text)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        collect()
    out = []
    for number, text in enumerate(found[:count]):
        name = f"hypothesmith:{seed}:{number}"
        flavoured = _flavoured(text, random.Random(name), stuff)
        out.append(Program("generated", name, flavoured.encode("utf-8", "surrogatepass")))
    return out


def _flavoured(text: str, chance: random.Random, stuff: Material) -> str:
    """Return the program with imports, with every rule's trigger in a comment, and with names that
    rules look at."""

    def renamed(found: re.Match[str]) -> str:
        word = found[0]
        if keyword.iskeyword(word.lstrip(".")) or chance.random() < 0.3:
            return word
        return "." + chance.choice(_METHODS) if word.startswith(".") else chance.choice(_OBJECTS)

    body = _WORD.sub(renamed, text)
    head = "\n".join(["import torch", *chance.sample(list(stuff.imports), 4), stuff.triggers, ""])
    hot = head + _HOT + textwrap.indent(body, "        ")
    return next((full for full in (hot, head + body, head + text) if parses(full)), text)


def mutated(seed: str, stuff: Material) -> Program:
    """Return a real file after one to four changes; most such files still parse."""
    chance = random.Random(seed)
    data = chance.choice(stuff.files)
    lenient = chance.random() < 0.25
    for _ in range(chance.randrange(1, 5)):
        for _ in range(5):
            text = data.decode("utf-8", "replace")
            changed = chance.choice(_TEXT_CHANGES)(text, chance, stuff)
            if lenient or parses(changed):
                data = changed.encode("utf-8", "surrogatepass")
                break
    if chance.random() < 0.25:
        data = chance.choice(_BYTE_CHANGES)(data, chance)
    return Program("mutated", seed, data)


def _lines(
    change: Callable[[list[str], int, random.Random], None],
) -> Callable[[str, random.Random, Material], str]:
    def changed(text: str, chance: random.Random, _: Material) -> str:
        lines = text.split("\n")
        change(lines, chance.randrange(len(lines)), chance)
        return "\n".join(lines)

    return changed


@_lines
def _delete(lines: list[str], at: int, _: random.Random) -> None:
    del lines[at]


@_lines
def _duplicate(lines: list[str], at: int, chance: random.Random) -> None:
    lines.insert(chance.choice((at, chance.randrange(len(lines)))), lines[at])


@_lines
def _swap(lines: list[str], at: int, chance: random.Random) -> None:
    other = min(at + 1, len(lines) - 1) if chance.random() < 0.7 else chance.randrange(len(lines))
    lines[at], lines[other] = lines[other], lines[at]


@_lines
def _reindent(lines: list[str], at: int, chance: random.Random) -> None:
    count = chance.randrange(1, 6)
    indent = chance.choice(("    ", "\t", " "))
    inwards = chance.random() < 0.5
    for row in range(at, min(at + count, len(lines))):
        lines[row] = indent + lines[row] if inwards else lines[row].removeprefix(indent)


@_lines
def _comment(lines: list[str], at: int, chance: random.Random) -> None:
    lines[at] += chance.choice(
        (*_PRAGMAS, "  # words", "  # ünï ☃ 𝔘", "\f", "   ", ";", " ;  # end")
    )


@_lines
def _join(lines: list[str], at: int, _: random.Random) -> None:
    if at + 1 < len(lines):
        lines[at : at + 2] = [f"{lines[at]}; {lines[at + 1].strip()}"]


@_lines
def _pull_up(lines: list[str], at: int, _: random.Random) -> None:
    if at + 1 < len(lines) and lines[at].endswith(":"):
        lines[at : at + 2] = [f"{lines[at]} {lines[at + 1].strip()}"]


@_lines
def _break(lines: list[str], at: int, chance: random.Random) -> None:
    spaces = [found.start() for found in re.finditer(r"(?<=\S) (?=\S)", lines[at])]
    if spaces:
        cut = chance.choice(spaces)
        lines[at] = lines[at][:cut] + chance.choice((" \\\n", "  # here\n", "\n")) + lines[at][cut:]


@_lines
def _wrap(lines: list[str], at: int, chance: random.Random) -> None:
    indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
    end = at + 1
    while end < len(lines) and (not lines[end].strip() or lines[end].startswith(indent)):
        end += 1
    end = min(end, at + chance.randrange(1, 12))
    head, tail = chance.choice(_WRAPPERS)
    inner = ["    " + line if line.strip() else line for line in lines[at:end]]
    lines[at:end] = [
        indent + head,
        *inner,
        *([indent + line for line in tail.split("\n")] if tail else []),
    ]


def _truncate(text: str, chance: random.Random, _: Material) -> str:
    return text[: chance.randrange(len(text) + 1)]


def _tokens(text: str, chance: random.Random, _: Material) -> str:
    tokens = _TOKEN.findall(text)
    if len(tokens) < 2:
        return text
    at, other = chance.randrange(len(tokens)), chance.randrange(len(tokens))
    kind = chance.randrange(4)
    if kind == 0:
        del tokens[at]
    elif kind == 1:
        tokens.insert(at, tokens[at])
    elif kind == 2:
        tokens[at], tokens[other] = tokens[other], tokens[at]
    else:
        names = [
            k
            for k, token in enumerate(tokens)
            if token.isidentifier() and not keyword.iskeyword(token)
        ]
        if len(names) > 1:
            tokens[chance.choice(names)] = tokens[chance.choice(names)]
    return "".join(tokens)


def _insert(text: str, chance: random.Random, stuff: Material) -> str:
    """Put a statement or an expression that rules look at on a line of its own, or behind a
    statement."""
    lines = text.split("\n")
    at = chance.randrange(len(lines))
    indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
    new = chance.choice(stuff.expressions)
    if chance.random() < 0.4:
        new = chance.choice(chance.choice(stuff.statements))
    if chance.random() < 0.2 and lines[at].strip() and "\n" not in new:
        lines[at] += f"; {new}"
    else:
        lines.insert(at, textwrap.indent(new, indent))
    return "\n".join(lines)


def _replace_expression(text: str, chance: random.Random, stuff: Material) -> str:
    """Put an expression that rules look at in the place of another one."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return text
    nodes = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.expr) and node.lineno == node.end_lineno
    ]
    if not nodes:
        return text
    node = chance.choice(nodes)
    lines = text.split("\n")
    if node.lineno > len(lines):
        return text
    line = lines[node.lineno - 1].encode()
    new = chance.choice(stuff.expressions).encode()
    full = line[: node.col_offset] + new + line[node.end_col_offset :]
    lines[node.lineno - 1] = full.decode("utf-8", "replace")
    return "\n".join(lines)


_WRAPPERS = (
    ("if True:", ""),
    ("try:", "finally:\n    pass"),
    (
        "try:",
        "except* ValueError:\n    pass"
        if sys.version_info >= (3, 11)
        else "except ValueError:\n    pass",
    ),
    ("with torch.no_grad():", ""),
    ("with torch.autocast('cuda'), open('f') as f:", ""),
    ("for step, batch in enumerate(loader):", ""),
    ("while True:", "else:\n    pass"),
    ("for epoch in range(10):", "else:\n    x = 1"),
    ("def inner(x, *args, loss=None, **kwargs):", ""),
    ("async def inner(x):", ""),
    ("class Net(torch.nn.Module):", ""),
    ("match x:\n    case [1, *_] if x:\n      pass\n    case _:", ""),
    ("if x: pass\nelif y:", "else: pass"),
)
_TEXT_CHANGES: tuple[Callable[[str, random.Random, Material], str], ...] = (
    _delete,
    _duplicate,
    _swap,
    _reindent,
    _comment,
    _join,
    _pull_up,
    _break,
    _wrap,
    _wrap,
    _truncate,
    _tokens,
    _tokens,
    _insert,
    _insert,
    _replace_expression,
    _replace_expression,
)


def _flip(data: bytes, chance: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(chance.randrange(1, 4)):
        if out:
            out[chance.randrange(len(out))] = chance.randrange(256)
    return bytes(out)


_BYTE_CHANGES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _flip,
    lambda data, _: data.replace(b"\n", b"\r\n"),
    lambda data, _: data.replace(b"\n", b"\r"),
    lambda data, chance: b"".join(
        line + chance.choice((b"\n", b"\r\n")) for line in data.split(b"\n")
    ),
    lambda data, _: b"\xef\xbb\xbf" + data,
    lambda data, _: (
        b"# -*- coding: latin-1 -*-\n"
        + data.decode("utf-8", "replace").encode("latin-1", "replace")
    ),
    lambda data, _: (
        b"# coding: cp1252\n# \xe4\xf6\n"
        + data.decode("utf-8", "replace").encode("cp1252", "replace")
    ),
    lambda data, _: data.replace(b"    ", b"\t"),
    lambda data, _: data.rstrip(b"\n"),
    lambda data, _: data + b"\n   \n\t",
    lambda data, _: b"\x0c" + data,
)


def spliced(seed: str, stuff: Material) -> Program:
    """Return torch code in nestings that nobody would write."""
    maker = _Splicer(random.Random(seed), stuff)
    for _ in range(20):
        text = maker.program()
        if parses(text) or maker.chance.random() < 0.05:
            break
    return Program("spliced", seed, text.encode("utf-8", "surrogatepass"))


class _Splicer:
    """Makes programs of the material's statements."""

    def __init__(self, chance: random.Random, stuff: Material) -> None:
        self.chance = chance
        self.stuff = stuff
        self.themes = [chance.choice(stuff.statements) for _ in range(2)]

    def program(self) -> str:
        imports = self.chance.sample(list(self.stuff.imports), min(12, len(self.stuff.imports)))
        head = ["import torch", "import torch.nn as nn", *imports]
        triggers = [self.stuff.triggers] * (self.chance.random() < 0.3)
        return "\n".join([*head, *triggers, *self.block(self.chance.randrange(1, 5)), ""])

    def block(self, depth: int) -> list[str]:
        return [line for _ in range(self.chance.randrange(1, 5)) for line in self.piece(depth)] or [
            "pass"
        ]

    def piece(self, depth: int) -> Iterator[str]:
        if depth > 0 and self.chance.random() < 0.7:
            yield from self.compound(depth)
            return
        kind = self.chance.random()
        if kind < 0.55:
            yield from self.statement().split("\n")
        elif kind < 0.75:
            yield (
                self.chance.choice(_FORMS)
                .replace("@", self.expression(), 1)
                .replace("@", self.expression())
            )
        elif kind < 0.9:
            smalls = [
                line
                for line in (self.statement() for _ in range(4))
                if "\n" not in line and "#" not in line
            ]
            yield "; ".join(smalls or ["pass"]) + self.chance.choice(("", ";"))
        else:
            yield from (
                self.statement()
                .replace(" = ", " = \\\n    ", 1)
                .replace(", ", ",  # c\n    ")
                .split("\n")
            )

    def statement(self) -> str:
        return self.chance.choice(
            self.chance.choice((*self.themes, self.chance.choice(self.stuff.statements)))
        )

    def expression(self) -> str:
        return self.chance.choice(self.stuff.expressions)

    def compound(self, depth: int) -> Iterator[str]:
        heads = self.chance.choice(_HEADS if sys.version_info >= (3, 12) else _OLD_HEADS)
        for head in heads:
            yield from head.replace("@", self.expression()).split("\n")
            if head.endswith(":"):
                yield from ("    " + line for line in self.block(depth - 1))


_FORMS = (
    "f'{@!r:>{width}} and {@}'",
    "handler = lambda x, *a, k=@: @",
    "rows = [@ for x in loader if @]",
    "table = {i: @ for i, x in enumerate(loader)}",
    "sums = sum(@ for x in loader for y in x)",
    "if (n := @): total += @",
    "for x in loader: total += @; out.append(@)",
    "assert @, f'{@}'",
    "x[@] = y = @",
    "x: torch.Tensor = @",
    "print(@, *@, sep='')",
    "del x, y",
    "loss += @",
    "while @: pass",
    "result = @ if @ else None",
    "return @",
    "yield @",
    "out = await @",
    "(@)",
    "total = (total +  # why\n    @)",
)
_OLD_HEADS = (
    ("for step, batch in enumerate(loader):",),
    ("for epoch in range(10):",),
    ("for x, y in loader:", "else:"),
    ("while @:", "else:"),
    ("with torch.no_grad():",),
    ("with torch.autocast('cuda'), @ as scope:",),
    ("try:", "except (ValueError, OSError) as error:", "else:", "finally:"),
    ("try:", "finally:"),
    ("if @:", "elif @:", "else:"),
    ("if step % 10 == 0:",),
    ("def train(model, loader, optimizer, loss=@, *args, device='cuda', **kwargs):",),
    ("@torch.no_grad()", "def evaluate(self, x):"),
    ("@torch.compile", "def step(x: torch.Tensor, /, y=@, *, z: int = 1) -> torch.Tensor:"),
    ("async def main():",),
    ("async def main():\n    async with lock:\n        pass",),
    ("class Net(nn.Module):",),
    ("class Data(torch.utils.data.Dataset):\n    def __getitem__(self, index):\n        pass",),
    ("def forward(self, x):",),
    ("def __getitem__(self, i):",),
    ("def training_step(self, batch, batch_idx):",),
    ("if __name__ == '__main__':",),
)
_HEADS = (
    *_OLD_HEADS,
    ("def generic[T: torch.Tensor, *Ts, **P](x: T) -> T:",),
    ("class Box[T](nn.Module):",),
)
