"""What a step does anew each time: logs, progress bars, meters, and copies of constants. A part of
`Module`.

Sources: the code of tqdm (``set_postfix`` makes a string of all that is no number), of
torch.utils.tensorboard (``_convert_np.py`` copies tensors to NumPy), of wandb and mlflow (both
convert tensors to numbers when they are handed over), and of `logging` (arguments are formatted
where the level is on).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.base.records import frozen
from torchlint.base.regex import regex
from torchlint.semantic.code.conditions import conditions_around
from torchlint.semantic.code.flow import callees_of, reads_of, writes_of
from torchlint.semantic.code.guards import throttle
from torchlint.semantic.code.names import last_part
from torchlint.semantic.code.reaching import definitions_of, readers_of
from torchlint.semantic.code.text import remarked
from torchlint.semantic.code.tree import Function, attr_of, is_name, last_small
from torchlint.semantic.data.step_counters import last_step, steps_counted
from torchlint.semantic.device.host_reads import scalar_reads
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.time.heat import heat_of
from torchlint.semantic.time.iterations import iteration_count
from torchlint.semantic.values.classes import in_lightning
from torchlint.semantic.values.definitions_behind import functions
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.place import on_device
from torchlint.source.python import DEFS, parsed

if TYPE_CHECKING:
    from torchlint.semantic.device.host_reads import HostRead

_FUNCTIONS = {
    **dict.fromkeys(
        ("builtins.print", "rich.print", "warnings.warn", "wandb.log", "mlflow.log_metric"), "show"
    ),
    **dict.fromkeys(
        ("mlflow.log_metrics", "tqdm.write", "tqdm.tqdm.write", "tqdm.auto.tqdm.write"), "show"
    ),
    **{
        f"logging.{level}": "show"
        for level in ("info", "warning", "warn", "error", "critical", "log")
    },
    "logging.debug": "debug",
}
_LEVELS = frozenset(("info", "warning", "warn", "error", "critical", "success"))
_LOGGER = regex(r"(^|_)log(ger|ging)?$|^LOG(GER)?$|^rank_zero_logger$", re.IGNORECASE)
_RUN = regex(r"(^|_)wandb(_?run|_?logger)?$", re.IGNORECASE)
_BAR = frozenset(("set_postfix", "set_postfix_str", "set_description", "set_description_str"))
_BOARD = regex(r"^add_(scalars?|histogram|text|images?|video|embedding)$")
# Methods that take what is to be logged; what they do with a tensor is not known.
_TAKES = regex(
    r"^(log|log_metrics?|log_dict|log_scalars?|report_scalar|record|logkv(_mean)?|add_metric|track(_\w+)?|write(row)?|"
    r"display|debug|put_scalars?|log_value)$"
)
_METER = regex(
    (
        r"meter|metric"
        r"|(^|_)(avg|average|running|loss(es)?|acc|top_?\d|stats?|tracker|logger|monitor|recorder)(_|$|\d)"
    ),
    re.IGNORECASE,
)
_METER_CLASS = regex(
    r"(Meter|Average|Avg|Metric|Tracker|Logger|Monitor|Recorder|Stats|Mean)", re.IGNORECASE
)
_CASTS = frozenset(
    "builtins." + name for name in ("str round format repr float int dict abs max min sum".split())
)
_HOLDERS = (
    cst.FormattedStringExpression,
    cst.FormattedString,
    cst.ConcatenatedString,
    cst.UnaryOperation,
    cst.BinaryOperation,
    cst.Tuple,
    cst.List,
    cst.Dict,
    cst.Element,
    cst.DictElement,
    cst.StarredDictElement,
)


@frozen
class Sink:
    """A call that shows or records values.

    Args:
        call: the call.
        kind: ``show`` if it turns tensors it is handed into text or numbers by itself, ``debug`` if
            it does so only with debug messages on, ``take`` if that is not known, ``meter`` for a
            running average.
    """

    call: cst.Call
    kind: str


@question(yes="`{0}` logs", no="`{0}` is no logging call")
def logging_call(module: Module, call: cst.Call) -> Sink | None:
    """Return what a call is as a logging call (print, a logger, a progress bar, a tracker, a
    meter), or None."""
    name = module.name(call.func)
    if name in _FUNCTIONS:
        return Sink(call, _FUNCTIONS[name])
    func = call.func
    if isinstance(func, cst.Name):
        behind = functions(module, call) if _may_only_call(module, func) else []
        return Sink(call, "take") if len(behind) == 1 and _hands_on_to_log(*behind[0]) else None
    if not isinstance(func, cst.Attribute) or (name or "").startswith(("torch.", "numpy.")):
        return None
    kind = _method(module, call, func)
    if kind in ("show", "debug") and (
        callees_of(module, call) or isinstance(inferred(module, func.value).node, cst.ClassDef)
    ):
        kind = "take"  # A class of this file may keep what it is handed.
    return Sink(call, kind) if kind else None


def _may_only_call(module: Module, func: cst.Name) -> bool:
    """Say whether a function may do nothing but call others, by the text of another file that
    defines it: that is analysed for no function that does more."""
    there = module.outside.find(module.name(func))
    text = module.outside.text(there) if there is not None else None
    tree = parsed(text) if text is not None else None
    return tree is None or all(
        isinstance(line, ast.Expr)
        for each in tree.body
        if isinstance(each, DEFS) and there is not None and each.name == there.name
        for line in each.body
    )


@question(circular=False)
def _hands_on_to_log(module: Module, function: Function) -> bool:
    """Say whether a function does nothing but hand on what it is given to be logged."""
    if not isinstance(function, cst.FunctionDef):
        return False
    lines = function.body.body[function.get_docstring() is not None :]
    calls = [line for line in lines if isinstance(last_small(line), cst.Expr)]
    return bool(lines) and calls == lines and all(_only_logs(module, line) for line in lines)


def _method(module: Module, call: cst.Call, func: cst.Attribute) -> str:
    method, holder = func.attr.value, _last(func.value)
    if method in _BAR or method == "print" or _BOARD.match(method):
        return "show"
    if _LOGGER.search(holder) and method in (*_LEVELS, "debug"):
        return "debug" if method == "debug" else "show"
    if method in ("log", "log_dict") and holder == "self":
        return "" if in_lightning(module, call) else "take"
    if method == "log" and (_RUN.search(holder) or module.name(func.value) == "wandb.run"):
        return "show"
    if _TAKES.match(method) and holder not in ("math", "np", "torch", "F"):
        return "take"
    value = inferred(module, func.value)
    if (
        method in ("update", "add", "add_value", "push", "put")
        and call.args
        and value.kind not in _NOT_METERS
    ):
        named = value.name if value.kind == "object" else None
        if _METER_CLASS.search(named or "") or _METER.search(holder):
            return "meter"
    return ""


_NOT_METERS = frozenset(
    (
        "tensor",
        "dict",
        "list",
        "tuple",
        "module",
        "optimizer",
        "scaler",
        "scheduler",
        "str",
        "ndarray",
    )
)


def _last(node: cst.BaseExpression) -> str:
    """Return the last word of what a method is called on: ``losses`` of ``self.losses``,
    ``meters["losses"]``."""
    match node:
        case cst.Subscript(
            value,
            [cst.SubscriptElement(cst.Index(cst.SimpleString() as key))],
        ):
            return f"{_last(value)}_{key.raw_value}"
        case cst.Subscript(value):
            return _last(value)
        case cst.Call(func):
            return _last(func)
    return last_part(node)


def _sinks(module: Module, node: cst.BaseExpression, follow: bool) -> list[Sink]:
    at: cst.CSTNode = node
    while True:
        if isinstance(at, cst.Call) and (own := logging_call(module, at)) is not None:
            return [own]
        above = module.parent(at)
        match above:
            case cst.Arg():
                call = module.parent(above)
                if not isinstance(call, cst.Call):
                    return []
                if logging_call(module, call) is None and not _passes(module, call):
                    return []
                at = call
            case cst.IfExp(test=test) if test is not at:
                at = above
            case cst.Attribute(value) if value is at and inferred(module, at).kind == "str":
                at = module.parent(above) or above
            case cst.Assign([cst.AssignTarget(cst.Name(name) as target)]) if follow:
                return _by_name(module, target, name)
            case _ if isinstance(above, _HOLDERS):
                at = above
            case _:
                return []


def _passes(module: Module, call: cst.Call) -> bool:
    """Say whether a call only makes text, a number or a container of its arguments."""
    name = module.called(call)
    if name in _CASTS or name in (
        "collections.OrderedDict",
        "numpy.mean",
        "numpy.round",
        "numpy.array",
    ):
        return True
    func = call.func
    return (
        isinstance(func, cst.Attribute)
        and func.attr.value in ("format", "join")
        and name == ""
        and isinstance(func.value, (cst.SimpleString, cst.ConcatenatedString))
    )


def _by_name(module: Module, target: cst.Name, name: str) -> list[Sink]:
    """Return the logging calls that read a name which is bound once, where nothing else reads
    it."""
    scope: cst.CSTNode = module.scope(target)
    reads = reads_of(module, scope, name)
    if len(writes_of(module, scope, name)) != 1 or not reads:
        return []
    loops = module.loops(target)
    inside: cst.CSTNode = loops[0] if loops else scope
    found: list[Sink] = []
    for read in reads:
        sinks = _sinks(module, read, follow=False)
        if not sinks or not module.is_within(read, inside):
            return []
        found.extend(sinks)
    return found


def _tensors(module: Module, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    match node:
        case cst.Dict(elements):
            for part in elements:
                yield from _tensors(module, part.value)
        case cst.List(elements) | cst.Tuple(elements):
            for each in elements:
                yield from _tensors(module, each.value)
        case cst.Call(func, args) if module.name(func) in (
            "builtins.dict",
            "collections.OrderedDict",
        ):
            for arg in args:
                yield from _tensors(module, arg.value)
        case _ if inferred(module, node).tensor and on_device(module, node) is True:
            yield node


@question(
    yes="an `if` around it, or a slice above it, has read the same tensor already",
    no="nothing has read the tensor before",
)
def read_before(module: Module, read: HostRead) -> bool:
    """Say whether the test of an ``if`` around a read has read the same tensor already, or a slice
    above it the same bound."""
    bound = read.tensor if read.how == "slice" else None
    if isinstance(bound, cst.Name) and _bounds_above(module, read.node, bound):
        return True
    child: cst.CSTNode = read.node
    for above in module.ancestors(read.node):
        if isinstance(above, cst.FunctionDef):
            return False
        if isinstance(above, cst.If) and child is above.body:
            calls = module.within(above.test, cst.Call)
            if any(
                other.tensor.deep_equals(read.tensor)
                for call in calls
                for other in scalar_reads(module, call)
            ):
                return True
        child = above
    return False


def _bounds_above(module: Module, node: cst.CSTNode, bound: cst.Name) -> bool:
    """Say whether a name is read as the bound of a slice in a line above that of `node`, and holds
    the same still."""
    line, made = module.statement(node), definitions_of(module, bound)
    home = module.parent(line)
    lines = home.body if isinstance(home, cst.IndentedBlock) else ()
    return any(
        is_name(other.tensor, bound.value) and definitions_of(module, other.tensor) == made
        for above in lines
        if isinstance(above, cst.SimpleStatementLine) and module.before(above, line)
        for each in module.within(above, cst.Subscript)
        for other in scalar_reads(module, each)
        if other.how == "slice"
    )


@frozen
class LogLines:
    """Neighbouring lines of a loop over the data that do nothing but log.

    Args:
        lines: the lines.
        loop: the loop in whose steps they run.
        counter: the name that counts the steps, or is free to do so.
        counted: whether the loop counts them already.
        last: the test that holds in the last step; None where nothing tells which that is.
        unnamed: the ``_`` that counts the steps by now, and is to be called `counter`.
    """

    lines: tuple[cst.SimpleStatementLine, ...]
    loop: cst.For
    counter: str
    counted: bool
    last: str | None
    unnamed: cst.Name | None = None


LOG_EVERY = 50
"""How rarely a step is logged where a fix decides."""
_COUNTERS = ("step", "iteration", "step_number")


@question(
    yes="the lines around it only log, and could do so every N steps",
    no="the lines around it do more than log, or nothing can count the steps",
)
def log_lines(module: Module, call: cst.Call) -> LogLines | None:
    """Return the line that a logging call is, with those beside it that only log too; None where
    skipping it would skip more than the log, or where the steps cannot be counted."""
    return _lines_to_log(module, call, _beside(module, call))


def _lines_to_log(
    module: Module, call: cst.BaseExpression, lines: Sequence[cst.SimpleStatementLine]
) -> LogLines | None:
    """Return lines of a loop that counts its steps, or can; None where they run rarely already."""
    loop = heat_of(module, call).loop
    if not lines or not isinstance(loop, cst.For) or not module.is_within(call, loop):
        return None
    if (iteration_count(module, loop) or LOG_EVERY + 1) <= LOG_EVERY:
        return None  # It would log nothing but its first step.
    if any(_counts(module, test) for test, _ in conditions_around(module, call, loop)):
        return None
    counter = steps_counted(module, loop, lines[0])
    used = {node.value for node in module.nodes(cst.Name)}
    free = next((name for name in _COUNTERS if name not in used), None)
    if isinstance(module.tree.scope(loop), cst.ClassDef):
        free = None  # A new name would be one of the class's attributes.
    if counter is not None:
        last = last_step(module, loop)
        named = [each for each in module.within(loop, cst.Name) if each.value == counter]
        if counter != "_" or free is None or len(named) > 1:
            return LogLines(tuple(lines), loop, counter, True, last)
        last = last.replace("_ ==", f"{free} ==", 1) if last is not None else None
        return LogLines(tuple(lines), loop, free, True, last, named[0])
    bare = isinstance(loop.iter, cst.Tuple) and not loop.iter.lpar
    if free is None or bare or loop.asynchronous is not None:
        return None
    return LogLines(tuple(lines), loop, free, False, last_step(module, loop, free))


@question(yes="`{0}` redraws a progress bar", no="`{0}` redraws no progress bar")
def redraws_bar(module: Module, call: cst.BaseExpression | None) -> bool:
    """Say whether a call only changes what stands beside a progress bar."""
    if not isinstance(call, cst.Call) or attr_of(call.func) not in _BAR:
        return False
    sink = logging_call(module, call)
    return sink is not None and sink.kind == "show"


def _counts(module: Module, test: cst.BaseExpression) -> bool:
    """Say whether a test has an interval of its own, be it 1: that is where to change it."""
    return any(
        isinstance(each.operator, cst.Modulo) for each in module.within(test, cst.BinaryOperation)
    )


def _beside(module: Module, call: cst.Call) -> list[cst.SimpleStatementLine]:
    line = module.statement(call)
    block = module.parent(line)
    if not isinstance(block, cst.IndentedBlock) or not _only_logs(module, line):
        return []
    found: list[cst.SimpleStatementLine] = []
    for each in block.body:
        if not isinstance(each, cst.SimpleStatementLine) or not _only_logs(module, each):
            if line in found:
                break
            found = []
        elif found and not (remarked(module, found[0], above=False) or remarked(module, each)):
            found.append(each)
        elif line in found:
            break
        else:
            found = [each]
    for above in reversed(block.body[: block.body.index(found[0])] if found else ()):
        if not isinstance(above, cst.SimpleStatementLine) or not _made_for(module, above, found):
            break
        found.insert(0, above)
    return found


def _made_for(
    module: Module, line: cst.SimpleStatementLine, logs: Sequence[cst.SimpleStatementLine]
) -> bool:
    """Say whether a line binds what Python computes for some lines that log, and nothing else
    reads: ``mean = total / seen``."""
    match line.body:
        case [cst.Assign([cst.AssignTarget(cst.Name(name))], value) as made] if not remarked(
            module, logs[0]
        ):
            reads = readers_of(module, made, name)
            return (
                bool(reads)
                and all(any(module.is_within(read, each) for each in logs) for read in reads)
                and all(_passes(module, call) for call in module.within(value, cst.Call))
                and not module.contains(value, cst.NamedExpr, cst.Await, cst.Yield)
                and not any(scalar_reads(module, call) for call in module.within(value, cst.Call))
            )
    return False


def _only_logs(module: Module, line: cst.CSTNode | None) -> bool:
    match line:
        case cst.SimpleStatementLine([cst.Expr(cst.Call() as call)]) | cst.Expr(cst.Call() as call):
            sink = logging_call(module, call)
            changing = module.contains(call, cst.NamedExpr, cst.Await, cst.Yield)
            return sink is not None and sink.kind != "meter" and not changing
    return False


@question(
    yes="the loop uses `{0}` only where `{answer}`",
    no="the loop is not known to use `{0}` now and then alone",
)
def used_rarely(module: Module, node: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the condition under which alone a loop uses what a name, or a key of a dictionary,
    holds; it holds another value in the next step."""
    loop = module.loop(node)
    match module.small_statement(node):
        case cst.Assign(
            [
                cst.AssignTarget(
                    cst.Name(name)
                    | cst.Subscript(
                        cst.Name(name), [cst.SubscriptElement(cst.Index(cst.SimpleString()))]
                    )
                )
            ],
            value,
        ) if value is node and loop is not None:
            uses = [
                each
                for each in reads_of(module, module.scope(node), name)
                if not isinstance(module.parent(module.parent(each)), cst.AssignTarget)
            ]
            tests = [throttle(module, each, loop) for each in uses if module.is_within(each, loop)]
            return tests[0] if len(set(tests)) == 1 and len(tests) == len(uses) else None
    return None


@question(yes="the value is only logged", no="the value is not only logged")
def logged_in(module: Module, node: cst.BaseExpression) -> list[Sink]:
    """Return the logging calls that are all that reads an expression, itself or by the name bound
    to it."""
    return _sinks(module, node, follow=True)


@question(
    yes="the call turns a device tensor into text", no="the call is handed no device tensor to show"
)
def shown_tensors(module: Module, sink: Sink) -> Iterator[cst.BaseExpression]:
    """Yield the tensors on the device that a logging call is handed and reads by itself."""
    if sink.kind == "show":
        for arg in sink.call.args:
            if arg.star != "**":
                yield from _tensors(module, arg.value)
