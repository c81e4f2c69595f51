"""NumPy arrays: what certainly is one of one or more dimensions, and what a list of them holds."""

from __future__ import annotations

import libcst as cst

from torchlint.rule import Module, inferred, keyword_argument
from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.flow import reads_of
from torchlint.semantic.code.reaching import assignments_of, definitions_of
from torchlint.semantic.code.tree import is_name
from torchlint.semantic.question import question
from torchlint.semantic.time.iterations import loop_sources

_ALWAYS = frozenset(
    (
        "stack vstack hstack dstack column_stack concatenate arange linspace logspace eye "
        "identity tile repeat "
        "atleast_1d atleast_2d loadtxt genfromtxt fromfile frombuffer fromiter expand_dims pad "
        "flatnonzero argwhere "
        "random.permutation"
    ).split()
)
_SHAPED = frozenset("zeros ones empty full".split())
_FROM_DATA = frozenset("array asarray ascontiguousarray asfortranarray copy".split())
_ELEMENTWISE = frozenset(
    (
        "log log1p log2 log10 exp expm1 sqrt abs absolute clip square sign floor ceil sin cos "
        "tanh flip transpose sort "
        "argsort cumsum nan_to_num moveaxis swapaxes roll rot90 maximum minimum float32 float64 "
        "ones_like zeros_like "
        "empty_like full_like"
    ).split()
)
_SIZED = {
    "normal": 2,
    "uniform": 2,
    "randint": 2,
    "choice": 1,
    "random": 0,
    "standard_normal": 0,
    "random_sample": 0,
}
_READERS = frozenset(
    (
        "cv2.imread cv2.cvtColor cv2.resize imageio.imread imageio.v2.imread imageio.v3.imread "
        "skimage.io.imread"
    ).split()
)
_METHODS = frozenset(
    "astype copy reshape transpose flatten ravel repeat clip swapaxes to_numpy".split()
)


@question(yes="`{0}` is an array", no="`{0}` is not known to be an array")
def is_array(module: Module, node: cst.CSTNode) -> bool:
    """Say whether an expression is an ndarray of one or more dimensions; scalars and unknowns are
    not."""
    match node:
        case cst.Call(func):
            name = module.name(func) or ""
            if name.startswith("numpy."):
                return _numpy_call(module, node, name[len("numpy.") :])
            return name in _READERS or _method(module, node)
        case cst.BinaryOperation(left, right=right):
            sides = [is_array(module, left), is_array(module, right)]
            plain = [inferred(module, s).kind in ("number", "bool") for s in (left, right)]
            return any(sides) and all(a or b for a, b in zip(sides, plain, strict=True))
        case cst.Subscript(value, parts):
            return all(isinstance(p.slice, cst.Slice) for p in parts) and is_array(module, value)
        case cst.IfExp(body=body, orelse=orelse):
            return is_array(module, body) and is_array(module, orelse)
        case cst.Name():
            return _is_named(module, node)
    return False


def _numpy_call(module: Module, call: cst.Call, name: str) -> bool:
    if _object_dtype(module, call) or keyword_argument(module, call, "retstep") is not None:
        return False
    first = call.args[0].value if call.args and not call.args[0].star else None
    if name in _ALWAYS:
        return True
    if name in ("random.rand", "random.randn"):
        return bool(call.args)
    if name.startswith("random.") and name[len("random.") :] in _SIZED:
        size = keyword_argument(module, call, "size")
        after = _SIZED[name[len("random.") :]]
        size = (
            size if size is not None else call.args[after].value if len(call.args) > after else None
        )
        return size is not None and _is_shape(size)
    if first is None:
        return False
    if name in _SHAPED:
        return _is_shape(first)
    if name in _FROM_DATA:
        return inferred(module, first).kind not in (
            "number",
            "bool",
            "str",
            "none",
        ) and not _scalar_tensor(module, first)
    if name == "load":
        return isinstance(first, cst.Call) or _npy(module, first)
    return name in _ELEMENTWISE and is_array(module, first)


def _is_shape(node: cst.BaseExpression) -> bool:
    return not (isinstance(node, cst.Tuple) and not node.elements) and not (is_name(node, "None"))


def _npy(module: Module, node: cst.BaseExpression) -> bool:
    text = module.source_of(node)
    return "npz" not in text and "npy" in text


def _object_dtype(module: Module, call: cst.Call) -> bool:
    dtype = keyword_argument(module, call, "dtype")
    return dtype is not None and (module.name(dtype) or "").rpartition(".")[2] in (
        "object",
        "object_",
        "str",
    )


def _scalar_tensor(module: Module, node: cst.BaseExpression) -> bool:
    value = inferred(module, node)
    return value.tensor and (value.rank == 0 or value.origin == "loss")


def _method(module: Module, call: cst.Call) -> bool:
    func = call.func
    if not isinstance(func, cst.Attribute):
        return False
    if func.attr.value == "numpy" and not call.args:
        value = inferred(module, func.value)
        return value.tensor and value.rank != 0 and value.origin != "loss"
    if func.attr.value == "to_numpy":
        return True
    return func.attr.value in _METHODS and is_array(module, func.value)


def _is_named(module: Module, node: cst.Name) -> bool:
    found, given = definitions_of(module, node), assignments_of(module, node)
    if given:
        return all(
            isinstance(each.targets[0].target, cst.Name) and is_array(module, each.value)
            for each in given
        )
    if len(found) == 1 and isinstance(found[0], cst.FunctionDef):
        for param in module.within(found[0], cst.Param):
            if param.name.value == node.value and param.annotation is not None:
                return module.name(param.annotation.annotation) == "numpy.ndarray"
    return _element(module, node)


def _element(module: Module, node: cst.Name) -> bool:
    """Say whether a comprehension's target is an element of a list of arrays."""
    for above in module.ancestors(node):
        if isinstance(above, cst.ListComp):
            for goes in loop_sources(module, above.for_in):
                if is_name(goes.target, node.value):
                    return bool(arrays_in(module, goes.iterated))
    return False


# -- lists of arrays -------------------------------------------------------------------------------


@question(yes="all elements are arrays", no="not all elements of `{0}` are known to be arrays")
def arrays_in(module: Module, node: cst.CSTNode) -> list[cst.BaseExpression]:
    """Return the expressions that give the elements of a list, where all are arrays; else
    nothing."""
    found = _elements(module, node)
    return found if all(is_array(module, each) for each in found) else []


def _elements(module: Module, node: cst.CSTNode) -> list[cst.BaseExpression]:
    match node:
        case cst.List(elements) | cst.Tuple(elements):
            return (
                []
                if any(isinstance(e, cst.StarredElement) for e in elements)
                else [e.value for e in elements]
            )
        case cst.ListComp(elt):
            return [elt]
        case cst.Name():
            definition = sole_definition(module, node)
            if isinstance(definition, cst.ListComp) or (
                isinstance(definition, cst.List) and definition.elements
            ):
                # More may be appended to a list that starts with something.
                return _elements(module, definition) if not _filled(module, node) else []
            return _filled(module, node) or [] if isinstance(definition, cst.List) else []
    return []


def _filled(module: Module, name: cst.Name) -> list[cst.BaseExpression] | None:
    """Return what a function appends to a named list; nothing where it also changes it in another
    way."""
    out = []
    for read in reads_of(module, module.scope(name), name.value):
        match module.method_call(read):
            case cst.Call(cst.Attribute(attr=cst.Name("append")), [arg]):
                out.append(arg.value)
            case cst.Call(cst.Attribute(attr=cst.Name("extend" | "insert"))):
                return []
    return out or None
