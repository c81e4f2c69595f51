"""What the body of a loop does: whether its iterations are independent, and whether torch could do
them at once."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import Module, inferred, on_device
from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.flow import reads_of, writes_of
from torchlint.semantic.code.names import dotted_text, one_by_one
from torchlint.semantic.code.reaching import assignments_of
from torchlint.semantic.code.tree import (
    DISPLAYS,
    Function,
    attr_of,
    components,
    is_name,
    method_called,
    root_of,
    targets_of,
)
from torchlint.semantic.question import question
from torchlint.semantic.time.iterations import carried_reads, loop_sources, spelled_alike
from torchlint.semantic.torch import ops
from torchlint.semantic.uses.host_needs import given_as_size
from torchlint.semantic.values.definitions_behind import functions
from torchlint.semantic.values.operations import operation_of

_PLAIN_BUILTINS = frozenset(
    "builtins." + n
    for n in (
        "range len enumerate zip int float bool abs min max sum tuple list slice isinstance"
    ).split()
)
_LOOKUPS = ("index", "count", "get")
"""Methods of lists and dicts that look something up, which no tensor has."""
_GROWERS = ("append", "extend", "insert", "add", "appendleft", "update")
_LEAVES = (
    cst.Break,
    cst.Return,
    cst.Raise,
    cst.Yield,
    cst.Await,
    cst.With,
    cst.Try,
    cst.While,
    cst.Global,
    cst.Del,
)
_REDUCING: dict[type[cst.CSTNode], type[cst.CSTNode]] = {
    cst.Add: cst.Add,
    cst.Subtract: cst.Add,
    cst.BitOr: cst.BitOr,
    cst.BitAnd: cst.BitAnd,
}
"""Operators whose order does not matter, so that one reduction does what a loop does with them."""
_ROW_BY_ROW = ops.having("layer", "one-tensor") - ops.having("batch-norm") | ops.having(
    "layer", "stateless"
)
_SIZED = ops.having("sizes")
_MAKERS = ops.dotted("factory")
_JOINS = ops.dotted("join")
_HOST_MATHS = ("random.", "numpy.", "math.")
_FACTS = ops.HOST_METHODS - ops.having("graph")
_VIEWS = ops.having("view") - frozenset(dir(str))
_COMPUTES = ops.having("reduce", "method") | ops.having("compare", "method")
_FILES = regex(r"\.(save|load|memmap|fromfile|tofile)")
_NOT_ELEMENTWISE = (
    "torch.nn.",
    "torch.autograd.",
    "torch.distributed.",
    "torch.cuda.",
    "torch.utils.",
    "torch.save",
)


@question(yes="`{0}` is a size of a tensor", no="`{0}` is not a size of a tensor")
def is_size(module: Module, node: cst.CSTNode | None) -> bool:
    """Say whether a number is a size of a tensor: ``x.shape[0]``, ``x.size(1)``, ``len(x)``, or
    computed from one."""
    match node:
        case cst.Subscript(holder):
            return _shape_of_tensor(module, holder)
        case cst.Call(cst.Attribute(attr=cst.Name("size" | "numel")), [_, *_]):
            return True
        case cst.Call(cst.Attribute(attr=cst.Name("numel"), value=holder), []):
            return inferred(module, holder).tensor
        case cst.Call(cst.Name("len"), [cst.Arg(holder)]):
            value = inferred(module, holder)
            return value.tensor and not value.loose
        case cst.Call(cst.Name("int" | "min" | "max"), args):
            return any(is_size(module, arg.value) for arg in args)
        case cst.BinaryOperation(left, right=right):
            return is_size(module, left) or is_size(module, right)
        case cst.Name():
            return _name_sized(module, node)
    return False


@question(
    yes="the iterations of the loop make tensors of different sizes",
    no="the iterations of the loop make tensors of one size",
)
def sizes_differ(module: Module, loop: cst.For | cst.CompFor, body: cst.CSTNode) -> bool:
    """Say whether each iteration of a loop makes tensors of the height and width that it takes
    apart, ``for level, (h, w) in enumerate(shapes)``, ``h, w = shapes[i]``, or of the size that a
    list has for it: ``embed(x[i], sizes[i])``."""
    bound = module.names_in(loop.target)
    pairs: list[cst.CSTNode] = [
        element.value
        for element in module.within(loop.target, cst.Element)
        if isinstance(element.value, DISPLAYS)
    ]
    pairs += [
        assign.targets[0].target
        for assign in module.within(body, cst.Assign)
        if isinstance(assign.targets[0].target, DISPLAYS)
        and isinstance(assign.value, (cst.Name, cst.Subscript))
        and bound & module.names_in(assign.value)
        and not is_size(module, assign.value)
    ]
    names = module.names_in(*pairs)
    listed = (
        part
        for part in module.within(body, cst.Subscript)
        if bound & module.names_in(part.slice[0]) and not on_device(module, part.value)
    )
    return any(given_as_size(module, part) for part in listed) or any(
        name.value in names
        for call in module.within(body, cst.Call)
        if method_called(call) in _SIZED
        for arg in call.args
        if arg.keyword is None
        for name in module.within(arg.value, cst.Name)
    )


@question(
    yes="each iteration of the loop lists as many rows as a mask leaves, which differ in number",
    no="the iterations of the loop list no tensors of different sizes",
)
def rows_differ(module: Module, loop: cst.For | cst.CompFor, body: cst.CSTNode) -> bool:
    """Say whether each iteration of a loop puts the rows that a mask chooses into a list, and
    nothing joins the list: ``kept.append(boxes[i, mask[i]])``. No tensor holds rows of different
    number."""
    if isinstance(loop, cst.CompFor):
        holder = next(a for a in module.ancestors(loop) if not isinstance(a, cst.CompFor))
        line = module.small_statement(loop)
        whole = isinstance(line, cst.Assign) and line.value is holder
        target = line.targets[0].target if isinstance(line, cst.Assign) and whole else None
        lists = [(target, body)] if isinstance(target, cst.Name) else []
    else:
        lists = [
            (call.func.value, call.args[0].value)
            for call in module.within(body, cst.Call)
            if isinstance(call.func, cst.Attribute)
            and isinstance(call.func.value, cst.Name)
            and call.func.attr.value == "append"
            and len(call.args) == 1
        ]
    return bool(lists) and all(
        _chosen_by_mask(module, value, body) and not _is_joined(module, name)
        for name, value in lists
    )


def _chosen_by_mask(module: Module, value: cst.CSTNode, body: cst.CSTNode) -> bool:
    """Say whether a value is made of rows that a mask chooses, and is not one of them."""
    if module.called(value).startswith("random."):
        return False
    names = module.names_in(value) if not isinstance(value, cst.Subscript) else frozenset()
    parts = [value] + [
        assign.value
        for assign in module.within(body, cst.Assign)
        if module.names_in(assign.targets[0]) & names
    ]
    indices = (
        element.slice.value
        for part in parts
        for subscript in module.within(part, cst.Subscript)
        for element in subscript.slice
        if isinstance(element.slice, cst.Index)
    )
    return any(
        isinstance(index, cst.Comparison) or inferred(module, index).dtype == "bool"
        for index in indices
    )


def _is_joined(module: Module, name: cst.Name) -> bool:
    """Say whether a list is given to a function that makes one tensor of it."""
    holders = (
        module.parent(arg)
        for read in reads_of(module, module.scope(name), name.value)
        if isinstance(arg := module.parent(read), cst.Arg)
    )
    return any(module.called(call) in _JOINS for call in holders)


def _shape_of_tensor(module: Module, node: cst.CSTNode) -> bool:
    match node:
        case cst.Attribute(attr=cst.Name("shape"), value=holder) | cst.Call(
            cst.Attribute(attr=cst.Name("size"), value=holder), []
        ):
            return inferred(module, holder).kind not in ("ndarray", "list")
    return False


def _name_sized(module: Module, node: cst.Name) -> bool:
    definition = sole_definition(module, node)
    if definition is not None:
        return is_size(module, definition)
    function = module.scope(node)
    writes = writes_of(module, function, node.value)
    statements = [module.small_statement(write) for write in writes]
    unpacked = [
        s
        for s in statements
        if isinstance(s, cst.Assign) and not isinstance(s.targets[0].target, cst.Name)
    ]
    return (
        bool(unpacked)
        and len(unpacked) == len(writes)
        and all(_unpacks_size(module, s, node) for s in unpacked)
    )


def _unpacks_size(module: Module, statement: cst.Assign, name: cst.Name) -> bool:
    # ``b, n = x.shape``, and ``b, device = x.size(0), x.device``.
    target, value = statement.targets[0].target, statement.value
    return _shape_of_tensor(module, value) or (
        isinstance(target, cst.Tuple)
        and any(
            part.value.deep_equals(name) and is_size(module, given)
            for part, given in zip(target.elements, one_by_one(target, value), strict=True)
        )
    )


@question(
    yes="no iteration needs an earlier one",
    no="an iteration needs what an earlier one made, or ends the loop",
)
def independent_rounds(module: Module, loop: cst.For) -> bool:
    """Say whether no iteration of a loop needs what an earlier one has made, and none ends the
    loop.

    Running sums and lists that only grow do not count as needing; nor does a break at the first row
    that only fills up: ``if boxes[t, 1] == 0: break``.
    """
    body = loop.body
    padding = _ends_at_padding(module, loop)
    if (
        any(leaves is not padding for leaves in module.within(body, *_LEAVES))
        or loop.orelse is not None
        or not all(_reduces(module, read) for read in carried_reads(module, loop))
    ):
        return False
    for target in _targets(module, body):
        if isinstance(target, cst.Attribute):
            return False
        if isinstance(target, cst.Subscript) and not _writes_into_its_own(module, loop, target):
            return False
    return not any(_grown_and_read(module, body, call) for call in module.within(body, cst.Call))


def _ends_at_padding(module: Module, loop: cst.For) -> cst.CSTNode | None:
    """Return the ``break`` with which a loop begins where an element that it comes by is zero."""
    match loop.body.body[0]:
        case cst.If(
            cst.Comparison(
                asked,
                [cst.ComparisonTarget(cst.Equal(), cst.Integer("0") | cst.Float("0.0"))],
            ),
            cst.IndentedBlock([cst.SimpleStatementLine([cst.Break() as leaves])]),
            None,
        ) if _element_in(module, loop, asked):
            return leaves
    return None


def _reduces(module: Module, read: cst.Name) -> bool:
    """Say whether a read is the ``total`` in ``total = total + a - b``: order aside, a reduction,
    as ``&`` and ``|`` of masks are."""
    node: cst.CSTNode = read
    above = module.parent(node)
    signs: set[type[cst.CSTNode]] = set()
    while isinstance(above, cst.BinaryOperation):
        if isinstance(above.operator, cst.Subtract) and above.right is node:
            return False
        signs.add(_REDUCING.get(type(above.operator), type(above.operator)))
        node, above = above, module.parent(above)
    match above:
        case cst.Assign([cst.AssignTarget(cst.Name(name))], value):
            known = len(signs) == 1 and signs <= set(_REDUCING.values())
            return known and value is node and name == read.value
    return False


def _targets(module: Module, body: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    for node in module.within(body, cst.Assign, cst.AugAssign):
        for target in targets_of(node):
            yield from components(target, *DISPLAYS)


def _reads_other(module: Module, loop: cst.For, target: cst.Subscript) -> bool:
    """Say whether a tensor that an iteration writes into is also read, but for the very part that
    is written, or for the row that is this iteration's own."""
    bound = module.names_in(loop.target)
    holder = root_of(target, cst.Subscript)
    for use in spelled_alike(module, loop.body, holder):
        above, whole = module.parent(use), _outermost(module, use)
        row = _row_of(above) if isinstance(above, cst.Subscript) else None
        own = row in bound and row == _row_of(_innermost(target))
        if not (
            own
            or whole.deep_equals(target)
            or attr_of(above) in ("shape", "device", "dtype", "ndim", "size")
            or isinstance(module.parent(whole), (cst.AssignTarget, cst.AugAssign))
        ):
            return True
    return False


def _writes_into_its_own(module: Module, loop: cst.For, target: cst.Subscript) -> bool:
    """Say whether what an iteration writes into is read by no other: torch makes the tensor anew in
    each, or none reads it."""
    made = assignments_of(module, _innermost(target).value)
    anew = bool(made) and all(
        module.called(each.value) in _MAKERS and module.is_within(each, loop.body) for each in made
    )
    return anew or not _reads_other(module, loop, target)


def _innermost(node: cst.Subscript) -> cst.Subscript:
    while isinstance(node.value, cst.Subscript):
        node = node.value
    return node


def _row_of(node: cst.Subscript) -> str | None:
    """Return the plain name that is the first index of ``x[i, …]``."""
    match node.slice[0].slice:
        case cst.Index(cst.Name(name)):
            return name
    return None


def _outermost(module: Module, holder: cst.CSTNode) -> cst.CSTNode:
    """Return the ``x[a][b]`` around an ``x``."""
    above = module.parent(holder)
    while isinstance(above, cst.Subscript) and above.value is holder:
        holder, above = above, module.parent(above)
    return holder


@question(
    yes="the loop counts the elements of a tensor one by one",
    no="the loop does not count elements",
)
def counts_elements(module: Module, loop: cst.For) -> bool:
    """Say whether a loop adds up, element by element, what it finds in a tensor:
    ``table[int(label)] += 1`` or ``if guess == label: right += 1``."""
    sums = [
        node
        for node in module.within(loop.body, cst.AugAssign)
        if isinstance(node.operator, cst.AddAssign)
    ]
    return any(_by_element(module, loop, node) for node in sums)


@question(
    yes="the loop writes single elements of a tensor that it computes from those of another one",
    no="the loop writes no single elements that it computes from those of a tensor",
)
def writes_elements(module: Module, loop: cst.For) -> bool:
    """Say whether a loop, and no loop inside of it, writes single elements of a tensor that was
    made before it, where a single element of another tensor says what is written, or where:
    ``wanted[b, j, int(boxes[b, t, 0])] = boxes[b, t, 2]``."""
    stores = [
        target
        for target in _targets(module, loop.body)
        if isinstance(target, cst.Subscript) and module.loop(target) is loop
    ]
    return any(
        _is_element(module, target) and _is_computed(module, loop, target) for target in stores
    )


@question(
    yes="each iteration of the loop fills a part of a row with a number, as far as its bound says",
    no="the loop fills no parts of rows that it has bounds for",
)
def fills_rows(module: Module, loop: cst.For) -> bool:
    """Say whether each iteration of a loop fills a part of one row of a tensor on the device with a
    number, and a bound of its own says which: ``mask[i, : lengths[i]] = 1``."""
    bound = module.names_in(loop.target)
    for node in module.within(loop.body, cst.Assign):
        target = node.targets[0].target
        if not isinstance(target, cst.Subscript) or not on_device(module, _innermost(target).value):
            continue
        parts = [part.slice for part in target.slice]
        ends = [end for part in parts if isinstance(part, cst.Slice) for end in _bounds(part)]
        rows = [target.value, parts[0]] if isinstance(parts[0], cst.Index) else [target.value]
        if (
            any(
                bound & module.names_in(each)
                for end in ends
                for each in _made_of(module, loop, end)
            )
            and inferred(module, node.value).kind in ("number", "bool")
            and any(bound & module.names_in(row) for row in rows)
        ):
            return True
    return False


def _bounds(part: cst.Slice) -> Iterator[cst.BaseExpression]:
    yield from (each for each in (part.lower, part.upper) if each is not None)


def _made_of(module: Module, loop: cst.For, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield an expression, and those that its names stand for in the loop's body."""
    found = [node]
    for each in found:
        yield each
        for name in module.within(each, cst.Name):
            made = sole_definition(module, name)
            if made is not None and made not in found and module.is_within(made, loop.body):
                found.append(made)


def _is_element(module: Module, node: cst.Subscript) -> bool:
    """Say whether a subscript has at least two numbers, and is one of a tensor for sure."""
    value = inferred(module, _innermost(node).value)
    indices = [part.slice for part in _indices(node) if isinstance(part, cst.SubscriptElement)]
    return (
        value.tensor
        and value.rank == len(indices) > 1
        and all(isinstance(i, cst.Index) and _is_single_index(module, i.value) for i in indices)
    )


def _is_single_index(module: Module, index: cst.BaseExpression) -> bool:
    """Say whether an index may be one number: no mask, list or tensor with dimensions."""
    if isinstance(index, (cst.Comparison, cst.List, cst.Ellipsis, cst.BooleanOperation)):
        return False
    value = inferred(module, index)
    return not value.rank and value.dtype != "bool" and value.kind not in ("list", "none", "str")


def _is_computed(module: Module, loop: cst.For, target: cst.Subscript) -> bool:
    """Say whether a single element of a tensor says what is written, or where."""
    line = module.small_statement(target)
    parts = [*_indices(target)] + ([line.value] if isinstance(line, cst.Assign) else [])
    return any(_element_in(module, loop, part) for part in parts)


def _by_element(module: Module, loop: cst.For, node: cst.AugAssign) -> bool:
    """Say whether an element of a tensor says where an addition goes, or whether it is made."""
    if isinstance(node.target, cst.Subscript):
        # ``image[x1:x2] += crop`` adds a whole part where its bounds say: nothing is counted.
        parts = list(_indices(node.target))
        whole = any(
            isinstance(part, cst.SubscriptElement) and isinstance(part.slice, cst.Slice)
            for part in parts
        )
        bound = module.names_in(loop.target)
        own = any(  # ``rewards[i, ends[i]] += scores[i]`` adds once to each row.
            isinstance(part, cst.SubscriptElement)
            and isinstance(part.slice, cst.Index)
            and is_name(part.slice.value, *bound)
            for part in parts
        )
        return not (whole or own) and any(_element_in(module, loop, part) for part in parts)
    above = module.parent(module.parent(module.parent(node)) or node)
    match above:
        case cst.If(cst.Comparison(left, [cst.ComparisonTarget(comparator=right)])):
            return (
                _element_in(module, loop, left)
                and isinstance(node.value, cst.Integer)
                and (_element_in(module, loop, right) or inferred(module, right).host)
            )
    return False


def _indices(node: cst.BaseExpression) -> Iterator[cst.CSTNode]:
    while isinstance(node, cst.Subscript):
        yield from node.slice
        node = node.value


def _element_in(module: Module, loop: cst.For, node: cst.CSTNode) -> bool:
    """Say whether an expression holds an element of one tensor that the loop comes by."""
    rows = [
        goes.target.value
        for goes in loop_sources(module, loop)
        if isinstance(goes.target, cst.Name) and _takes_single(module, goes.iterated)
    ]
    bound = module.names_in(loop.target)
    return any(
        not module.names_in(each).isdisjoint(rows)
        or any(_taken_by(module, part, bound) for part in module.within(each, cst.Subscript))
        for each in _made_of(module, loop, node)
    )


def _taken_by(module: Module, node: cst.BaseExpression, bound: frozenset[str]) -> bool:
    """Say whether a subscript, or several in a row, take one element of a tensor by a name:
    ``x[i]``, ``x[i, 0]``, ``x[i][0]``."""
    indices: list[cst.SubscriptElement] = []
    while isinstance(node, cst.Subscript):
        indices += node.slice
        node = node.value
        by_name = any(module.names_in(item) & bound for item in indices)
        if by_name and _takes_single(module, node, len(indices)):
            return True
    return False


def _takes_single(module: Module, node: cst.BaseExpression, indices: int = 1) -> bool:
    """Say whether so many indices may take a single element of a tensor."""
    value = inferred(module, node)
    return value.tensor and value.rank in (None, indices)


def _grown_and_read(module: Module, body: cst.CSTNode, call: cst.Call) -> bool:
    func = call.func
    if not isinstance(func, cst.Attribute) or func.attr.value not in _GROWERS:
        return False
    uses = spelled_alike(module, body, func.value)
    receivers = (c.func for c in module.within(body, cst.Call))
    grows = [
        f.value for f in receivers if isinstance(f, cst.Attribute) and f.attr.value in _GROWERS
    ]
    return any(use not in grows for use in uses)


@question(yes="the loop does tensor work only", no="the loop does more than tensor work")
def only_tensor_work(module: Module, body: cst.CSTNode) -> bool:
    """Say whether every call inside `body` is a torch operation, a list's ``append``, or a function
    of only such."""
    return all(_is_elementwise(module, call) for call in module.within(body, cst.Call))


def _is_elementwise(module: Module, call: cst.Call) -> bool:
    name = module.name(call.func)
    if name is not None and name.startswith("torch."):
        functional = name.startswith("torch.nn.functional.")
        return functional or (not name.startswith(_NOT_ELEMENTWISE) and name not in ops.NO_TENSOR)
    if name in _PLAIN_BUILTINS or _host_maths(module, call, name) or _layer(module, call):
        return True
    func = call.func
    if isinstance(func, cst.Attribute) and name is None:
        value = inferred(module, func.value)
        method = func.attr.value
        if value.kind in ("tensor", "accumulated", "number", "shape"):
            return not value.loose or method in ops.METHODS
        if method in _GROWERS and dotted_text(func.value) is not None:
            return value.kind in ("list", "?")
        if method in ops.TENSOR_ONLY_METHODS | _FACTS | _COMPUTES | _VIEWS or method in _LOOKUPS:
            return True
    callees = functions(module, call)
    return bool(callees) and all(_function_plain(where, callee) for where, callee in callees)


def _host_maths(module: Module, call: cst.Call, name: str | None) -> bool:
    """Say whether a call computes with the host's numbers, or draws some."""
    if name is None or not name.startswith(_HOST_MATHS) or _FILES.search(name):
        return False
    apart = name.startswith("math.") or ".choice" in name  # of one element, or one row
    return apart or not any(on_device(module, arg.value) for arg in call.args)


def _layer(module: Module, call: cst.Call) -> bool:
    """Say whether a call is of a layer or loss of torch.nn that does the same with every row."""
    found = operation_of(module, call)
    if found is None or found.made is None:
        return False
    return found.name in _ROW_BY_ROW or found.name.endswith("Loss")


def _function_plain(module: Module, function: Function) -> bool:
    body = function.body
    if module.contains(body, cst.For, cst.While, cst.Yield, cst.Raise):
        return False
    return only_tensor_work(module, body)
