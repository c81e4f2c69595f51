"""Attention written out: a softmax over products of queries and keys that weighs values and does
nothing else."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import Module, inferred, keyword_argument
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.reaching import definitions_of, readers_of, uses_of
from torchlint.semantic.code.tree import attr_of, is_name, links, method_called, targets_of
from torchlint.semantic.question import question
from torchlint.semantic.torch import ops
from torchlint.semantic.uses.dropped_results import dropped_result
from torchlint.semantic.values.operations import Operation, operation_of

_PRODUCTS = ops.having("product", "batched")
# What may stand between the product and the softmax: masks, scale, casts, and views that keep the
# last axis.
_MASKS = ops.having("mask")
_SCALES = frozenset(("mul", "div"))
_SAME = ops.having("keeps-last") | ops.having("cast") - ops.having("gives-int") - ops.having(
    "gives-bool"
)
_TURNS = ops.having("turns") | {"rearrange"}
_LIKE = ops.having("like")
_DROPOUT = regex(r"drop", re.IGNORECASE)
_LAST = frozenset(("-1", "2", "3"))
_SCALE_WORDS = regex(
    r"sqrt|scal|\*\*\s*\(?\s*(-|0?\.5|1\s*/)|\bd_?k\b|temper|norm_?factor", re.IGNORECASE
)
_ADDS = frozenset(("add", "sub"))
_BIAS = regex(r"bias|(^|_)(rel|relative)_?pos|alibi", re.IGNORECASE)
"""What people call a term of the scores that says how far apart two places are."""
_DEPTH = 8


@dataclass(slots=True)
class _Chain:
    """What lies between a product and the softmax."""

    products: set[cst.BaseExpression] = field(default_factory=set)
    statements: set[cst.CSTNode] = field(default_factory=set)
    names: list[tuple[cst.CSTNode, str]] = field(default_factory=list)
    scaled: bool = False
    bias: cst.BaseExpression | None = None


@question(
    yes="the softmax is the middle of written-out attention",
    no="the softmax is not part of attention",
)
def written_attention(module: Module, softmax: cst.Call) -> cst.BaseExpression | None:
    """Return the product of queries and keys, where `softmax` is the middle of a scaled dot-product
    attention."""
    chain = _chain_before(module, softmax)
    dim = softmax_dim(module, softmax) if chain is not None else None
    if chain is None or dim is None or module.source_of(dim) not in _LAST:
        return None
    if len(chain.products) != 1 or not _weighted(module, softmax):
        return None
    (product,) = chain.products
    sole = _queries_and_keys(module, product, chain) and _unread(module, chain, softmax)
    return product if sole else None


@question(
    yes="the scores are added to `{answer}`, which has a gradient",
    no="nothing that has a gradient is known to be added to the scores",
)
def learned_bias(module: Module, softmax: cst.Call) -> cst.BaseExpression | None:
    """Return what has a gradient, or is called a bias, and is added to the scores of a softmax."""
    chain = _chain_before(module, softmax)
    return chain.bias if chain is not None else None


@question()
def _chain_before(module: Module, softmax: cst.Call) -> _Chain | None:
    found, chain = operation_of(module, softmax), _Chain()
    if found is None or not found.operands:
        return None
    return chain if _trace(module, found.operands[0], chain, _DEPTH) else None


@question(yes="the softmax runs over `{answer}`", no="the softmax is not told its axis")
def softmax_dim(module: Module, softmax: cst.Call) -> cst.BaseExpression | None:
    """Return the axis that a softmax is told to run over; None where it is told none, and for other
    operations."""
    found = operation_of(module, softmax)
    if found is not None and found.name == "Softmax" and found.made is not None:
        made = found.made
        return keyword_argument(module, made, "dim") or (made.args[0].value if made.args else None)
    return found.argument(1, "dim") if found is not None and found.name == "softmax" else None


# -- back to the product ---------------------------------------------------------------------------


def _trace(module: Module, node: cst.BaseExpression, chain: _Chain, depth: int) -> bool:
    """Follow scores back to their products; False where something else has part in them."""
    if depth == 0:
        return False
    if isinstance(node, cst.Name):
        definitions = definitions_of(module, node)
        for made in definitions:
            if made in chain.statements:
                continue
            chain.statements.add(made)
            chain.names.append((made, node.value))
            if isinstance(made, cst.AugAssign):
                found = operation_of(module, made)
                if found is None or not _trace_operation(module, made, found, chain, depth):
                    return False
            elif isinstance(made, (cst.Assign, cst.AnnAssign)) and made.value is not None:
                if not isinstance(targets_of(made)[0], cst.Name) or not _trace(
                    module, made.value, chain, depth - 1
                ):
                    return False
            else:
                return False
        return bool(definitions)
    if isinstance(node, cst.IfExp):
        return all(_trace(module, each, chain, depth - 1) for each in (node.body, node.orelse))
    found = operation_of(module, node)
    return found is not None and _trace_operation(module, node, found, chain, depth)


def _trace_operation(
    module: Module, node: cst.CSTNode, found: Operation, chain: _Chain, depth: int
) -> bool:
    if found.name in _PRODUCTS and isinstance(node, cst.BaseExpression):
        chain.products.add(node)
        return True
    if not found.operands:
        return False
    if found.name in _SAME:
        return _trace(module, found.operands[0], chain, depth - 1)
    if found.name not in _MASKS | _SCALES:
        return False
    for index, operand in enumerate(found.operands):
        trial = _Chain(statements=set(chain.statements))
        if not _trace(module, operand, trial, depth - 1):
            continue
        others = [o for o in found.operands if o is not operand]
        if found.name in _SCALES:
            if (found.name == "div" and index != 0) or not all(is_scale(module, o) for o in others):
                return False
            chain.scaled = True
        learned = (
            other
            for other in others
            if found.name in _ADDS
            and (inferred(module, other).grad is True or _BIAS.search(module.source_of(other)))
        )
        chain.bias = chain.bias or trial.bias or next(learned, None)
        chain.products |= trial.products
        chain.statements |= trial.statements
        chain.names += trial.names
        chain.scaled = chain.scaled or trial.scaled
        return True
    return False


@question(yes="`{0}` is a scale", no="`{0}` is not known to be a number")
def is_scale(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether a factor is a number: known as one, or spelled like ``1 / sqrt(d)`` and no
    parameter."""
    value = inferred(module, node)
    if value.kind == "number" or isinstance(node, (cst.Integer, cst.Float)):
        return True
    unknown = value.kind in ("?", "plain", "ndarray") or (value.tensor and value.rank == 0)
    return (
        unknown
        and value.origin != "param"
        and _SCALE_WORDS.search(module.source_of(node)) is not None
    )


# -- the product -----------------------------------------------------------------------------------


def _queries_and_keys(module: Module, product: cst.BaseExpression, chain: _Chain) -> bool:
    found = operation_of(module, product)
    if found is None:
        return False
    if found.name == "einsum":
        equation, *operands = _flat_operands(found)
        if len(operands) != 2 or not _contracts_last(equation):
            return False
    else:
        operands = [*found.operands]
        if len(operands) != 2 or not any(_is_turned(module, o) for o in operands):
            return False
    if any(inferred(module, o).origin == "param" or _own_attribute(o) for o in operands):
        return False
    return chain.scaled or any(_is_scaled(module, o) for o in operands)


def _flat_operands(found: Operation) -> list[cst.BaseExpression]:
    """Return the operands of a product; of ``einsum("…", [q, k])`` too."""
    match found.operands:
        case (first, cst.List(elements) | cst.Tuple(elements)):
            return [first, *(element.value for element in elements)]
    return [*found.operands]


def _own_attribute(node: cst.BaseExpression) -> bool:
    attributes = (at for at in links(node) if isinstance(at, cst.Attribute))
    return any(is_name(each.value, "self") for each in attributes)


def _contracts_last(equation: cst.BaseExpression) -> bool:
    """Say whether an einsum equation is a batched ``queries @ keys.T``: ``b h i d, b h j d -> b h i
    j``."""
    text = equation.evaluated_value if isinstance(equation, cst.SimpleString) else None
    if not isinstance(text, str) or text.count("->") != 1 or text.count(",") != 1:
        return False
    inputs, _, out = text.partition("->")
    left, right, result = (_axes(part) for part in (*inputs.split(","), out))
    if min(len(left), len(right)) < 3 or len(result) < 3:
        return False
    gone = set(left) & set(right) - set(result)
    return (
        len(gone) == 1
        and result[-1] in right
        and result[-1] not in left
        and len(set(left) - set(right)) == 1
    )


def _axes(part: str) -> list[str]:
    words = part.replace("...", " … ").split()
    return words if len(words) > 1 else list(part.strip())


def _sources(module: Module, node: cst.BaseExpression) -> list[cst.CSTNode]:
    """Return the statements that give a name its value, or the expression itself."""
    return definitions_of(module, node) if isinstance(node, cst.Name) else [node]


@question()
def _is_turned(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether a tensor has had two of its axes swapped on its way."""
    for source in _sources(module, node):
        value = source.value if isinstance(source, (cst.Assign, cst.AugAssign)) else source
        if attr_of(value) in ("mT", "T"):
            return True
        found = operation_of(module, value)
        if (
            found is None
            and isinstance(value, cst.Call)
            and (dotted_text(value.func) or "").endswith("rearrange")
        ):
            return True
        if found is None or not found.operands:
            continue
        if found.name in _TURNS or _is_turned(module, found.operands[0]):
            return True
    return False


@question()
def _is_scaled(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether a tensor has been multiplied by a number on its way."""
    if isinstance(node, cst.Name) and any(
        _scaled_in_place(module, read)
        for made in definitions_of(module, node)
        for read in readers_of(module, made, node.value)
    ):
        return True
    for source in _sources(module, node):
        value = source.value if isinstance(source, cst.Assign) else source
        found = operation_of(module, value)
        if found is None or not found.operands:
            continue
        if found.name in _SCALES and any(is_scale(module, o) for o in found.operands):
            return True
        if any(_is_scaled(module, o) for o in found.operands[:2] if found.name not in _PRODUCTS):
            return True
    return False


def _scaled_in_place(module: Module, read: cst.Name) -> bool:
    above = module.parent(read)
    call = module.parent(above) if attr_of(above) in ("mul_", "div_") else None
    return (
        isinstance(call, cst.Call) and len(call.args) == 1 and is_scale(module, call.args[0].value)
    )


def _unread(module: Module, chain: _Chain, softmax: cst.Call) -> bool:
    """Say whether nothing but the chain itself reads the scores."""
    for made, name in chain.names:
        for read in readers_of(module, made, name):
            above = module.parent(read)
            fact = attr_of(above) in ops.HOST_ATTRIBUTES or _shape_alone(module, read)
            inside = (
                module.is_within(read, softmax) or module.small_statement(read) in chain.statements
            )
            if not fact and not inside and not _changed_in_place(module, read):
                return False
    return True


def _shape_alone(module: Module, read: cst.Name) -> bool:
    """Say whether a read gives a new tensor its shape and nothing more: ``ones_like(scores)``."""
    call = module.taker(read)
    made = operation_of(module, call) if isinstance(call, cst.Call) else None
    return made is not None and made.name in _LIKE and made.operands[:1] == (read,)


def _changed_in_place(module: Module, read: cst.Name) -> bool:
    """Say whether a read is the ``scores`` in the statement ``scores.masked_fill_(mask, -inf)`` or
    in ``scores[mask] = -inf``."""
    above = module.parent(read)
    if isinstance(above, cst.Subscript) and isinstance(module.parent(above), cst.AssignTarget):
        statement = module.small_statement(above)
        return isinstance(statement, cst.Assign) and isinstance(
            statement.value, (cst.UnaryOperation, cst.Call)
        )
    call = module.method_call(read)
    found = operation_of(module, call) if call is not None else None
    return (
        found is not None
        and method_called(call).endswith("_")
        and found.name in _MASKS | _SCALES
        and isinstance(module.parent(call), cst.Expr)
    )


# -- on to the values ------------------------------------------------------------------------------


def _weighted(module: Module, softmax: cst.Call) -> list[cst.CSTNode]:
    """Return the products in which the weights end; nothing where something else sees the
    weights."""
    ends: list[cst.CSTNode] = []
    todo: list[cst.CSTNode] = [softmax]
    seen: set[cst.CSTNode] = set()
    while todo:
        node = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        for read in uses_of(module, node):
            above = module.parent(read)
            if attr_of(above) in ops.HOST_ATTRIBUTES:
                continue
            if dropped_result(module, read):
                continue
            user = above if isinstance(above, cst.BinaryOperation) else _user(module, read, above)
            found = operation_of(module, user)
            if user is None:
                return []
            if found is not None and found.name in _PRODUCTS:
                others = [o for o in _flat_operands(found) if o is not read]
                if any(inferred(module, o).origin == "param" or _own_attribute(o) for o in others):
                    return []
                ends.append(user)
            elif _passes(user, found):
                todo.append(user)
            else:
                return []
    return ends


def _user(module: Module, read: cst.CSTNode, above: cst.CSTNode | None) -> cst.Call | None:
    """Return the call that takes `read` as its receiver or argument, or in a list."""
    while isinstance(above, (cst.Element, cst.List, cst.Tuple)):
        read, above = above, module.parent(above)
    call = module.parent(above) if isinstance(above, (cst.Arg, cst.Attribute)) else None
    if isinstance(above, cst.Attribute) and above.value is not read:
        return None
    return call if isinstance(call, cst.Call) else None


def _passes(user: cst.CSTNode, found: Operation | None) -> bool:
    """Say whether a call hands the weights on, dropped out, cast, or seen with other axes."""
    if found is not None and (
        found.name in _SAME | _TURNS or found.name in ("nan_to_num", "masked_fill")
    ):
        return True
    name = (
        found.name
        if found is not None
        else dotted_text(user.func)
        if isinstance(user, cst.Call)
        else ""
    )
    return bool(_DROPOUT.search(name or ""))
