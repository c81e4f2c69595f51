"""The names by which a loop over the data counts its steps."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.semantic.code.flow import writes_of
from torchlint.semantic.module import Module
from torchlint.semantic.question import question

_COUNTED = re.compile(
    r"(^|_)(steps?|iters?|iterations?|itr|batch(es)?(_done|_count|_id(x)?)?|updates?|n_iter|counter?)$"
)
"""What steps are counted by where a function is handed the count."""


@question(yes="the loop counts its steps in `{answer}`", no="the loop does not count its steps")
def step_counter(module: Module, loop: cst.CSTNode | None) -> str | None:
    """Return the name that ``for i, batch in enumerate(…)`` or ``for i in range(n)`` counts the
    iterations of a loop with, or None."""
    if not isinstance(loop, cst.For):
        return None
    iterated: cst.BaseExpression = loop.iter
    while isinstance(iterated, cst.Call) and iterated.args:
        # Behind a star import a builtin's name is not known for sure.
        unknown = isinstance(iterated.func, cst.Name) and iterated.func.value == "enumerate"
        name = "builtins.enumerate" if unknown else module.name(iterated.func) or ""
        match name, loop.target, iterated.args:
            case "builtins.enumerate", cst.Tuple(elements=[cst.Element(cst.Name(counter)), _]), _:
                return counter
            case (("builtins.range" | "tqdm.trange"), cst.Name(counter), [_] | [_, _]):
                return counter if iterated.args[-1].keyword is None else None
        if not name.startswith("tqdm") or name.endswith("trange"):
            return None
        iterated = iterated.args[0].value
    return None


@question(yes="the steps are counted in `{answer}`", no="nothing counts the steps", remember=False)
def steps_counted(module: Module, loop: cst.For, line: cst.CSTNode) -> str | None:
    """Return the name that counts the steps of a loop where one of its lines runs: best one that
    goes on over all epochs, else the loop's own, else one that the loop adds 1 to."""
    own = step_counter(module, loop)
    added = list(_added_to(module, loop))
    over_all = next((name for name in added if not _set_back(module, loop, name)), None)
    over_all = over_all or _worked_out(module, loop, line, own)
    return over_all or own or next(iter(added), None)


def _added_to(module: Module, loop: cst.For) -> Iterator[str]:
    """Yield the names to which each turn of a loop adds 1, once, and that start as a whole
    number."""
    for line in loop.body.body:
        match line:
            case cst.SimpleStatementLine(
                body=[
                    cst.AugAssign(
                        target=cst.Name(name) as target,
                        operator=cst.AddAssign(),
                        value=cst.Integer("1"),
                    )
                ]
            ) if writes_of(module, loop, name) == [target] and _starts_whole(module, target):
                yield name


def _starts_whole(module: Module, target: cst.Name) -> bool:
    owner = module.tree.owners[target]
    others = [each for each in writes_of(module, owner, target.value) if each is not target]
    if any(module.tree.owners[each] is not owner for each in others):
        return False
    if any(isinstance(_bound_to(module, each), cst.Integer) for each in others):
        return True
    parameters = owner.params.params if isinstance(owner, cst.FunctionDef) else ()
    given = any(each.name.value == target.value for each in parameters)
    return given and _COUNTED.search(target.value) is not None


def _bound_to(module: Module, target: cst.Name) -> cst.BaseExpression | None:
    """Return what an assignment binds a name to, also in ``epoch, step = 0, 0``."""
    match module.small_statement(target):
        case cst.Assign(targets=[cst.AssignTarget(target=bound)], value=value) if bound is target:
            return value
        case cst.Assign(
            targets=[cst.AssignTarget(target=cst.Tuple(elements=names))],
            value=cst.Tuple(elements=values),
        ) if len(names) == len(values):
            found = [v.value for n, v in zip(names, values, strict=True) if n.value is target]
            return found[0] if found else None
    return None


def _set_back(module: Module, loop: cst.For, name: str) -> bool:
    """Say whether a count starts anew in each turn of a loop around this one, or there is no such
    loop."""
    outer = [each for each in module.loops(loop) if each is not loop]
    owner = module.tree.owners[loop]
    parameters = owner.params.params if isinstance(owner, cst.FunctionDef) else ()
    if any(each.name.value == name for each in parameters):
        return False
    return not outer or len(writes_of(module, outer[-1], name)) > 1


def _worked_out(module: Module, loop: cst.For, line: cst.CSTNode, own: str | None) -> str | None:
    """Return the name of ``step = epoch * len(loader) + i``, which the loop works out before a
    line."""
    for before in loop.body.body:
        if own is None or before is line or module.is_within(line, before):
            return None
        match before:
            case cst.SimpleStatementLine(
                body=[
                    cst.Assign(
                        targets=[cst.AssignTarget(target=cst.Name(name) as target)],
                        value=cst.BinaryOperation(left=left, operator=cst.Add(), right=right),
                    )
                ]
            ) if writes_of(module, loop, name) == [target]:
                if any(_whole_epochs(*sides, own) for sides in ((left, right), (right, left))):
                    return name
    return None


def _whole_epochs(side: cst.BaseExpression, other: cst.BaseExpression, own: str) -> bool:
    """Say whether a product is added to a loop's own count: ``i + epoch * len(loader)``."""
    product = isinstance(other, cst.BinaryOperation) and isinstance(other.operator, cst.Multiply)
    return product and isinstance(side, cst.Name) and side.value == own
