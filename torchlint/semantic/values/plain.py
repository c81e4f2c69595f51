"""What libraries, options and texts give: host values, of which the kind may not be known."""

from __future__ import annotations

import libcst as cst

from torchlint.semantic.torch import libraries, ops
from torchlint.semantic.torch.spelling import OPTIONS as OPTIONS_NAME
from torchlint.semantic.torch.spelling import called
from torchlint.semantic.values import evidence, library
from torchlint.semantic.values.value import BOOL, FLOAT, INT, OPTIONS, PLAIN, STR, Value

_NAMES = frozenset(("__name__", "__file__", "__version__", "__doc__", "__module__", "__qualname__"))
_OF_TENSORS = ops.having("own") | ops.having("move")
_OF_OPTIMIZERS = frozenset(("param_groups", "state", "defaults"))


def given_by(dotted: str) -> Value | None:
    """Return what calling a function of a library gives, by its dotted name; None where that may be
    a tensor."""
    root, _, last = dotted.partition(".")
    if root == "math":
        return FLOAT
    if root == "time":
        return FLOAT
    if root == "tqdm" and last.rpartition(".")[2] == "trange":
        return Value("iterator", item=INT, name="range")
    return PLAIN if root in libraries.HOST else None


def held_by(dotted: str) -> Value | None:
    """Return what a library holds under a dotted name."""
    number = library.constant(dotted)
    root, dot, _ = dotted.partition(".")
    return number or (PLAIN if dot and root in libraries.HOST else None)


def text_of(attr: str) -> Value | None:
    """Return what every object holds under some names: texts."""
    return STR if attr in _NAMES else None


def option(holder: Value, above: cst.Attribute | cst.Subscript, key: str) -> Value | None:
    """Return what the options of a program hold under a name, ``args.epochs`` or ``cfg["lr"]``;
    what that name says goes before. None of what holds no options."""
    if not _holds_options(holder, above.value) or key in _OF_OPTIMIZERS:
        return None
    found = evidence.by_name(key)
    # ``args.policy`` is the name of one, or what it is made of.
    known = ("device",) if isinstance(above, cst.Subscript) else ("device", "plain")
    return found if found.kind in known else OPTIONS


def _holds_options(holder: Value, node: cst.BaseExpression) -> bool:
    if holder.kind == "plain":
        return True
    if holder.kind != "?" and not (holder.kind == "optimizer" and holder.origin == "name"):
        return False
    if holder.device is not None or holder.item is not None:
        return False
    name = node.attr.value if isinstance(node, cst.Attribute) else getattr(node, "value", None)
    return isinstance(name, str) and called(name, OPTIONS_NAME)


def of_text(name: str) -> Value:
    """Return what a method of a text gives."""
    if name.startswith("is") or name in ("startswith", "endswith"):
        return BOOL
    if name in libraries.FINDS - {"replace"}:
        return INT
    return Value("list", item=STR) if name in ("split", "splitlines") else STR


def device_option(holder: Value, node: cst.Call, args: list[Value]) -> Value | None:
    """Return the device that options are asked for, ``config.get("device", "cuda")``."""
    match node.func:
        case cst.Attribute(options, cst.Name("get")) if args and args[0].kind == "str":
            found = evidence.by_name(args[0].name or "")
            return found if found.kind == "device" and _holds_options(holder, options) else None
    return None


def method_of(receiver: Value, name: str) -> Value | None:
    """Return what a method of such a value gives; None where that is not known."""
    if name in _OF_TENSORS:
        return None
    if receiver.name == OPTIONS.name and name not in libraries.OF_PLAIN:
        return None
    return PLAIN


def by_text(name: str, args: list[Value]) -> Value | None:
    """Return what a method gives that only texts have, whatever it is called on."""
    if name in libraries.OF_TEXT:
        return PLAIN
    return PLAIN if name in libraries.FINDS and args and args[0].kind == "str" else None
