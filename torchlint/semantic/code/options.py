"""Options that are off by default or in each call, and that nothing in the project turns on."""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Iterable, Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.conditions import conditions
from torchlint.semantic.code.constructions import Handed, Parameter, Value
from torchlint.semantic.code.debug_flags import given_to
from torchlint.semantic.code.flow import call_sites, escapes
from torchlint.semantic.code.left_out import TESTED
from torchlint.semantic.code.named_tests import names
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.scopes import own_method, scopes
from torchlint.semantic.code.tree import components, last_name, positional_parameters
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.torch.spelling import OPTIONS, called
from torchlint.source.python import around, parsed, walk

_WHOLE = regex(
    r"(^|_)(cuda|gpus?|device|distributed|ddp|dp|parallel|world_size|rank|amp|fp16|bf16|half"
    r"|train(ing)?|eval(uate)?|val(id(ate)?)?|test|fit|predict|infer(ence)?|mode|phase|stage)(_|$)",
    re.IGNORECASE,
)
"""What chooses the whole program: what it does, and on which devices."""
_ON, _GIVEN = "True", "None"
"""What is asked of an option: that it is true, that it is not None; else a text, as written."""
_NO = {_ON: ("False", "None", "0", "0.0", "''", '""'), _GIVEN: ("None",)}
_DEFAULT = regex(r"default\s*=\s*([^,()\n]+)")
_TEXT = regex(r"([\"'])([^\"'\\]*)\1$")


@question(
    yes="it runs only where `{answer}` asks for an option that nothing turns on",
    no="no option that nothing turns on stands around it",
    ground=True,
)
def option_left_off(
    module: Module, node: cst.CSTNode, until: cst.CSTNode | None = None
) -> cst.BaseExpression | None:
    """Return the condition between a node and `until` (default: its function) that holds only where
    somebody turns on an option that is off by default, or wherever the project makes the object,
    which nothing in the project does; None where there is none.

    An option is an attribute: of a constructor's parameter, of what ``add_argument`` adds, or a
    field of a class. Which program runs, and on which devices, is no option of a step.
    """
    return conditions(module).condition(node, until, functools.partial(_left_off, module))


@question(
    yes="its function is called only where `{answer}` asks for an option that nothing turns on",
    no="not every call of its function waits for an option that nothing turns on",
    ground=True,
)
def only_with_option(module: Module, function: cst.FunctionDef | None) -> cst.BaseExpression | None:
    """Return the condition around a call of a function, where each call stands behind one that
    holds only where an option is on that nothing turns on; None where one does not, or others may
    call it: a method, and what another file speaks of."""
    if function is None or function.decorators or module.class_of(function) is not None:
        return None
    sites = call_sites(module, function)
    if not sites or escapes(module, function):
        return None
    found = [option_left_off(module, site) for site in sites]
    says = functools.partial(names, function.name.value)
    if None in found or module.outside.others_say(says) is not False:
        return None
    return found[0]


@question(
    yes="it runs only where `{answer}` is turned on, which nothing does",
    no="nothing that is off, and that nothing turns on, stands around it",
    ground=True,
)
def switch_left_off(module: Module, node: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the part of a condition around a node that holds only where an option is on that is
    off by default, or a constant of another file, and that nothing in the project turns on: also
    one that chooses devices."""
    for test, needed in conditions(module).tests(node, module.root):
        for part in components(test, cst.And) if needed else (test,):
            if _switched_off(module, part, needed):
                return part
    return None


def _switched_off(module: Module, test: cst.BaseExpression, needed: bool) -> bool:
    place, wanted = _asked_place(test, needed)
    if isinstance(place, cst.Attribute) and _is_never_on(module, place, wanted):
        return True
    return needed and _constant_off(module, test)


def _constant_off(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether an expression is a constant of another file that is off, and that nothing in the
    project turns on."""
    path, _, name = (module.name(node) or "").rpartition(".")
    text = module.outside.text_of(path) if path else ""
    values = re.findall(rf"^{name}\s*(?::[^=\n]+)?=(?!=)\s*(\w+)\s*(?:#.*)?$", text, re.MULTILINE)
    bound = re.findall(rf"^\s*(?:global\b.*\b)?{name}\b\s*(?:[:=](?!=)|$)", text, re.MULTILINE)
    turned = functools.partial(_turned_on, name, _ON)
    return (
        len(values) == len(bound) == 1
        and _is_off(values[0], _ON)
        and not turned(module.text)
        and module.outside.others_say(turned, near=False) is False
    )


def _left_off(module: Module, test: cst.BaseExpression, needed: bool) -> bool:
    place, wanted = _asked_place(test, needed)
    if not isinstance(place, cst.Attribute) or _WHOLE.search(place.attr.value):
        return False
    return _is_never_on(module, place, wanted)


def _asked_place(test: cst.BaseExpression, needed: bool) -> tuple[cst.BaseExpression | None, str]:
    """Return the place that a test asks about, and what it has to hold."""
    match test:
        case cst.Attribute() if needed:
            return test, _ON
        case cst.Comparison(
            left,
            [cst.ComparisonTarget(operator, other)],
        ):
            same = isinstance(operator, (cst.Equal, cst.Is))
            if not same and not isinstance(operator, (cst.NotEqual, cst.IsNot)):
                return None, ""
            match other:
                case cst.Name("None") if same is not needed:
                    return left, _GIVEN
                case cst.Name("True") if same is needed:
                    return left, _ON
                case cst.SimpleString(text) if same is needed:
                    return left, text
    return None, ""


@question(ground=True)
def _is_never_on(module: Module, place: cst.Attribute, wanted: str) -> bool:
    """Say whether a place does not hold what is wanted by any default, and nothing in the project
    gives it that."""
    cls, name = module.class_of(place), place.attr.value
    if cls is None or dotted_text(place.value) != "self":
        return _stays_off(module, name, wanted, declared=False)
    values = list(given_to(module.tree, cls, name))
    if not values:
        return _inherits_off(module, cls, name, wanted)
    if len(values) == 1 and (asked := _asked_by_name(values[0])) is not None:
        option, default = asked
        return _is_off(default, wanted) and all(
            _stays_off(module, each, wanted, declared=True) for each in {name, option}
        )
    options = {each.attr.value for each in values if isinstance(each, cst.Attribute)}
    own = [each for each in values if not isinstance(each, cst.Attribute)]
    handed = {each.value for each in own if isinstance(each, cst.Name)} - {"None", "False"}
    if len(values) == len(handed) == 1 and _kept_off(module, cls, name, values[0], wanted):
        return True
    return (
        bool(values)
        and all(_is_off(_default(module, each), wanted) for each in own)
        and not any(_given_by_place(module, cls, each, wanted) for each in handed)
        and all(_stays_off(module, each, wanted, declared=True) for each in {name, *handed})
        and all(_stays_off(module, each, wanted, declared=False) for each in options)
    )


def _inherits_off(module: Module, cls: cst.ClassDef, name: str, wanted: str) -> bool:
    """Say whether a class of another file, of which a class is made, gives it an attribute that is
    not what is wanted by default, and nothing else in the project gives it that."""
    for base in scopes(module).family_outside(cls):
        home = module.outside.module_of(base)
        classes = home.nodes(cst.ClassDef) if home is not None else ()
        theirs = next((each for each in classes if each.name.value == base.name), None)
        values = list(given_to(home.tree, theirs, name)) if home and theirs else []
        if home is not None and values:
            turned = functools.partial(_turned_on_elsewhere, name, wanted, home.text)
            return (
                all(_is_off_there(home, each, wanted) for each in values)
                and not turned(module.text)
                and module.outside.others_say(turned) is False
            )
    return False


def _is_off_there(home: Module, value: cst.BaseExpression, wanted: str) -> bool:
    """Say whether what a constructor keeps is not what is wanted: by the default of a parameter, or
    a constant of another file where that is None."""
    match value:
        case cst.IfExp(
            cst.Comparison(cst.Name() as param, [cst.ComparisonTarget(cst.Is(), cst.Name("None"))]),
            fallback,
            given,
        ) if given.deep_equals(param) and _default(home, param) == "None":
            return _is_off(home.source_of(fallback), wanted) or _constant_off(home, fallback)
    return _is_off(_default(home, value), wanted)


def _turned_on_elsewhere(name: str, wanted: str, home: str, text: str) -> bool:
    return text != home and _turned_on(name, wanted, text)


def _asked_by_name(value: cst.BaseExpression) -> tuple[str, str] | None:
    """Return the option that ``getattr(args, "loud", False)`` asks for, and what it is by
    default."""
    match value:
        case cst.Call(
            cst.Name("getattr"),
            [_, cst.Arg(cst.SimpleString() as name), cst.Arg(cst.Name(default))],
        ):
            return str(name.raw_value), default
    return None


def _kept_off(
    module: Module, cls: cst.ClassDef, name: str, kept: cst.BaseExpression, wanted: str
) -> bool:
    """Say whether objects of a class keep a parameter under a name, which nothing assigns again,
    and each is made without what is wanted for it."""
    param = module.source_of(kept)
    return (
        len(module.names.bindings(param, kept)[1]) == 1
        and not _assigns(name, module.text)
        and module.outside.others_say(functools.partial(_assigns, name)) is False
        and _made_without(module, cls, param, wanted)
    )


@question()
def _made_without(module: Module, cls: cst.ClassDef, param: str, wanted: str) -> bool:
    """Say whether the project makes objects of a class, all in view, and each without what is
    wanted for a parameter."""
    found = _parameter(module, cls, param)
    if found is None or cls.decorators or module.function(cls) is not None:
        return False
    others = module.outside.others_say
    words = (found.cls, str(found.place), *found[2:], wanted)
    on, off = (functools.partial(_makes_with, *words, said) for said in ("on", "off"))
    here = found.values(module.text)
    return (
        all(_is_without(module, each, wanted) for each in here)
        and not module.outside.of_library()
        and others(on) is False
        and (bool(here) or others(off) is True)
    )


def _is_without(module: Module, value: Value, wanted: str) -> bool:
    if isinstance(value, Handed):
        classes = [each for each in module.nodes(cst.ClassDef) if each.name.value == value.cls]
        return len(classes) == 1 and _made_without(module, classes[0], value.name, wanted)
    return value is not None and _is_off(value, wanted)


def _parameter(module: Module, cls: cst.ClassDef, name: str) -> Parameter | None:
    """Return a parameter of a class's constructor."""
    init = own_method(module, cls, "__init__")
    if init is None:
        return None
    listed = positional_parameters(init)
    for place, param in enumerate((*listed, *init.params.kwonly_params)):
        if param.name.value == name:
            default = module.source_of(param.default) if param.default is not None else ""
            at = place - 1 if place < len(listed) else sys.maxsize
            return Parameter(cls.name.value, at, name, default)
    return None


def _assigns(name: str, text: str) -> bool:
    """Say whether a file assigns an attribute of an object that is not the one at hand."""
    assigned = rf"(?<!\bself)\.{name}\s*=(?!=)|attr\([^)\n]*['\"]{name}['\"]"
    return name in text and re.search(assigned, text) is not None


def _makes_with(
    cls: str, place: str, name: str, default: str, wanted: str, said: str, text: str
) -> bool:
    """Say whether a file that is no test makes an object of a class with a parameter on, or may do
    so where the class goes elsewhere; or whether it makes one, with it off."""
    if cls not in text or TESTED.search(text) is not None:
        return False
    found = Parameter(cls, int(place), name, default).values(text)
    off = {each for each in found if isinstance(each, str) and _is_off(each, wanted)}
    return found != off if said == "on" else bool(off)


def _given_by_place(module: Module, cls: cst.ClassDef, name: str, wanted: str) -> bool:
    """Say whether somebody makes an object of a class, or of one derived from it, with another
    value for a parameter than one that is off, which stands at the parameter's place."""
    init = own_method(module, cls, "__init__")
    listed = positional_parameters(init) if init is not None else ()
    params = [each.name.value for each in listed]
    if name not in params:
        return False
    words = (cls.name.value, str(params.index(name) - 1), name, wanted)
    turned = functools.partial(_turned_on_by_place, *words)
    return turned(module.text) or module.outside.others_say(turned) is not False


def _turned_on_by_place(cls: str, place: str, name: str, wanted: str, text: str) -> bool:
    if cls not in text or TESTED.search(text) is not None:
        return False
    if not re.search(rf"\b{cls}\s*[(),#\\]", text):
        return False  # What only names a class, as most annotations do, makes none.
    tree = parsed(text)
    if tree is None:  # What does not parse, as code for Python 2, may give anything.
        return f"{cls}(" in text
    for args in _making(cls, around(tree, text, cls)):
        before = args[: int(place) + 1]
        if any(isinstance(each, ast.Starred) for each in before):
            return True
        value = ast.unparse(before[-1]) if len(before) > int(place) else ""
        if value and not _is_off(value, wanted) and not _is_handed_on(name, value):
            return True
    return False


def _making(cls: str, nodes: Iterable[ast.AST]) -> Iterator[list[ast.expr]]:
    """Yield the arguments with which objects of a class are made, also by what is derived from
    it."""
    for node in nodes:
        match node:
            case ast.Call(ast.Name(name) | ast.Attribute(attr=name), args):
                if name == cls:
                    yield args
            case ast.ClassDef(bases=bases) if any(
                cls in (getattr(base, "id", ""), getattr(base, "attr", "")) for base in bases
            ):
                for call in walk(node):
                    match call:
                        case ast.Call(ast.Attribute(of, "__init__"), args):
                            yield args[isinstance(of, (ast.Name, ast.Attribute)) :]


def _default(module: Module, value: cst.BaseExpression) -> str:
    """Return what is assigned, or the default of the parameter that it is, as it is written."""
    if isinstance(value, cst.Name):
        _, bindings = module.names.bindings(value.value, value)
        param = bindings[0].node if len(bindings) == 1 else None
        if isinstance(param, cst.Param) and param.default is not None:
            value = param.default
    return module.source_of(value)


def _stays_off(module: Module, name: str, wanted: str, *, declared: bool) -> bool:
    """Say whether an option is off by default, and nothing turns it on; `declared` says that its
    default is known to be off. What this file declares is another option in other files."""
    turned, on, off = (
        functools.partial(each, name, wanted) for each in (_turned_on, _declared_on, _declared_off)
    )
    others = module.outside.others_say
    if turned(module.text) or on(module.text):
        return False
    if not off(module.text) and (others(on) is not False or not (declared or others(off) is True)):
        return False
    return others(turned) is False


@question(
    yes="the option `{0}` is a whole number above 0 by default",
    no="the option `{0}` is not known to be a number above 0 by default",
)
def counts_by_default(module: Module, option: cst.BaseExpression) -> bool:
    """Say whether ``args.workers`` is an option for which all files of the project that declare it
    say a whole number above 0."""
    if not isinstance(option, cst.Attribute) or not called(last_name(option.value), OPTIONS):
        return False
    some, none = (functools.partial(_counts, option.attr.value, above) for above in (True, False))
    others = module.outside.others_say
    if none(module.text) or not (some(module.text) or others(some) is True):
        return False
    return others(none) is False


def _counts(name: str, above: bool, text: str) -> bool:
    """Say whether a file declares an option of a name whose default is a number above 0, or else
    another value."""
    defaults = _declared(name, text) if name in text else ()
    return any((each.strip().isdecimal() and int(each) > 0) is above for each in defaults)


def _is_off(value: str, wanted: str) -> bool:
    """Say whether a written value is not what is wanted."""
    value = value.strip()
    text = _TEXT.match(wanted)
    if text is None:
        return value in _NO[wanted]
    other = _TEXT.match(value)
    return value == "None" or (other is not None and other[2] != text[2])


def _turned_on(name: str, wanted: str, text: str) -> bool:
    """Say whether a file that is no test gives an option another value than one that is off, by a
    keyword, an attribute or a key; the option's own value, handed on, is none."""
    return (
        name in text
        and any(
            not _is_off(value, wanted) and not _is_handed_on(name, value)
            for value in _values_given(name, text)
        )
        and TESTED.search(text) is None
    )


def _values_given(name: str, text: str) -> Iterator[str]:
    word = rf"\w*{re.escape(name)}"
    for pattern in (
        rf"[(,]\s*{word}\s*(?::[^=,()\n]+)?=(?!=)\s*([^,)\n#]+)",
        rf"\.{word}\s*=(?!=)\s*([^\n#]+)",
        rf"[\"']{word}[\"']\]?\s*(?::|=(?!=)|,(?=[^\n]*\)))\s*([^,)}}\n#]+)",
    ):
        yield from (found[1] for found in re.finditer(pattern, text))


def _is_handed_on(name: str, value: str) -> bool:
    asked = rf"getattr\([^()]*[\"']{re.escape(name)}[\"'],\s*(False|None)\s*\)"
    return re.search(rf"{re.escape(name)}[\"'\])\s]*$|^{asked}", value) is not None


def _declared_off(name: str, wanted: str, text: str) -> bool:
    """Say whether a file declares an option that is off by default."""
    return name in text and any(_is_off(value, wanted) for value in _declared(name, text))


def _declared_on(name: str, wanted: str, text: str) -> bool:
    return name in text and any(
        not _is_off(value, wanted) and not _is_handed_on(name, value)
        for value in _declared(name, text)
    )


def _declared(name: str, text: str) -> Iterator[str]:
    """Yield the defaults of the options and fields of a name that a file declares."""
    word = re.escape(name)
    field = rf"^[ \t]+{word}[ \t]*(?::[^=\n]+)?=(?!=)[ \t]*([^,\n#]+?)[ \t]*(?:#.*)?$"
    for found in re.finditer(field, text, re.MULTILINE):
        default = _DEFAULT.search(found[1])
        yield default[1] if default else found[1]
    flag = rf"[\"']--?{word.replace('_', '[-_]')}[\"']([^()]*(?:\([^()]*\)[^()]*)*)\)"
    for found in re.finditer(flag, text):
        default = _DEFAULT.search(found[1])
        yield "True" if "store_false" in found[1] else default[1] if default else "None"
