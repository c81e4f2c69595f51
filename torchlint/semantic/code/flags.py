"""Names that are tested as flags: bound to a test of the step, or parameters that are off unless a
caller asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import libcst as cst

from torchlint.semantic.code.flow import Flow
from torchlint.semantic.code.left_out import never_given
from torchlint.semantic.code.names import Binding, Names
from torchlint.semantic.code.scopes import Scopes
from torchlint.semantic.code.tree import FUNCTIONS, LOOPS, Tree

_FEW = 6
"""Bindings of a name that are looked at; one with more is anything."""
_MANY = 24
"""Calls of a function that are looked at."""
_BY_OBJECT = ("forward", "__call__")
"""Methods that run where the object itself is called, whatever it is called there."""


class Flag(NamedTuple):
    """A parameter that a function tests.

    Args:
        function: the function's name.
        name: the parameter's.
        position: its place among the arguments, counted from 0; None for one without.
        default: the truth of its default, None where that is not written out.
        needed: the truth that is asked about.
        same: what it is compared with, None or a text as it is written out, where what is asked is
            not its truth, but whether it is that; so in `default`.
    """

    function: str
    name: str
    position: int | None
    default: bool | None
    needed: bool
    same: str | None = None

    @property
    def by_object(self) -> bool:
        """Whether calls do not say the function's name."""
        return self.function in _BY_OBJECT


_Asked = tuple[cst.CSTNode, bool, str | None]
"""A binding, the truth that is needed, and what it is compared with in the place of its truth."""


class _Answers:
    """What is known of names in tests, so that functions that hand a flag to each other are not
    asked along each way.

    A name that comes back to itself is taken to be as needed. What is not so even then is not so:
    a no stays. A yes may rest on what turns out to be a no, and is given up then.
    """

    def __init__(self) -> None:
        self.yes: set[_Asked] = set()
        self.no: set[_Asked] = set()

    def of(self, key: _Asked) -> bool | None:
        """Return an answer; None where there is none yet."""
        return True if key in self.yes else False if key in self.no else None

    def note(self, key: _Asked, answer: bool) -> None:
        """Remember an answer."""
        if answer:
            self.yes.add(key)
        else:
            self.no.add(key)
            self.yes.clear()


class Flags:
    """Says of names in tests how often they are true.

    Args:
        text: the file.
        tree: its tree.
        names: its names.
        scopes: its classes and functions.
        flow: its calls.
        rare: says whether a test has a truth only now and then.
        throttled: says whether a node of a loop or function runs only now and then there.
        unfinite: says whether it runs there only after a NaN or an infinity.
    """

    def __init__(
        self,
        text: str,
        tree: Tree,
        names: Names,
        scopes: Scopes,
        flow: Flow,
        rare: Callable[[cst.BaseExpression, bool], bool],
        throttled: Callable[[cst.CSTNode, cst.CSTNode | None], bool],
        unfinite: Callable[[cst.CSTNode, cst.CSTNode | None], bool],
    ) -> None:
        self.text = text
        self.tree = tree
        self.names = names
        self.scopes = scopes
        self.flow = flow
        self._rare = rare
        self._throttled = throttled
        self._unfinite = unfinite
        self.pending: set[_Asked] = set()
        """What is being asked: a name that comes back to itself is no truer for that."""
        self._answers = _Answers()
        self._left_out: dict[tuple[cst.CSTNode, str], bool] = {}
        self.further: list[tuple[str, Flag]] | None = None
        """Where another file asks: parameters of functions here of which that file has to ask on,
        and which are taken to be as needed."""

    def seldom(self, name: cst.Name, needed: bool) -> bool:
        """Say whether a name is true (or false, as needed) only now and then by all that it is
        bound to."""
        scope, bindings = self.names.bindings(name.value, name)
        if scope is None or not bindings or len(bindings) > _FEW:
            return False
        if any(name.value in outer for outer in self.names.outer.values()):
            return False
        local = isinstance(scope, FUNCTIONS)
        return self._answered(
            (bindings[0].node, needed, None),
            lambda: self._by_bindings(bindings, needed, local=local),
        )

    def _answered(self, key: _Asked, work_out: Callable[[], bool]) -> bool:
        """Return an answer, which is worked out once; what is being asked is taken to be so."""
        if key in self.pending:
            return True
        known = self._answers.of(key)
        if known is None:
            self.pending.add(key)
            try:
                known = work_out()
            finally:
                self.pending.discard(key)
            self._answers.note(key, known)
        return known

    def seldom_same(self, name: cst.Name, other: cst.BaseExpression, needed: bool) -> bool:
        """Say whether a parameter that a test compares with None, or with a text, is that (or is
        not, as needed) in no call: the calls in the project decide, of which there is one at
        least."""
        written = _written(other)
        return written is not None and self._seldom_same(name, written, needed)

    def _seldom_same(self, name: cst.Name, same: str, needed: bool) -> bool:
        _, bindings = self.names.bindings(name.value, name)
        param = bindings[0].node if bindings else None
        if not isinstance(param, cst.Param) or bindings[0].kind != "param":
            return False
        order = self.tree.order
        later = [needed and order[each.node] > order[name] for each in bindings[1:]]
        key = param, needed, same
        # ``if mask is None: mask = ...`` binds it behind its test.
        if key not in self.pending and not all(later):
            return False
        return self._answered(key, lambda: self._parameter(param, needed, same))

    def _by_bindings(self, bindings: list[Binding], needed: bool, *, local: bool) -> bool:
        """Say whether each binding gives the other truth, or the needed one now and then; outside
        of functions, one that is written out and never given anew is a switch, for whoever edits
        the code."""
        constant = [truth(binding.value) for binding in bindings]
        if all(known is not None and known is not needed for known in constant):
            return local
        return all(
            self._binds_seldom(binding, bindings, needed)
            for known, binding in zip(constant, bindings, strict=True)
            if known is None or known is needed
        )

    def _binds_seldom(self, binding: Binding, bindings: list[Binding], needed: bool) -> bool:
        if binding.kind == "param":
            assert isinstance(binding.node, cst.Param)
            return self._parameter(binding.node, needed)
        if binding.kind != "assign" or binding.value is None:
            return False
        if truth(binding.value) is None:
            return self._rare(binding.value, needed)
        around = (
            at for at in self.tree.ancestors(binding.node) if isinstance(at, (*LOOPS, *FUNCTIONS))
        )
        other = [each.node for each in bindings if truth(each.value) is (not needed)]
        anew = next(around, None)
        if anew is None:
            return False
        if any(self.tree.is_within(each, anew) for each in other):
            return self._throttled(binding.node, anew)
        # A loop tells of all that it goes over: rare in each pass is not rare in all of them, but
        # for what no pass should see.
        while isinstance(anew, LOOPS) and self._unfinite(binding.node, anew):
            anew = next(around, None)
            if anew is not None and any(self.tree.is_within(each, anew) for each in other):
                return True
        return False

    # -- parameters --------------------------------------------------------------------------------

    def spared(self, function: cst.FunctionDef, flags: dict[str, bool]) -> set[cst.Call]:
        """Return the calls of a function in the file that give one of its parameters the truth it
        has in `flags` only now and then, while others may give it each time."""
        found: set[cst.Call] = set()
        params = (*function.params.params, *function.params.kwonly_params)
        for param in (each for each in params if each.name.value in flags):
            flag = self._flag(function, param, flags[param.name.value])
            if flag is not None:
                found |= {
                    call
                    for call in self.flow.sites(function)[:_MANY]
                    if self._gives_seldom(call, flag)
                }
        return found

    def handed(
        self, call: cst.Call, function: cst.FunctionDef, flags: dict[str, bool]
    ) -> Iterator[tuple[cst.BaseExpression, bool]]:
        """Yield what a call gives for parameters of a function, each with the truth that it has in
        `flags`."""
        params = (*function.params.params, *function.params.kwonly_params)
        for param in (each for each in params if each.name.value in flags):
            flag = self._flag(function, param, flags[param.name.value])
            given = _argument(call, flag) if flag is not None else None
            if given is not None and not any(arg.star for arg in call.args):
                yield given, flags[param.name.value]

    def _parameter(self, param: cst.Param, needed: bool, same: str | None = None) -> bool:
        """Say whether a parameter is what is needed only now and then by its default and by all
        that calls pass; `same` asks whether it is that, in the place of its truth."""
        function = self.tree.owners[param]
        if not isinstance(function, cst.FunctionDef) or function.name.value == "__init__":
            return False
        flag = self._flag(function, param, needed)
        if flag is None:
            return False
        if same is not None:
            if flag.by_object:
                optional = same == "None" and _is_same(param.default, same) is not False
                return optional and not needed and self._never_given(function, flag)
            if self.flow.escapes(function):
                return False
            flag = flag._replace(same=same, default=_is_same(param.default, same))
        elif flag.default is needed:
            return False
        here = list(self.given(flag, function))
        if not all(here):
            return False
        name = self.scopes.name_outside(function)
        there = self.names.outside.flag(name, flag) if name is not None else ()
        if there is None and name is not None and self.further is not None:
            said = flag._replace(default=not needed) if here else flag
            self.further.append((name, said))
            return True
        if there is None or not all(there):
            return False
        return (flag.default is not None and same is None) or bool(here) or bool(there)

    def _never_given(self, function: cst.FunctionDef, flag: Flag) -> bool:
        """Say whether nothing in the project gives a parameter of a network's forward pass."""
        cls, key = self.tree.class_of(function), (function, flag.name)
        if key not in self._left_out:
            self._left_out[key] = (
                cls is not None
                and flag.position is not None
                and function.name.value == "forward"
                and self.tree.function(cls) is None
                and never_given(
                    self.names.outside.others_say,
                    self.text,
                    cls.name.value,
                    flag.name,
                    flag.position,
                )
            )
        return self._left_out[key]

    def _flag(self, function: cst.FunctionDef, param: cst.Param, needed: bool) -> Flag | None:
        params = [*function.params.posonly_params, *function.params.params]
        if param not in params and param not in function.params.kwonly_params:
            return None
        bound = self.scopes.is_method(function) and "staticmethod" not in {
            dotted.rpartition(".")[2] for _, dotted in self.scopes.decorators(function)
        }
        position = params.index(param) - bound if param in params else None
        return Flag(function.name.value, param.name.value, position, truth(param.default), needed)

    def given(self, flag: Flag, function: cst.FunctionDef | None = None) -> Iterator[bool]:
        """Yield of each call in the file that may be one of the function whether the flag is there
        what is needed only now and then.

        Args:
            flag: the parameter.
            function: its function, where that stands in this file.
        """
        for number, call in enumerate(self._calls(flag)):
            callees = self.flow.callees(call)
            # A base class of another file that calls its own method may call an override.
            own = function is None and isinstance(call.func, cst.Attribute)
            if callees and function not in callees and not own:
                continue
            yield number < _MANY and self._gives_seldom(call, flag)

    def given_elsewhere(self, flag: Flag) -> Iterator[tuple[bool, tuple[tuple[str, Flag], ...]]]:
        """Yield of each call in this file that may be one of another file's function whether the
        flag is there what is needed only now and then, and on which flags that rests."""
        self.further = []
        answers, self._answers = self._answers, _Answers()
        try:
            for each in self.given(flag):
                yield each, tuple(self.further)
                self.further.clear()
                self._answers.yes.clear()  # what each call rests on is noted once more
        finally:
            self.further = None
            self._answers = answers

    def _gives_seldom(self, call: cst.Call, flag: Flag) -> bool:
        if any(arg.star for arg in call.args) and not flag.by_object:
            return False
        given = _argument(call, flag)
        known = flag.default
        if given is not None:
            known = truth(given) if flag.same is None else _is_same(given, flag.same)
        if known is not None:
            return known is not flag.needed or self._throttled(call, None)
        if flag.same is not None:
            return isinstance(given, cst.Name) and self._bound_to_same(
                given, flag.same, flag.needed
            )
        return given is not None and self._rare(given, flag.needed)

    def _bound_to_same(self, name: cst.Name, same: str, needed: bool) -> bool:
        """Say whether an argument is what is compared (or is not, as needed) in no call of its
        function, or by what is assigned to it."""
        _, bindings = self.names.bindings(name.value, name)
        if bindings and all(each.kind == "assign" for each in bindings):
            known = [_is_same(each.value, same) for each in bindings]
            return all(each is not None and each is not needed for each in known)
        return self._seldom_same(name, same, needed)

    def _calls(self, flag: Flag) -> Iterator[cst.Call]:
        """Yield the calls that say the function's name, or of an object that is called itself,
        those that say the flag's."""
        for name in self.tree.named(flag.name if flag.by_object else flag.function):
            above = self.tree.parents[name]
            if flag.by_object:
                call = self.tree.parents[above] if isinstance(above, cst.Arg) else None
                if (
                    isinstance(call, cst.Call)
                    and _argument(call, flag) is not None
                    and not self._defined(call.func)
                ):
                    yield call
                continue
            func = above if isinstance(above, cst.Attribute) and above.attr is name else name
            call = self.tree.parents[func]
            if isinstance(call, cst.Call) and call.func is func:
                yield call

    def _defined(self, func: cst.BaseExpression) -> bool:
        """Say whether what is called is a function or class itself, and so no object."""
        if self.names.name(func) is not None:
            return True
        if not isinstance(func, cst.Name):
            return False
        _, bindings = self.names.bindings(func.value, func)
        return any(binding.kind in ("def", "class", "import") for binding in bindings)


def _argument(call: cst.Call, flag: Flag) -> cst.BaseExpression | None:
    """Return what a call gives for a flag, or None."""
    plain = 0
    for arg in call.args:
        if arg.keyword is not None:
            if arg.keyword.value == flag.name:
                return arg.value
        elif not arg.star:
            if plain == flag.position and (
                not flag.by_object
                or (isinstance(arg.value, cst.Name) and arg.value.value == flag.name)
            ):
                return arg.value
            plain += 1
    return None


def truth(node: cst.BaseExpression | None) -> bool | None:
    """Return the truth of what is written out as such, None for anything else."""
    match node:
        case cst.Name("True" | "False" as word):
            return word == "True"
        case cst.Integer("0" | "1" as digit):
            return digit == "1"
    return None


_NEVER_NONE = (
    cst.BaseNumber,
    cst.BaseString,
    cst.Tuple,
    cst.List,
    cst.Dict,
    cst.Set,
    cst.Lambda,
    cst.Comparison,
    cst.BinaryOperation,
    cst.ListComp,
    cst.DictComp,
)


def _written(node: cst.BaseExpression | None) -> str | None:
    """Return None, or a text, as Python writes it; None for anything else."""
    match node:
        case cst.Name("None"):
            return "None"
        case cst.SimpleString() if isinstance(node.evaluated_value, str):
            return repr(node.evaluated_value)
    return None


def _is_same(node: cst.BaseExpression | None, same: str) -> bool | None:
    """Say whether an expression is None, or a text, as far as it is written out."""
    written = _written(node)
    if written is not None:
        return written == same
    if same == "None":
        return False if isinstance(node, _NEVER_NONE) or truth(node) is not None else None
    return None if truth(node) is None else False
