"""Calls as they are written: their arguments, the contexts around them, the statement they are
alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import libcst as cst

from torchlint.base.records import frozen
from torchlint.semantic.code.tree import FUNCTIONS, keyword_of
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.torch.names import DATALOADER
from torchlint.semantic.torch.signatures import SIGNATURES


@frozen
class Arguments:
    """The arguments of one call by parameter name; `open` where ``*args`` or ``**kwargs`` may add
    more."""

    named: Mapping[str, cst.Arg]
    open: bool

    def value(self, name: str) -> cst.BaseExpression | None:
        """Return the expression given for a parameter, or None."""
        arg = self.named.get(name)
        return arg.value if arg is not None else None


@question(
    yes="the call gives an argument that decides",
    no="the call leaves the argument out",
    ground=True,
)
def arguments_of(module: Module, call: cst.Call, signature: str) -> Arguments:
    """Bind a call's arguments to the parameters of a signature named in `signatures.SIGNATURES`.

    Raises:
        KeyError: there is no such signature."""
    params = SIGNATURES[signature]
    named: dict[str, cst.Arg] = {}
    position, is_open = 0, False
    for arg in call.args:
        written = _keywords_of_dict(module, arg.value) if arg.star == "**" else None
        if written is not None and signature == DATALOADER:
            named.update(written)
        elif arg.star:
            is_open = True
            position = len(params) if arg.star == "*" else position
        elif arg.keyword is not None:
            named[arg.keyword.value] = arg
        elif position < len(params):
            named[params[position]] = arg
            position += 1
    return Arguments(named, is_open)


def _keywords_of_dict(module: Module, node: cst.BaseExpression) -> dict[str, cst.Arg] | None:
    """Return what ``**settings`` gives, where a dict is written out, given a name once, and used
    for nothing but calls; else None."""
    if isinstance(node, cst.Name):
        scope, bindings = module.names.bindings(node.value, node)
        values = [each.value if each.kind == "assign" else None for each in bindings]
        uses: list[cst.CSTNode] = [
            each
            for each in module.tree.named(node.value)
            if module.names.bindings(node.value, each)[0] is scope
        ]
    else:
        cls = module.tree.class_of(node)
        alike = module.tree.within(cls, cst.Attribute, nested=True) if cls is not None else ()
        uses = [each for each in alike if each.deep_equals(node)]
        stores = [module.tree.parents[module.tree.parents[each]] for each in uses]
        values = [each.value for each in stores if isinstance(each, cst.Assign)]
    above = [module.tree.parents[each] for each in uses]
    handed = [each for each in above if isinstance(each, cst.Arg) and each.star == "**"]
    if len(values) != 1 or len(above) != len(handed) + 1:
        return None
    return _items(values[0])


def _items(value: cst.BaseExpression | None) -> dict[str, cst.Arg] | None:
    """Return what a dict that is written out gives as keywords; None for any other value."""
    found: dict[str, cst.Arg] = {}
    match value:
        case cst.Dict(elements):
            for each in elements:
                key = string(each.key) if isinstance(each, cst.DictElement) else None
                if key is None:
                    return None
                found[key] = cst.Arg(each.value, cst.Name(key))
        case cst.Call(cst.Name("dict"), args) if all(arg.keyword for arg in args):
            found = {keyword_of(arg): arg for arg in args}
        case _:
            return None
    return found


@question(
    yes="the call gives `{1}={answer}`",
    no="the call does not give `{1}`",
    ground=True,
    remember=False,
)
def keyword_argument(module: Module, call: cst.Call, name: str) -> cst.BaseExpression | None:
    """Return the expression of a keyword argument, or None."""
    return next((a.value for a in call.args if keyword_of(a) == name), None)


@question(ground=True, remember=False)
def contexts_around(module: Module, node: cst.CSTNode) -> Iterator[cst.Call]:
    """Yield the calls that make the ``with`` contexts around `node` in its function, innermost
    statement first."""
    for above in module.tree.ancestors(node):
        if isinstance(above, FUNCTIONS):
            return
        for item in above.items if isinstance(above, cst.With) else ():
            if module.tree.is_within(node, item):
                break
            if isinstance(item.item, cst.Call):
                yield item.item


@question(ground=True)
def spare_statement(module: Module, call: cst.Call) -> cst.Expr | None:
    """Return the statement that is nothing but a call, where its block holds others as well; else
    None."""
    statement, line = module.tree.parents.get(call), module.tree.statement(call)
    block = module.tree.parents.get(line)
    filled = isinstance(line, cst.SimpleStatementLine) and (
        not isinstance(block, cst.IndentedBlock) or len(block.body) > 1
    )
    return statement if filled and isinstance(statement, cst.Expr) else None


def string(node: cst.CSTNode | None) -> str | None:
    """Return the text of a string literal, or None."""
    raw = node.raw_value if isinstance(node, cst.SimpleString) else None
    return raw if isinstance(raw, str) else None


def literal_key(node: cst.Subscript) -> str | None:
    """Return the string literal that a subscript asks for, as it is written between its quotes."""
    match node.slice:
        case [cst.SubscriptElement(cst.Index(cst.SimpleString() as key))]:
            return key.raw_value
    return None
