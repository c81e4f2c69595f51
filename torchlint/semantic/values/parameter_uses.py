"""What a function does with its parameters: which it uses as tensors, takes by a key or by a
position, makes layers of, or brings to a device."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Protocol

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.flow import Flow
from torchlint.semantic.code.names import Names, dotted_text
from torchlint.semantic.code.scopes import Scopes
from torchlint.semantic.code.tree import Tree, attr_of, components, is_name, root_of
from torchlint.semantic.torch import ops
from torchlint.semantic.torch.spelling import BATCH, META, OPTIONS, SPECIAL_TOKEN, called
from torchlint.semantic.values import sharing
from torchlint.semantic.values.value import ACCEL, Value

_NOT_A_TENSOR = regex(
    r"(^|_)(size|sizes|shape|shapes|len|num|n|mode|name|names|idx|index|epoch|step|steps|scale_factor|level|flag|cfg|config|eps|k|dim|dims|"
    r"kwargs|args|cls|key|path|dtype|device|generator|reduction|ratio|prob|p|h|w|spatial_shape"
    r"|return\w*|use|is|do|type|fn|func|callback|align_corners|keepdims?|inplace|antialias|"
    r"verbose|training|max_len\w*|min_len\w*|patch_size|kernel_size|stride|padding|loader|model"
    r"|net|optimizer|criterion)$|^(return|use|is|do|num|n)_",
)
_DEVICE = regex(r"device|cuda|^dev$", re.IGNORECASE)
# What arrays have as well, but no array is the input of a module.
_ARRAY_USES = ops.having("array")
_CALLED = ops.having("method", "array") | {"size", "dim"}
_TENSOR_USES = ops.having("weak")
_SIZE_METHODS = ops.having("method", "sizes") | {"repeat_interleave"}
_OF_OTHER_THINGS = (
    "torch.utils.",
    "torch.distributed.",
    "torch.cuda.",
    "torch.backends.",
    "torch.optim.",
    "torch.nn.utils.clip_",
    "torch.nn.utils.parameters_to_",
)
"""How the names of functions of torch begin whose arguments are no single tensors."""
_FIRST_ALONE = ops.dotted("along") | ops.dotted("several", "second-whole")
"""Functions that take one tensor, and behind it numbers."""
_JOINS = ops.dotted("join")
"""Functions that take a list of tensors."""
_LAYERS = ops.dotted("layer")
"""They are constructed of numbers."""


class Code(Protocol):
    """What these questions need to know of a file, of all that `Values` knows."""

    tree: Tree
    names: Names
    scopes: Scopes
    flow: Flow

    def uses(self, owner: cst.CSTNode) -> Mapping[str, Value]:
        """Return the names of a function that its own code treats as tensors."""


def used_by_key(code: Code, function: cst.FunctionDef) -> set[str]:
    """Return the names that a function subscripts with string literals: dicts of features, and no
    vocabularies, which are asked for the number of ``"<pad>"``."""
    out: set[str] = set()
    vocabularies: set[str] = set()
    tensors: set[str] = set()
    for node in code.tree.within(function, cst.Subscript):
        index = node.slice[0].slice
        key = index.value if isinstance(index, cst.Index) else None
        if (
            isinstance(node.value, cst.Name)
            and isinstance(key, cst.SimpleString)
            and not called(node.value.value, META)
        ):
            token = called(str(key.raw_value), SPECIAL_TOKEN)
            (vocabularies if token else out).add(node.value.value)
            if called(node.value.value, BATCH) or _item_used(code, function, node):
                tensors.add(node.value.value)
    return out & tensors - vocabularies


def _item_used(code: Code, function: cst.FunctionDef, item: cst.Subscript) -> bool:
    """Say whether what is under a key is used as a tensor, and not as a number or an option alone:
    by a method, in arithmetic, as an argument of torch or of a module."""
    above = code.tree.parents[item]
    match above:
        case cst.Attribute(attr=cst.Name(attr)):
            return attr in _TENSOR_USES or attr in _ARRAY_USES
        case cst.Assign([cst.AssignTarget(cst.Name(name))]):
            listed = any(
                isinstance(code.tree.parents[read], cst.Element)
                for read in code.flow.reads(function, name)
            )
            return listed or name in used_as_tensor(code, function)
        case cst.Arg():
            call = code.tree.parents[above]
            func = call.func if isinstance(call, cst.Call) else None
            taken = attr_of(func) not in _SIZE_METHODS and attr_of(func) not in _OF_MODULES
            return taken and not (code.names.name(func) or "").startswith("builtins.")
        case cst.Element():
            match code.tree.parents[code.tree.parents[above]]:
                case cst.Assign([cst.AssignTarget(cst.Tuple(kept))]):
                    # ``self.step, self.best = saved["step"], saved["best"]`` keeps what they are.
                    return not all(isinstance(each.value, cst.Attribute) for each in kept)
            return True
    return isinstance(above, (cst.BinaryOperation, cst.Subscript, cst.Return))


def used_by_position(code: Code, function: cst.FunctionDef) -> set[str]:
    """Return the names whose parts a function takes by number, or by a variable where the part is
    used as a tensor, ``labels[b].unsqueeze(0)``: the tensors that a module is given together."""
    out = set()
    for node in code.tree.within(function, cst.Subscript):
        index = node.slice[0].slice
        at = index.value if isinstance(index, cst.Index) and len(node.slice) == 1 else None
        if isinstance(node.value, cst.Name) and (
            isinstance(at, cst.Integer)
            or (isinstance(at, cst.Name) and attr_of(code.tree.parents[node]) in _TENSOR_USES)
        ):
            out.add(node.value.value)
    return out


def names_no_tensor(name: str) -> bool:
    """Say whether a parameter's name says that it holds no tensor."""
    return _NOT_A_TENSOR.search(name) is not None or called(name, OPTIONS)


def used_as_sizes(code: Code, function: cst.FunctionDef) -> frozenset[str]:
    """Return the names of what a function makes layers of, ``nn.Linear(a, b[0])``: numbers, and
    lists of numbers."""
    out: set[str] = set()
    for call in code.tree.within(function, cst.Call):
        name = code.names.name(call.func)
        if name not in _LAYERS or name.startswith("torch.nn.Transformer"):
            continue  # Those of a transformer take layers as well.
        for arg in call.args:
            given = arg.value.value if isinstance(arg.value, cst.Subscript) else arg.value
            out.update(_operands(given) if not arg.star else ())
    return frozenset(out)


def incoming_device(code: Code, function: cst.FunctionDef, depth: int = 2) -> str | None:
    """Return `ACCEL` where tensors that come in live with a module.

    So they do in its methods but the constructor, in losses, and in functions and methods of a
    loss that only these call.
    """
    name = function.name.value
    if code.tree.is_method(function):
        cls = code.scopes.tree.class_of(function)
        loss = code.scopes.is_loss(cls)
        if (
            (loss and name in ("__call__", "forward"))
            or (name != "__init__" and code.scopes.is_module(cls))
            or (cls and any(b.startswith("torch.autograd.") for b in code.scopes.base_names(cls)))
        ):
            return ACCEL
        if not loss or name == "__init__" or _called_from_outside(code, name):
            return None
    elif re.search(r"(^|_)loss(es)?(_|$)", name):
        return ACCEL
    callers = (
        [code.scopes.tree.function(site) for site in code.flow.sites(function)] if depth else []
    )
    if callers and all(
        c is not None and c is not function and incoming_device(code, c, depth - 1) for c in callers
    ):
        return ACCEL
    return None


def _called_from_outside(code: Code, method: str) -> bool:
    """Say whether the file asks an object other than ``self`` for a method of this name."""
    users = map(code.tree.parents.get, code.tree.named(method))
    return any(
        isinstance(user, cst.Attribute) and dotted_text(user.value) != "self" for user in users
    )


def moved_to_device(code: Code, function: cst.FunctionDef, depth: int) -> set[str]:
    """Return the names of what a function brings to a device, itself or by a function of this file
    to which it hands them: they need not be there before."""
    found = set[str]()
    for call in code.tree.within(function, cst.Call):
        match call:
            case cst.Call(cst.Attribute(part, cst.Name("to" | "cuda"))):
                # Of a part of a batch, ``features[key].to(self.device)``, the batch.
                part = root_of(part, cst.Subscript)
                words = code.tree.within(call, cst.Name, cst.SimpleString)
                device = any(_DEVICE.search(getattr(word, "value", "")) for word in words)
                if device and isinstance(part, cst.Name):
                    found.add(part.value)
        for callee in code.flow.callees(call) if depth else ():
            if isinstance(callee, cst.FunctionDef):
                moved = moved_to_device(code, callee, depth - 1)
                given = code.tree.bind(callee, call)
                handed = (dotted_text(value) for key, value in given.items() if key in moved)
                found |= {name for name in handed if name is not None}
    return found


def used_as_tensor(code: Code, function: cst.FunctionDef) -> frozenset[str]:
    """Return the plain names that a function passes to torch functions or to modules on
    ``self``."""
    out = set(code.uses(function))
    any_torch = False
    for call in code.tree.within(function, cst.Call):
        name = code.names.name(call.func)
        any_torch = any_torch or (name is not None and name.startswith("torch."))
        torch_function = (
            name is not None
            and name.startswith("torch.")
            and name not in ops.NO_TENSOR
            and not _makes_module(name)
            and not _factory(name)
        )
        if torch_function or _self_module(code, call):
            given = call.args[:1] if name in _FIRST_ALONE else call.args
            out.update(
                arg.value.value
                for arg in given
                if isinstance(arg.value, cst.Name) and arg.keyword is None and not arg.star
            )
        if torch_function and name in _JOINS:
            together = sharing.operands(name.rpartition(".")[2], call)
            out.update(each.value for each in together if isinstance(each, cst.Name))
    cls = code.scopes.tree.class_of(function) if code.tree.is_method(function) else None
    forward = code.scopes.is_module(cls) or (
        any_torch and code.scopes.is_loss(cls) and incoming_device(code, function) is not None
    )
    for node in code.tree.within(function, cst.Attribute):
        if node.attr.value in _CALLED and not _is_called(code, node):
            continue  # ``x.size`` is a number of NumPy's, ``stats.std`` may be anything's
        if node.attr.value in _TENSOR_USES or (forward and node.attr.value in _ARRAY_USES):
            found = _operands(node.value) if forward or isinstance(node.value, cst.Name) else []
            out.update(
                n
                for n in found
                if node.attr.value in _TENSOR_USES or not n.endswith(("lengths", "lens"))
            )
    if forward:
        out.update(_cut(code, function), _compared(code, function, out))
    elif cls is None and any_torch and (cut := _cut(code, function)):
        out.update(cut if incoming_device(code, function) is not None else ())
    return frozenset(out - converted(code, function))


def _is_called(code: Code, node: cst.CSTNode) -> bool:
    above = code.tree.parents[node]
    return isinstance(above, cst.Call) and above.func is node


def converted(code: Code, owner: cst.CSTNode) -> set[str]:
    """Return the parameters of a function of which it makes tensors, ``torch.LongTensor(x)``, that
    it joins, ``torch.cat(x)``, or binds anew to a list made of them: what is done to that says
    nothing of what comes in, or it is a list."""
    table = code.names.tables.get(owner, {}) if isinstance(owner, cst.FunctionDef) else {}
    taken = {
        name for name, bindings in table.items() if any(each.kind == "param" for each in bindings)
    }
    given = {
        first.value
        for call in (code.tree.within(owner, cst.Call) if taken else ())
        if call.args and isinstance(first := call.args[0].value, cst.Name)
        if first.value in taken
        if (name := code.names.name(call.func)) in ops.DATA_FACTORIES
        or (
            name in _JOINS
            and all(each.kind == "param" or each.value is call for each in table[first.value])
        )
    }
    return {
        name
        for name in taken
        if name in given or any(_is_listed(each.value, name) for each in table[name])
    }


def _is_listed(node: cst.BaseExpression | None, name: str) -> bool:
    """Say whether an expression is a list of what a name holds, ``[len(x) for x in xs]``."""
    over = node.for_in.iter if isinstance(node, cst.ListComp) else None
    return is_name(over, name)


def _compared(code: Code, function: cst.FunctionDef, used: set[str]) -> set[str]:
    """Return the names of what is compared, ``inside = mask[i] > 0``, where the result is used as a
    tensor of truth code."""
    out = set()
    for node in code.tree.within(function, cst.Assign):
        match node:
            case cst.Assign(
                [cst.AssignTarget(cst.Name(name))],
                cst.Comparison(
                    cst.Subscript(cst.Name(held), [cst.SubscriptElement()]),
                    [_],
                ),
            ) if name in used:
                out.add(held)
    return out


def _cut(code: Code, function: cst.FunctionDef) -> set[str]:
    """Return the names that are indexed along several axes, ``x[:, 0]``: what comes into a module
    like that is a tensor."""
    out = set()
    for node in code.tree.within(function, cst.Subscript):
        slices = len(node.slice) > 1 and any(isinstance(e.slice, cst.Slice) for e in node.slice)
        if slices and isinstance(node.value, cst.Name):
            out.add(node.value.value)
    return out


def _operands(node: cst.BaseExpression) -> list[str]:
    """Return the plain names that arithmetic is done on: of ``(a - b[i] > 0)``, ``a``."""
    parts = components(node, cst.BinaryOperation, cst.UnaryOperation, cst.Comparison)
    return [each.value for each in parts if isinstance(each, cst.Name)]


def _makes_module(name: str) -> bool:
    """Say whether a name of torch is a class of modules, which are made of numbers or modules."""
    last = name.rpartition(".")[2]
    return name.startswith("torch.nn.") and last[:1].isupper() and last != "Parameter"


def _factory(name: str) -> bool:
    return (
        (name in ops.FACTORIES and not name.endswith("_like"))
        or name in ops.DATA_FACTORIES
        or name.startswith(_OF_OTHER_THINGS)
    )


_OF_MODULES = ops.having("module")
"""Methods that every module has, which take no tensors; ``load_state_dict(saved["net"])``."""


def _self_module(code: Code, call: cst.Call) -> bool:
    func = call.func
    if not (isinstance(func, cst.Attribute) and is_name(func.value, "self")):
        return False
    if func.attr.value in _OF_MODULES:
        return False  # ``self.load_state_dict(weights)``
    cls = code.scopes.tree.class_of(call)
    return (
        cls is not None
        and code.scopes.is_module(cls)
        and code.scopes.method(cls, func.attr.value) is None
    )
