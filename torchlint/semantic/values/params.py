"""What a function's parameters hold when it starts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.handed_classes import hands_on
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.scopes import own_method
from torchlint.semantic.code.tree import (
    argument_for,
    has_star,
    is_name,
    keyword_of,
    method_called,
    parameters_of,
    positional,
    positional_parameters,
)
from torchlint.semantic.elsewhere import Definition
from torchlint.semantic.torch import names as torch_names
from torchlint.semantic.torch.spelling import CLASS, DEVICE, called
from torchlint.semantic.values.narrowing import Told, is_other, told
from torchlint.semantic.values.parameter_uses import (
    incoming_device,
    moved_to_device,
    names_no_tensor,
    used_as_sizes,
    used_as_tensor,
    used_by_key,
    used_by_position,
)
from torchlint.semantic.values.value import (
    ACCEL,
    BOOL,
    COUNTED,
    CPU,
    CUDA,
    FLOAT,
    INT,
    NONE,
    PLAIN,
    STR,
    UNKNOWN,
    Value,
    join,
    join_all,
)

if TYPE_CHECKING:
    from torchlint.semantic.values.facts import Values

T = TypeVar("T")
_FOR_HOST = regex(r"(?<!to)(?<!from)(?<!off)_cpu$")
"""How functions are called that work on tensors of the host, ``shift_cpu``: none that brings them
there."""
_MAX_SITES = 12
_LAST = 1 << 30
"""The place of what only a keyword gives."""
_PLAIN = tuple("tensor batch ndarray number bool str shape list tuple dict plain".split())
"""Kinds of values that are believed of a call in another file: a model or a loader has a class and
a name that say more."""
_PYTHON = frozenset(
    """list List tuple Tuple Sequence Iterable Iterator dict Dict Mapping set Set str int float bool
    Callable""".split()
)
_WRITTEN: dict[type, Value] = {
    cst.Integer: INT,
    cst.Float: FLOAT,
    cst.SimpleString: STR,
    cst.ConcatenatedString: STR,
}
"""What is known of a default that is written out."""


class Parameters:
    """What the parameters of one function hold: by annotation, else call sites, else use, default
    and name."""

    def __init__(self, values: Values, function: cst.FunctionDef) -> None:
        self._values = values
        self._function = function
        self._method = values.tree.is_method(function)
        star = function.params.star_arg
        self._star = star.name.value if isinstance(star, cst.Param) else None
        params = parameters_of(function)
        self._params = {param.name.value: param for param in params}
        if self._method and params and params[0].name.value in ("self", "cls", "ctx"):
            self._params.pop(params[0].name.value)

    def environment(self, budget: int) -> dict[str, Value]:
        """Return the values of the parameters; without budget nothing is said of ``*args``."""
        env = {name: self._value(param, budget) for name, param in self._params.items()}
        if self._runs_on_host:
            env = {n: v.but(device=CPU) if v.tensor or v.kind == "?" else v for n, v in env.items()}
        if self._star is not None:
            if budget > 0:
                env[self._star] = _all_rest(self._values, self._function, budget)
            else:
                self._values.starve()
        return env

    def given(self, name: str, *, far: bool) -> Iterator[Value]:
        """Yield what the calls of this file pass, and then, where `far`, those in other files."""
        if name in self._params:
            yield from (self._values.value(expr) for expr in self._passed.get(name, ()))
            if far:
                yield from (each[name]() for each in self._elsewhere() if name in each)

    def _declared(self, param: cst.Param) -> Value:
        """Return what the annotation says, if any: ``model_class: Net`` means the class, and a
        default that is a number says more, ``flag: torch.Tensor = False``."""
        if param.annotation is None:
            return UNKNOWN
        declared = self._values.annotation(param.annotation.annotation)
        is_class = declared.kind == "module" and (
            called(param.name.value, CLASS) or self._makes_part(param.name.value)
        )
        counts = declared.tensor and _default(param.default).kind in COUNTED
        no_tensor = counts and param.name.value not in self._used
        return UNKNOWN if is_class or no_tensor else declared

    def _makes_part(self, name: str) -> bool:
        """Say whether a constructor keeps what it makes by calling a parameter, ``self.decoder =
        decoder(width)``: a class, whatever its annotation says."""
        kept = (
            each.value
            for each in self._values.tree.within(self._function, cst.Assign)
            if (dotted_text(each.targets[0].target) or "").startswith("self.")
        )
        made = any(isinstance(each, cst.Call) and is_name(each.func, name) for each in kept)
        return made and self._function.name.value == "__init__"

    def _value(self, param: cst.Param, budget: int) -> Value:
        name = param.name.value
        declared = self._declared(param)
        if self._method and self._function.name.value == "to" and called(name, DEVICE):
            return declared  # A constructor's own call says nothing of those that move the object.
        host = self._on_host(param, budget)
        if host is not None:
            return host
        if declared.kind == "?" and name == self._framework_batch:
            return Value("batch", device=ACCEL, origin="forward", loose=True)
        site = self._from_sites(name, budget)
        if site.kind not in ("?", "none"):
            site = self._with_far(param, site)
            if declared.kind in COUNTED and site.kind in ("tensor", "accumulated"):
                return UNKNOWN  # The annotation says what some calls do not keep to.
            return site if declared.kind == "?" or site.kind == declared.kind else declared
        home = self._home(name)
        if home is None and name not in self._passed and declared.kind not in COUNTED:
            site = self._from_elsewhere(param)
            if site.kind != "?" and declared.kind in ("?", site.kind):
                return site
            home = site.device
        elif site.device == CPU and self._with_far(param, site).device == CPU:
            home = CPU
        if site.holds_host and declared.kind in ("?", "dict"):
            item = declared.item
            return site if item is None else declared.but(item=item.but(device=CPU))
        return self._by_function(param, declared, home, budget)

    def _by_function(
        self, param: cst.Param, declared: Value, home: str | None, budget: int
    ) -> Value:
        """Return what its annotation, its default, its uses and its name say of a parameter that,
        where it is a tensor, lies on a device."""
        name = param.name.value
        if (
            home
            and declared.kind in ("?", "dict")
            and declared.item is None
            and name in self._keyed
        ):
            handed = self._by_keyword(name, budget)
            return handed or Value("batch", device=home, origin="forward", loose=True)
        origin = "forward" if home else None
        if declared.kind != "?":

            def placed(part: Value) -> Value:
                return part.but(device=home, origin=origin) if part.tensor else part

            return placed(declared.inside(placed))
        default = _default(param.default)
        if default.kind == "str" and self._kept(param, self._values.flow.sites(self._function)):
            return _text_value(param.default)
        if default.kind == "str" and called(name, DEVICE) and _of_gpu(param.default):
            return Value("device", device=ACCEL)
        if default.kind != "?":
            return default
        if (
            name in self._used
            and not names_no_tensor(name)
            and not self._names_python_types(param)
            and not self._counts(param)
        ):
            use = self._values.uses(self._function).get(name, Value("tensor"))
            return use.but(device=home, origin=use.origin or origin)
        if self._device and name in self._indexed:
            return Value("?", item=Value("?", device=self._device, origin=origin))
        return PLAIN if name in self._sizes else Value("?", device=CPU if home == CPU else None)

    @cached_property
    def _runs_on_host(self) -> bool:
        """Say whether the function gets tensors of the host alone: it is called so and moves none,
        or a test of a tensor's device chooses it each time, ``f = g if x.is_cuda else f_cpu``."""
        values, function = self._values, self._function
        if _FOR_HOST.search(function.name.value):
            calls = values.tree.within(function, cst.Call)
            return not any(method_called(call) in torch_names.MOVES for call in calls)
        if self._method or values.tree.function(function) is not None:
            return False
        reads = [n for n in values.tree.named(function.name.value) if n is not function.name]
        return bool(reads) and all(self._chosen_for_host(read) for read in reads)

    def _chosen_for_host(self, read: cst.Name) -> bool:
        match self._values.tree.parents.get(read):
            case cst.IfExp(test=test, body=body) as chosen if read is not chosen.test:
                said = told(self._values.names, test, read is body)
                return any(what is Told.ON_HOST for _, what in said)
        return False

    def _home(self, name: str) -> str | None:
        """Return the device on which a tensor comes in, by what the function is."""
        home = self._device
        return None if home and name in self._moved else home

    def _on_host(self, param: cst.Param, budget: int) -> Value | None:
        """Return the device, or the network, of which all calls say that it is on the host."""
        host = _host_device(param.default)
        device = host is not None or called(param.name.value, DEVICE)
        if device and self._kept(param, self._calls, host=True) and not self._may_be_moved():
            return host or Value("device", device=CPU)
        if called(param.name.value, DEVICE) and self._host_devices.get(param.name.value):
            return self._host_devices[param.name.value]
        if self._function.name.value != "__init__":
            return None
        made = self._constructed(param.name.value, budget)
        return made if made.device == CPU else None

    @cached_property
    def _host_devices(self) -> dict[str, Value | None]:
        """The parameters called a device for which each call of the file gives the host, by name:
        written out, or handed on from function to function."""
        devices = (name for name in self._params if called(name, DEVICE))
        return {name: self._handed_host(name, {self._function: {name}}) for name in devices}

    def _handed_host(self, name: str, seen: dict[cst.FunctionDef, set[str]]) -> Value | None:
        values, passed = self._values, self._passed.get(name, ())
        known = len(passed) == len(values.flow.sites(self._function)) > 0
        if not known or values.flow.escapes(self._function) or any(True for _ in self._elsewhere()):
            return None
        found = None
        for expr in passed:
            above = values.tree.function(expr)
            if not isinstance(expr, cst.Name):
                host = _host_device(expr)
            elif above is not None and expr.value in values.parameters(above)._params:
                if expr.value in seen.setdefault(above, set()):
                    continue
                seen[above].add(expr.value)
                kept = len(values.flow.writes(above, expr.value)) == 1
                host = values.parameters(above)._handed_host(expr.value, seen) if kept else None
            else:
                _, bindings = values.names.bindings(expr.value, expr)
                host = _host_device(bindings[0].value) if len(bindings) == 1 else None
            if host is None:
                return None
            found = host
        return found

    def _may_be_moved(self) -> bool:
        """Say whether the function makes an object that code of its class in another file may take
        to a device of its own: ``def to(self, device): self.device = device``."""
        tree, scopes = self._values.tree, self._values.scopes
        cls = tree.class_of(self._function) if tree.is_method(self._function) else None
        outside = self._values.names.outside
        return cls is not None and any(
            own.name.value == each.name and own_method(module, own, "to") is not None
            for each in scopes.family_outside(cls)
            for module in (outside.module_of(each),)
            if module is not None
            for own in module.nodes(cst.ClassDef)
        )

    def _kept(self, param: cst.Param, calls: Sequence[cst.Call], *, host: bool = False) -> bool:
        """Say whether all of some calls leave a parameter at its default, one of them from outside
        the function, which itself may hand it on; with `host` whether they leave or give the host
        as a device."""
        name = param.name.value
        within = set(self._values.tree.within(self._function, cst.Call, nested=True))
        if len(calls) > _MAX_SITES or within.issuperset(calls):
            return False
        if any(arg.star for call in calls for arg in call.args):
            return False
        passed = [(each, argument_for(each, self._places.get(name), name)) for each in calls]
        given = [
            value or param.default
            for call, value in passed
            if (value is not None or host) and not (call in within and is_name(value, name))
        ]
        far = [each[name]() for each in self._elsewhere() if name in each]
        if not host:
            return not given and not far
        return all(map(_host_device, given)) and all(
            each.device == CPU or each.name == CPU for each in far
        )

    def _names_python_types(self, param: cst.Param) -> bool:
        """Say whether an annotation speaks of Python's own values and of no tensor,
        ``Union[list[Sentence], Sentence]``, or names a class of another library, ``spaces.Box``."""
        if param.annotation is None:
            return False
        if is_other(self._values.names, param.annotation.annotation):
            return True
        said = self._values.tree.names_in(param.annotation)
        return bool(said & _PYTHON) and not any("ensor" in each for each in said)

    def _counts(self, param: cst.Param) -> bool:
        """Say whether a parameter is None by default and else a number: tests compare it with None
        and with numbers that are written out, and nothing of it is asked for."""
        if not is_name(param.default, "None"):
            return False
        tree, compared, absent = self._values.tree, False, False
        for name in tree.named(param.name.value, self._function.body):
            above = tree.parents[name]
            if isinstance(above, (cst.Attribute, cst.Subscript)) and above.value is name:
                return False
            match above:
                case cst.Comparison(comparisons=[cst.ComparisonTarget(comparator=right)]):
                    compared = compared or isinstance(right, cst.Integer)
                    absent = absent or is_name(right, "None")
        return compared and absent

    def _from_sites(self, name: str, budget: int) -> Value:
        """Return the join of what the file's calls pass, where every call is understood."""
        passed = self._passed.get(name)
        if passed is None:
            return UNKNOWN
        if budget <= 0:
            self._values.starve()
            return UNKNOWN
        return join_all([self._values.value(expr, budget - 1) for expr in passed])

    def _with_far(self, param: cst.Param, near: Value) -> Value:
        """Return what the calls of this file pass, without what those in other files may not: a
        file's own trial of a function passes what lies on the host."""
        name = param.name.value
        if near.device != CPU and near.grad is not False:
            return near
        given = [each[name]() for each in self._elsewhere() if name in each]
        if all(each.device == CPU and each.grad is False for each in given):
            return near
        known = [each for each in given if each.kind == near.kind]
        graph = join_all([near, *given]).grad
        if near.device != CPU:
            return near.but(grad=graph)
        return join_all([near, *known]).but(device=join_all(given).device, origin=None, grad=graph)

    def _by_keyword(self, name: str, budget: int) -> Value | None:
        """Return the dict that is written out where the file's calls of objects hand it on under a
        parameter's name, ``self.part(x, plan=plan)``."""
        given = [arg.value for arg in self._values.tree.nodes(cst.Arg) if keyword_of(arg) == name]
        if not 0 < len(given) <= _MAX_SITES:
            return None
        if budget <= 0:
            self._values.starve()
            return None
        found = join_all([self._values.value(each, budget - 1) for each in given])
        return found if found.kind == "dict" and found.keyed else None

    def _constructed(self, name: str, budget: int) -> Value:
        """Return the network or the tensor, on the host, that all calls of a class of this file
        hand to its constructor, where nobody else makes one."""
        cls = self._values.scopes.tree.class_of(self._function)
        if cls is None:
            return UNKNOWN
        made = self._values.constructions(cls)
        if made and budget <= 0:
            self._values.starve()
        if not 0 < len(made) <= _MAX_SITES or budget <= 0:
            return UNKNOWN
        given = [argument_for(call, self._places.get(name), name) for call in made]
        found = [self._values.value(each, budget - 1) for each in given if each is not None]
        if not found or len(found) != len(given) or any(True for _ in self._elsewhere()):
            return UNKNOWN
        known = all(each.kind == "module" or (each.tensor and each.host) for each in found)
        return join_all(found) if known else UNKNOWN

    def _from_elsewhere(self, param: cst.Param) -> Value:
        """Return the join of what calls in other files pass, of tensors, plain values and objects
        of one class of the project, where every call is understood; else where it lives if it is a
        tensor, as far as all calls agree."""
        absent = is_name(param.default, "None")
        default = NONE if absent else _default(param.default)
        found, near = None, True
        for each in self._elsewhere():
            told = each.get(param.name.value)
            given = told() if told is not None else default
            found = given if found is None else join(found, given)
            near = near and (given.kind == "none" or given.device in (ACCEL, CUDA))
            host = found.device == CPU or found.holds_host
            if found.kind == "?" and not near and not host:  # no further call makes it known
                return UNKNOWN
        if found is None:
            return UNKNOWN
        named = found.kind in ("module", "object") and found.name
        host = found.holds_host or (found.kind == "?" and found.device == CPU)
        if found.kind in _PLAIN or named or host:
            return found.but(node=None)
        return Value(device=ACCEL if near and found.kind != "none" else None)

    def _elsewhere(self) -> Iterator[dict[str, Callable[[], Value]]]:
        """Yield what calls in other files pass; each is worked out when those before it do not
        decide."""
        for given in self._passed_elsewhere:
            yield _bound(list(self._places), given)

    @cached_property
    def _passed_elsewhere(self) -> Iterable[tuple[tuple[str, Callable[[], Value]], ...]]:
        scopes, tree = self._values.scopes, self._values.tree
        loops = tree.within(self._function, cst.For, cst.While)
        trains = any(True for loop in loops for _ in tree.named("backward", loop))
        name = scopes.name_outside(self._function)
        cls = tree.class_of(self._function) if self._method else None
        if name is not None and self._function.name.value == "forward" and scopes.is_module(cls):
            name = f"{name.rpartition('.')[0]}.__call__"  # ``model(x)``
        # What an object is given is used again and again.
        constructs = self._function.name.value == "__init__"
        keeps = (lambda: not self._derived(name)) if constructs else None
        return self._values.names.outside.passed(name, trains=trains, keeps=keeps)

    def _derived(self, name: str | None) -> bool:
        """Say whether objects of a constructor's class may be made other than by its name: who
        does so is not in view."""
        scopes, outside = self._values.scopes, self._values.names.outside
        cls = scopes.tree.class_of(self._function)
        if name is None or cls is None or scopes.subclasses(cls):
            return True
        handed = functools.partial(hands_on, name)
        return handed(self._values.text) or outside.others_say(handed) is not False

    @cached_property
    def _places(self) -> dict[str, int]:
        """The positions of the parameters in a call."""
        first = self._method and "staticmethod" not in {
            dotted.rpartition(".")[2]
            for _, dotted in self._values.scopes.decorators(self._function)
        }
        params = positional_parameters(self._function)
        return {param.name.value: at for at, param in enumerate(params[first:])}

    @cached_property
    def _calls(self) -> list[cst.Call]:
        """The calls of the function in all files, those of a constructor through its class; none
        where others may call it as well: who derives from the class, or is given it."""
        scopes, outside = self._values.scopes, self._values.names.outside
        reached = scopes.name_outside(self._function)
        if reached is None or self._values.flow.escapes(self._function):
            return []
        cls = scopes.tree.class_of(self._function)
        if cls is None:
            near = self._values.flow.sites(self._function)
        elif self._function.name.value == "__init__" and not self._derived(reached):
            near = self._values.constructions(cls)
        else:
            return []
        far = [call for _, call in outside.calling(Definition(outside.path, reached, ""))]
        return [*near, *far]

    @cached_property
    def _passed(self) -> dict[str, list[cst.BaseExpression]]:
        sites = self._values.flow.sites(self._function)
        passed: dict[str, list[cst.BaseExpression]] = {}
        for site in sites if len(sites) <= _MAX_SITES else ():
            for name, expr in self._values.tree.bind(self._function, site).items():
                passed.setdefault(name, []).append(expr)
        return passed

    @cached_property
    def _device(self) -> str | None:
        return incoming_device(self._values, self._function)

    @cached_property
    def _moved(self) -> set[str]:
        return moved_to_device(self._values, self._function, 1)

    @cached_property
    def _used(self) -> frozenset[str]:
        return used_as_tensor(self._values, self._function)

    @cached_property
    def _keyed(self) -> set[str]:
        return used_by_key(self._values, self._function)

    @cached_property
    def _indexed(self) -> set[str]:
        return used_by_position(self._values, self._function)

    @cached_property
    def _sizes(self) -> frozenset[str]:
        return used_as_sizes(self._values, self._function)

    @cached_property
    def _framework_batch(self) -> str | None:
        return _framework_batch(self._values, self._function)


def _bound(names: list[str], given: Sequence[tuple[str, T]]) -> dict[str, T]:
    """Return what each parameter gets in a call of another file; stops at ``*args``."""
    out: dict[str, T] = {}
    position = 0
    for how, value in given:
        if how.startswith("*"):
            position = len(names)
        elif how:
            out[how] = value
        elif position < len(names):
            out[names[position]] = value
            position += 1
    return out


def _framework_batch(values: Values, function: cst.FunctionDef) -> str | None:
    """Return the parameter in which Lightning or transformers' Trainer hands over a batch that is
    on the device."""
    cls = values.scopes.tree.class_of(function) if values.tree.is_method(function) else None
    if cls is None:
        return None
    names = [p.name.value for p in function.params.params[1:]]
    if (
        function.name.value in torch_names.STEP_METHODS
        and names
        and values.scopes.is_lightning(cls)
    ):
        return names[0]
    trainer = "inputs" in names and any(
        base.endswith("Trainer") for base in values.scopes.base_names(cls)
    )
    return (
        "inputs"
        if trainer and function.name.value in ("compute_loss", "training_step", "prediction_step")
        else None
    )


def _default(node: cst.BaseExpression | None) -> Value:
    if isinstance(node, cst.UnaryOperation):
        node = node.expression
    return BOOL if is_name(node, "True", "False") else _WRITTEN.get(type(node), UNKNOWN)


def _host_device(node: cst.BaseExpression | None) -> Value | None:
    """Return what a default says that is the host as a device: ``"cpu"``,
    ``torch.device("cpu")``."""
    match node:
        case cst.SimpleString() if node.raw_value == "cpu":
            return _text_value(node)
        case cst.Call(
            cst.Name("device") | cst.Attribute(attr=cst.Name("device")),
            [cst.Arg(cst.SimpleString() as text)],
        ) if text.raw_value == "cpu":
            return Value("device", device=CPU)
    return None


def _of_gpu(node: cst.BaseExpression | None) -> bool:
    """Say whether a default is the text of a GPU, ``device="cuda:0"``."""
    return isinstance(node, cst.SimpleString) and str(node.raw_value).startswith("cuda")


def _text_value(node: cst.BaseExpression | None) -> Value:
    """Return what a text says that is written out, such as the name of a device."""
    return STR.but(name=node.raw_value) if isinstance(node, cst.SimpleString) else STR


def _all_rest(values: Values, function: cst.FunctionDef, budget: int) -> Value:
    """Return what ``*args`` holds by what the file's calls pass, where every call is understood."""
    sites = values.flow.sites(function)
    return (
        join_all([rest(values, function, site, budget - 1) for site in sites])
        if len(sites) <= _MAX_SITES
        else UNKNOWN
    )


def rest(values: Values, function: cst.FunctionDef, site: cst.Call, budget: int) -> Value:
    """Return the tuple that ``*args`` holds in one call, unknown where that call has a ``*``
    itself."""
    if has_star(site):
        return UNKNOWN
    taken = len(values.tree.parameters_by_place(function, site))
    plain = positional(site)[taken:]
    items = tuple(values.value(each, budget) for each in plain)
    return Value("tuple", item=join_all(list(items)), items=items)
