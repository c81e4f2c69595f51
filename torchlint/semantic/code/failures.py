"""Which statements end in an error whenever they run: a name that nothing binds, a call that does
not fit the function or method that it calls, an option that no parser defines."""

from __future__ import annotations

import ast
import builtins
import functools
import itertools
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import libcst as cst

from torchlint.base.regex import regex
from torchlint.base.remembered import TEXTS
from torchlint.semantic.code.parsed_arguments import given_twice, lacks
from torchlint.semantic.code.scopes import scopes
from torchlint.semantic.code.tree import COMPREHENSIONS, LOOPS, has_star
from torchlint.semantic.code.wording import Wording
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.source.python import DEFS, parsed, problem, walk

_INJECTED = frozenset(
    "profile display tags snakemake spark sc sqlContext dbutils reveal_type reveal_locals c In Out "
    "unicode xrange raw_input reduce long basestring file unichr cmp execfile reload apply buffer "
    "intern coerce".split()
)
"""What tools put beside the builtins, and builtins of Python 2."""
_BUILTINS = frozenset(dir(builtins)) | _INJECTED
_BINDS_UNSEEN = regex(
    r"(?<![.\w])(globals\(|locals\(\)|vars\(\)|exec(file)?\()|sys\.modules|\bbuiltins\b|get_ipython"
    r"|\bexcept\b[^\n]*(Name|Type)Error|^# *(%%|In\[)",
    re.MULTILINE,
)
"""A file that may bind names without an assignment, runs in a notebook, or expects the errors."""
_BY_TEXT = regex(r"(?<![.\w])((globals|vars|locals)\(\)|exec(file)?\()|setattr\(\s*sys\.modules")
"""What may bind any name of a module."""
_UNSEEN_WORDS = (
    "globals( locals() vars() exec sys.modules builtins get_ipython NameError TypeError %% In["
).split()
"""One of these stands in a text that the pattern matches."""
_EXECUTING = Wording(
    regex(r"\bexec\w*\(|run_path|runpy|\bglobals\("), ("exec", "run_path", "runpy", "globals(")
)
_ATTRIBUTE_ASSIGNED = regex(r"\.(\w+)\s*=(?!=)")
_BASES = regex(r"class(?<!\wclass)\s+\w+\(([^)]*)")
_WORD = regex(r"\w+")
_PLAIN_BASES = frozenset(("object", "ABC", "abc.ABC", "nn.Module", "torch.nn.Module"))
_Defined = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_IMPORTS = (cst.Import, cst.ImportFrom, cst.Global, cst.Nonlocal, cst.Del)
_AGAIN = (*LOOPS, cst.FunctionDef)
_RUNNING = (
    cst.BaseSmallStatement,
    cst.SimpleStatementLine,
    cst.SimpleStatementSuite,
    cst.BaseCompoundStatement,
)
"""What runs a part of itself before another one."""
_LEAVES = (cst.Return, cst.Yield, cst.Continue, cst.Break)
"""What may end a pass or a call before a statement behind it."""
_OF_OBJECTS = frozenset(
    "__init__ forward __call__ __getitem__ training_step validation_step test_step".split()
)
"""Methods without which an object does nothing, or that run for each batch or sample."""


@question(
    yes="no run comes past a statement that ends in an error: {answer}",
    no="no statement before it is known to end in an error",
    ground=True,
)
def fails_before(module: Module, node: cst.CSTNode) -> str | None:
    """Return why a statement that runs in any case before a node, or the one around it, ends in an
    error; None where none is known to.

    A name is an error that nothing in the file binds, nor an import with a star, and so is a call
    of a function, a class or an own method of the project whose parameters do not take the
    arguments, and an attribute of parsed arguments that the parser does not define.
    """
    if _binds_unseen(module):
        return None
    return (
        _first_failure(module, _headers(node))
        or _fails_around(module, node)
        or _never_made(module, node)
    )


def _fails_around(module: Module, node: cst.CSTNode) -> str | None:
    """Return why what runs before a node, of the statements around it, ends in an error."""
    child = node
    for above in module.ancestors(node):
        if isinstance(above, (cst.IndentedBlock, cst.Module)):
            return _fails_up_to(module, child)
        if isinstance(above, _RUNNING):
            found = _first_failure(module, _run_before(module, above, child))
            if found is not None:
                return found
        child = above
    return None


@question(ground=True)
def _fails_up_to(module: Module, line: cst.CSTNode) -> str | None:
    """Return why a line of the block of a line, before it, or what runs before that block, ends in
    an error."""
    block = module.parent(line)
    if not isinstance(block, (cst.IndentedBlock, cst.Module)):
        return None
    ended = _ended(module, block)
    if ended is not None and module.before(ended[0], line):
        return ended[1]
    return _fails_around(module, block)


def _never_made(module: Module, node: cst.CSTNode) -> str | None:
    """Return why no object is made of the class of a method: its constructor ends in an error."""
    cls = module.class_of(node)
    methods = cls.body.body if cls is not None else ()
    made = next(
        (m for m in methods if isinstance(m, cst.FunctionDef) and m.name.value == "__init__"), None
    )
    function = module.function(node)
    if cls is None or made is None or function is made or not only_itself(module, cls):
        return None
    ended = _ended(module, made.body) if isinstance(made.body, cst.IndentedBlock) else None
    plain = isinstance(function, cst.FunctionDef) and not function.decorators
    return ended[1] if ended is not None and plain else None


@question(ground=True)
def fails_after(module: Module, node: cst.CSTNode) -> tuple[cst.CSTNode, str] | None:
    """Return the statement behind a node that ends in an error, and why, where each pass of the
    loop around the node comes to it, or each call of the constructor, step or forward pass of a
    module or dataset: the node runs once at most. None where none is known to."""
    child = node
    for above in () if _binds_unseen(module) else module.ancestors(node):
        if isinstance(above, (cst.Try, cst.TryStar, cst.ClassDef, cst.Lambda)):
            return None
        if isinstance(above, cst.IndentedBlock):
            ended = _ended(module, above)
            if ended is not None and not module.before(ended[0], child):
                around = (each for each in module.ancestors(above) if isinstance(each, _AGAIN))
                outer = next(around, None)
                again = outer is not None and _comes_again(module, outer)
                leaves = module.within(outer.body, *_LEAVES) if outer is not None and again else ()
                left = any(module.before(each, ended[0]) for each in leaves)
                return ended if again and not left else None
        elif isinstance(above, _AGAIN):
            return None
        child = above
    return None


def fails_at_top(module: Module) -> tuple[cst.CSTNode, str] | None:
    """Return the statement at the top of a file that ends in an error, and why, where nothing but
    definitions, imports and what is made for it stands before it."""
    ended = _ended(module, module.root) if not _binds_unseen(module) else None
    if ended is None or any(
        isinstance(line, cst.BaseCompoundStatement)
        and not isinstance(line, (cst.FunctionDef, cst.ClassDef))
        and module.before(line, ended[0])
        for line in module.root.body
    ):
        return None
    return ended


def _comes_again(module: Module, outer: cst.CSTNode) -> bool:
    """Say whether what stands in a loop, or a function, is there to run more than once: a program's
    own function has done its work when it fails at its end."""
    if not isinstance(outer, cst.FunctionDef):
        return True
    cls = module.class_of(outer)
    return (
        cls is not None
        and outer.name.value in _OF_OBJECTS
        and (scopes(module).is_module(cls) or scopes(module).is_dataset(cls))
    )


@question()
def only_itself(module: Module, cls: cst.ClassDef) -> bool:
    """Say whether no other class of the project is made of a class."""
    base = functools.partial(_is_base, cls.name.value)
    return not scopes(module).subclasses(cls) and (module.outside.others_say(base) is False)


def _is_base(name: str, text: str) -> bool:
    return name in text and name in _words_of_bases(text)


@functools.lru_cache(maxsize=TEXTS)
def _words_of_bases(text: str) -> frozenset[str]:
    """Return the words between the brackets behind the names of a text's classes."""
    return frozenset(word for bases in _BASES.findall(text) for word in _WORD.findall(bases))


@question()
def _ended(module: Module, block: cst.IndentedBlock | cst.Module) -> tuple[cst.CSTNode, str] | None:
    """Return the first statement of a block that ends in an error, and why."""
    tree = parsed(module.text) if isinstance(block, cst.Module) else None
    lines = tree.body if tree is not None and "add_argument" in module.text else ()
    twice = given_twice(lines) if len(lines) == len(block.body) else None
    for place, line in enumerate(block.body):
        why = _first_failure(module, _headers(line))
        if why is None and twice is not None and twice[0] == place:
            why = f"the parser raises an ArgumentError, as it gets `{twice[1]}` twice"
        if why is not None:
            return line, why
    return None


def _first_failure(module: Module, evaluated: Iterable[cst.CSTNode]) -> str | None:
    for each in evaluated:
        why = _fails(module, each)
        if why is not None:
            return f"`{module.shown(each)}` raises {why}"
    return None


@question()
def _binds_unseen(module: Module) -> bool:
    """Say whether a file may bind names without an assignment, or expects errors."""
    return module.filename.endswith(".ipynb") or (
        any(word in module.text for word in _UNSEEN_WORDS)
        and _BINDS_UNSEEN.search(module.text) is not None
    )


def _run_before(module: Module, above: cst.CSTNode, child: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield what has run of a statement, or of a line, when a part of it does."""
    if isinstance(above, cst.BaseSmallStatement):
        yield above
    elif isinstance(above, (cst.SimpleStatementLine, cst.SimpleStatementSuite)):
        yield from (each for each in above.body if module.before(each, child))
    elif isinstance(above, cst.BaseCompoundStatement):
        yield from (each for each in _headers(above) if each is not child)


def _headers(line: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield what a statement evaluates in any case: all small statements of a line, and the first
    expressions of a compound statement."""
    match line:
        case cst.SimpleStatementLine(small):
            yield from small
        case cst.If(test) | cst.While(test):
            yield test
        case cst.For(iter=iterated):
            yield iterated
        case cst.With(items=items):
            yield items[0].item


@question()
def _fails(module: Module, evaluated: cst.CSTNode) -> str | None:
    """Return why a small statement or an expression ends in an error whenever it is evaluated."""
    if isinstance(evaluated, _IMPORTS):
        return None
    for call in module.within(evaluated, cst.Call):
        why = _misfit(module, call) or _twice_there(module, call)
        if why is not None and _is_evaluated(module, call, evaluated):
            return why
    for read in module.within(evaluated, cst.Attribute) if "parse_args" in module.text else ():
        option = read.attr.value
        if lacks(module, read.value, option) and _is_evaluated(module, read, evaluated):
            return _no_option(option)
    unbound = _without_binding(module) if _shows_all_names(module) else ()
    for name in module.within(evaluated, cst.Name) if unbound else ():
        why = _unbound(module, name) if name in unbound else None
        if why is not None and _is_evaluated(module, name, evaluated):
            return why
    return None


@question()
def _shows_all_names(module: Module) -> bool:
    """Say whether a file shows what it binds: it does not stand alone, as a part of a text may."""
    return bool(module.path) and not module.nodes(cst.TypeParameters)


def _is_evaluated(module: Module, node: cst.CSTNode, outer: cst.CSTNode) -> bool:
    """Say whether an expression is evaluated, and read, in any case when the one around it is."""
    child = node
    while child is not outer:
        above = module.parent(child)
        match above:
            case None | cst.Annotation() | cst.Lambda() | cst.CompFor() | cst.AssignTarget():
                return False
            case cst.IfExp(test=cst.Call(test), body=branch) if child is branch:
                certain = module.name(test) == "torch.cuda.is_available"
            case cst.IfExp(test=first) | cst.Assert(test=first) | cst.BooleanOperation(first):
                certain = child is first
            case cst.Attribute(attr=label) | cst.Arg(keyword=label):
                certain = child is not label
            case cst.AnnAssign(target) | cst.AugAssign(target):
                certain = child is not target
            case cst.Comparison(comparisons=[first, *_]):
                certain = child in (above.left, first)
            case _:
                certain = not isinstance(above, COMPREHENSIONS)
        if not certain:
            return False
        child = above
    return True


@question()
def _without_binding(module: Module) -> set[cst.Name]:
    """Return the names of a file that are bound by nothing in it, and are no builtins."""
    names = module.names
    known = {
        *_BUILTINS,
        *names.tables.get(module.root, ()),
        *itertools.chain(*names.outer.values()),
    }
    bound: dict[tuple[str, cst.CSTNode], bool] = {}
    found: set[cst.Name] = set()
    for node in module.nodes(cst.Name):
        name = node.value
        if name in known or name.startswith("_"):
            continue
        key = (name, module.tree.scope(node))
        if key not in bound:
            bound[key] = bool(names.bindings(name, node)[1])
        if not bound[key] and not module.is_label(node):
            found.add(node)
    return found


def _unbound(module: Module, node: cst.Name) -> str | None:
    """Return that no other file gives a name to this one, in which nothing binds it; None where
    something may bind it."""
    name = node.value
    # Whether the file replaces a name in a text: a kernel's source may be made of it.
    if (
        re.search(rf"""\.replace\(\s*['"][^'"]*\b{name}\b""", module.text) is not None
        or _is_starred(module, name)
        or _given_by_others(module, name)
    ):
        return None
    return f"a NameError, as nothing defines `{name}`"


def _is_starred(module: Module, name: str) -> bool:
    """Say whether an import with a star may give the file a name."""
    stars = module.names.stars
    return bool(stars) and (
        module.outside.may_bind(stars, name)
        or module.outside.others_say(_binds_by_text) is not False
    )


def _binds_by_text(text: str) -> bool:
    return _BY_TEXT.search(text) is not None


@question()
def _given_by_others(module: Module, name: str) -> bool:
    """Say whether another file may bind a name of this one: as an attribute of its module or a
    builtin, or as it executes the file's text."""
    stem = os.path.splitext(os.path.basename(module.filename))[0]
    gives = functools.partial(_assigns_attribute, name, stem)
    return module.outside.others_say(gives) is not False or _runs_texts(module, stem)


def _runs_texts(module: Module, stem: str) -> bool:
    runs = functools.partial(_executes, stem)
    return module.outside.others_say(runs) is not False


def _assigns_attribute(name: str, stem: str, text: str) -> bool:
    """Say whether a text assigns an attribute that a module or the builtins may have."""
    if name not in text:
        return False
    if "setattr" in text and re.search(rf"\bbuiltins(\.|__)|['\"]{name}['\"]\s*,", text):
        return True
    if name not in _attributes_assigned(text):
        return False
    pattern = rf"\b(builtins|__builtins__|{re.escape(stem)})\.{name}\s*=(?!=)"
    aliased = rf"\bimport\s+[\w.]*\b{re.escape(stem)}\s+as\s+\w+"
    found = re.search(pattern, text) or (
        re.search(aliased, text) and re.search(rf"\.{name}\s*=(?!=)", text)
    )
    return found is not None


@functools.lru_cache(maxsize=TEXTS)
def _attributes_assigned(text: str) -> frozenset[str]:
    return frozenset(_ATTRIBUTE_ASSIGNED.findall(text))


def _executes(stem: str, text: str) -> bool:
    """Say whether a text may execute the text of a file."""
    return stem in text and _EXECUTING.search(text) is not None


def _misfit(module: Module, call: cst.Call) -> str | None:
    """Return how a call does not fit the function or class of the project that it calls; None where
    it may fit."""
    own = _method(module, call)
    inherited = own or _base(module, call)
    found = inherited or _definition(module, call.func)
    if found is None:
        return None
    if isinstance(found, ast.ClassDef):
        function = _made_by(found)
        skipped = 1
    else:
        function, skipped = found, int(own is not None)
    if function is None or function.decorator_list:
        return None
    refusal = _problem(function.args, skipped, call)
    if refusal is None or _is_patched(module, found.name):
        return None
    cls = module.class_of(call)
    if inherited is not None and (cls is None or not only_itself(module, cls)):
        return None
    return f"a TypeError, as the call of `{found.name}` {refusal}"


def _no_option(option: str) -> str:
    return f"an AttributeError, as the parser defines no `{option}`"


def _twice_there(module: Module, call: cst.Call) -> str | None:
    """Return which option the function that a call runs gives its parser twice."""
    found = _definition(module, call.func, script=True) if not call.args[3:] else None
    if not isinstance(found, ast.FunctionDef) or found.decorator_list:
        return None
    twice = given_twice(found.body)
    if twice is None or _is_patched(module, found.name):
        return None
    return f"an ArgumentError, as `{found.name}` gives its parser `{twice[1]}` twice"


def _method(module: Module, call: cst.Call) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """Return the method that ``self.method`` calls, where the class around the call defines it
    once."""
    match call.func:
        case cst.Attribute(cst.Name("self"), cst.Name(method)):
            function, cls = module.function(call), module.class_of(call)
            if (
                isinstance(function, cst.FunctionDef)
                and cls is not None
                and module.class_of(function) is cls
                and not function.decorators
                and function.params.params
                and function.params.params[0].name.value == "self"
            ):
                return _sole_methods(module, cls).get(method)
    return None


@question()
def _sole_methods(
    module: Module, cls: cst.ClassDef
) -> Mapping[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return the methods of a class by name, those apart whose name it gives to something else as
    well."""
    made = _defined(module.text, cls.name.value)
    if made is None or made.decorator_list:
        return {}
    named = Counter(getattr(each, "name", None) for each in walk(made))
    methods = (each for each in made.body if isinstance(each, DEFS))
    return {each.name: each for each in methods if named[each.name] == 1}


def _base(module: Module, call: cst.Call) -> ast.ClassDef | None:
    """Return the class whose constructor ``super().__init__`` calls, the only base of a class."""
    match call.func:
        case cst.Attribute(cst.Call(cst.Name("super")), cst.Name("__init__")):
            cls = module.class_of(call)
            if cls is not None and len(cls.bases) == 1:
                found = _definition(module, cls.bases[0].value, handed_on=True)
                return found if isinstance(found, ast.ClassDef) else None
    return None


def _made_by(cls: ast.ClassDef) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """Return the constructor of a class, where it is known for certain."""
    if cls.decorator_list or cls.keywords:
        return None
    if any(ast.unparse(base) not in _PLAIN_BASES for base in cls.bases):
        return None
    if any(not isinstance(each, (*DEFS, ast.Expr, ast.Assign, ast.AnnAssign)) for each in cls.body):
        return None
    methods = [each for each in cls.body if isinstance(each, DEFS)]
    made = [each for each in methods if each.name in ("__init__", "__new__")]
    return made[0] if len(made) == 1 and made[0].name == "__init__" else None


def _is_beside(module: Module, path: str) -> bool:
    return os.path.dirname(path) == os.path.dirname(module.path)


def _definition(
    module: Module, func: cst.BaseExpression, *, script: bool = False, handed_on: bool = False
) -> _Defined | None:
    """Return the one statement that defines what is called, where nothing binds its name anew; a
    `script` finds the modules beside it first, with `handed_on` also what a package hands on that a
    module in it defines."""
    dotted = module.name(func)
    if isinstance(func, cst.Name):
        scope, bindings = module.names.bindings(func.value, func)
        own = scope is module.root and len(bindings) == 1
        if own and bindings[0].kind in ("def", "class"):
            return _defined(module.text, func.value)
        taken = own and bindings[0].kind == "import"
        if not taken or module.names.starred_over(bindings[0].node, [func.value]):
            return None
    there = module.outside.find(dotted)
    if there is None or dotted is None:
        return None
    home = dotted.rpartition(".")[0].lstrip(".").replace(".", os.sep)
    ends = tuple(f"{os.sep}{home}{end}" for end in (".py", f"{os.sep}__init__.py"))
    placed = os.sep in home or dotted.startswith(".") or (script and _is_beside(module, there.path))
    whole = there.path.endswith(ends) or (handed_on and f"{os.sep}{home}{os.sep}" in there.path)
    text = module.outside.text(there) if placed and whole else None
    return _defined(text, there.name) if text is not None else None


def _defined(text: str, name: str) -> _Defined | None:
    """Return the function or class that the top level of a file defines once under a name."""
    tree = parsed(text)
    known = [
        each
        for each in (tree.body if tree is not None else ())
        if isinstance(each, (*DEFS, ast.ClassDef)) and each.name == name
    ]
    return known[0] if len(known) == 1 else None


@question()
def _is_patched(module: Module, name: str) -> bool:
    """Say whether a file may put something else in the place of a function or class."""
    patches = functools.partial(_patches, name)
    return patches(module.text) or module.outside.others_say(patches) is not False


def _patches(name: str, text: str) -> bool:
    """Say whether a text assigns an attribute of a name, or holds the name as a string."""
    return name in text and bool(
        re.search(
            rf"\.{name}\s*=(?!=)|['\".]{name}['\"]|\bglobal\b.*\b{name}\b|^{name}\s*=",
            text,
            re.MULTILINE,
        )
    )


def _problem(takes: ast.arguments, skipped: int, call: cst.Call) -> str | None:
    """Return how the arguments of a call do not fit parameters, the first of which may be given
    by the language; None where they do, or may."""
    keywords = [arg.keyword.value for arg in call.args if arg.keyword is not None]
    places = sum(arg.keyword is None and not arg.star for arg in call.args)
    return problem(takes, skipped, places, keywords, open_ended=has_star(call))
