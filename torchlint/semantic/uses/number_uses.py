"""Where a number is read that an assignment in a loop makes: in each step, now and then, or after
the loop."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from pathlib import PurePath

import libcst as cst

from torchlint.base.records import frozen
from torchlint.base.regex import regex
from torchlint.semantic.code.bindings import binds_globally
from torchlint.semantic.code.flow import call_sites, callees_of, escapes, reads_of, writes_of
from torchlint.semantic.code.guards import throttled
from torchlint.semantic.code.named_tests import names
from torchlint.semantic.code.reaching import definitions_of, readers_of
from torchlint.semantic.code.tree import COMPREHENSIONS, LOOPS, callee
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.uses.accumulators import ancestors_below, shared
from torchlint.semantic.values.unknown_objects import calls_of_unknown


@frozen
class NumberUses:
    """The reads of a plain name that a loop binds to a number.

    Args:
        rarely: those that happen now and then, or behind the loop.
        each_step: those that happen in each step.
    """

    rarely: tuple[cst.Name, ...]
    each_step: tuple[cst.Name, ...]


@question(
    yes="all that reads it after the loop comes after `{0}`",
    no="what reads it after the loop is read in one place, or here and there",
    remember=False,
)
def first_read_after(
    module: Module, target: cst.Name, uses: NumberUses
) -> cst.SimpleStatementLine | None:
    """Return the first of the lines of one block that read a name behind the loop, where there are
    several reads, all of them in lines below it: to make a number of it there is enough."""
    loop = module.loops(target)[0]
    behind = [each for each in uses.rarely if not module.is_within(each, loop)]
    if len(behind) < 2:
        return None
    for above in module.ancestors(behind[0]):
        if isinstance(above, (cst.IndentedBlock, cst.Module)):
            lines = [line for line in above.body if _holds_any(module, line, behind)]
            holds_all = all(_holds_any(module, above, [each]) for each in behind)
            if not holds_all or not lines:
                continue
            first = lines[0]
            if not isinstance(first, cst.SimpleStatementLine) or not module.before(loop, first):
                return None
            inside = module.is_within(loop, above)
            return first if inside and _reads_surely(module, first, behind) else None
    return None


@question(
    yes="lines of one block below `{0}` read it several times",
    no="no block reads it several times",
    remember=False,
)
def read_in_blocks(
    module: Module, reads: Iterable[cst.Name], changed: Iterable[cst.CSTNode]
) -> dict[cst.SimpleStatementLine, tuple[cst.Name, ...]]:
    """Return, by the line that surely is the first to read a name in a block of a loop, the reads
    in that block, where there are several: to make a number of it before that line is enough.

    `changed` are the nodes that change it, none of which stands in the block.
    """
    blocks: dict[cst.CSTNode, list[cst.Name]] = {}
    for read in reads:
        inner = [
            above
            for above in ancestors_below(module, read, next(iter(module.loops(read)), read))
            if isinstance(above, cst.IndentedBlock) and not isinstance(module.parent(above), LOOPS)
        ]
        free = [each for each in inner if not _holds_any(module, each, changed)]
        if free:
            blocks.setdefault(free[-1], []).append(read)
    found: dict[cst.SimpleStatementLine, tuple[cst.Name, ...]] = {}
    for block, held in blocks.items():
        assert isinstance(block, cst.IndentedBlock)
        first = next(line for line in block.body if _holds_any(module, line, held))
        plain = isinstance(first, cst.SimpleStatementLine) and len(held) > 1
        if plain and _reads_surely(module, first, held):
            found[first] = tuple(held)  # type: ignore[index]
    return found


def _holds_any(module: Module, node: cst.CSTNode, reads: Iterable[cst.CSTNode]) -> bool:
    return any(module.is_within(each, node) for each in reads)


_CHOOSING = (cst.IfExp, cst.BooleanOperation, cst.Lambda)


def _reads_surely(module: Module, line: cst.CSTNode, reads: Iterable[cst.Name]) -> bool:
    """Say whether a line makes one of some reads on each way."""
    return any(
        not any(
            isinstance(above, (*_CHOOSING, *COMPREHENSIONS))
            for above in ancestors_below(module, read, line)
        )
        for read in reads
        if module.is_within(read, line)
    )


_SAME_RESULT = frozenset(("torch.no_grad", "torch.enable_grad", "torch.inference_mode"))


@question(
    yes="all its calls are known: `{answer}`",
    no="it may be called by code that is not followed",
)
def all_calls(module: Module, function: cst.FunctionDef) -> list[cst.Call] | None:
    """Return the calls of a function that hands back one result in one place; None where others may
    call it too: it is passed on, overridden, or named in another file."""
    sites = call_sites(module, function)
    returns = list(module.within(function.body, cst.Return))
    waiting = module.contains(function.body, cst.Yield)
    if not sites or len(returns) != 1 or waiting or function.asynchronous is not None:
        return None
    decorators = [module.name(callee(each.decorator)) for each in function.decorators]
    if any(name not in _SAME_RESULT for name in decorators) or escapes(module, function):
        return None
    if any(callees_of(module, site) != (function,) for site in sites):
        return None
    others = calls_of_unknown(module, function) or _named_elsewhere(module, function)
    return None if others else sites


def _named_elsewhere(module: Module, function: cst.FunctionDef) -> bool:
    """Say whether another file may call a function, or put another in its place."""
    name, cls = function.name.value, module.class_of(function)
    stem = PurePath(module.filename).stem
    test = (
        functools.partial(names, name)
        if cls is None
        else functools.partial(_names_method, name, cls.name.value, stem)
    )
    return module.outside.others_say(test) is not False


_COMMENT = regex(r"(^|\s)#[^\n]*")


def _names_method(method: str, cls: str, stem: str, text: str) -> bool:
    """Say whether a text names a method by more than defining one of its own and calling that; in a
    file that imports the class, or all of its file, such a one may override it."""
    if method not in text:
        return False
    text = _COMMENT.sub("", text)
    if re.search(rf"(?<!\bself\.)(?<!\bdef )\b{re.escape(method)}\b", text):
        return True
    if method not in text:
        return False
    imported = rf"^\s*(from|import)\b[^\n]*\b({re.escape(stem)}|{re.escape(cls)})\b"
    return re.search(imported, text, re.MULTILINE) is not None


@question(
    yes="the name is only returned, once",
    no="the name is more than returned",
)
def only_returned(module: Module, target: cst.Name) -> list[cst.Name] | None:
    """Return the read of a plain name that a function binds outside of loops, where all that it
    does with it is to return it, in one place; else None."""
    function, name = module.function(target), target.value
    if function is None or module.loops(target) or binds_globally(module, function, name):
        return None
    reads = reads_of(module, function, name)
    if writes_of(module, function, name) != [target] or len(reads) != 1:
        return None
    own = module.function(reads[0]) is function
    return reads if own and isinstance(module.small_statement(reads[0]), cst.Return) else None


@question(
    yes="all that uses the number is known",
    no="the number is used by code that is not followed, or bound twice",
)
def uses_of_number(module: Module, target: cst.Name) -> NumberUses | None:
    """Return the reads of what an assignment in a loop binds to a plain name; None where not all
    who may read it are known, or one may find something else under the name."""
    binding = module.small_statement(target)
    loops = module.loops(target)
    if not isinstance(binding, cst.Assign) or len(binding.targets) != 1 or not loops:
        return None
    outermost, name = loops[-1], target.value
    if not isinstance(outermost, LOOPS):
        return None
    owner = module.tree.owners[outermost]
    if shared(module, outermost, name):
        return None
    reads, writes = readers_of(module, binding, name), writes_of(module, owner, name)
    if any(each in writes or definitions_of(module, each) != [binding] for each in reads):
        return None
    if any(
        isinstance(each, (cst.Try, cst.TryStar)) for each in ancestors_below(module, binding, owner)
    ):
        return None
    rarely = tuple(
        each
        for each in reads
        if throttled(module, each, loops[0]) or not module.is_within(each, loops[0])
    )
    return NumberUses(rarely, tuple(each for each in reads if each not in rarely))
