"""A file as a tree of libcst's nodes, made from CPython's tree of it.

CPython's parser is ten times as fast as libcst's, and runs on every file anyway. What its tree does
not tell, which is the text of numbers and strings, ``elif`` and what stands on one line, is read
from the text. Both parsers' trees of one text cost 10.1 CPU s per 100,000 lines with libcst's nodes
made as quickly as they can be, CPython's and this one 3.3, libcst's as it comes 12.6
(stable-baselines3 2.7.0, 5 paired runs on a busy machine, CPython 3.11, libcst 1.9.0, 2026-11-22).
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.quick_nodes import parsed
from torchlint.semantic.code.spelling import Block, Body, Part, Spelling, Unit, lean, spelled

_LINE = regex(rb"\r\n|\n|\r")
_BACKSLASH = regex(r"(?:[:;]|^)[ \t]*\\[\r\n]", re.MULTILINE)
"""One where a statement may begin: what stands on one line is not to be told by rows then."""
_TAB, _SPACE, _MIXED = (regex(each, re.MULTILINE) for each in (r"^\t", r"^ ", r"^ +\t"))
_STRING = regex(
    r"[rRbBuU]{0,2}(?:"
    r'"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"""'
    r"|'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'''"
    r'|"[^"\\]*(?:\\.[^"\\]*)*"'
    r"|'[^'\\]*(?:\\.[^'\\]*)*'"
    r")",
    re.DOTALL,
)
_DEFAULT = cst.MaybeSentinel.DEFAULT


class _New:
    """What makes lean nodes, by the names of their classes: each is made when it is needed."""

    def __getattr__(self, name: str) -> Any:
        made = lean(getattr(cst, name))
        setattr(self, name, made)
        return made


new: Any = _New()
_BINARY: dict[type, tuple[str, str]] = {
    ast.Add: ("Add", "AddAssign"),
    ast.Sub: ("Subtract", "SubtractAssign"),
    ast.Mult: ("Multiply", "MultiplyAssign"),
    ast.MatMult: ("MatrixMultiply", "MatrixMultiplyAssign"),
    ast.Div: ("Divide", "DivideAssign"),
    ast.Mod: ("Modulo", "ModuloAssign"),
    ast.Pow: ("Power", "PowerAssign"),
    ast.LShift: ("LeftShift", "LeftShiftAssign"),
    ast.RShift: ("RightShift", "RightShiftAssign"),
    ast.BitOr: ("BitOr", "BitOrAssign"),
    ast.BitXor: ("BitXor", "BitXorAssign"),
    ast.BitAnd: ("BitAnd", "BitAndAssign"),
    ast.FloorDiv: ("FloorDivide", "FloorDivideAssign"),
}
"""Each operator between two values, and the one that works in place."""
_UNARY: dict[type, str] = {
    ast.Not: "Not",
    ast.Invert: "BitInvert",
    ast.USub: "Minus",
    ast.UAdd: "Plus",
}
_COMPARED: dict[type, str] = {
    ast.Eq: "Equal",
    ast.NotEq: "NotEqual",
    ast.Lt: "LessThan",
    ast.LtE: "LessThanEqual",
    ast.Gt: "GreaterThan",
    ast.GtE: "GreaterThanEqual",
    ast.Is: "Is",
    ast.IsNot: "IsNot",
    ast.In: "In",
    ast.NotIn: "NotIn",
}
_SMALL: dict[type, str] = {ast.Pass: "Pass", ast.Break: "Break", ast.Continue: "Continue"}
_NUMBERS: dict[type, str] = {int: "Integer", float: "Float", complex: "Imaginary"}


_set_indent, _set_newline = (
    next(slot.set for slot in spelled(cst.Module) if slot.name == name)
    for name in ("default_indent", "default_newline")
)


class UnreadableError(Exception):
    """The text holds what is left to libcst's own parser."""


def lean_tree(text: str, python: ast.Module, parse: Callable[[str], cst.Module]) -> cst.Module:
    """Return the lean tree of a text.

    Args:
        text: the decoded text without its BOM.
        python: CPython's tree of it.
        parse: gives libcst's tree of a text, for who asks how it is written.

    Raises:
        UnreadableError: some of it is left to libcst's own parser.
    """
    if _odd(text):
        raise UnreadableError("white space")
    reader = _Reader(text, parse)
    try:
        return reader.module(python)
    except KeyError as error:
        raise UnreadableError(str(error)) from None
    finally:
        reader.close()


def _odd(text: str) -> bool:
    """Say whether libcst may see another white space in a text than CPython, or refuse it."""
    if "\f" in text or ("\\" in text and _BACKSLASH.search(text)):
        return True
    return "\t" in text and bool(_MIXED.search(text) or (_TAB.search(text) and _SPACE.search(text)))


class _Reader:
    """Makes nodes from those of CPython's tree."""

    def __init__(self, text: str, parse: Callable[[str], cst.Module]) -> None:
        self._data = text.encode("utf-8", "surrogatepass")
        newline = _LINE.search(self._data)
        self._newline = newline.group().decode() if newline is not None else "\n"
        self._starts = [0, *itertools.accumulate(map(len, self._data.splitlines(True)))]
        self._tree = Spelling(text, self._data, self._newline, parse)
        self._part = Part(self._tree, 0, 0, 0)
        self._spelling: Part | Unit = self._part
        self._outermost = True
        self._indent: str | None = None
        self._made: dict[type, Callable[[Any], Any]] = {
            ast.FunctionDef: self._function_def,
            ast.AsyncFunctionDef: self._async_function_def,
            ast.ClassDef: self._class_def,
            ast.If: self._if,
            ast.For: self._for_loop,
            ast.AsyncFor: self._async_for,
            ast.While: self._while,
            ast.With: self._with_block,
            ast.AsyncWith: self._async_with,
            ast.Try: self._try,
            ast.Expr: self._expr,
            ast.Assign: self._assign,
            ast.AnnAssign: self._ann_assign,
            ast.AugAssign: self._aug_assign,
            ast.Return: self._return,
            ast.Delete: self._delete,
            ast.Raise: self._raise,
            ast.Assert: self._assert,
            ast.Global: self._global,
            ast.Nonlocal: self._nonlocal,
            ast.Import: self._import,
            ast.ImportFrom: self._import_from,
            ast.Name: self._name,
            ast.Attribute: self._attribute,
            ast.Constant: self._constant,
            ast.JoinedStr: self._joined_str,
            ast.Call: self._call,
            ast.Subscript: self._subscript,
            ast.Starred: self._starred,
            ast.Tuple: self._tuple,
            ast.List: self._list,
            ast.Set: self._set,
            ast.Dict: self._dict,
            ast.BinOp: self._bin_op,
            ast.BoolOp: self._bool_op,
            ast.UnaryOp: self._unary_op,
            ast.Compare: self._compare,
            ast.IfExp: self._if_exp,
            ast.NamedExpr: self._named_expr,
            ast.Lambda: self._lambda,
            ast.Await: self._await,
            ast.Yield: self._yield,
            ast.YieldFrom: self._yield_from,
            ast.ListComp: self._list_comp,
            ast.SetComp: self._set_comp,
            ast.GeneratorExp: self._generator_exp,
            ast.DictComp: self._dict_comp,
            ast.Pass: self._small,
            ast.Break: self._small,
            ast.Continue: self._small,
        }

    def module(self, python: ast.Module) -> cst.Module:
        """Return the whole tree."""
        body = Body(self._statements(python.body))
        indent = self._indent if self._indent is not None else "    "
        self._tree.belongs_to(body, indent)
        root: cst.Module = new.Module(self._tree, body)
        _set_indent(root, indent)
        _set_newline(root, self._newline)
        return root

    def close(self) -> None:
        """Forget the methods, which know the reader: it would wait for the garbage collector to be
        freed."""
        self._made.clear()

    # -- the text ----------------------------------------------------------------------------------

    def _offset(self, row: int, column: int) -> int:
        return self._starts[row - 1] + column

    def _slice(self, node: Any) -> str:
        """Return the text of a node, without parentheses around it."""
        start = self._starts[node.lineno - 1] + node.col_offset
        end = self._starts[node.end_lineno - 1] + node.end_col_offset
        return self._data[start:end].decode("utf-8", "surrogatepass")

    def _exact(self, node: Any) -> Any:
        """Return what libcst makes of an expression: of formatted strings, and of those in several
        parts."""
        try:
            found = parsed(cst.parse_expression, "(" + self._slice(node) + ")")
            return found.with_changes(lpar=(), rpar=())
        except (cst.ParserSyntaxError, cst.CSTValidationError):
            raise UnreadableError("an expression") from None

    # -- blocks ------------------------------------------------------------------------------------

    def _statements(self, nodes: Sequence[ast.stmt]) -> list[Any]:
        """Return the statements of a block, with those that share a line in one."""
        out: list[Any] = []
        made, starts = self._made, self._starts
        small: list[Any] = []
        unit = Unit(self._part, 0, 0, True)
        row, outermost = 0, self._outermost
        self._outermost = False
        part = self._part
        for at, node in enumerate(nodes, 1):
            kind = type(node)
            if outermost and (kind in _COMPOUND or node.lineno != row):
                self._part.end = self._first(node)
                self._part = Part(self._tree, len(out), self._part.end, len(self._data))
            if kind in _COMPOUND:
                self._spelling = header = self._header(node)
                if not outermost and at < len(nodes):
                    self._part = header.around = Block(part, header, self._first(nodes[at]))
                out.append(made[kind](node))
                self._part = self._part if outermost else part
            elif node.lineno == row:
                self._spelling = unit
                unit.end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
                small.append(made[kind](node))
            else:
                end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
                unit = Unit(self._part, starts[node.lineno - 1] + node.col_offset, end, False)
                self._spelling = unit
                small = [made[kind](node)]
                out.append(new.SimpleStatementLine(self._part, small))
            row = node.end_lineno or 0
        return out

    def _header(self, node: Any) -> Unit:
        """Return the unit of a compound statement."""
        first = node.body[0]
        return Unit(self._part, self._first(node), self._first(first), True)

    def _first(self, node: Any) -> int:
        """Return where a statement begins, with its decorators."""
        decorators = getattr(node, "decorator_list", None)
        if decorators:
            return self._data.rfind(
                b"@", 0, self._offset(decorators[0].lineno, decorators[0].col_offset)
            )
        return self._offset(node.lineno, node.col_offset)

    def _suite(self, nodes: Sequence[ast.stmt]) -> Any:
        first = nodes[0]
        start = self._starts[first.lineno - 1]
        if type(first) not in _COMPOUND and self._data[start : start + first.col_offset].strip(
            b" \t"
        ):
            self._spelling = self._part
            return new.SimpleStatementSuite(
                self._part, [self._made[type(node)](node) for node in nodes]
            )
        if self._indent is None:
            self._indent = self._data[start : start + first.col_offset].decode()
        return new.IndentedBlock(self._part, self._statements(nodes))

    def _else(self, nodes: Sequence[ast.stmt]) -> Any:
        return new.Else(self._part, self._suite(nodes)) if nodes else None

    # -- definitions -------------------------------------------------------------------------------

    def _function_def(self, node: Any, asynchronous: Any = None) -> Any:
        if getattr(node, "type_params", None):
            raise UnreadableError("type parameters")
        made, spelling = self._made, self._spelling
        decorators = [
            new.Decorator(spelling, made[type(each)](each)) for each in node.decorator_list
        ]
        name, params = new.Name(spelling, node.name), self._arguments(node.args)
        returns = self._annotation(node.returns)
        return new.FunctionDef(
            spelling, name, params, self._suite(node.body), decorators, returns, asynchronous
        )

    def _async_function_def(self, node: Any) -> Any:
        return self._function_def(node, new.Asynchronous(self._spelling))

    def _annotation(self, node: Any) -> Any:
        return (
            new.Annotation(self._spelling, self._made[type(node)](node))
            if node is not None
            else None
        )

    def _arguments(self, node: ast.arguments) -> Any:
        plain = [*node.posonlyargs, *node.args]
        defaults: list[Any] = [None] * (len(plain) - len(node.defaults)) + node.defaults
        params = [self._param(*pair) for pair in zip(plain, defaults, strict=True)]
        only = [self._param(*pair) for pair in zip(node.kwonlyargs, node.kw_defaults, strict=True)]
        star = (
            self._param(node.vararg, None, "*")
            if node.vararg
            else new.ParamStar(self._spelling)
            if only
            else _DEFAULT
        )
        double = self._param(node.kwarg, None, "**") if node.kwarg else None
        first = len(node.posonlyargs)
        return new.Parameters(self._spelling, params[first:], star, only, double, params[:first])

    def _param(self, node: ast.arg, default: Any, star: str = "") -> Any:
        spelling = self._spelling
        value = self._made[type(default)](default) if default is not None else None
        return new.Param(
            spelling, new.Name(spelling, node.arg), self._annotation(node.annotation), value, star
        )

    def _class_def(self, node: Any) -> Any:
        if getattr(node, "type_params", None):
            raise UnreadableError("type parameters")
        made, spelling = self._made, self._spelling
        decorators = [
            new.Decorator(spelling, made[type(each)](each)) for each in node.decorator_list
        ]
        if any(type(each) is ast.Starred for each in node.bases) and node.keywords:
            raise UnreadableError("a starred base beside keywords")
        bases, keywords = (
            [self._arg(each) for each in node.bases],
            [self._keyword(each) for each in node.keywords],
        )
        return new.ClassDef(
            spelling,
            new.Name(spelling, node.name),
            self._suite(node.body),
            bases,
            keywords,
            decorators,
        )

    # -- compound statements -----------------------------------------------------------------------

    def _if(self, node: Any) -> Any:
        spelling = self._spelling
        test, body = self._made[type(node.test)](node.test), self._suite(node.body)
        below = node.orelse
        if len(below) == 1 and type(below[0]) is ast.If:
            start = self._offset(below[0].lineno, below[0].col_offset)
            if self._data[start : start + 2] == b"el":
                self._spelling = self._header(below[0])
                return new.If(spelling, test, body, self._if(below[0]))
        return new.If(spelling, test, body, self._else(below))

    def _for_loop(self, node: Any, asynchronous: Any = None) -> Any:
        spelling = self._spelling
        target, over = (
            self._made[type(node.target)](node.target),
            self._made[type(node.iter)](node.iter),
        )
        return new.For(
            spelling, target, over, self._suite(node.body), self._else(node.orelse), asynchronous
        )

    def _async_for(self, node: Any) -> Any:
        return self._for_loop(node, new.Asynchronous(self._spelling))

    def _while(self, node: Any) -> Any:
        spelling = self._spelling
        test = self._made[type(node.test)](node.test)
        return new.While(spelling, test, self._suite(node.body), self._else(node.orelse))

    def _with_block(self, node: Any, asynchronous: Any = None) -> Any:
        made, spelling = self._made, self._spelling
        items = []
        for each in node.items:
            target = each.optional_vars
            name = new.AsName(spelling, made[type(target)](target)) if target is not None else None
            items.append(
                new.WithItem(spelling, made[type(each.context_expr)](each.context_expr), name)
            )
        return new.With(spelling, items, self._suite(node.body), asynchronous)

    def _async_with(self, node: Any) -> Any:
        return self._with_block(node, new.Asynchronous(self._spelling))

    def _try(self, node: Any) -> Any:
        spelling = self._spelling
        body = self._suite(node.body)
        handlers = [self._handler(each) for each in node.handlers]
        other = self._else(node.orelse)
        last = new.Finally(self._part, self._suite(node.finalbody)) if node.finalbody else None
        return new.Try(spelling, body, handlers, other, last)

    def _handler(self, node: ast.ExceptHandler) -> Any:
        spelling = self._spelling = self._part
        kind = self._made[type(node.type)](node.type) if node.type is not None else None
        name = new.AsName(spelling, new.Name(spelling, node.name)) if node.name else None
        return new.ExceptHandler(spelling, self._suite(node.body), kind, name)

    # -- small statements --------------------------------------------------------------------------

    def _expr(self, node: Any) -> Any:
        return new.Expr(self._spelling, self._made[type(node.value)](node.value))

    def _assign(self, node: Any) -> Any:
        made, spelling = self._made, self._spelling
        targets = [new.AssignTarget(spelling, made[type(each)](each)) for each in node.targets]
        return new.Assign(spelling, targets, made[type(node.value)](node.value))

    def _ann_assign(self, node: Any) -> Any:
        if type(node.target) is ast.Name and not node.simple:
            raise UnreadableError("parentheses around an annotated name")
        target = self._made[type(node.target)](node.target)
        return new.AnnAssign(
            self._spelling, target, self._annotation(node.annotation), self._maybe(node.value)
        )

    def _aug_assign(self, node: Any) -> Any:
        target, value = (
            self._made[type(node.target)](node.target),
            self._made[type(node.value)](node.value),
        )
        return new.AugAssign(
            self._spelling, target, getattr(new, _BINARY[type(node.op)][1])(self._spelling), value
        )

    def _maybe(self, node: Any) -> Any:
        return self._made[type(node)](node) if node is not None else None

    def _return(self, node: Any) -> Any:
        return new.Return(self._spelling, self._maybe(node.value))

    def _delete(self, node: Any) -> Any:
        if len(node.targets) == 1:
            only = node.targets[0]
            after = self._offset(only.end_lineno, only.end_col_offset)
            if b"," not in self._data[after : self._offset(node.end_lineno, node.end_col_offset)]:
                return new.Del(self._spelling, self._made[type(only)](only))
        return new.Del(self._spelling, new.Tuple(self._spelling, self._elements(node.targets)))

    def _small(self, node: Any) -> Any:
        return getattr(new, _SMALL[type(node)])(self._spelling)

    def _raise(self, node: Any) -> Any:
        cause = (
            new.From(self._spelling, self._made[type(node.cause)](node.cause))
            if node.cause is not None
            else None
        )
        return new.Raise(self._spelling, self._maybe(node.exc), cause)

    def _assert(self, node: Any) -> Any:
        return new.Assert(
            self._spelling, self._made[type(node.test)](node.test), self._maybe(node.msg)
        )

    def _items(self, names: Sequence[str]) -> Any:
        return [new.NameItem(self._spelling, new.Name(self._spelling, name)) for name in names]

    def _global(self, node: Any) -> Any:
        return new.Global(self._spelling, self._items(node.names))

    def _nonlocal(self, node: Any) -> Any:
        return new.Nonlocal(self._spelling, self._items(node.names))

    def _import(self, node: Any) -> Any:
        return new.Import(self._spelling, [self._alias(each) for each in node.names])

    def _import_from(self, node: Any) -> Any:
        spelling = self._spelling
        star = node.names[0].name == "*"
        names = new.ImportStar(spelling) if star else [self._alias(each) for each in node.names]
        module = self._dotted(node.module) if node.module else None
        return new.ImportFrom(
            spelling, module, names, [new.Dot(spelling) for _ in range(node.level)]
        )

    def _alias(self, node: ast.alias) -> Any:
        spelling = self._spelling
        name = new.AsName(spelling, new.Name(spelling, node.asname)) if node.asname else None
        return new.ImportAlias(spelling, self._dotted(node.name), name)

    def _dotted(self, name: str) -> Any:
        spelling = self._spelling
        first, *others = name.split(".")
        at = new.Name(spelling, first)
        for each in others:
            at = new.Attribute(spelling, at, new.Name(spelling, each))
        return at

    # -- expressions -------------------------------------------------------------------------------

    def _name(self, node: Any) -> Any:
        return new.Name(self._spelling, node.id)

    def _attribute(self, node: Any) -> Any:
        spelling = self._spelling
        return new.Attribute(
            spelling, self._made[type(node.value)](node.value), new.Name(spelling, node.attr)
        )

    def _constant(self, node: Any) -> Any:
        value = node.value
        if type(value) in _NUMBERS:
            return getattr(new, _NUMBERS[type(value)])(self._spelling, self._slice(node))
        if value is None or value is True or value is False:
            return new.Name(self._spelling, str(value))
        if value is ...:
            return new.Ellipsis(self._spelling)
        text = self._slice(node)
        return (
            new.SimpleString(self._spelling, text) if _STRING.fullmatch(text) else self._exact(node)
        )

    def _joined_str(self, node: Any) -> Any:
        return self._exact(node)

    def _call(self, node: Any) -> Any:
        args = [self._arg(each) for each in node.args]
        if node.keywords:
            keywords = [self._keyword(each) for each in node.keywords]
            last = node.args[-1] if args else None
            if last is not None and type(last) is ast.Starred:
                order = sorted(
                    (*node.args, *node.keywords), key=lambda each: (each.lineno, each.col_offset)
                )
                every = dict(zip((*node.args, *node.keywords), (*args, *keywords), strict=True))
                args = [every[each] for each in order]
            else:
                args += keywords
        return new.Call(self._spelling, self._made[type(node.func)](node.func), args)

    def _arg(self, node: Any) -> Any:
        if type(node) is ast.Starred:
            return new.Arg(self._spelling, self._made[type(node.value)](node.value), None, "*")
        return new.Arg(self._spelling, self._made[type(node)](node), None, "")

    def _keyword(self, node: ast.keyword) -> Any:
        spelling = self._spelling
        value = self._made[type(node.value)](node.value)
        if node.arg is None:
            return new.Arg(spelling, value, None, "**")
        return new.Arg(spelling, value, new.Name(spelling, node.arg), "")

    def _subscript(self, node: Any) -> Any:
        spelling = self._spelling
        value = self._made[type(node.value)](node.value)
        index = node.slice
        if type(index) is ast.Tuple and self._is_bare_tuple(index):
            parts = [new.SubscriptElement(spelling, self._index(each)) for each in index.elts]
        else:
            parts = [new.SubscriptElement(spelling, self._index(index))]
        return new.Subscript(spelling, value, parts)

    def _is_bare_tuple(self, node: ast.Tuple) -> bool:
        """Say whether a tuple in brackets has no parentheses of its own.

        Raises:
            UnreadableError: it begins and ends with one, which may be those of its elements.
        """
        start = self._offset(node.lineno, node.col_offset)
        end = self._offset(node.end_lineno or 0, node.end_col_offset or 0)
        if self._data[start : start + 1] != b"(" or self._data[end - 1 : end] != b")":
            return True
        if not node.elts:
            return False
        first, last = node.elts[0], node.elts[-1]
        if (first.lineno, first.col_offset) == (node.lineno, node.col_offset):
            return True
        if (last.end_lineno, last.end_col_offset) == (node.end_lineno, node.end_col_offset):
            return True
        before = self._data[start : self._offset(first.lineno, first.col_offset)]
        after = self._data[self._offset(last.end_lineno or 0, last.end_col_offset or 0) : end]
        if before.strip() == b"(" and after.strip() in (b")", b",)"):
            return False
        raise UnreadableError("parentheses in brackets")

    def _index(self, node: Any) -> Any:
        if type(node) is ast.Slice:
            return new.Slice(
                self._spelling,
                self._maybe(node.lower),
                self._maybe(node.upper),
                self._maybe(node.step),
            )
        if type(node) is ast.Starred:
            return new.Index(self._spelling, self._made[type(node.value)](node.value), "*")
        return new.Index(self._spelling, self._made[type(node)](node), None)

    def _elements(self, nodes: Sequence[ast.expr]) -> list[Any]:
        made, spelling = self._made, self._spelling
        return [
            made[ast.Starred](each)
            if type(each) is ast.Starred
            else new.Element(spelling, made[type(each)](each))
            for each in nodes
        ]

    def _starred(self, node: Any) -> Any:
        return new.StarredElement(self._spelling, self._made[type(node.value)](node.value))

    def _tuple(self, node: Any) -> Any:
        return new.Tuple(self._spelling, self._elements(node.elts))

    def _list(self, node: Any) -> Any:
        return new.List(self._spelling, self._elements(node.elts))

    def _set(self, node: Any) -> Any:
        return new.Set(self._spelling, self._elements(node.elts))

    def _dict(self, node: Any) -> Any:
        made, spelling = self._made, self._spelling
        return new.Dict(
            spelling,
            [
                new.StarredDictElement(spelling, made[type(value)](value))
                if key is None
                else new.DictElement(spelling, made[type(key)](key), made[type(value)](value))
                for key, value in zip(node.keys, node.values, strict=True)
            ],
        )

    def _bin_op(self, node: Any) -> Any:
        left, right = (
            self._made[type(node.left)](node.left),
            self._made[type(node.right)](node.right),
        )
        return new.BinaryOperation(
            self._spelling, left, getattr(new, _BINARY[type(node.op)][0])(self._spelling), right
        )

    def _bool_op(self, node: Any) -> Any:
        operator = new.And if type(node.op) is ast.And else new.Or
        first, *others = [self._made[type(each)](each) for each in node.values]
        for each in others:
            first = new.BooleanOperation(self._spelling, first, operator(self._spelling), each)
        return first

    def _unary_op(self, node: Any) -> Any:
        operator = getattr(new, _UNARY[type(node.op)])(self._spelling)
        return new.UnaryOperation(
            self._spelling, operator, self._made[type(node.operand)](node.operand)
        )

    def _compare(self, node: Any) -> Any:
        made, spelling = self._made, self._spelling
        targets = [
            new.ComparisonTarget(spelling, self._comparison(how), made[type(other)](other))
            for how, other in zip(node.ops, node.comparators, strict=True)
        ]
        return new.Comparison(spelling, made[type(node.left)](node.left), targets)

    def _comparison(self, how: ast.cmpop) -> Any:
        operator = getattr(new, _COMPARED[type(how)])
        return operator(self._spelling, *(("!=",) if type(how) is ast.NotEq else ()))

    def _if_exp(self, node: Any) -> Any:
        made = self._made
        test, body, other = node.test, node.body, node.orelse
        return new.IfExp(
            self._spelling, made[type(test)](test), made[type(body)](body), made[type(other)](other)
        )

    def _named_expr(self, node: Any) -> Any:
        made = self._made
        return new.NamedExpr(
            self._spelling, made[type(node.target)](node.target), made[type(node.value)](node.value)
        )

    def _lambda(self, node: Any) -> Any:
        return new.Lambda(
            self._spelling, self._arguments(node.args), self._made[type(node.body)](node.body)
        )

    def _await(self, node: Any) -> Any:
        return new.Await(self._spelling, self._made[type(node.value)](node.value))

    def _yield(self, node: Any) -> Any:
        return new.Yield(self._spelling, self._maybe(node.value))

    def _yield_from(self, node: Any) -> Any:
        return new.Yield(
            self._spelling, new.From(self._spelling, self._made[type(node.value)](node.value))
        )

    # -- comprehensions ----------------------------------------------------------------------------

    def _list_comp(self, node: Any) -> Any:
        return new.ListComp(
            self._spelling, self._made[type(node.elt)](node.elt), self._generators(node)
        )

    def _set_comp(self, node: Any) -> Any:
        return new.SetComp(
            self._spelling, self._made[type(node.elt)](node.elt), self._generators(node)
        )

    def _generator_exp(self, node: Any) -> Any:
        return new.GeneratorExp(
            self._spelling, self._made[type(node.elt)](node.elt), self._generators(node)
        )

    def _dict_comp(self, node: Any) -> Any:
        key, value = self._made[type(node.key)](node.key), self._made[type(node.value)](node.value)
        return new.DictComp(self._spelling, key, value, self._generators(node))

    def _generators(self, node: Any) -> Any:
        made, spelling = self._made, self._spelling
        inner: Any = None
        for each in reversed(node.generators):
            target, over = made[type(each.target)](each.target), made[type(each.iter)](each.iter)
            ifs = [new.CompIf(spelling, made[type(test)](test)) for test in each.ifs]
            inner = new.CompFor(
                spelling,
                target,
                over,
                ifs,
                inner,
                new.Asynchronous(spelling) if each.is_async else None,
            )
        return inner


_COMPOUND = frozenset(
    (
        ast.FunctionDef,
        ast.AsyncFunctionDef,
        ast.ClassDef,
        ast.If,
        ast.For,
        ast.AsyncFor,
        ast.While,
        ast.With,
        ast.AsyncWith,
        ast.Try,
    )
)
