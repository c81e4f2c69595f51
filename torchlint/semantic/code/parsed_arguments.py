"""The options that a file's parser of arguments has, and those that a program asks for in vain."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator, Sequence

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.calls import keyword_argument
from torchlint.semantic.code.flow import call_sites, escapes
from torchlint.semantic.code.named_tests import names
from torchlint.semantic.code.tree import argument_for, keyword_of, last_name
from torchlint.semantic.code.wording import Wording
from torchlint.semantic.module import Module
from torchlint.semantic.question import question

_SHOWN = frozenset(
    "add_argument add_argument_group add_mutually_exclusive_group parse_args set_defaults "
    "print_help print_usage format_help error".split()
)
"""Methods of a parser that add no option which their call does not name."""
_MORE = Wording(
    regex(
        r"\bsetattr\(\s*[\w.]+\s*,\s*(?![\"'\s])|=\s*vars\("
        r"|(\bvars\((?!self\))[^)\n]*\)|(?<!\bself)\.__dict__)\s*(\[|\.update|\|=|=(?!=))"
        r"|\bNamespace\(",
        re.IGNORECASE,
    ),
    ("etattr(", "ars(", "__dict__", "amespace("),
)
"""What may give arguments more than their parser does."""
_OPEN = frozenset(("parents", "prefix_chars", "*", "**"))
"""Arguments of a parser that may give it options, or name them in another way."""
_ENDS = (ast.Return, ast.Raise, ast.Break, ast.Continue)


@question(remember=False)
def lacks(module: Module, arguments: cst.BaseExpression, option: str) -> bool:
    """Say whether a name stands for arguments from a parser that the file shows whole, which has no
    option of a name, and nothing in the project adds one."""
    options = options_of(module, arguments)
    if options is None or option in options or option.startswith("_"):
        return False
    if re.search(rf"['\"]{option}['\"]", module.text):
        return False
    adds = functools.partial(_adds, option)
    others = module.outside.others_say
    return not adds(module.text) and others(adds) is False and others(_gives_more) is False


def given_twice(body: Sequence[ast.stmt]) -> tuple[int, str] | None:
    """Return which statement of a block gives a parser that the block makes an option that it has,
    and the option: argparse raises there. None where none does, or the block may end before."""
    options: dict[str, set[str]] = {}
    for place, line in enumerate(body):
        match line:
            case ast.Assign(
                [ast.Name(name)],
                ast.Call(ast.Name(maker) | ast.Attribute(attr=maker), keywords=keywords),
            ) if maker == "ArgumentParser":
                options.pop(name, None)
                if all(each.arg not in (None, "conflict_handler") for each in keywords):
                    options[name] = set()
            case ast.Expr(ast.Call(ast.Attribute(ast.Name(name), "add_argument"), given)) if (
                name in options
            ):
                for each in given:
                    if isinstance(each, ast.Constant) and str(each.value).startswith("-"):
                        if each.value in options[name]:
                            before = (part for each in body[:place] for part in ast.walk(each))
                            ended = any(isinstance(part, _ENDS) for part in before)
                            return None if ended else (place, str(each.value))
                        options[name].add(str(each.value))
    return None


def _adds(option: str, text: str) -> bool:
    """Say whether a text assigns an attribute of a name; that of ``self`` is another object's."""
    its = rf"(?<!\bself)\.{option}"
    return option in text and bool(
        re.search(
            rf"^[^=\n(]*{its}\b[^=\n(]*=(?!=)|[:;]\s*[\w.]+{its}\s*=(?!=)"
            rf"|\b(for|as)\s+[\w.]+{its}\b|setattr\([^)\n]*['\"]{option}['\"]",
            text,
            re.MULTILINE,
        )
    )


def _gives_more(text: str) -> bool:
    return _MORE.search(text) is not None


@question()
def options_of(module: Module, arguments: cst.BaseExpression) -> frozenset[str] | None:
    """Return the options of the arguments that an expression stands for; None where it may be
    anything else, or have more."""
    match arguments:
        case cst.Call(cst.Attribute(parser, cst.Name("parse_args"))):
            lone = len(arguments.args) < 2 and not any(a.keyword or a.star for a in arguments.args)
            return _options(module) if lone and _is_parser(module, parser) else None
        case cst.Call(cst.Name() as maker):
            return _agreed(module, _returned(module, maker))
        case cst.Name(name) if not any(name in each for each in module.names.outer.values()):
            _, bindings = module.names.bindings(name, arguments)
            match bindings:
                case [binding] if binding.kind == "assign" and binding.value is not None:
                    return options_of(module, binding.value)
                case [binding] if isinstance(binding.node, cst.Param):
                    # The options of a parameter for which all calls of its function give parsed
                    # arguments.
                    return _agreed(module, given_by_calls(module, binding.node))
    return None


def _is_parser(module: Module, expression: cst.BaseExpression | None) -> bool:
    """Say whether an expression is a parser of this file: by its name, or what a function of the
    file returns."""
    if isinstance(expression, cst.Name):
        return expression.value in _parsers(module)
    returned = list(_returned(module, getattr(expression, "func", None)))
    return bool(returned) and all(_is_parser(module, each) for each in returned)


def _returned(module: Module, maker: cst.CSTNode | None) -> Iterator[cst.BaseExpression | None]:
    """Yield what the one function of this file returns that a name stands for; None for a bare
    ``return``."""
    if isinstance(maker, cst.Name):
        _, bindings = module.names.bindings(maker.value, maker)
        made = bindings[0].node if len(bindings) == 1 else None
        if isinstance(made, cst.FunctionDef) and not made.decorators:
            for each in module.within(made.body, cst.Return):
                yield each.value


def given_by_calls(module: Module, param: cst.Param) -> list[cst.BaseExpression | None]:
    """Return what all calls of a function give for a parameter, each in this file, None for what is
    not known; nothing where others may call it."""
    function = module.tree.owners[param]
    if not isinstance(function, cst.FunctionDef) or function.decorators or param.default:
        return []
    said = functools.partial(names, function.name.value)
    if module.class_of(function) is not None or escapes(module, function):
        return []
    if module.outside.others_say(said, near=True) is not False:
        return []
    listed = list(function.params.params)
    at = listed.index(param) if param in listed else len(listed)
    return [argument_for(call, at, param.name.value) for call in call_sites(module, function)]


def _agreed(module: Module, given: Iterable[cst.BaseExpression | None]) -> frozenset[str] | None:
    """Return the options of all that is given, where each is known."""
    found = [options_of(module, each) if each is not None else None for each in given]
    known = [each for each in found if each is not None]
    return frozenset().union(*known) if known and len(known) == len(found) else None


@question()
def _parsers(module: Module) -> frozenset[str]:
    """Return the names to which the file binds parsers."""
    made = [each for each in module.nodes(cst.Call) if _makes_parser(module, each)]
    above = [module.parent(each) for each in made]
    return frozenset(
        target.target.value
        for each in above
        if isinstance(each, cst.Assign)
        for target in each.targets
        if isinstance(target.target, cst.Name)
    )


def _makes_parser(module: Module, call: cst.Call) -> bool:
    return module.name(call.func) == "argparse.ArgumentParser"


@question()
def _options(module: Module) -> frozenset[str] | None:
    """Return the options that the parsers of a file define; None where one may have more."""
    parsers, found = _parsers(module), set[str]()
    if _gives_more(module.text) or not all(map(functools.partial(_is_whole, module), parsers)):
        return None
    for call in module.nodes(cst.Call):
        words = [arg.keyword.value if arg.keyword else arg.star for arg in call.args]
        if _makes_parser(module, call) and not _OPEN.isdisjoint(words):
            return None
        match call.func:
            case cst.Attribute(attr=cst.Name("set_defaults")):
                found.update(words)
            case cst.Attribute(attr=cst.Name("add_argument")):
                action = keyword_argument(module, call, "action")
                written = action is None or isinstance(action, cst.SimpleString)
                found.add(_option_added(call) if written else "")
    return frozenset(found) if found.isdisjoint(("", "**")) else None


def _is_whole(module: Module, parser: str) -> bool:
    """Say whether the file shows all that is done with a parser."""
    for name in module.tree.named(parser):
        above = module.parent(name)
        match above:
            case cst.Attribute(attr=cst.Name(method)) if name is not above.attr:
                called = isinstance(module.parent(above), cst.Call)
                if method not in _SHOWN or not called:
                    return False
            case cst.AssignTarget():
                made = module.parent(above)
                value = made.value if isinstance(made, cst.Assign) else None
                own = isinstance(value, cst.Call) and _makes_parser(module, value)
                if value is None or not (own or _is_parser(module, value)):
                    return (
                        False  # ``parser = get_parser()`` of another file has options of its own.
                    )
            case cst.Return() | cst.Attribute():
                pass
            case _:
                return False
    return True


@question()
def options_added(module: Module) -> list[tuple[str, cst.Call]]:
    """Return the options that ``add_argument`` adds in a file, each with its call; those whose
    names are written out."""
    calls = (each for each in module.nodes(cst.Call) if last_name(each.func) == "add_argument")
    return [(name, call) for call in calls if (name := _option_added(call))]


def _option_added(call: cst.Call) -> str:
    """Return the attribute that a call of ``add_argument`` sets; nothing where it is not written
    out."""
    flags: list[str] = []
    for arg in call.args:
        if keyword_of(arg) not in ("", "dest"):
            continue
        text = arg.value.raw_value if isinstance(arg.value, cst.SimpleString) else ""
        if arg.star or not text:
            return ""
        if arg.keyword is not None:
            return text
        flags.append(text)
    long = [each for each in flags if each.startswith("--")]
    return (long or flags or [""])[0].lstrip("-").replace("-", "_")
