"""Names that are tested as flags: bound to a test of the step, or parameters that are off unless a
caller asks for them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import libcst as cst

from torchlint.semantic.code.always_given import always_given
from torchlint.semantic.code.flow import flow
from torchlint.semantic.code.names import Binding, dotted_text
from torchlint.semantic.code.reaching import reaching
from torchlint.semantic.code.scopes import scopes
from torchlint.semantic.code.tree import (
    COMPREHENSIONS,
    FUNCTIONS,
    LOOPS,
    has_star,
    is_name,
    keyword_of,
    parameters_of,
    positional_parameters,
)
from torchlint.semantic.module import Module
from torchlint.semantic.torch import ops
from torchlint.semantic.torch.names import MOVES

_FEW = 6
"""Bindings of a name that are looked at; one with more is anything."""
_MANY = 24
"""Calls of a function that are looked at."""
_BY_NAME = 1 << 30
"""The place of a parameter that has none: no call has as many arguments."""
_CHOOSING = (*FUNCTIONS, *LOOPS, cst.If, cst.IfExp, cst.Try, cst.BooleanOperation, cst.CompFor)
"""What may leave out a part of itself."""
_RETURNS = 3
"""Names through which is looked for what a name is bound to."""
_GIVEN_BY_LIBRARIES = frozenset(
    (
        ("prepare_inputs_for_generation", "cache_position"),
        ("prepare_inputs_for_generation", "attention_mask"),
    )
)
"""Parameters that a library puts into the mapping with which methods are called: generation of
transformers, https://huggingface.co/docs/transformers/main/en/internal/generation_utils."""
_REPEATING = (*LOOPS, *COMPREHENSIONS, cst.Lambda)
_PLAIN = ("torch.nn.", "abc.", "builtins.")
"""Bases that call no method of a class by themselves but ``forward``."""
_WHOLE, _RUNS = "(whole call)", "(runs)"
"""What is asked in the place of a comparison: of a test about a whole call, and, in the place of a
parameter's name, whether a function runs at all."""
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
        classes: the function's class and that one's ancestors, empty for a plain function; None
            where that does not matter.
        whole: whether the test decides about the whole call, no loop of the function stands around
            it: then a call that itself runs only now and then makes it rare.
    """

    function: str
    name: str
    position: int | None
    default: bool | None
    needed: bool
    same: str | None = None
    classes: tuple[str, ...] | None = None
    whole: bool = False

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
        module: the file.
        rare: says whether a test has a truth only now and then.
        throttled: says whether a node of a loop or function runs only now and then there.
        unfinite: says whether it runs there only after a NaN or an infinity.
    """

    def __init__(
        self,
        module: Module,
        rare: Callable[[cst.BaseExpression, bool], bool],
        throttled: Callable[[cst.CSTNode, cst.CSTNode | None], bool],
        unfinite: Callable[[cst.CSTNode, cst.CSTNode | None], bool],
    ) -> None:
        self.text = module.text
        self.tree = module.tree
        self.names = module.names
        self.scopes = scopes(module)
        self.flow = flow(module)
        self.reaching = reaching(module)
        self._rare = rare
        self._throttled = throttled
        self._unfinite = unfinite
        self.pending: set[_Asked] = set()
        """What is being asked: a name that comes back to itself is no truer for that."""
        self._answers = _Answers()
        self._left_out: dict[tuple[cst.CSTNode, str], bool] = {}
        self._inner = False
        """Whether what is handed on comes to a test in a loop."""
        self.further: list[tuple[str, Flag]] | None = None
        """Where another file asks: parameters of functions here of which that file has to ask on,
        and which are taken to be as needed."""

    def rarely(self, name: cst.Name, needed: bool) -> bool:
        """Say whether a name is true (or false, as needed) only now and then by all that it is
        bound to."""
        scope, bindings = self.names.bindings(name.value, name)
        if scope is None or not bindings or len(bindings) > _FEW:
            return False
        if any(name.value in outer for outer in self.names.outer.values()):
            return False
        local = isinstance(scope, FUNCTIONS)
        whole = not self._inner and not self._is_repeated(name)
        return self._answered(
            (bindings[0].node, needed, _WHOLE if whole else None),
            lambda: self._by_bindings(bindings, needed, local=local, whole=whole),
        )

    def _is_repeated(self, node: cst.CSTNode) -> bool:
        """Say whether anything in its function may run a node several times."""
        inside = itertools.takewhile(
            lambda at: not isinstance(at, cst.FunctionDef), self.tree.ancestors(node)
        )
        return any(isinstance(at, _REPEATING) for at in inside)

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

    def rarely_same(self, name: cst.Name, other: cst.BaseExpression, needed: bool) -> bool:
        """Say whether a parameter that a test compares with None, or with a text, is that (or is
        not, as needed) in no call: the calls in the project decide, of which there is one at
        least."""
        written = _spelled_literal(other)
        return written is not None and self._rarely_same(name, written, needed)

    def _rarely_same(self, name: cst.Name, same: str, needed: bool) -> bool:
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

    def _by_bindings(
        self, bindings: list[Binding], needed: bool, *, local: bool, whole: bool
    ) -> bool:
        """Say whether each binding gives the other truth, or the needed one now and then; outside
        of functions, one that is written out and never given anew is a switch, for whoever edits
        the code."""
        constant = [truth(binding.value) for binding in bindings]
        if all(known is not None and known is not needed for known in constant):
            return local
        return all(
            self._rarely_binds(binding, bindings, needed, whole=whole)
            for known, binding in zip(constant, bindings, strict=True)
            if known is None or known is needed
        )

    def _rarely_binds(
        self, binding: Binding, bindings: list[Binding], needed: bool, *, whole: bool
    ) -> bool:
        if binding.kind == "param":
            assert isinstance(binding.node, cst.Param)
            return self._parameter(binding.node, needed, whole=whole)
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

    def spared(
        self, function: cst.FunctionDef, demands: Iterable[tuple[str, bool | str | None]]
    ) -> set[cst.Call]:
        """Return the calls of a function in the file that give one of its parameters the truth that
        is demanded of it only now and then, or not the text, or never None, while others may give
        it each time."""
        found: set[cst.Call] = set()
        sites = self.flow.sites(function)[:_MANY]
        for flag, param, needed in self._demanded(function, demands):
            if isinstance(needed, bool):
                found |= {call for call in sites if self._rarely_gives(call, flag)}
                continue
            if needed is None:
                given = {call: _argument(call, flag) for call in sites if not has_star(call)}
                found |= {c for c, g in given.items() if g and self._has_value(g, _RETURNS)}
                continue
            others = {
                call
                for call in sites
                if not has_star(call) and _lacks(_argument(call, flag) or param.default, needed)
            }
            if all(call in others or self.tree.function(call) is not function for call in sites):
                found |= others
        return found

    def spared_elsewhere(
        self, function: cst.FunctionDef, demands: Iterable[tuple[str, bool | str | None]]
    ) -> bool:
        """Say whether other files call a function, and each call gives one of its parameters the
        truth that is demanded of it only now and then."""
        name = self.scopes.name_outside(function)
        for flag, _, needed in self._demanded(function, demands):
            there = self.names.outside.flag(name, flag) if isinstance(needed, bool) else ()
            if there and all(there):
                return True
        return False

    def handed(
        self,
        call: cst.Call,
        function: cst.FunctionDef,
        demands: Iterable[tuple[str, bool | str | None]],
    ) -> Iterator[tuple[cst.BaseExpression, bool | str | None]]:
        """Yield what a call gives for parameters of a function, each with what is demanded of
        it."""
        for flag, _, needed in self._demanded(function, demands):
            given = _argument(call, flag)
            if given is not None and not has_star(call):
                yield given, needed

    def _demanded(
        self, function: cst.FunctionDef, demands: Iterable[tuple[str, bool | str | None]]
    ) -> Iterator[tuple[Flag, cst.Param, bool | str | None]]:
        params = parameters_of(function)
        for name, needed in demands:
            for param in params:
                flag = self._flag(function, param, needed is not False)
                if flag is not None and param.name.value == name:
                    yield flag, param, needed

    def _parameter(
        self, param: cst.Param, needed: bool, same: str | None = None, *, whole: bool = False
    ) -> bool:
        """Say whether a parameter is what is needed only now and then by its default and by all
        that calls pass; `same` asks whether it is that, in the place of its truth."""
        function = self.tree.owners[param]
        if not isinstance(function, cst.FunctionDef) or function.name.value == "__init__":
            return False
        flag = self._flag(function, param, needed)
        if flag is None:
            return False
        flag = flag._replace(whole=whole)
        if same is not None:
            if flag.by_object:
                return same == "None" and self._none_by_object(function, param, flag)
            if self.flow.escapes(function):
                return False
            flag = flag._replace(same=same, default=_is_same(param.default, same))
        elif flag.default is needed:
            return False
        told = self._by_calls(flag, function)
        return told is not False and (told or (flag.default is not None and same is None))

    def _by_calls(self, flag: Flag, function: cst.FunctionDef) -> bool | None:
        """Say whether each call of a function in the project gives a flag only now and then what is
        needed; None where there is none."""
        here = list(self.given(flag, function))
        if not all(here):
            return False
        name = self.scopes.name_outside(function)
        there = self.names.outside.flag(name, flag) if name is not None else ()
        if there is None and name is not None and self.further is not None:
            said = flag._replace(default=not flag.needed) if here else flag
            self.further.append((name, said))
            return True
        if there is None or not all(there):
            return False
        return True if here or there else None

    def _rarely_runs(self, call: cst.Call) -> bool:
        """Say whether a call runs once, or only now and then: where it stands, or as all calls of
        the function around it do, if the program uses that at all."""
        if self._throttled(call, None):
            return True
        home, outside = self.tree.function(call), self.names.outside
        if self._is_repeated(call) or outside.of_library():
            return False
        if home is None:
            return True
        if not isinstance(home, cst.FunctionDef) or not self._called_by_name(home):
            return False
        name = self.scopes.name_outside(home)
        if name is not None and outside.uses(name) is False:
            return True
        flag = Flag(home.name.value, _RUNS, None, None, True, classes=self._classes(home))
        return self._answered((home, True, _RUNS), lambda: self._by_calls(flag, home) is True)

    def _classes(self, function: cst.FunctionDef) -> tuple[str, ...]:
        cls = self.tree.class_of(function) if self.tree.is_method(function) else None
        return self._family(cls) if cls is not None else ()

    def _called_by_name(self, function: cst.FunctionDef) -> bool:
        """Say whether nothing but code that says its name calls a function."""
        cls = self.tree.class_of(function)
        bases = self.scopes.base_names(cls) if cls is not None else ()
        return (
            not function.decorators
            and function.name.value not in (*_BY_OBJECT, "__init__")
            and all(base.startswith(_PLAIN) for base in bases)
            and not self.flow.escapes(function)
        )

    def _none_by_object(self, function: cst.FunctionDef, param: cst.Param, flag: Flag) -> bool:
        """Say whether a parameter of a network's forward pass is never None."""
        if flag.needed and param.default is None:
            # Whether a function asks itself if a name of it is None.
            return not any(
                is_name(each.left, flag.name)
                and isinstance(each.comparisons[0].operator, (cst.Is, cst.IsNot))
                for each in self.tree.within(function, cst.Comparison)
            )
        optional = _is_same(param.default, "None") is not False
        return optional and flag.needed and self._by_all_calls(function, flag)

    def _by_all_calls(self, function: cst.FunctionDef, flag: Flag) -> bool:
        """Say whether all calls of objects in the project give a parameter of a network's forward
        pass."""
        cls, key = self.tree.class_of(function), (function, flag.name)
        if key not in self._left_out:
            self._left_out[key] = (
                cls is not None
                and function.name.value == "forward"
                and self.tree.function(cls) is None
                and always_given(
                    self.names.outside.others_say,
                    self.text,
                    cls.name.value,
                    flag.name,
                    _BY_NAME if flag.position is None else flag.position,
                )
            )
        return self._left_out[key]

    def _flag(self, function: cst.FunctionDef, param: cst.Param, needed: bool) -> Flag | None:
        params = positional_parameters(function)
        if param not in params and param not in function.params.kwonly_params:
            return None
        bound = self.tree.is_method(function) and "staticmethod" not in {
            dotted.rpartition(".")[2] for _, dotted in self.scopes.decorators(function)
        }
        position = params.index(param) - bound if param in params else None
        return Flag(
            function.name.value,
            param.name.value,
            position,
            truth(param.default),
            needed,
            classes=self._classes(function),
        )

    def _family(self, cls: cst.ClassDef) -> tuple[str, ...]:
        """Return the names of a class and of its ancestors, itself first."""
        inside = (each.name.value for each in self.scopes.lineage(cls))
        outside = (each.name for each in self.scopes.family_outside(cls))
        bases = (each.rpartition(".")[2] for each in self.scopes.base_names(cls))
        return tuple(dict.fromkeys((*inside, *outside, *bases)))

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
            if self._means_another(call, flag):
                continue
            yield number < _MANY and self._rarely_gives(call, flag)

    def _means_another(self, call: cst.Call, flag: Flag) -> bool:
        """Say whether a call is of something else that has the function's name: an operation of
        torch, a method where the function is none, or one of ``self`` in a class that is no
        relative of the function's."""
        if flag.by_object or flag.classes is None:
            return False
        dotted, func = self.names.name(call.func), call.func
        if dotted is not None or not isinstance(func, cst.Attribute):
            return (dotted or "").startswith(("torch.", "builtins."))
        if not flag.classes:
            return not self.flow.hands_on(flag.function)
        cls = self.tree.class_of(call)
        if dotted_text(func.value) != "self" or cls is None or not cls.bases:
            return False
        return cls.name.value not in flag.classes and flag.classes[0] not in self._family(cls)

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

    def _rarely_gives(self, call: cst.Call, flag: Flag) -> bool:
        if flag.name == _RUNS:
            return self._rarely_runs(call)
        given, stars = _argument(call, flag), {arg.star for arg in call.args}
        if given is not None and any(keyword_of(arg) == flag.name for arg in call.args):
            stars = set()  # No star gives it once more.
        if not flag.by_object and ("*" in stars or ("**" in stars and given is None)):
            return "*" not in stars and self._left_to_a_mapping(flag)
        known = flag.default
        if given is not None:
            known = truth(given) if flag.same is None else _is_same(given, flag.same)
        if known is not None:
            return known is not flag.needed or (
                self._rarely_runs(call) if flag.whole else self._throttled(call, None)
            )
        if flag.same is not None and given is not None:
            if flag.same == "None" and flag.needed and self._has_value(given, _RETURNS):
                return True
            return isinstance(given, cst.Name) and self._bound_to_same(
                given, flag.same, flag.needed
            )
        if given is None:
            return False
        inner, self._inner = self._inner, self._inner or not flag.whole
        try:
            return self._rare(given, flag.needed)
        finally:
            self._inner = inner

    def _left_to_a_mapping(self, flag: Flag) -> bool:
        """Say whether a library puts a flag that is asked whether it is None into ``**kwargs`` for
        each call."""
        hook = flag.function, flag.name
        return flag.same == "None" and flag.needed and hook in _GIVEN_BY_LIBRARIES

    # -- what is never None ------------------------------------------------------------------------

    def _has_value(self, node: cst.BaseExpression, depth: int) -> bool:
        """Say whether an expression is never None: what torch computes, a slice, what is written
        out, and what is bound to these, also through functions of the file."""
        known = _is_same(node, "None")
        if known is not None:
            return not known
        match node:
            case cst.Call(func):
                dotted = self.names.name(func)
                if dotted is None and isinstance(func, cst.Attribute):
                    return func.attr.value in ops.COMPUTING_METHODS or func.attr.value in MOVES
                return (dotted or "").startswith("torch.")
            case cst.Subscript(slice=parts):
                return len(parts) > 1 or any(isinstance(each.slice, cst.Slice) for each in parts)
            case cst.Name() if depth:
                found = self.reaching.definitions(node)
                return bool(found) and (
                    all(self._gives_value(each, node.value, depth) for each in found)
                    or self._has_attributes(node, found)
                    or self._is_filled(node, found, depth)
                )
        return False

    def _has_attributes(self, name: cst.Name, definitions: list[cst.CSTNode]) -> bool:
        """Say whether an attribute is taken of what a name stands for on each way to it."""
        order, around = self.tree.order, set(self.tree.ancestors(name))
        function = self.tree.function(name)
        for each in self.tree.within(function, cst.Attribute) if function is not None else ():
            if (
                is_name(each.value, name.value)
                and order[each] < order[name]
                and self.reaching.definitions(each.value) == definitions
            ):
                apart = itertools.takewhile(lambda at: at not in around, self.tree.ancestors(each))
                if not any(isinstance(at, _CHOOSING) for at in apart):
                    return True
        return False

    def _is_filled(self, name: cst.Name, definitions: list[cst.CSTNode], depth: int) -> bool:
        """Say whether a name gets a value where it is None on each way to it: ``if x is None: x =
        torch.zeros(2)``."""
        order, around = self.tree.order, set(self.tree.ancestors(name))
        for each in definitions:
            filled = self.tree.parents.get(self.tree.parents[self.tree.statement(each)])
            match filled:
                case cst.If(
                    cst.Comparison(
                        cst.Name(asked), [cst.ComparisonTarget(cst.Is(), cst.Name("None"))]
                    ),
                    orelse=None,
                ) if asked == name.value and self.tree.parents[filled] in around:
                    # What is older was not None there.
                    later = (at for at in definitions if order[at] > order[filled])
                    return all(self._gives_value(at, asked, depth) for at in later)
        return False

    def _gives_value(self, definition: cst.CSTNode, name: str, depth: int) -> bool:
        """Say whether what binds a name never gives it None."""
        match definition:
            case cst.FunctionDef():
                own = next(
                    (each for each in parameters_of(definition) if each.name.value == name), None
                )
                return own is not None and self._answered(
                    (own, True, "None"), lambda: self._parameter(own, True, "None")
                )
            case cst.Assign([cst.AssignTarget(cst.Name())], value):
                return self._has_value(value, depth - 1)
            case cst.Assign(
                [cst.AssignTarget(cst.Tuple(elements))],
                cst.Call() as call,
            ):
                places = [index for index, each in enumerate(elements) if is_name(each.value, name)]
                callees = self.flow.callees(call)
                return bool(callees) and all(
                    isinstance(line.value, cst.Tuple)
                    and len(line.value.elements) == len(elements)
                    and all(
                        self._has_value(line.value.elements[index].value, depth - 1)
                        for index in places
                    )
                    for callee in callees
                    for line in self.tree.within(callee, cst.Return)
                )
        return False

    def _bound_to_same(self, name: cst.Name, same: str, needed: bool) -> bool:
        """Say whether an argument is what is compared (or is not, as needed) in no call of its
        function, or by what is assigned to it."""
        _, bindings = self.names.bindings(name.value, name)
        if bindings and all(each.kind == "assign" for each in bindings):
            known = [_is_same(each.value, same) for each in bindings]
            return all(each is not None and each is not needed for each in known)
        return self._rarely_same(name, same, needed)

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
                    and not self._is_defined(call.func)
                ):
                    yield call
                continue
            if (called := self.tree.call_of(name)) is not None:
                yield called

    def _is_defined(self, func: cst.BaseExpression) -> bool:
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
            if plain == flag.position and (not flag.by_object or is_name(arg.value, flag.name)):
                return arg.value
            plain += 1
    return None


def _lacks(node: cst.BaseExpression | None, text: str) -> bool:
    """Say whether something that is written out is not a text, and does not hold it either."""
    parts = [node]
    if isinstance(node, (cst.List, cst.Tuple, cst.Set)):
        parts = [each.value for each in node.elements]
    return is_name(node, "None") or all(
        isinstance(each, cst.SimpleString) and each.raw_value != text for each in parts
    )


def truth(node: cst.BaseExpression | None) -> bool | None:
    """Return the truth of what is written out as such, None for anything else."""
    match node:
        case cst.Name("True" | "False" as word):
            return word == "True"
        case cst.Integer("0" | "1" as digit):
            return digit == "1"
        case cst.SimpleString():
            return bool(node.raw_value)
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


def _spelled_literal(node: cst.BaseExpression | None) -> str | None:
    """Return None, or a text, as Python writes it; None for anything else."""
    match node:
        case cst.Name("None"):
            return "None"
        case cst.SimpleString() if isinstance(node.evaluated_value, str):
            return repr(node.evaluated_value)
    return None


def _is_same(node: cst.BaseExpression | None, same: str) -> bool | None:
    """Say whether an expression is None, or a text, as far as it is written out."""
    written = _spelled_literal(node)
    if written is not None:
        return written == same
    if same == "None":
        return False if isinstance(node, _NEVER_NONE) or truth(node) is not None else None
    return None if truth(node) is None else False
