"""The names by which a loop over the data counts its steps."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.bindings import names_of_outer_scopes
from torchlint.semantic.code.flow import writes_of
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.tree import is_name, root_of
from torchlint.semantic.module import Module
from torchlint.semantic.project.asked import said_somewhere
from torchlint.semantic.question import question
from torchlint.semantic.values.inferred import inferred

_COUNTED = regex(
    r"(^|_)(steps?|iters?|iterations?|itr|batch(es)?(_done|_count|_id(x)?)?|updates?|n_iter|counter?)$"
)
"""What steps are counted by where a function is handed the count."""
_PATH = regex(r"[A-Za-z_][\w.]*")
_RESIZES = frozenset(
    ("append", "extend", "insert", "pop", "remove", "clear", "appendleft", "popleft", "discard")
)


@question(yes="the loop counts its steps in `{answer}`", no="the loop does not count its steps")
def step_counter(module: Module, loop: cst.CSTNode | None) -> str | None:
    """Return the name that ``for i, batch in enumerate(…)``, ``for i in range(n)`` or
    ``for i, batch in zip(range(n), …)`` counts the iterations of a loop with, or None; a progress
    bar may stand around it, and the loop may go over a name that is bound to it."""
    if not isinstance(loop, cst.For):
        return None
    found = _counting(module, loop.target, loop.iter)
    return None if found is None or writes_of(module, loop.body, found) else found


@question()
def _counting(module: Module, target: cst.CSTNode, iterated: cst.BaseExpression) -> str | None:
    if isinstance(iterated, cst.Name):
        made = [_made_by(each, iterated) for each in definitions_of(module, iterated)]
        names = {_counting(module, target, each) if each else None for each in made}
        return names.pop() if len(names) == 1 else None
    if isinstance(iterated, cst.IfExp):
        ways = {_counting(module, target, each) for each in (iterated.body, iterated.orelse)}
        return ways.pop() if len(ways) == 1 else None
    if not isinstance(iterated, cst.Call) or not iterated.args:
        return None
    # Behind a star import a builtin's name is not known for sure.
    match iterated.func:
        case cst.Name("enumerate" | "zip" as builtin):
            name = f"builtins.{builtin}"
        case func:
            name = module.name(func) or ""
    match name, target, iterated.args:
        case "builtins.enumerate", cst.Tuple([cst.Element(cst.Name(counter)), _]), _:
            return counter
        case "builtins.zip", cst.Tuple([cst.Element(first), *_]), [cst.Arg(numbers), *_]:
            return _counting(module, first, numbers)
        case "itertools.count", cst.Name(counter), [_]:
            return counter if iterated.args[0].keyword is None else None
        case (("builtins.range" | "tqdm.trange"), cst.Name(counter), [_] | [_, _]):
            return counter if iterated.args[-1].keyword is None else None
    bar = name.startswith("tqdm") and not name.endswith("trange")
    return _counting(module, target, iterated.args[0].value) if bar else None


def _made_by(definition: cst.CSTNode, read: cst.Name) -> cst.BaseExpression | None:
    """Return what a definition binds to a name: ``bar = tqdm(…)``, ``with tqdm(…) as bar``."""
    match definition:
        case cst.Assign([cst.AssignTarget(cst.Name())], value):
            return value
        case cst.With(items=items):
            named = ((each.item, each.asname) for each in items)
            return next((e for e, name in named if name and read.deep_equals(name.name)), None)
    return None


@question(yes="the test for its last step is known", no="nothing tells the last step")
def last_step(module: Module, loop: cst.For, counter: str | None = None) -> str | None:
    """Return the test that holds in the last step of a loop that counts its steps itself, or in the
    `counter` that ``enumerate`` is to give it: ``i == len(loader) - 1``; None where what it goes
    over may have no length, or the loop changes what the test reads."""
    own = step_counter(module, loop)
    last = _last(module, loop.iter) if own is not None else None
    if own is None and counter is not None:
        own, length = counter, _length(module, loop.iter)
        last = f"{length} - 1" if length is not None else None
    return None if last is None or _changed_inside(module, loop, last) else f"{own} == {last}"


def _changed_inside(module: Module, loop: cst.For, code: str) -> bool:
    """Say whether a loop may change what the code of a last step reads: a name, an attribute, or
    how long a list is."""
    texts = [each for each in _PATH.findall(code) if each != "len"]
    for text in texts:
        name = text.partition(".")[0]
        shared = any(name in outer for outer in names_of_outer_scopes(module))
        if shared or writes_of(module, loop, name):
            return True
    uses = (
        each
        for each in module.within(loop.body, cst.Name, cst.Attribute)
        if dotted_text(each) in texts
    )
    return any(_changes(module, each, sized="len(" in code) for each in uses)


def _changes(module: Module, use: cst.CSTNode, *, sized: bool) -> bool:
    """Say whether a use of a name or attribute may bind it anew or, where its length is asked for,
    make it longer or shorter."""
    match module.small_statement(use):
        case cst.Assign(targets) if any(module.is_within(use, each) for each in targets):
            return True
        case cst.AugAssign(target) | cst.AnnAssign(target) if module.is_within(use, target):
            return True
        case cst.Del():
            return True
    match module.parent(use):
        case cst.Attribute(value, cst.Name(method)) if value is use:
            return method in _RESIZES
        case cst.Arg() as arg:
            call = module.parent(arg)
            name = module.name(call.func) if isinstance(call, cst.Call) else None
            return sized and not (name or "").startswith("builtins.")
    return False


def _last(module: Module, iterated: cst.BaseExpression) -> str | None:
    """Return the code of the last number that a counting iterator gives."""
    match iterated:
        case cst.Name():
            made = [_made_by(each, iterated) for each in definitions_of(module, iterated)]
            ways = {_last(module, each) if each else None for each in made}
            return ways.pop() if len(ways) == 1 else None
        case cst.Call(cst.Name("enumerate"), [cst.Arg(value), *start]):
            length = _length(module, value)
            known = {"0": f"{length} - 1", "1": length}
            first = module.source_of(start[0].value) if start else "0"
            return known.get(first) if length is not None else None
        case cst.Call(cst.Name("range" | "trange"), args):
            ends = [each.value for each in args if each.keyword is None]
            return _number_before(module, ends[-1]) if len(ends) in (1, 2) else None
        case cst.Call(func, [cst.Arg(value), *_]):
            bar = (module.name(func) or "").startswith("tqdm")
            return _last(module, value) if bar else None
    return None


def _number_before(module: Module, end: cst.BaseExpression) -> str | None:
    match end:
        case cst.BinaryOperation(left, cst.Add(), cst.Integer("1")):
            return dotted_text(left)
        case cst.Integer():
            return str(end.evaluated_value - 1)
        case cst.Call(args=[cst.Arg(value)]) if module.name(end.func) == "builtins.len":
            named = dotted_text(value) is not None
        case _:
            named = dotted_text(end) is not None
    return f"{module.source_of(end)} - 1" if named else None


def _length(module: Module, iterated: cst.BaseExpression) -> str | None:
    """Return the code of the length of a loader, seen through a progress bar or a count around it;
    None where it may have none."""
    match iterated:
        case cst.Call(func, [cst.Arg(value), *_]):
            name = module.name(func) or ""
            same = name.startswith("tqdm") or name == "builtins.enumerate"
            return _length(module, value) if same else None
        case cst.Name():
            made = definitions_of(module, iterated)
            behind = _made_by(made[0], iterated) if len(made) == 1 else None
            if isinstance(behind, cst.Call) and (module.name(behind.func) or "").startswith("tqdm"):
                return _length(module, behind)
    sized = inferred(module, iterated).kind in ("loader", "list", "tuple", "tensor")
    sized = sized and not said_somewhere(module, _has_no_length)
    text = dotted_text(iterated)
    return f"len({text})" if text and (sized or _length_is_asked(module, iterated, text)) else None


def _length_is_asked(module: Module, iterated: cst.BaseExpression, text: str) -> bool:
    """Say whether the same function asks for the length of what a loop goes over, be it a name or
    an attribute."""
    function = module.function(iterated)
    home = function or module.root
    if "." in text and _bindings(module, home, text):
        return False
    made = _origin(module, iterated)
    for call in module.within(home, cst.Call):
        if is_name(call.func, "len") and call.args and dotted_text(call.args[0].value) == text:
            other = call.args[0].value
            if module.function(other) is function and _origin(module, other) == made:
                return True
    return False


def _origin(module: Module, path: cst.BaseExpression) -> list[cst.CSTNode]:
    """Return what may have bound the name that a dotted path starts with."""
    path = root_of(path, cst.Attribute)
    return definitions_of(module, path) if isinstance(path, cst.Name) else []


def _has_no_length(text: str) -> bool:
    return "IterableDataset" in text or "webdataset" in text


@question(yes="the steps are counted in `{answer}`", no="nothing counts the steps", remember=False)
def steps_counted(module: Module, loop: cst.For, line: cst.CSTNode) -> str | None:
    """Return the name that counts the steps of a loop where one of its lines runs: best one that
    goes on over all epochs, else the loop's own, else one that the loop adds 1 to."""
    own = step_counter(module, loop)
    added = list(_added_to(module, loop))
    over_all = next((name for name in added if not _set_back(module, loop, name)), None)
    return over_all or own or next(iter(added), None)


def _added_to(module: Module, loop: cst.For) -> Iterator[str]:
    """Yield the names and attributes to which each iteration of a loop adds 1, once, and that start
    as a whole number."""
    for line in loop.body.body:
        target = _grown(line)
        match target:
            case cst.Name(name):
                if writes_of(module, loop, name) == [target] and _starts_whole(module, target):
                    yield name
            case cst.Attribute(cst.Name(), cst.Name(name)) if _COUNTED.search(name):
                text = module.source_of(target)
                if len(_bindings(module, loop, text)) == 1:
                    yield text


def _grown(line: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the target of ``n += 1`` or ``n = n + 1``."""
    match line:
        case cst.SimpleStatementLine([cst.AugAssign(target, cst.AddAssign(), cst.Integer("1"))]):
            return target
        case cst.SimpleStatementLine(
            [
                cst.Assign(
                    [cst.AssignTarget(target)],
                    cst.BinaryOperation(left, cst.Add(), cst.Integer("1")),
                )
            ]
        ) if left.deep_equals(target):
            return target
    return None


def _bindings(module: Module, scope: cst.CSTNode, attribute: str) -> list[cst.CSTNode]:
    """Return the assignments inside `scope` to an attribute, by its text."""
    kinds = (cst.AssignTarget, cst.AugAssign, cst.AnnAssign)
    found: Iterator[cst.AssignTarget | cst.AugAssign | cst.AnnAssign]
    found = module.within(scope, *kinds)
    return [each for each in found if module.source_of(each.target) == attribute]


def _starts_whole(module: Module, target: cst.Name) -> bool:
    owner = module.tree.owners[target]
    others = [each for each in writes_of(module, owner, target.value) if each is not target]
    if any(module.tree.owners[each] is not owner for each in others):
        return False
    starts = [_bound_to(module, each) for each in others]
    if any(start is not None and is_name(start, "None") for start in starts):
        return False
    if any(isinstance(start, cst.Integer) for start in starts):
        return True
    parameters = owner.params.params if isinstance(owner, cst.FunctionDef) else ()
    given = any(each.name.value == target.value for each in parameters)
    return given and _COUNTED.search(target.value) is not None


def _bound_to(module: Module, target: cst.Name) -> cst.BaseExpression | None:
    """Return what an assignment binds a name to, also in ``epoch, step = 0, 0``."""
    match module.small_statement(target):
        case cst.Assign([cst.AssignTarget(bound)], value) if bound is target:
            return value
        case cst.Assign(
            [cst.AssignTarget(cst.Tuple(names))],
            cst.Tuple(values),
        ) if len(names) == len(values):
            found = [v.value for n, v in zip(names, values, strict=True) if n.value is target]
            return found[0] if found else None
    return None


def _set_back(module: Module, loop: cst.For, name: str) -> bool:
    """Say whether a count starts anew in each iteration of a loop around this one, or there is no
    such loop."""
    outer = [each for each in module.loops(loop) if each is not loop]
    owner = module.tree.owners[loop]
    parameters = owner.params.params if isinstance(owner, cst.FunctionDef) else ()
    if any(each.name.value == name for each in parameters):
        return False
    if "." in name:
        return bool(outer) and len(_bindings(module, outer[-1], name)) > 1
    return not outer or len(writes_of(module, outer[-1], name)) > 1
