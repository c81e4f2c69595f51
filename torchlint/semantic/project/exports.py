"""Facts about one file's functions and classes in a form that other files can use: without its
syntax tree."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.base.records import frozen
from torchlint.semantic.code import iterated
from torchlint.semantic.code.bindings import top_level
from torchlint.semantic.code.conditions import conditions_around
from torchlint.semantic.code.flow import writes_of
from torchlint.semantic.code.guards import guards
from torchlint.semantic.code.never_none import NeverNone
from torchlint.semantic.code.reaching import reaching
from torchlint.semantic.code.scopes import own_method, scopes
from torchlint.semantic.code.tree import keyword_of, positional_parameters
from torchlint.semantic.code.unreached import unreached
from torchlint.semantic.module import Module
from torchlint.semantic.time.autograd import no_grad
from torchlint.semantic.time.grades import Caller
from torchlint.semantic.time.heat import function_heat, heat_of
from torchlint.semantic.time.loops import loops
from torchlint.semantic.time.runs import runs
from torchlint.semantic.torch import ops
from torchlint.semantic.values.calls import flags_given
from torchlint.semantic.values.device_choice import chooses_host, passed_constant
from torchlint.semantic.values.inferred import batch_device, class_attribute, returned_by
from torchlint.semantic.values.value import CLASSES, CPU, UNKNOWN, Value

_STEPS = ops.SAME_VALUES | ops.having("cast") | ops.REDUCTIONS | {"data", "numpy", "cpu"}
_READS = ops.having("reads") | {"cpu"}
_CASTS = frozenset(("builtins.float", "builtins.int"))
READING = _READS | {"float", "int"}
"""Last names of what reads an argument on the host."""
_TESTS = frozenset(("builtins.isinstance", "torch.is_tensor", "builtins.hasattr"))


@frozen
class ArgumentRead:
    """An argument that a function reads on the host whenever it is called.

    Args:
        position: where the argument stands, counted from 0.
        name: the parameter's name.
        how: ``item``, ``tolist``, ``cpu``, ``numpy``, ``float`` or ``int``.
        node: the expression in the function's file that reads.
        module: that file.
    """

    position: int
    name: str
    how: str
    node: cst.Call
    module: Module


def exported(module: Module, value: Value) -> Value:
    """Return a value as other files may see it: no nodes of this file; instances are named by file
    and class."""
    name = value.name
    if isinstance(value.node, cst.ClassDef) and value.kind in ("module", "object"):
        name = f"{module.path}:{value.node.name.value}"
    elif name is not None and CLASSES in name:
        parts = name.split(CLASSES)
        name = CLASSES.join(each if ":" in each else f"{module.path}:{each}" for each in parts)
    elif value.kind in ("function", "class"):
        return UNKNOWN
    device = value.device or (batch_device(module, value) if value.kind == "loader" else None)
    return value.but(node=None, name=name, device=device).inside(
        lambda part: exported(module, part)
    )


def returned(module: Module, name: str, call: cst.Call, given: list[Value]) -> Value:
    """Return what calling a top-level function gives, for the arguments of a call in another
    file."""
    function = _function(module, name)
    if function is None:
        return UNKNOWN
    env = flags_given(function, call, module.bind(function, call))
    constants: dict[str, object] = {}
    names = [p.name.value for p in positional_parameters(function)]
    position = 0
    for arg, value in zip(call.args, given, strict=True):
        if arg.star:
            position = len(names)
            continue
        if arg.keyword is None and position >= len(names):
            continue
        name = names[position] if arg.keyword is None else arg.keyword.value
        position += arg.keyword is None
        env.setdefault(name, plain(value))
        constants[name] = passed_constant(arg.value, value)
    found = exported(module, returned_by(module, function, env))
    whole = found.kind == "device" and not any(arg.star for arg in call.args)
    host = whole and chooses_host(module.names, function, constants)
    return found.but(device=CPU) if host else found


def shape(call: cst.Call) -> tuple[str, ...]:
    """Return how a call hands over its arguments: each one's star or keyword."""
    return tuple(arg.star or keyword_of(arg) for arg in call.args)


def plain(value: Value) -> Value:
    """Return a value of another file without its nodes."""
    return value.but(node=None).inside(plain)


def hands_out(module: Module, name: str) -> tuple[int, str] | None:
    """Return the parameter, and its place in a call, of which iterating over an object of a class
    gives the elements as they are."""
    cls = _class(module, name)
    found = iterated.hands_out(module.tree, scopes(module), cls) if cls is not None else None
    init = scopes(module).method(cls, "__init__") if cls is not None else None
    names = [param.name.value for param in init.params.params[1:]] if init is not None else []
    return (names.index(found), found) if found in names else None


def method_returned(module: Module, cls: str, name: str) -> Value | None:
    """Return what a method gives that the class itself defines; None where it defines none."""
    found = _class(module, cls)
    method = own_method(module, found, name) if found is not None else None
    return exported(module, returned_by(module, method)) if method is not None else None


def rarely_returns(module: Module, name: str, method: str, needed: bool) -> bool | None:
    """Say whether a function, or a method of a class, returns what is true (or false, as needed)
    only now and then; None where the file defines none."""
    function = _defined(module, name, method)
    return guards(module).rarely_returns(function, needed) if function is not None else None


def never_returns_none(module: Module, name: str, method: str) -> bool | None:
    """Say whether a function returns something else than None on every way; None where the file
    defines none."""
    function = _defined(module, name, method)
    return NeverNone(reaching(module)).returned(function) if function is not None else None


def takes_step(module: Module, name: str, method: str) -> bool | None:
    """Say whether one call of a function, or of a method of a class, is one training step; None
    where the file defines none."""
    function = _defined(module, name, method)
    return loops(module).is_step_function(function) if function is not None else None


def runs_model(module: Module, name: str, method: str) -> bool | None:
    """Say whether one call of a function, or of a method of a class, runs a model; None where the
    file defines none."""
    function = _defined(module, name, method)
    return runs(module).function_runs(function) if function is not None else None


def _defined(module: Module, name: str, method: str) -> cst.FunctionDef | None:
    cls = _class(module, name) if method else None
    return _function(module, name) if cls is None else own_method(module, cls, method)


def attribute(module: Module, cls: str, name: str) -> Value:
    """Return what ``self.name`` holds by what the class and its relatives in the file assign."""
    found = _class(module, cls)
    held = class_attribute(module, found, name) if found is not None else UNKNOWN
    return Value("function") if held.kind == "function" else exported(module, held)


def callers(module: Module, cls: str, method: str) -> Iterator[Caller]:
    """Yield the places where the class calls ``self.method``."""
    found = _class(module, cls)
    for call in module.within(found.body, cst.Call, nested=True) if found is not None else ():
        match call:
            case cst.Call(cst.Attribute(cst.Name("self"), cst.Name(name))) if name == method:
                function = module.function(call)
                if function is None or function.name.value != method:
                    yield Caller(heat_of(module, call), no_grad(module, call), call, module)


def argument_reads(module: Module, name: str) -> tuple[ArgumentRead, ...]:
    """Return the arguments that a function reads on the host whenever it gets a tensor for them."""
    function = _function(module, name)
    if function is None or function_heat(module, function).hot:
        return ()  # A hot helper's own file reports it.
    params = [p.name.value for p in positional_parameters(function)]
    out = []
    for call in module.within(function.body, cst.Call):
        found = _read_name(module, call)
        if (
            found is None
            or found[0] not in params
            or not _runs_whenever_called(module, call, function)
        ):
            continue
        writes = writes_of(module, function.body, found[0])
        if not any(
            module.before(write, call) and not module.is_within(call, module.statement(write))
            for write in writes
        ):
            out.append(ArgumentRead(params.index(found[0]), *found, call, module))
    return tuple(out)


def _read_name(module: Module, call: cst.Call) -> tuple[str, str] | None:
    """Return the plain name and the way of reading, for ``x.detach().item()`` and ``float(x)``."""
    func = call.func
    at: cst.BaseExpression
    if isinstance(func, cst.Attribute) and func.attr.value in _READS and not call.args:
        how, at = func.attr.value, func.value
    elif module.name(func) in _CASTS and len(call.args) == 1:
        how, at = (module.name(func) or "").rpartition(".")[2], call.args[0].value
    else:
        return None
    while not isinstance(at, cst.Name):
        if isinstance(at, cst.Call) and not at.args and isinstance(at.func, cst.Attribute):
            at = at.func
        if not isinstance(at, cst.Attribute) or at.attr.value not in _STEPS:
            return None
        at = at.value
    return at.value, how


def _runs_whenever_called(module: Module, node: cst.CSTNode, function: cst.FunctionDef) -> bool:
    """Say whether a call of `function` with tensors comes to `node`: nothing but a test of types
    stands before it."""
    for test, needed in conditions_around(module, node, function):
        plain = isinstance(test, cst.Call) and needed and module.name(test.func) in _TESTS
        if not plain:
            return False
    return not unreached(module, node) and not module.loops(node)


def _function(module: Module, name: str) -> cst.FunctionDef | None:
    found = top_level(module, name)
    return found if isinstance(found, cst.FunctionDef) else None


def _class(module: Module, name: str) -> cst.ClassDef | None:
    found = top_level(module, name)
    return found if isinstance(found, cst.ClassDef) else None
