"""Loops over parameters as calls of ``torch._foreach_*``, which take lists of tensors."""

from __future__ import annotations

import io
import keyword
import re
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import field

import libcst as cst

from torchlint.base.records import dataclass, frozen
from torchlint.rule import (
    Fix,
    InsertAfter,
    InsertBefore,
    Module,
    NeedImport,
    NodeEdit,
    Replace,
    Safety,
    one_sentence,
)
from torchlint.semantic.code.imports import name_for_module
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.reaching import definitions_of, read_behind, readers_of
from torchlint.semantic.code.tree import method_called
from torchlint.semantic.time.step_overhead import parameter_names
from torchlint.semantic.torch import ops
from torchlint.semantic.values.inferred import inferred

_ALIASES = ("data", "grad")
_CHANGES = ops.having("in-place")
_PURE = frozenset(f"builtins.{name}" for name in "float int min max abs".split())
_RESULTS = (("means", "mean"), ("averages", "average"), ("mixtures", "mixture"))
_ASKS = frozenset(f"builtins.{name}" for name in "isinstance hasattr len any all".split())
_WIDTH = 88
_ROUNDS = "The last place may be rounded differently, for a product and its sum are one operation."
_INVERSE = (
    "The last place may differ, for a GPU divides one tensor by a number as it multiplies by the "
    "inverse, and a list exactly."
)
_PRIVATE = "torch._foreach_* is not public."
_LENGTHS = "Lists of different lengths raise, where zip stopped at the end of the shorter."
_SHARED = "Tensors of the table that share memory (tied weights) must not be among them."
_ORDER = "The steps are done for all tensors one after the other, and no longer tensor by tensor."
_ONE_DTYPE = "lerp demands one dtype."
_HELD = "A list of gradients keeps them in memory until it is made anew, or its function ends."
_CLIPPED = (
    "Where a later backward() needs the gradients (create_graph=True), it raises, for they were "
    "changed."
)
_LEFT_OUT = "A parameter without a gradient is left out, where the loop raised."
_LONGER = 6
"""How many lines more a repair may have than the loop; one that has more is only suggested."""
COPIES = (2, 1)
"""The torch that brought ``torch._foreach_copy_``."""
_AT_ONCE = "All results are in memory before the first is stored."


@frozen
class _Step:
    """One call of ``torch._foreach_<name>``.

    Args:
        name: the operation, with its underscore.
        tensor: the code of the expression that is changed.
        other: the code of another tensor that it is given.
        rest: the last argument, as text.
    """

    name: str
    tensor: str
    other: str | None = None
    rest: str = ""


@frozen
class _Stored:
    """Where each result is stored, as text: ``target = result``, with `name` taken from a list of
    the `holder` of each turn; `results` are the names for all results and for one."""

    target: str
    holder: str
    name: str
    results: tuple[str, str]


@dataclass(slots=True)
class _Plan:
    """What a loop comes to: the tensors that it names, in the order in which they are met, and the
    steps for all of them."""

    guards: list[cst.BaseStatement | cst.BaseSmallStatement]
    tensors: dict[str, cst.BaseExpression] = field(default_factory=dict)
    steps: list[_Step] = field(default_factory=list)
    stored: _Stored | None = None
    rounds: bool = False


@frozen
class _Loop:
    """A loop with what stands for tensors, keys and everything that it binds."""

    node: cst.For
    tensors: frozenset[str]
    keys: frozenset[str]
    bound: frozenset[str]


def foreach_fix(module: Module, node: cst.For) -> Fix | None:
    """Return the fix that gives all parameters of a loop to one call for each of its steps."""
    suite = _steps_of(module, node)
    if any(isinstance(above, cst.ClassDef) for above in _up_to_function(module, node)):
        return None  # the lists would become attributes of the class
    if node.orelse is not None or node.asynchronous is not None or suite is None:
        return None
    filters, block = suite
    loop = _named(module, node)
    plan = _Plan([line for line in block.body if _is_guard(module, line)])
    lines = block.body[len(plan.guards) :]
    small = [each for line in lines for each in _smalls(line)]
    if len(small) != len(lines) or not small or plan.guards != [*block.body[: len(plan.guards)]]:
        return None
    done = _stores(module, loop, small, plan) or all(
        _read(module, loop, each, plan) for each in small
    )
    if not done or not plan.steps:
        return None
    if module.target_torch < COPIES and any(step.name == "copy_" for step in plan.steps):
        return None
    torch = name_for_module(module, "torch", "torch")
    clipped = _clipping(module, loop, plan, filters, torch)
    if clipped is not None:
        return clipped
    names = _list_names(module, plan)
    if names is None:
        return None
    short = _comprehensions(module, loop, plan, names, filters)
    kept = _appends(module, loop, plan, names, filters, block)
    forms = [edits for edits in (short, kept) if edits is not None]
    if not forms:
        return None
    edits = min(forms, key=_lines)
    note = _note(module, loop, plan, edits is short)
    title = "Give all tensors to torch._foreach_*"
    safety = (
        Safety.SUGGESTION if _lines(edits) > _height(_written(node)) + _LONGER else Safety.UNSAFE
    )
    return Fix((*edits, NeedImport("torch", torch)), safety, title, note)


def _clipping(
    module: Module, loop: _Loop, plan: _Plan, filters: list[cst.If], torch: str
) -> Fix | None:
    """Return the fix of a loop that does what ``torch.nn.utils.clip_grad_value_`` does, which
    raises where no parameter has a gradient."""
    match loop.node.target, plan.steps, plan.stored:
        case (
            cst.Name(value=name),
            [_Step("clamp_min_", tensor, None, low), _Step("clamp_max_", _, None, high)],
            None,
        ) if tensor.removesuffix(".data") == f"{name}.grad" and low == f"-{high}":
            pass
        case _:
            return None
    has, trains = f"{name}.grad is not None", f"{name}.requires_grad"
    asked = {part for each in filters for part in module.source_of(each.test).split(" and ")}
    for guard in plan.guards:
        left = module.source_of(guard.test) if isinstance(guard, cst.If) else ""
        asked.add({f"{name}.grad is None": has, f"not {trains}": trains}.get(left, ""))
    params = next((free for free in ("params", "clipped") if not _taken(module, free)), None)
    if not asked <= {has, trains} or "#" in _written(loop.node) or _read_later(module, loop):
        return None
    if params is None:
        return None
    tests = f" if {' and '.join(sorted(asked))}" if asked else ""
    listed = f"{params} = [{name} for {name} in {module.source_of(loop.node.iter)}{tests}]"
    call = f"if {params}:\n    {torch}.nn.utils.clip_grad_value_({params}, {high})"
    note = one_sentence((_CLIPPED, "" if has in asked else _LEFT_OUT))
    edits = (
        Replace(loop.node, cst.parse_statement(listed)),
        InsertAfter(loop.node, call),
        NeedImport("torch", torch),
    )
    return Fix(edits, Safety.UNSAFE, "Use torch.nn.utils.clip_grad_value_", note)


def _lines(edits: list[NodeEdit]) -> int:
    """Return how many lines edits write, as many as they would be without a limit to their
    width."""
    written = [
        _written(edit.new) if isinstance(edit, Replace) else edit.code
        for edit in edits
        if isinstance(edit, (Replace, InsertBefore, InsertAfter))
    ]
    return sum(map(_height, written))


def _height(code: str) -> int:
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    return sum(token.type == tokenize.NEWLINE for token in tokens)


def _written(node: cst.CSTNode) -> str:
    """Return the code of a statement without the comments above it."""
    bare = node.with_changes(leading_lines=()) if hasattr(node, "leading_lines") else node
    return cst.Module([]).code_for_node(bare)


def _note(module: Module, loop: _Loop, plan: _Plan, short: bool) -> str:
    zipped = short and len(plan.tensors) > 1 and "zip" in module.names_in(loop.node.iter)
    table = "parameters" not in module.source_of(loop.node.iter)
    read = module.within(loop.node, cst.Attribute)
    gradients = any(each.attr.value == "grad" for each in read)
    parts = (
        _ROUNDS if plan.rounds else "",
        _INVERSE if any(step.name == "div_" for step in plan.steps) else "",
        _ORDER if len(plan.steps) > 1 else "",
        _AT_ONCE if plan.stored is not None else "",
        _ONE_DTYPE if any("lerp" in step.name for step in plan.steps) else "",
        _LENGTHS if zipped else "",
        _HELD if gradients else "",
        _SHARED if table else "",
        _PRIVATE,
    )
    return one_sentence(parts)


# -- what the loop does ----------------------------------------------------------------------------


def _named(module: Module, node: cst.For) -> _Loop:
    found = parameter_names(module, node)
    bound = frozenset(name.value for name in module.within(node.target, cst.Name))
    tensors = frozenset((*found.tensors, *found.beside)) & bound
    return _Loop(node, tensors, frozenset(found.keys) & bound, bound)


def _steps_of(module: Module, node: cst.For) -> tuple[list[cst.If], cst.BaseSuite] | None:
    """Return the conditions around all that a loop does, outermost first, and the block in them."""
    filters: list[cst.If] = []
    block: cst.BaseSuite = node.body
    while len(block.body) == 1 and isinstance(inner := block.body[0], cst.If):
        if inner.orelse is not None or not _plain_test(module, inner.test):
            return None
        filters.append(inner)
        block = inner.body
    return filters, block


def _plain_test(module: Module, test: cst.BaseExpression) -> bool:
    """Say whether a condition asks what no step changes: what a tensor is, not what it holds."""
    if any(True for _ in module.within(test, cst.Await, cst.NamedExpr, cst.Yield)):
        return False
    return all(
        module.name(call.func) in _ASKS or method_called(call) in ops.HOST_METHODS
        for call in module.within(test, cst.Call)
    )


def _is_guard(module: Module, line: cst.CSTNode) -> bool:
    """Say whether a statement leaves a parameter out, or asserts something of it."""
    match line:
        case cst.If(test=test, orelse=None, body=cst.BaseSuite(body=[only])):
            left = only.body[0] if isinstance(only, cst.SimpleStatementLine) else only
            return isinstance(left, cst.Continue) and _plain_test(module, test)
        case cst.SimpleStatementLine(body=[cst.Assert(test=test, msg=None)]):
            return _plain_test(module, test)
    return False


def _smalls(line: cst.CSTNode) -> list[cst.BaseSmallStatement]:
    match line:
        case cst.SimpleStatementLine(body=[small]):
            return [small]
        case cst.BaseSmallStatement():
            return [line]
    return []


def _read(module: Module, loop: _Loop, node: cst.BaseSmallStatement, plan: _Plan) -> bool:
    """Add to a plan what a statement does; False where that is not known."""
    match node:
        case cst.Expr(value=cst.Call() as call):
            return _chain(module, loop, call, plan)
        case cst.AugAssign(target=target, operator=operator, value=value):
            return _augmented(module, loop, target, operator, value, plan)
    return False


def _stores(module: Module, loop: _Loop, body: list[cst.BaseSmallStatement], plan: _Plan) -> bool:
    """Read ``shadow[name] = a * p.data + b * shadow[name]`` and ``k.data = …``, perhaps with a name
    for what is stored."""
    last = body[-1]
    if not isinstance(last, cst.Assign) or len(last.targets) != 1 or len(body) > 2:
        return False
    target, value = last.targets[0].target, _behind_copy(last.value)
    if len(body) == 2:
        match body[0]:
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as mixed)], value=made) if (
                mixed.deep_equals(value) and len(readers_of(module, body[0], mixed.value)) == 1
            ):
                value = made
            case _:
                return False
    holder: cst.BaseExpression
    match target:
        case cst.Attribute(value=holder, attr=cst.Name("data")) if isinstance(holder, cst.Name):
            name = holder.value
        case cst.Attribute(value=cst.Subscript() as holder, attr=cst.Name("data")):
            name = "held"
        case cst.Subscript(slice=[cst.SubscriptElement(slice=cst.Index(value=cst.Name() as key))]):
            holder, name = key, key.value
        case _:
            return False
    if not _tensor(module, loop, target) or (name == "held" and "held" in module.text):
        return False
    kept = f"{name}.data" if isinstance(target, cst.Attribute) else module.source_of(target)
    results = next((pair for pair in _RESULTS if not _taken(module, *pair)), None)
    if results is None:
        return False
    plan.stored = _Stored(kept, module.source_of(holder), name, results)
    return _copy(module, loop, _put(module, plan, target), value, plan) and len(plan.steps) == 2


def _behind_copy(node: cst.BaseExpression) -> cst.BaseExpression:
    match node:
        case cst.Call(func=cst.Attribute(value=value, attr=cst.Name("clone" | "detach")), args=[]):
            return value
    return node


def _chain(module: Module, loop: _Loop, call: cst.Call, plan: _Plan) -> bool:
    """Read ``p.data.mul_(d).add_(q.data, alpha=1 - d)``."""
    steps: list[tuple[str, Sequence[cst.Arg]]] = []
    node: cst.BaseExpression = call
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        if node.func.attr.value not in _CHANGES:
            break
        steps.insert(0, (node.func.attr.value, node.args))
        node = node.func.value
    if not steps or not _tensor(module, loop, node):
        return False
    target = _put(module, plan, node)
    return all(_method(module, loop, target, name, args, plan) for name, args in steps)


def _method(
    module: Module, loop: _Loop, target: str, name: str, args: Sequence[cst.Arg], plan: _Plan
) -> bool:
    if any(arg.star for arg in args):
        return False
    given = [arg.value for arg in args if arg.keyword is None]
    named = {arg.keyword.value: arg.value for arg in args if arg.keyword is not None}
    match name, given, list(named):
        case "mul_" | "div_", [value], [] if _number(module, loop, value):
            plan.steps.append(_Step(name, target, rest=module.source_of(value)))
            return True
        case "add_" | "sub_", [value], [] | ["alpha"]:
            return _sum(module, loop, target, name, value, named.get("alpha"), plan)
        case "add_" | "sub_", [factor, value], [] if _number(module, loop, factor):
            return _sum(module, loop, target, name, value, factor, plan)
        case "lerp_", [value, weight], []:
            return _lerp(module, loop, target, value, weight, plan)
        case "copy_", [value], []:
            return _copy(module, loop, target, value, plan)
        case "zero_", [], []:
            plan.steps.append(_Step(name, target))
            return True
        case "clamp_", _, _:
            bounds = dict(zip(("min", "max"), given, strict=False)) | named
            return _clamp(module, loop, target, bounds, plan)
    return False


def _augmented(
    module: Module,
    loop: _Loop,
    target: cst.BaseExpression,
    operator: cst.BaseAugOp,
    value: cst.BaseExpression,
    plan: _Plan,
) -> bool:
    if not _tensor(module, loop, target):
        return False
    text = _put(module, plan, target)
    match operator:
        case cst.MultiplyAssign() | cst.DivideAssign() if _number(module, loop, value):
            name = "mul_" if isinstance(operator, cst.MultiplyAssign) else "div_"
            plan.steps.append(_Step(name, text, rest=module.source_of(value)))
            return True
        case cst.AddAssign() | cst.SubtractAssign():
            name = "add_" if isinstance(operator, cst.AddAssign) else "sub_"
            return _sum(module, loop, text, name, value, None, plan)
    return False


def _sum(
    module: Module,
    loop: _Loop,
    target: str,
    name: str,
    value: cst.BaseExpression,
    alpha: cst.BaseExpression | None,
    plan: _Plan,
) -> bool:
    """Read what is added: a tensor, perhaps times a number, or the way to another tensor."""
    if alpha is None:
        product = _product(module, loop, value)
        if product is not None:
            value, alpha = product
            plan.rounds = True
    if alpha is not None and not _factor(module, loop, alpha):
        return False
    if not _tensor(module, loop, value):
        return False
    other = _put(module, plan, value)
    plan.steps.append(_Step(name, target, other, f"alpha={_text(alpha)}" if alpha else ""))
    return True


def _lerp(
    module: Module,
    loop: _Loop,
    target: str,
    value: cst.BaseExpression,
    weight: cst.BaseExpression,
    plan: _Plan,
) -> bool:
    if not _tensor(module, loop, value) or not _factor(module, loop, weight):
        return False
    plan.steps.append(_Step("lerp_", target, _put(module, plan, value), _text(weight)))
    return True


def _copy(module: Module, loop: _Loop, target: str, value: cst.BaseExpression, plan: _Plan) -> bool:
    if _tensor(module, loop, value):
        plan.steps.append(_Step("copy_", target, _put(module, plan, value)))
        return True
    mix = _mix(module, loop, target, value)
    if mix is None:
        return False
    keep, other, share = mix
    text = _put(module, plan, other)
    plan.rounds = True
    plan.steps.append(_Step("mul_", target, rest=_text(keep)))
    plan.steps.append(_Step("add_", target, text, f"alpha={_text(share)}"))
    return True


def _mix(
    module: Module, loop: _Loop, target: str, value: cst.BaseExpression
) -> tuple[cst.BaseExpression, cst.BaseExpression, cst.BaseExpression] | None:
    """Return ``(a, q, b)`` of ``t * a + q * b``, in any order."""
    match value:
        case cst.BinaryOperation(left=left, operator=cst.Add(), right=right):
            first, second = _product(module, loop, left), _product(module, loop, right)
            for one, two in ((first, second), (second, first)):
                if one is None or two is None or _bare(module, one[0]) != _bare_text(target):
                    continue
                if _tensor(module, loop, two[0]) and _factor(module, loop, two[1]):
                    return one[1], two[0], two[1]
    return None


def _clamp(
    module: Module,
    loop: _Loop,
    target: str,
    bounds: dict[str, cst.BaseExpression],
    plan: _Plan,
) -> bool:
    if not bounds or not set(bounds) <= {"min", "max"}:
        return False
    for which in ("min", "max"):
        bound = bounds.get(which)
        if bound is None:
            continue
        if not _factor(module, loop, bound) or module.source_of(bound) == "None":
            return False
        plan.steps.append(_Step(f"clamp_{which}_", target, rest=module.source_of(bound)))
    return True


def _product(
    module: Module, loop: _Loop, node: cst.BaseExpression
) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """Return ``(tensor, number)`` of a product of both."""
    match node:
        case cst.BinaryOperation(left=left, operator=cst.Multiply(), right=right):
            for tensor, number in ((left, right), (right, left)):
                if _number(module, loop, number) and not _number(module, loop, tensor):
                    return tensor, number
    return None


def _tensor(module: Module, loop: _Loop, node: cst.BaseExpression) -> bool:
    """Say whether an expression names a parameter, its data, its gradient, or what lies under its
    name in a table."""
    while True:
        match node:
            case cst.Attribute(value=value, attr=cst.Name(value=attr)) if attr in _ALIASES:
                node = value
            case cst.Call(func=cst.Attribute(value=value, attr=cst.Name("detach")), args=[]):
                node = value
            case cst.Subscript(
                value=table, slice=[cst.SubscriptElement(slice=cst.Index(value=cst.Name(key)))]
            ):
                return key in loop.keys and dotted_text(table) is not None
            case cst.Name(value=name):
                return name in loop.tensors
            case _:
                return False


def _number(module: Module, loop: _Loop, node: cst.BaseExpression) -> bool:
    """Say whether an expression is the same in each turn, and no list and no tensor of more than
    one element."""
    if module.names_in(node) & loop.bound or any(
        True for _ in module.within(node, cst.Await, cst.NamedExpr, cst.Yield)
    ):
        return False
    if any(module.name(call.func) not in _PURE for call in module.within(node, cst.Call)):
        return False
    value = inferred(module, node)
    if value.tensor:
        return value.rank == 0
    return value.kind in ("number", "bool", "plain", "?")


def _factor(module: Module, loop: _Loop, node: cst.BaseExpression) -> bool:
    """Say whether an expression is a number for all that is known: no tensor."""
    return _number(module, loop, node) and not inferred(module, node).tensor


def _put(module: Module, plan: _Plan, node: cst.BaseExpression) -> str:
    """Note a tensor of a plan; return its code."""
    text = module.source_of(node.with_changes(lpar=[], rpar=[]))
    plan.tensors.setdefault(text, node)
    return text


def _text(node: cst.BaseExpression) -> str:
    return cst.Module([]).code_for_node(node.with_changes(lpar=[], rpar=[]))


def _bare(module: Module, node: cst.BaseExpression) -> str:
    return _bare_text(module.source_of(node.with_changes(lpar=[], rpar=[])))


def _bare_text(text: str) -> str:
    return text.removesuffix(".data")


# -- what is written for it ------------------------------------------------------------------------


def _list_names(module: Module, plan: _Plan) -> dict[str, str] | None:
    """Return a name that the file does not have for the list of each tensor."""
    found: dict[str, str] = {}
    for text in plan.tensors:
        several = sum(other.endswith(".grad") or ".grad." in other for other in plan.tensors) > 1
        for name in _suggested(text, several):
            taken = _taken(module, name) or name in found.values()
            if not taken and not keyword.iskeyword(name):
                found[text] = name
                break
        else:
            return None
    return found


def _taken(module: Module, *names: str) -> bool:
    """Say whether the file has one of the names, whatever it means there."""
    return any(re.search(rf"\b{name}\b", module.text) for name in names)


def _suggested(text: str, several: bool) -> Iterator[str]:
    root = re.split(r"\[", text.replace(".detach()", ""), maxsplit=1)
    parts = root[0].split(".")
    last = ([part for part in parts if part not in _ALIASES] or parts)[-1]
    if re.search(r"\.grad\b", text):
        if not several:
            yield "grads"
        yield f"{last}_grads"
    elif len(root) > 1:
        yield f"{last.lstrip('_')}_values"
    elif last in ("p", "param", "parameter"):
        yield "params"
        yield "parameters"
    elif len(last) > 2 and not last.endswith("s"):
        yield f"{last}s"
    yield f"{last}_list"
    yield f"{last}_tensors"


def _calls(module: Module, plan: _Plan, names: dict[str, str]) -> list[str]:
    torch = name_for_module(module, "torch", "torch")
    found = []
    if plan.stored is not None:
        first, second = plan.steps
        assert second.other is not None
        results = plan.stored.results[0]
        return [
            f"{results} = {torch}._foreach_mul({names[first.tensor]}, {first.rest})",
            f"{torch}._foreach_add_({results}, {names[second.other]}, {second.rest})",
        ]
    for step in plan.steps:
        given = [names[step.tensor]]
        given += [names[step.other]] if step.other is not None else []
        given += [step.rest] if step.rest else []
        found.append(f"{torch}._foreach_{step.name}({', '.join(given)})")
    return found


def _comprehensions(
    module: Module, loop: _Loop, plan: _Plan, names: dict[str, str], filters: list[cst.If]
) -> list[NodeEdit] | None:
    """Return the edits that make each list of one comprehension, where the loop can go."""
    parts = _iterated(loop.node)
    plain = not (plan.guards or plan.stored or "#" in _written(loop.node))
    if parts is None or not plain or _read_later(module, loop):
        return None
    if len(plan.tensors) > 1 and _used_up(module, loop.node.iter):
        return None
    asked = {name for each in filters for name in module.names_in(each.test)} & loop.bound
    lines = []
    for text in plan.tensors:
        own = {parts[name] for name in parts if name in module.names_in(plan.tensors[text])}
        if len(own) != 1:
            return None
        target, iterated = next(iter(own))
        if filters and len(plan.tensors) > 1 and any(parts[name] not in own for name in asked):
            return None
        tests = [f"if {_in_comprehension(module, each.test)}" for each in filters]
        pieces = [text, f"for {target} in {iterated}", *tests]
        line = f"{names[text]} = [{' '.join(pieces)}]"
        if "\n" in line:
            return None
        indent = len(module.loops(loop.node)) * 4 + 8
        if len(line) + indent > _WIDTH:
            line = "\n    ".join([f"{names[text]} = [", *pieces]) + "\n]"
        lines.append(line)
    calls = _calls(module, plan, names)
    calls = [f"if {next(iter(names.values()))}:", *(f"    {call}" for call in calls)]
    body = cst.parse_module("\n".join([*lines, *calls, ""])).body
    statements = [cst.Module([]).code_for_node(each).rstrip("\n") for each in body]
    first = body[0]
    return [Replace(loop.node, first), *(InsertAfter(loop.node, each) for each in statements[1:])]


def _used_up(module: Module, iterated: cst.BaseExpression) -> bool:
    """Say whether a name may hold an iterator, which gives its items once."""
    made = definitions_of(module, iterated) if isinstance(iterated, cst.Name) else []
    return any(
        isinstance(each, cst.Assign)
        and isinstance(each.value, cst.Call)
        and module.name(each.value.func) not in ("builtins.list", "builtins.tuple")
        for each in made
    )


def _in_comprehension(module: Module, test: cst.BaseExpression) -> str:
    text = module.source_of(test)
    return f"({text})" if isinstance(test, (cst.IfExp, cst.Lambda)) and not test.lpar else text


def _iterated(node: cst.For) -> dict[str, tuple[str, str]] | None:
    """Return, under each name that a loop binds, the target and what goes over it alone."""
    code = cst.Module([]).code_for_node
    match node.target, node.iter:
        case cst.Tuple(elements=targets), cst.Call(func=cst.Name("zip"), args=args) if len(
            targets
        ) == len(args) and not any(arg.star or arg.keyword for arg in args):
            pairs = [(each.value, arg.value) for each, arg in zip(targets, args, strict=True)]
            if not all(isinstance(target, cst.Name) for target, _ in pairs):
                return None
            return {code(t): (code(t), code(i)) for t, i in pairs}
        case cst.Name(value=name), iterated:
            return {name: (name, code(iterated))}
        case cst.Tuple(elements=targets), cst.Call() as iterated if all(
            isinstance(each.value, cst.Name) for each in targets
        ):
            bare = node.target.with_changes(lpar=[], rpar=[])
            return {code(each.value): (code(bare), code(iterated)) for each in targets}
    return None


def _read_later(module: Module, loop: _Loop) -> bool:
    """Say whether what the loop binds last is read behind it."""
    return any(read_behind(module, loop.node, name) for name in loop.bound)


def _up_to_function(module: Module, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    for above in module.ancestors(node):
        if isinstance(above, cst.FunctionDef):
            return
        yield above


def _appends(
    module: Module,
    loop: _Loop,
    plan: _Plan,
    names: dict[str, str],
    filters: list[cst.If],
    block: cst.BaseSuite,
) -> list[NodeEdit] | None:
    """Return the edits that keep the loop, to collect the tensors."""
    if any(isinstance(each.body, cst.SimpleStatementSuite) for each in (loop.node, *filters)):
        return None
    stored = plan.stored
    lists = dict(names)
    if stored is not None:
        free = [f"{stored.name}_{word}" for word in ("list", "holders")]
        free = [each for each in free if not _taken(module, each) and each not in lists.values()]
        if not free:
            return None
        lists[stored.holder] = free[0]
    adds = [f"{name}.append({text})" for text, name in lists.items()]
    if any("\n" in add for add in adds):
        return None
    first = block.body[len(plan.guards)]
    new = [cst.parse_statement(add) for add in adds]
    kept = [new[0].with_changes(leading_lines=getattr(first, "leading_lines", ())), *new[1:]]
    body = block.with_changes(body=[*plan.guards, *kept])
    calls = _calls(module, plan, names)
    if stored is not None:
        calls.append(
            f"for {stored.name}, {stored.results[1]} in "
            f"zip({lists[stored.holder]}, {stored.results[0]}):\n"
            f"    {stored.target} = {stored.results[1]}"
        )
    inner = "\n".join(calls).replace("\n", "\n    ")
    calls = [f"if {next(iter(names.values()))}:\n    {inner}"]
    edits: list[NodeEdit] = [InsertBefore(loop.node, f"{name} = []") for name in lists.values()]
    edits.append(Replace(loop.node, loop.node.deep_replace(block, body)))
    edits.extend(InsertAfter(loop.node, call) for call in calls)
    return edits


__all__ = ["COPIES", "foreach_fix"]
