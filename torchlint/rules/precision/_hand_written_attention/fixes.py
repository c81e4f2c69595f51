"""The edit that hands written-out attention over to ``scaled_dot_product_attention``."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from torchlint.fixes.expressions import as_receiver, method_call
from torchlint.rule import (
    Fix,
    InsertBefore,
    Module,
    NeedImport,
    NodeEdit,
    Remove,
    Replace,
    Safety,
    one_sentence,
)
from torchlint.rules.precision._hand_written_attention.shapes import (
    ROOTS,
    computed_for_nothing,
    is_default_scale,
    meant,
    written_rank,
)
from torchlint.semantic.code.bindings import meaning_of
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.numbers import spelled_number
from torchlint.semantic.code.reaching import definitions_of, readers_of, sole_use
from torchlint.semantic.code.versions import torch_unsaid
from torchlint.semantic.question import question
from torchlint.semantic.torch import ops
from torchlint.semantic.uses.attention import is_scale, softmax_dim
from torchlint.semantic.values.classes import is_network
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.operations import Operation, operation_of

_SINCE, _SCALE_SINCE = (2, 0), (2, 1)
_PRODUCTS = ops.having("product", "batched") - {"einsum"}
_TURNS = ops.having("turns")
_DEPTH = 8
_FUSED = 4
"""Dimensions up to which a fused kernel runs: with more, only the one in plain operations does."""
_ROUNDING = "Results differ by rounding, and the fused kernels have no second derivatives."
_DROPOUT = "Dropout draws other random numbers."
_MASKED = "A query whose keys are all masked gives zeros or NaN."
_LOWEST = -1e4


@dataclass(slots=True)
class _Parts:
    """What written-out attention is made of, as far as it is known: arguments of the fused call,
    and the statements it makes needless."""

    end: cst.BaseExpression
    values: cst.BaseExpression
    dropout: cst.BaseExpression | None = None
    product: str = ""
    query: cst.BaseExpression | None = None
    key: cst.BaseExpression | None = None
    mask: cst.BaseExpression | None = None
    scale: cst.BaseExpression | None = None
    factor: cst.BaseExpression | None = None
    """The number of `scale`, as it is written."""
    scaled: bool = False
    hidden: bool = False
    """The mask says which keys are left out, so that a query may have none."""
    needless: list[cst.CSTNode] = field(default_factory=list)
    moved: list[cst.BaseExpression] = field(default_factory=list)


def fused_attention(module: Module, softmax: cst.Call) -> Fix | None:
    """Return the fix that calls ``scaled_dot_product_attention``, where each step between the
    products is one that it does: one scale, one mask, dropout.

    Its arguments: https://docs.pytorch.org/docs/stable/generated/
    torch.nn.functional.scaled_dot_product_attention.html (`scale` since torch 2.1; a boolean mask
    says which keys take part).
    """
    found = operation_of(module, softmax)
    parts = _weighted(module, softmax)
    if found is None or parts is None or set(found.keywords) - {"dim", "input"}:
        return None
    if not _scores(module, found.operands[0], parts, _DEPTH):
        return None
    if parts.query is None or parts.key is None or not _in_one_piece(module, parts):
        return None
    if not _over_last(module, softmax, found.operands[0], parts.product):
        return None
    if any((written_rank(module, each) or 0) > _FUSED for each in (parts.query, parts.key)):
        return None
    wide = (parts.query, parts.key)
    spare: list[cst.CSTNode] = []
    if parts.scale and parts.factor and is_default_scale(module, parts.scale, wide):
        parts.scale = None
        spare = computed_for_nothing(module, parts.factor, module.statement(parts.end))
    since = _SINCE if parts.scaled and parts.scale is None else _SCALE_SINCE
    if module.target_torch < since:
        return None
    function, imports = _function(module, softmax)
    call = cst.parse_expression(f"{function}.scaled_dot_product_attention()")
    assert isinstance(call, cst.Call)
    scale = parts.scale if parts.scaled else cst.Float("1.0")
    given = {"attn_mask": parts.mask, "dropout_p": parts.dropout, "scale": scale}
    equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    args = [cst.Arg(_bare(each)) for each in (parts.query, parts.key, parts.values)]
    args += [
        cst.Arg(_bare(value), cst.Name(keyword), equal=equal)
        for keyword, value in given.items()
        if value is not None
    ]
    edits: list[NodeEdit] = [Remove(each, comments=True) for each in (*parts.needless, *spare)]
    edits += _put(module, parts.end, call.with_changes(args=args))
    edits += imports
    notes = (
        _ROUNDING,
        _DROPOUT if parts.dropout is not None else "",
        _MASKED if parts.hidden else "",
        torch_unsaid(module, since),
    )
    return Fix(tuple(edits), Safety.UNSAFE, "Fuse the attention", one_sentence(notes))


def _over_last(module: Module, softmax: cst.Call, scores: cst.BaseExpression, product: str) -> bool:
    """Say whether a softmax runs certainly over the last axis of scores that `product` makes."""
    dim = softmax_dim(module, softmax)
    rank = 3 if product == "bmm" else inferred(module, scores).rank
    code = module.source_of(dim) if dim is not None else ""
    return code == "-1" or (rank is not None and code == str(rank - 1))


def _function(module: Module, node: cst.CSTNode) -> tuple[str, tuple[NodeEdit, ...]]:
    """Return how the code calls torch's module of functions, and the import that this needs."""
    for name, rest in (("F", ""), ("nn", ".functional"), ("torch", ".nn.functional")):
        if f"{meaning_of(module, name, node)}{rest}" == "torch.nn.functional":
            return f"{name}{rest}", ()
    return "F", (NeedImport("torch.nn.functional", "F"),)


def _put(module: Module, end: cst.BaseExpression, call: cst.Call) -> list[NodeEdit]:
    """Return the edits that put the call in the place of the product: on a line of its own where
    methods of the result are called."""
    above = module.parent(end)
    statement = module.small_statement(end)
    match statement:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=bound))]):
            read = sum(n.value == bound for n in module.within(statement, cst.Name, nested=True))
            name = bound if read == 1 else ""
        case _:
            home = module.scope(end)
            name = (
                ""
                if any(each.value == "out" for each in module.within(home, cst.Name, nested=True))
                else "out"
            )
    if not isinstance(above, cst.Attribute) or not name:
        return [Replace(end, call)]
    code = module.root.code_for_node(call)
    return [InsertBefore(module.statement(end), f"{name} = {code}"), Replace(end, cst.Name(name))]


def _bare(node: cst.BaseExpression) -> cst.BaseExpression:
    return node.with_changes(lpar=[], rpar=[])


# -- from the softmax to the values ----------------------------------------------------------------


def _weighted(module: Module, softmax: cst.Call) -> _Parts | None:
    """Return where weights meet the values, after dropout at most."""
    node: cst.BaseExpression = softmax
    needless: list[cst.CSTNode] = []
    dropout: cst.BaseExpression | None = None
    for _ in range(3):
        above = module.parent(node)
        if isinstance(above, cst.Assign):
            needless.append(above)
        read = sole_use(module, node)
        user = _user(module, read) if read is not None else None
        found = operation_of(module, user)
        if user is None or found is None or not isinstance(read, cst.BaseExpression):
            return None
        if found.name in _PRODUCTS:
            values = _values(module, found, read)
            moved = [] if dropout is None else [node]
            return (
                _Parts(user, values, dropout, needless=needless, moved=moved)
                if values is not None
                else None
            )
        dropout = _probability(module, user, found) if dropout is None else None
        if dropout is None:
            return None
        node = user
    return None


def _user(module: Module, read: cst.CSTNode) -> cst.BaseExpression | None:
    above = module.parent(read)
    call = module.parent(above) if isinstance(above, (cst.Arg, cst.Attribute)) else above
    return call if isinstance(call, (cst.Call, cst.BinaryOperation)) else None


def _values(
    module: Module, found: Operation, weights: cst.BaseExpression
) -> cst.BaseExpression | None:
    plain = len(found.operands) == 2 and not found.keywords and found.operands[0] is weights
    return found.operands[1] if plain else None


def _probability(module: Module, user: cst.CSTNode, found: Operation) -> cst.BaseExpression | None:
    """Return what ``dropout_p`` is for a call of dropout; None for another call."""
    if not isinstance(user, cst.Call) or len(found.operands) > 3:
        return None
    if found.name == "Dropout" and (dotted_text(user.func) or "").startswith("self."):
        cls = module.class_of(user)
        if cls is None or not is_network(module, cls) or len(user.args) != 1:
            return None
        return cst.IfExp(
            test=cst.parse_expression("self.training"),
            body=cst.Attribute(user.func, cst.Name("p")),
            orelse=cst.Float("0.0"),
        )
    if found.name != "dropout" or set(found.keywords) - {"p", "training"}:
        return None
    share = found.argument(1, "p")
    training = found.argument(2, "training")
    if share is None or training is None or dotted_text(training) is None:
        return share if training is None else None
    return cst.IfExp(test=training, body=share, orelse=cst.Float("0.0"))


# -- from the softmax back to queries and keys -----------------------------------------------------


def _scores(module: Module, node: cst.BaseExpression, parts: _Parts, depth: int) -> bool:
    """Follow scores back to the product, and say whether each step is one of the fused call."""
    if depth == 0:
        return False
    if isinstance(node, cst.Name):
        return _named(module, node, parts, depth)
    found = operation_of(module, node)
    if found is None or found.keywords:
        return False
    if found.name in _PRODUCTS:
        parts.product = found.name
        return _product(module, found, parts)
    inner = _step(module, found, parts)
    return inner is not None and _scores(module, inner, parts, depth - 1)


def _step(module: Module, found: Operation, parts: _Parts) -> cst.BaseExpression | None:
    """Take a scale or a mask; return the scores that it is applied to, None where the fused call
    does no such thing."""
    match found:
        case Operation(name="masked_fill", operands=(scores, mask, _)):
            kept = _kept(module, found)
            return scores if kept is not None and _masked(parts, kept, mask) else None
        case Operation(name="mul", operands=(factor, scores)) if not is_scale(module, scores):
            return scores if _scaled(module, found, factor, parts) else None
        case Operation(name="mul" | "div", operands=(scores, factor)):
            return scores if _scaled(module, found, factor, parts) else None
    return None


def _masked(parts: _Parts, kept: cst.BaseExpression, asked: cst.BaseExpression) -> bool:
    """Take a mask of what takes part, made of `asked`; False where there was one."""
    if parts.mask is not None:
        return False
    parts.mask, parts.hidden = kept, True
    parts.moved.append(asked)
    return True


def _named(module: Module, read: cst.Name, parts: _Parts, depth: int) -> bool:
    made = definitions_of(module, read)
    if len(made) == 2:
        return _masked_where_given(module, read, made, parts, depth)
    value = _plain_value(made[0], read.value) if len(made) == 1 else None
    if value is None or readers_of(module, made[0], read.value) != [read]:
        return False
    parts.needless.append(made[0])
    return _scores(module, value, parts, depth - 1)


def _plain_value(made: cst.CSTNode, name: str) -> cst.BaseExpression | None:
    match made:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=bound))], value=value):
            return value if bound == name else None
    return None


def _masked_where_given(
    module: Module, read: cst.Name, made: list[cst.CSTNode], parts: _Parts, depth: int
) -> bool:
    """Follow scores back over ``if mask is not None: scores = scores.masked_fill(mask == 0, …)``.

    A mask that is None is what the fused call takes for none.
    """
    first, second = made if module.before(made[0], made[1]) else made[::-1]
    block = module.parent(module.statement(second))
    guard = module.parent(block)
    if not isinstance(guard, cst.If) or guard.orelse is not None or len(guard.body.body) != 1:
        return False
    given = _not_none(guard.test)
    step = operation_of(module, _plain_value(second, read.value))
    before = _plain_value(first, read.value)
    if given is None or step is None or before is None:
        return False
    inner = step.operands[0] if step.operands else None
    if not isinstance(inner, cst.Name) or definitions_of(module, inner) != [first]:
        return False
    readers = {*readers_of(module, first, read.value), *readers_of(module, second, read.value)}
    if readers != {read, inner} or module.small_statement(second) is not second:
        return False
    kept = _kept(module, step) if step.name == "masked_fill" and not step.keywords else None
    if kept is None or not _asks_only(module, step.operands[1], given):
        return False
    none = cst.Name("None")
    missing = cst.Comparison(cst.Name(given), [cst.ComparisonTarget(cst.Is(), none)])
    parts.needless += [guard, first]
    either = cst.IfExp(test=missing, body=none, orelse=kept)
    return _masked(parts, either, step.operands[1]) and _scores(module, before, parts, depth - 1)


def _not_none(test: cst.BaseExpression) -> str | None:
    """Return the name in ``name is not None``."""
    match test:
        case cst.Comparison(
            left=cst.Name(value=name),
            comparisons=[cst.ComparisonTarget(operator=cst.IsNot(), comparator=cst.Name("None"))],
        ):
            return name
    return None


def _asks_only(module: Module, node: cst.BaseExpression, name: str) -> bool:
    return {each.value for each in module.within(node, cst.Name, nested=True)} == {name}


def _kept(module: Module, step: Operation) -> cst.BaseExpression | None:
    """Return the mask of what takes part, for a ``masked_fill`` of what does not; None where it is
    filled with a number that a softmax may not make zero."""
    if len(step.operands) != 3 or not _lowest(module, step.operands[2]):
        return None
    mask = step.operands[1]
    match mask:
        case cst.Comparison(comparisons=[cst.ComparisonTarget(operator=cst.Equal()) as target]):
            other = target.with_changes(operator=cst.NotEqual())
            return mask.with_changes(comparisons=[other])
        case cst.UnaryOperation(operator=cst.BitInvert(), expression=inner):
            return inner
        case cst.Name() | cst.Attribute() | cst.Subscript() | cst.Call():
            return cst.UnaryOperation(cst.BitInvert(), as_receiver(mask))
    return None


def _lowest(module: Module, node: cst.BaseExpression) -> bool:
    match node:
        case cst.Attribute(value=cst.Call(func=func), attr=cst.Name("min")):
            return module.name(func) == "torch.finfo"
    number = spelled_number(module, node)
    return number is not None and number <= _LOWEST


def _scaled(module: Module, found: Operation, factor: cst.BaseExpression, parts: _Parts) -> bool:
    """Take a scale; False where there was one, or where it may be a tensor."""
    if parts.scaled or not _is_number(module, factor):
        return False
    parts.scaled, parts.factor = True, factor
    if found.name == "mul":
        parts.scale = factor
    else:
        parts.scale = cst.BinaryOperation(cst.Integer("1"), cst.Divide(), as_receiver(factor))
    parts.moved.append(factor)
    return True


@question()
def _is_number(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether a scale is a number and no tensor, as the fused call demands: known as one, or
    made of a root, also as the attribute of a constructor."""
    value = inferred(module, node)
    if value.kind == "number" or value.tensor:
        return value.kind == "number"
    match node:
        case cst.BinaryOperation(operator=cst.Power(), right=power):
            return module.source_of(power).strip("()-") == "0.5"
        case (
            cst.BinaryOperation(left=cst.Integer() | cst.Float(), right=right)
            | cst.BooleanOperation(operator=cst.Or(), right=right)
        ):
            return _is_number(module, right)
        case cst.Call(func=func):
            return module.name(func) in ROOTS
    kept = meant(module, node)
    return kept is not None and _is_number(module, kept)


def _product(module: Module, found: Operation, parts: _Parts) -> bool:
    if len(found.operands) != 2:
        return False
    query, turned = found.operands
    query = _unscaled(module, query, parts)
    parts.query = query
    parts.moved += [query, turned]
    if _last_swapped(module, query, found.name) is not None:
        return False  # Tensors that lie the other way round, which the fused kernels copy.
    parts.key = _last_swapped(module, turned, found.name)
    if parts.key is None:
        made = operation_of(module, turned)
        if made is not None and made.name in _TURNS:
            return False  # Which axes are the last two is not known.
        last = [cst.Arg(cst.parse_expression(each)) for each in ("-2", "-1")]
        parts.key = method_call(turned, "transpose").with_changes(args=last)
    return True


def _unscaled(module: Module, query: cst.BaseExpression, parts: _Parts) -> cst.BaseExpression:
    """Return the queries without the scale that they are multiplied by where they meet the keys,
    which is taken."""
    found = operation_of(module, query)
    if found is None or found.name not in ("mul", "div") or len(found.operands) != 2:
        return query
    inner, factor = found.operands
    taken = isinstance(query, cst.BinaryOperation) and _scaled(module, found, factor, parts)
    return inner if taken else query


def _last_swapped(
    module: Module, node: cst.BaseExpression, product: str
) -> cst.BaseExpression | None:
    """Return the tensor of which an expression swaps the last two axes."""
    match node:
        case cst.Attribute(value=inner, attr=cst.Name("mT")):
            return inner
    found = operation_of(module, node)
    if found is None or found.keywords or not found.operands:
        return None
    inner, *dims = found.operands
    at = [module.source_of(each) for each in dims]
    if found.name not in _TURNS:
        return None
    if len(at) > 2:
        return inner if at in (["0", "1", "3", "2"], ["0", "2", "1"]) else None
    rank = 3 if product == "bmm" else inferred(module, inner).rank
    last = {3: {"1", "2"}, 4: {"2", "3"}}.get(rank or 0)
    return inner if set(at) in ({"-1", "-2"}, last) else None


# -- one piece of code -----------------------------------------------------------------------------


def _in_one_piece(module: Module, parts: _Parts) -> bool:
    """Say whether the steps stand on lines of their own in one block, with nothing between."""
    last = module.statement(parts.end)
    lines = [module.statement(each) for each in parts.needless]
    block = module.parent(last)
    if not isinstance(block, cst.IndentedBlock):
        return False
    if not all(module.parent(each) is block and _alone(each) for each in [*lines, last]):
        return False
    if any(True for each in lines for _ in module.within(each, cst.NamedExpr, nested=True)):
        return False
    at = [number for number, each in enumerate(block.body) if each in lines or each is last]
    return all(each in lines for each in block.body[at[0] : at[-1]])


def _alone(line: cst.CSTNode) -> bool:
    return isinstance(line, cst.If) or (
        isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1
    )
