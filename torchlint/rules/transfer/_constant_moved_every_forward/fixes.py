"""Constants that are built on the host in every step: filled on the device, or kept as buffers."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from torchlint.fixes.notes import safe_unless
from torchlint.rule import (
    Fix,
    InsertAfter,
    Module,
    NodeEdit,
    Remove,
    Replace,
    Rewrite,
    Transfer,
    inferred,
    keyword_argument,
    nested,
    with_keyword,
)
from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.scopes import own_method
from torchlint.semantic.code.tree import (
    DISPLAYS,
    attr_of,
    components,
    has_star,
    is_name,
    keyword_of,
    method_called,
)
from torchlint.semantic.device.transfers import transfer_of
from torchlint.semantic.torch import dtypes, ops
from torchlint.semantic.uses.assumptions import BUFFERS, ONE_DEVICE, PATCHED, TORCH
from torchlint.semantic.uses.object_uses import object_uses
from torchlint.semantic.values.classes import family_of, is_network
from torchlint.semantic.values.counts import counts_up
from torchlint.semantic.values.kept import made_once

_LARGEST = 65504.0
"""The largest number that all floating dtypes but the 8-bit ones hold."""
_SHAPES = ops.having("view", "keeps-whole") | ops.having("repeats") | ops.having("cast")
_SHAPES -= ops.having("move") | ops.having("spreads") | ops.having("part")
_KEPT = frozenset(("device", "dtype"))
_LEGACY = {f"torch.{name}": dtype for name, dtype in dtypes.LEGACY.items()}
_FLOATS = dtypes.of_kind("half", "float", "double")
_FLOATING = frozenset(dtype.name for dtype in _FLOATS)
_FLOATING_NAMES = dtypes.spelled(_FLOATS)
_ARRAYS = ("numpy.array", "numpy.asarray")
_NOTES = {
    "empty": "A range whose end is below its start is empty, and torch.arange raises there.",
    "array": "Of an empty range NumPy makes floats, and NumPy 1 on Windows integers of 32 bits.",
    "none": "Of an empty range torch.tensor makes floats, and torch.arange integers.",
    "default": "Where the default dtype was changed, torch.Tensor would have had that.",
    "number": "Where it is no number but a tensor, a new one is filled with its number.",
    "version": "It needs torch 1.6 or newer.",
}


BUFFER = (
    "A buffer follows .half() and .to(dtype), is copied with the module, and DDP broadcasts it at "
    "each forward."
)
_APART = "The buffer lies on the module's device, and other layers may lie elsewhere."
_PERSISTENT = (1, 6)
"""The torch that brought ``persistent=`` (its release notes)."""


def _fix(whys: Iterable[str], edits: list[NodeEdit], title: str, *, buffer: bool = False) -> Fix:
    assumes = {TORCH: PATCHED} | ({BUFFERS: BUFFER, ONE_DEVICE: _APART} if buffer else {})
    return safe_unless((_NOTES[why] for why in sorted(set(whys))), edits, title, assumes)


def filled_there(module: Module, maker: cst.Call) -> Fix | None:
    """Return the fix that fills a tensor of one number, or of a range, on the device, where the
    call gives the device or is moved at once."""
    moved = _moved(module, maker)
    if moved is None or len(maker.args) < 1 or maker.args[0].keyword or maker.args[0].star:
        return None
    move, device = moved
    given = {keyword_of(arg) or arg.star for arg in maker.args[1:]}
    if given - _KEPT or not isinstance(maker.func, cst.Attribute):
        return None
    made = _of_number(module, maker, maker.args[0].value)
    made = made or _of_range(module, maker, maker.args[0].value)
    if made is None:
        return None
    new, whys = made
    new = with_keyword(new, "device", device)
    rewrites: dict[cst.BaseExpression, Rewrite] = {maker: lambda _: new}
    if move is not None:
        rewrites[move.call] = lambda call: call.func.value
    if (cast := _made_long(module, maker)) is not None:
        rewrites[cast] = lambda call: call.func.value
    return _fix(whys, [*nested(module, rewrites)], "Fill it on the device")


def _moved(module: Module, maker: cst.Call) -> tuple[Transfer | None, cst.BaseExpression] | None:
    """Return the move of what a call makes, behind reshapes and casts at most, and the device that
    it or the call itself gives."""
    given = keyword_argument(module, maker, "device")
    if given is not None:
        return None, given
    call, found = module.method_call(maker), None
    while call is not None and (found := transfer_of(module, call)) is None:
        if method_called(call) not in _SHAPES or has_star(call):
            return None
        call = module.method_call(call)
    if found is None or found.like or not _says_only_the_device(module, found):
        return None
    return found, found.target or cst.SimpleString('"cuda"')


def _says_only_the_device(module: Module, move: Transfer) -> bool:
    """Say whether a move says nothing but the device; ``.cuda(None)`` means the current GPU,
    ``device=None`` the CPU."""
    func = move.call.func
    named = attr_of(func) == "to"
    sure = named or move.target is None or isinstance(move.target, cst.Integer)
    made = sole_definition(module, move.target) if move.target is not None else None
    sure = sure or module.called(made) == "torch.device" or method_called(made) == "get_device"
    return sure and move.given <= {"device"}


_Made = tuple[cst.Call, list[str]] | None


def _of_number(module: Module, maker: cst.Call, data: cst.BaseExpression) -> _Made:
    """Return the call that fills a tensor with the one number that a list repeats."""
    name = module.called(maker)
    legacy = _LEGACY.get(name)
    if not isinstance(data, DISPLAYS):
        if legacy is not None or name == "torch.Tensor" or inferred(module, data).kind != "number":
            return None
        return (
            None
            if isinstance(data, cst.BaseNumber)
            else (_call(maker, "full", [cst.Tuple([]), data]), ["number"])
        )
    values = [each.value for each in data.elements]
    if not values or not all(values[0].deep_equals(each) for each in values):
        return None
    number = _literal(values[0])
    if number is None or abs(number) > _LARGEST:
        return None
    whole = isinstance(values[0], cst.Integer)
    floating = name == "torch.Tensor" or legacy in _FLOATING
    if legacy is not None and not floating and not (whole and 0 <= number <= 127):
        return None
    size = cst.Integer(str(len(values)))
    given = keyword_argument(module, maker, "dtype")
    counted = name in ("torch.tensor", "torch.as_tensor") and whole and given is None
    if number in (0, 1) and not counted:
        new = _call(maker, "ones" if number else "zeros", [size])
    else:
        shape = cst.Tuple([cst.Element(size, comma=cst.Comma())])
        value = cst.Float(f"{number:.1f}") if floating and whole else values[0]
        new = _call(maker, "full", [shape, value])
    if given is not None and not counted and (number < 0 or not whole):
        named = (module.name(given) or "").removeprefix("torch.")
        return (new, []) if named in _FLOATING_NAMES else None
    if legacy is not None:
        assert isinstance(maker.func, cst.Attribute)
        new = with_keyword(new, "dtype", cst.Attribute(maker.func.value, cst.Name(legacy)))
    return new, []


def _literal(node: cst.BaseExpression) -> float | None:
    match node:
        case cst.Integer() | cst.Float():
            return float(node.evaluated_value)
        case cst.UnaryOperation(cst.Minus(), cst.Integer() | cst.Float() as inner):
            return -float(inner.evaluated_value) or None
    return None


def _of_range(module: Module, maker: cst.Call, data: cst.BaseExpression) -> _Made:
    """Return the call that counts on the device what a range of the host counts."""
    name = module.called(maker)
    legacy = "float32" if name == "torch.Tensor" else _LEGACY.get(name)
    array = name == "torch.from_numpy"
    for copies in (_ARRAYS, ("builtins.list",)) if array else (("builtins.list",),):
        match data:
            case cst.Call(args=[cst.Arg(cst.Call() as inner, None, star="")]) if (
                module.name(data.func) in copies
            ):
                data = inner
    if not isinstance(data, cst.Call) or module.name(data.func) != "builtins.range":
        return None
    if not data.args or any(arg.star or arg.keyword for arg in data.args):
        return None
    whys = [] if counts_up(module, data) else ["empty"]
    typed = keyword_argument(module, maker, "dtype") is not None
    new = _call(maker, "arange", [arg.value for arg in data.args])
    if legacy is not None:
        assert isinstance(maker.func, cst.Attribute)
        dtype = cst.Attribute(maker.func.value, cst.Name(legacy))
        changed = ["default"] if name == "torch.Tensor" else []
        return with_keyword(new, "dtype", dtype), [*whys, *changed]
    if array:
        return new, [*whys, *([] if _made_long(module, maker) else ["array"])]
    return new, whys if typed else [*whys, "none"]


def _made_long(module: Module, maker: cst.Call) -> cst.Call | None:
    """Return the cast to the integers of 64 bits that `torch.arange` gives by itself, right behind
    an array."""
    cast = module.method_call(maker) if module.called(maker) == "torch.from_numpy" else None
    return cast if method_called(cast) == "long" else None


def _call(maker: cst.Call, name: str, args: list[cst.BaseExpression]) -> cst.Call:
    """Return a call of another function of torch's, with the keywords that the maker was given."""
    assert isinstance(maker.func, cst.Attribute)
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    given = [cst.Arg(each, comma=comma) for each in args]
    rest, space = maker.args[1:], maker.args[0].whitespace_after_arg
    given[-1] = given[-1].with_changes(comma=maker.args[0].comma)
    if not rest:
        given[-1] = given[-1].with_changes(whitespace_after_arg=space)
    return maker.with_changes(
        func=maker.func.with_changes(attr=cst.Name(name)), args=[*given, *rest]
    )


# -- buffers ---------------------------------------------------------------------------------------


def kept_as_buffer(module: Module, maker: cst.Call) -> Fix | None:
    """Return the fix that makes a constant of a network once, in the constructor, and keeps it as a
    buffer."""
    statement = module.small_statement(maker)
    function, cls = module.function(maker), module.class_of(maker)
    if not isinstance(statement, cst.Assign) or function is None or cls is None:
        return None
    target = statement.targets[0].target
    if len(statement.targets) != 1 or not isinstance(target, cst.Name):
        return None
    name = _buffer_name(target.value)
    first = function.params.params[0].name.value if function.params.params else ""
    if (
        function not in cls.body.body
        or first != "self"
        or function.decorators
        or not is_network(module, cls)
    ):
        return None
    taken = module.tree.named(name) or f'"{name}"' in module.text or f"'{name}'" in module.text
    if taken or keyword_argument(module, maker, "device") is not None:
        return None
    if _made_again(module, cls, statement, name):
        return None  # One buffer holds one of them, and ``register_buffer`` overwrites it.
    steps = _steps(module, _wrapped(module, maker))
    made, whys = steps[-1], ["version"] if module.target_torch < _PERSISTENT else []
    if any(object_uses(module, each) for each in (maker, *steps)):
        return None
    behind = _constructed(module, cls, maker)
    if behind is None:
        return None
    kept = _chained(maker, steps[1:])
    code = module.source_of(kept)
    line = f'self.register_buffer("{name}", {code}, persistent=False)'
    new = cst.Attribute(cst.Name("self"), cst.Name(name))
    edits: list[NodeEdit] = [InsertAfter(behind, line), Replace(made, new)]
    if (behind := _moved_behind(module, statement, target.value)) is not None:
        edits.append(Remove(behind))
    return _fix(whys, edits, "Keep it as a buffer", buffer=True)


def _buffer_name(name: str) -> str:
    return f"_{name.strip('_').lower()}"


def _made_again(module: Module, cls: cst.ClassDef, made: cst.Assign, name: str) -> bool:
    """Say whether a class makes another tensor in a variable that would give the same buffer."""
    return any(
        each is not made
        and any(
            isinstance(target.target, cst.Name) and _buffer_name(target.target.value) == name
            for target in each.targets
        )
        and any(
            module.called(call).startswith("torch.") for call in module.within(each.value, cst.Call)
        )
        for each in module.within(cls, cst.Assign, nested=True)
    )


def _steps(module: Module, maker: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Return a constant and the views, copies and casts of it that follow, one behind the other, as
    far as they are the same in each call."""
    steps = [maker]
    while (above := _step_of(module, steps[-1])) is not None and _is_fixed(above):
        steps.append(above)
    return steps


def _step_of(module: Module, node: cst.BaseExpression) -> cst.Call | cst.Subscript | None:
    """Return the call of a method of what an expression gives, or the part of it that is taken."""
    above = module.parent(node)
    if isinstance(above, cst.Subscript) and above.value is node:
        return above
    return module.method_call(node)


def _is_fixed(step: cst.Call | cst.Subscript) -> bool:
    """Say whether a step changes shape or dtype alone, by what is written out."""
    if isinstance(step, cst.Subscript):
        return all(
            bound is None or _are_literals(bound)
            for part in step.slice
            for bound in _bounds(part.slice)
        )
    method = method_called(step)
    literal = all(not arg.star and _are_literals(arg.value) for arg in step.args)
    return literal and method in _SHAPES


def _bounds(part: cst.BaseSlice) -> tuple[cst.BaseExpression | None, ...]:
    if isinstance(part, cst.Slice):
        return part.lower, part.upper, part.step
    return (part.value,) if isinstance(part, cst.Index) else ()


def _are_literals(node: cst.BaseExpression) -> bool:
    return all(map(_is_literal, components(node, cst.Tuple, cst.List)))


def _is_literal(node: cst.BaseExpression) -> bool:
    match node:
        case cst.Integer() | cst.Ellipsis() | cst.Name("None"):
            return True
        case cst.UnaryOperation(cst.Minus(), cst.Integer()):
            return True
    return False


def _chained(maker: cst.Call, steps: list[cst.BaseExpression]) -> cst.BaseExpression:
    """Return a constant with the steps behind it, in one line."""
    at: cst.BaseExpression = maker
    for step in steps:
        if isinstance(step, cst.Subscript):
            at = cst.Subscript(at, step.slice)
        elif isinstance(step, cst.Call) and isinstance(step.func, cst.Attribute):
            at = cst.Call(cst.Attribute(at, step.func.attr), step.args)
    return at


def _wrapped(module: Module, maker: cst.Call) -> cst.Call:
    """Return ``Variable(maker)``, the tensor itself since torch 0.4, or else the maker."""
    call = module.taker(maker)
    if call is not None and len(call.args) == 1:
        return call if module.name(call.func) == "torch.autograd.Variable" else maker
    return maker


def _moved_behind(module: Module, made: cst.CSTNode, name: str) -> cst.CSTNode | None:
    """Return the statement right behind that moves what `name` holds to the device of the input,
    where a buffer lies already: ``if x.is_cuda: name = name.cuda()``."""
    behind = module.tree.beside(made)[1][:1]
    match behind:
        case [
            cst.If(
                cst.Attribute(attr=cst.Name("is_cuda")),
                orelse=None,
                body=cst.IndentedBlock([cst.SimpleStatementLine([moved])]),
            )
        ]:
            return behind[0] if _moves(module, moved, name) else None
    return None


def _moves(module: Module, line: cst.BaseSmallStatement, name: str) -> bool:
    match line:
        case cst.Assign([cst.AssignTarget(cst.Name(target))], cst.Call() as call) if target == name:
            found = transfer_of(module, call)
            return found is not None and is_name(found.source, name)
    return False


def _constructed(module: Module, cls: cst.ClassDef, maker: cst.Call) -> cst.CSTNode | None:
    """Return the statement of ``__init__`` behind which all is known that a constant is made
    of."""
    for member in family_of(module, cls):
        other = own_method(module, member, "__init__")
        if (
            other is not None
            and member is not cls
            and not any(_calls_super(module, line) for line in other.body.body)
        ):
            return None
    init = own_method(module, cls, "__init__")
    if init is None or not isinstance(init.body, cst.IndentedBlock):
        return None
    lines = list(init.body.body)
    needed: list[cst.CSTNode] = []
    for part in module.within(maker, cst.Attribute):
        if is_name(part.value, "self"):
            made = made_once(module, cls, part.attr.value)
            line = module.parent(made)
            if line is None or line not in lines or not isinstance(made, cst.Assign):
                return None
            needed.append(line)
    if not _needs_self_alone(module, maker):
        return None
    supers = [line for line in lines if _calls_super(module, line)]
    if not supers:
        return None
    return max([supers[0], *needed], key=module.tree.order.__getitem__)


def _needs_self_alone(module: Module, maker: cst.Call) -> bool:
    """Say whether a constant is made of modules, numbers and attributes of ``self`` alone."""
    names = (name for name in module.within(maker, cst.Name) if not module.is_label(name))
    others = (name for name in names if not is_name(name, "self", "True", "False", "None"))
    return all(
        (module.name(name) or "").startswith(("torch", "numpy", "math", "builtins."))
        for name in others
    ) and not module.contains(maker, cst.NamedExpr, cst.Lambda, cst.ListComp)


def _calls_super(module: Module, line: cst.CSTNode) -> bool:
    match line:
        case cst.SimpleStatementLine([_]):
            for call in module.within(line, cst.Call):
                match call.func:
                    case cst.Attribute(cst.Call(cst.Name("super")), cst.Name("__init__")):
                        return True
    return False
