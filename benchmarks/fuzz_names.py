"""Makes the names of programs long, and says where that changes what is found.

`fuzz.py --target names` calls this. Each program is checked twice. Both times all names that it
defines itself, and the attributes that it gives to ``self``, have one more part: once ``_qz``, once
``_qqq…`` up to `LENGTH` characters. So their spelling has the same words both times, which rules
may judge (``loader``, ``loss``), and nothing but the length differs. Names of methods and in the
body of a class, keywords, imports and what f-strings hold stay, since others may know them.

Findings are compared by rule, severity, place, words, notes and fixes: each fix alone, and all that
are safe and unsafe together, each by the tree of what it gives, with the names renamed back.
"""

from __future__ import annotations

import ast
import builtins
import io
import keyword
import random
import re
import tokenize
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks import fuzz_surroundings
from benchmarks.fuzz_programs import Material, Program, examples
from torchlint.base.finding import Finding, TextFix
from torchlint.run.worker import analyse_job
from torchlint.testing.source import every_code, job

LENGTH = 70
_SHORT = "_qz"
_WIDE = 10**6
"""How long lines may be: how they are wrapped decides which fixes wait for the next round."""
_PADDED = re.compile(r"_q{2,}")
_KEPT = frozenset((*dir(builtins), *keyword.kwlist, *keyword.softkwlist, "self", "cls"))


@dataclass(frozen=True, slots=True)
class Names:
    """What a program defines: its plain names, and the attributes of ``self``."""

    plain: frozenset[str]
    attributes: frozenset[str]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one program: how many findings, fixes and names it has, and what differs."""

    findings: int = 0
    fixes: int = 0
    names: int = 0
    differing: tuple[str, ...] = ()


def defined(tree: ast.Module) -> Names:
    """Return the names of a program that may be renamed."""
    bound: set[str] = set()
    attributes: set[str] = set()
    kept = set(_KEPT)
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                bound.add(name)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                bound.add(name)
            case ast.Attribute(value=ast.Name("self"), attr=name, ctx=ast.Store()):
                attributes.add(name)
            case ast.keyword(arg=str(name)):
                kept.add(name)
            case ast.MatchClass(kwd_attrs=names):
                kept.update(names)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                words = [getattr(node, "module", None), *(each.name for each in names)]
                kept.update(part for word in words if word for part in word.split("."))
                kept.update(each.asname for each in names if each.asname)
            case ast.JoinedStr():
                kept.update(n.id for n in ast.walk(node) if isinstance(n, ast.Name))
                kept.update(n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute))
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                targets = [n for n in ast.walk(inner) if isinstance(n, ast.Name)]
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    kept.add(inner.name)
                else:
                    kept.update(n.id for n in targets if isinstance(n.ctx, ast.Store))
    plain = {name for name in bound - kept if not name.startswith("__")}
    return Names(frozenset(plain), frozenset(attributes - kept))


def renamed(text: str, names: Names, pad: Callable[[str], str]) -> str:
    """Return a program with its names padded; its lines stay lines."""
    lines = text.splitlines(keepends=True)
    before = ""
    at: list[tuple[int, int, str]] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        mine = names.attributes if before == "." else names.plain
        if token.type == tokenize.NAME and token.string in mine:
            at.append((token.start[0] - 1, token.start[1], token.string))
        if token.type not in (tokenize.NL, tokenize.COMMENT):
            before = token.string
    for row, column, name in reversed(at):
        line = lines[row]
        lines[row] = line[:column] + pad(name) + line[column + len(name) :]
    return "".join(lines)


def shorter(name: str) -> str:
    """Return a name with one more part."""
    return name + _SHORT


def longer(name: str) -> str:
    """Return a name with one more part that makes it `LENGTH` characters long."""
    return f"{name}_{'q' * max(LENGTH - len(name) - 1, 2)}"


def back(text: str, names: Names) -> str:
    """Return a text with the short names in the place of the long ones, which are whole."""
    for name in names.plain | names.attributes:
        text = text.replace(longer(name), shorter(name))
    return text


def _words(text: str) -> str:
    """Return a message with short names, where some of the long ones may be cut."""
    return _PADDED.sub(_SHORT, text)


def verdict(text: str, settings: Mapping[str, Any] | None = None) -> Verdict | None:
    """Check a program with short and with long names; None where it cannot be renamed.

    Args:
        text: the program.
        settings: fields of the job.
    """
    try:
        names = defined(ast.parse(text))
        short, long = renamed(text, names, shorter), renamed(text, names, longer)
        fair = "_qq" not in text and _tree(short) == _tree(back(long, names))
    except (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError):
        return None
    if not fair or not (names.plain or names.attributes):
        return None
    found = _seen(short, settings or {}, lambda text: text)
    those = _seen(long, settings or {}, partial(back, names=names))
    fixes = sum(each.fix is not None for each in found.findings)
    count = len(names.plain) + len(names.attributes)
    return Verdict(len(found.findings), fixes, count, tuple(_differences(found, those)))


@dataclass(frozen=True, slots=True)
class _Seen:
    text: str
    plain: Callable[[str], str]
    findings: Sequence[Finding]
    notes: Sequence[str]
    after: Mapping[str, str]


def _seen(text: str, settings: Mapping[str, Any], plain: Callable[[str], str]) -> _Seen:
    settings = {"codes": every_code(), "line_length": _WIDE, **settings}
    report = analyse_job(job(text, **settings))
    notes = [f"{note.kind.value}: {note.message}" for note in report.notes]
    after = {}
    for level in ("safe", "unsafe"):
        fixed = analyse_job(job(text, fix=level, **settings))
        notes += [f"{level} {note.kind.value}: {note.message}" for note in fixed.notes]
        after[level] = fixed.after or text
    return _Seen(text, plain, report.findings, notes, after)


def _differences(short: _Seen, long: _Seen) -> Iterator[str]:
    ours = {_place(short, each): each for each in short.findings}
    theirs = {_place(long, each): each for each in long.findings}
    for place in [*ours, *(each for each in theirs if each not in ours)]:
        one, other = ours.get(place), theirs.get(place)
        if one is None or other is None:
            yield f"{place[0]} {'found' if one is None else 'lost'} in row {place[1]}"
        else:
            words = f"{place[0]} in row {place[1]}"
            yield from (f"{words}: {what}" for what in _unlike(short, one, long, other))
    if sorted(short.notes) != sorted(map(_words, long.notes)):
        yield f"notes: {sorted(short.notes)} and {sorted(map(_words, long.notes))}"
    for level, after in short.after.items():
        if _tree(after) != _tree(long.plain(long.after[level])):
            yield f"{level} fixes together"


def _place(seen: _Seen, finding: Finding) -> tuple[str, int, int, int, int]:
    """Return the rule and the place of a finding, its columns as if names were short."""
    ends = []
    for at in (finding.start, finding.end):
        line = seen.text.split("\n")[at.row - 1]
        ends += [at.row, len(seen.plain(line[: at.column - 1]))]
    return (finding.code, ends[0], ends[1], ends[2], ends[3])


def _unlike(short: _Seen, one: Finding, long: _Seen, other: Finding) -> Iterator[str]:
    if one.severity is not other.severity:
        yield f"{one.severity.value} and {other.severity.value}"
    pairs = [(one.message, other.message), (one.help, other.help)]
    pairs += [(a.text, b.text) for a, b in zip(one.why_hot, other.why_hot, strict=False)]
    if len(one.why_hot) != len(other.why_hot):
        yield "why hot"
    yield from (f"{a!r} and {b!r}" for a, b in pairs if not _alike(a, b))
    match one.fix, other.fix:
        case None, None:
            return
        case TextFix() as first, TextFix() as second:
            for field in ("safety", "title", "note", "withheld"):
                a, b = getattr(first, field), getattr(second, field)
                if a != b and not (field == "note" and _alike(a, b)):
                    yield f"{field} {a!r} and {b!r}"
            made = _applied(short.text, first), long.plain(_applied(long.text, second))
            if _tree(made[0]) != _tree(made[1]):
                yield "what the fix gives"
        case first, _:
            yield "fix " + ("found" if first is None else "lost")


def _alike(short: str, long: str) -> bool:
    """Say whether a message says the same, but for where it is cut."""
    if "…" not in long:
        return short == _words(long)
    pieces = map(re.escape, _words(long).split("…"))
    return re.fullmatch("(?:.|\n)*".join(pieces), short) is not None or _cut(short) == _cut(long)


def _cut(message: str) -> str:
    """Return a message without what it shows of the code."""
    return re.sub(r"`[^`]*`", "``", message)


def _applied(text: str, fix: TextFix) -> str:
    for edit in sorted(fix.edits, key=lambda each: each.span.start, reverse=True):
        text = text[: edit.span.start] + edit.text + text[edit.span.end :]
    return text


def _tree(text: str) -> str:
    """Return the tree of a program, as text; what no longer is a program stays what it is."""
    try:
        return ast.dump(ast.parse(text))
    except SyntaxError:
        return text


# -- many of them ----------------------------------------------------------------------------------


def fixed_programs() -> list[str]:
    """Return the fixtures, the rules' examples and corner cases, and the programs of the tests that
    run fixes."""
    more = [f"{each.setup}\n{each.body}" for each in fuzz_surroundings.examples()]
    return list(dict.fromkeys([*examples(), *more]))


def drawn(
    seed: int, count: int, stuff: Material, makers: Mapping[str, Callable[[str, Material], Program]]
) -> Iterator[str]:
    """Yield programs of the generators in turn, as many as wanted."""
    for number in range(count):
        make = list(makers.values())[number % len(makers)]
        data = make(f"{seed}:{number}", stuff).data
        yield data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")


def fuzz(programs: Iterable[str], jobs: int) -> dict[str, Any]:
    """Check programs with short and with long names; print what differs, and count.

    Args:
        programs: their texts.
        jobs: how many processes share the work.
    """
    programs = list(programs)
    counts: Counter[str] = Counter(programs=len(programs))
    kinds: Counter[str] = Counter()
    with ProcessPoolExecutor(jobs) as pool:
        for text, found in zip(programs, pool.map(verdict, programs, chunksize=20), strict=True):
            if found is None:
                counts["left_out"] += 1
                continue
            counts.update(findings=found.findings, fixes=found.fixes, names=found.names)
            if found.differing:
                counts["differing"] += 1
                kinds.update(re.sub(r"row \d+", "row _", each)[:160] for each in found.differing)
                lines = "\n   ".join(found.differing)
                print(f"\n== {lines}\n{text}", flush=True)
    return {"differing": 0, **counts, "kinds": dict(kinds.most_common())}


def sample(programs: Sequence[str], seed: int, count: int) -> list[str]:
    """Return some of the programs, the same each time."""
    return random.Random(seed).sample(list(programs), count)
