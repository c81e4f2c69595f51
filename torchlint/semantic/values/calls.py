"""What a call gives: functions of the same file, classes, modules and methods."""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from torchlint.semantic.code.iterated import hands_out
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.tree import has_star, is_name, method_called, parameters_of
from torchlint.semantic.torch import ops
from torchlint.semantic.torch.dtypes import DTYPES, OTHER_NAMES
from torchlint.semantic.torch.spelling import LENGTHS, MODEL, called
from torchlint.semantic.values import library, methods
from torchlint.semantic.values.device_choice import chooses_host, passed_constant
from torchlint.semantic.values.functions import PASS_THROUGH, Functions, has_keyword
from torchlint.semantic.values.refilled import brought, merged
from torchlint.semantic.values.tensor_types import meant_type
from torchlint.semantic.values.value import (
    ACCEL,
    CLASSES,
    CPU,
    CUDA,
    ITERATED,
    OF_NETWORKS,
    PLAIN,
    STR,
    TRUTHS,
    UNKNOWN,
    Value,
    graph_of,
    join,
    join_all,
    mix,
    placed,
    ungraphed,
)

_CHAINS = ops.having("module", "chains")
_WEIGHTS = ("parameters", "buffers", "named_parameters", "named_buffers")
_GIVEN = ops.values("gives", "layer")
_MOVES = ops.having("move")
_STATELESS = ops.having("layer", "stateless")
_FEATURES = frozenset(
    "encode_image encode_text get_image_features get_text_features extract_features".split()
)
"""Methods that run a network of another package (clip, open_clip, transformers, fairseq)."""
_TYPES = frozenset(f"torch.{each}" for each in (*(d.name for d in DTYPES), *OTHER_NAMES))


class Calls(Functions):
    """The part of the evaluator that knows what calls return."""

    def attribute_of(self, node: cst.Attribute, holder: Value) -> Value:
        """Return an attribute of a value; the evaluator of expressions knows how."""
        raise NotImplementedError

    def call(self, node: cst.Call) -> Value:
        """Evaluate a call."""
        arguments = [self.eval(arg.value) for arg in node.args]
        func = node.func
        dotted = self.values.names.name(func)
        receiver = (
            self.eval(func.value)
            if type(func) is cst.Attribute and (dotted is None or "." not in dotted)
            else None
        )
        if dotted is not None:
            if dotted == "builtins.isinstance" and arguments and arguments[0].tensor:
                self.recorded[node.args[0].value] = UNKNOWN  # The test is made for what else it is.
            if dotted == "functools.partial" and arguments and arguments[0].kind == "function":
                return Value("function", node=arguments[0].node)
            if dotted == "builtins.map" and len(arguments) > 1:
                return self._mapped(node, arguments)
            found = self.dotted_call(dotted, node, arguments)
            if found is not None:
                return found
            # Nobody looks at what a statement gives.
            dropped = isinstance(self.values.tree.parents.get(node), cst.Expr)
            outside = self.values.names.outside
            elsewhere = UNKNOWN if dropped else outside.call(dotted, node, arguments)
            if library.switched_off(elsewhere.name, node.args):
                return UNKNOWN
            if elsewhere.kind != "?":
                return self._of_other_file(node, dotted, elsewhere)
        if type(func) is cst.Attribute:
            if receiver is None:
                receiver = self.eval(func.value)
            return self._beside(node, self._method(node, func, receiver, arguments))
        local = self._local(node)
        if local is not None:
            return local
        called = self.eval(func)
        if dotted_text(func) == "self" and (own := self._own_network(func)) is not None:
            called = self.recorded[func] = own  # The module runs itself.
        return self._beside(node, self._called(node, called, arguments))

    def _of_other_file(self, node: cst.Call, dotted: str, found: Value) -> Value:
        """Return what a function or class of another file gives, at this call of it."""
        if found.kind == "loader" and (found.device is not None or ".py:" in (found.name or "")):
            return found.but(node=node)
        others = self.values.names.outside.lineage(dotted).classes
        stays = found.kind == "module" and bool(others) and self.stays(node, None, others)
        return found.but(device=CPU) if stays else self.ran(found)

    # -- functions, classes and modules ------------------------------------------------------------

    def _of_class(self, thing: Value, name: str) -> cst.FunctionDef | None:
        """Return a method of a thing whose class is in this file."""
        cls = thing.node
        return self.values.scopes.method(cls, name) if isinstance(cls, cst.ClassDef) else None

    def _local(self, node: cst.Call) -> Value | None:
        callees = self.values.flow.callees(node)
        if not callees:
            return None
        if len(callees) == 1 and isinstance(callees[0], cst.Lambda) and self._has_budget():
            given = [
                self.recorded.get(arg.value, UNKNOWN)
                for arg in node.args
                if arg.keyword is None and not arg.star
            ]
            return self._inlined(callees[0], given)
        found = join_all([self.values.summary(callee, self.budget - 1) for callee in callees])
        unsure = found.tensor and (found.device is None or self._of_the_host(node))
        if len(callees) == 1 and (found.kind == "?" or found.item == UNKNOWN or unsure):
            found = self._for_arguments(callees[0], node, found)
        if len(callees) == 1 and isinstance(callees[0], cst.FunctionDef):
            self._merge(callees[0], node)
            if found.kind == "device" and found.device != CPU and self._host(callees[0], node):
                found = found.but(device=CPU)
        return self.ran(found) if found.kind != "?" else None

    def _host(self, function: cst.FunctionDef, node: cst.Call) -> bool:
        """Say whether a function that chooses a device gives the CPU for what a call passes."""
        passed = self.values.tree.bind(function, node)
        given = {
            name: passed_constant(expr, self.recorded.get(expr, UNKNOWN))
            for name, expr in passed.items()
        }
        whole = not any(arg.star for arg in node.args)
        return whole and chooses_host(self.values.names, function, given)

    def _merge(self, function: cst.FunctionDef, node: cst.Call) -> None:
        """Take the values of a dict that a function puts into another one to be in that."""
        names = merged(self.values.tree, function)
        if names is None:
            return
        passed = self.values.tree.bind(function, node)
        into, source = (passed.get(name) for name in names)
        text = dotted_text(into) if into is not None else None
        if into is None or source is None or text is None:
            return
        held, given = self.recorded.get(into, UNKNOWN), self.recorded.get(source, UNKNOWN).item
        if held.kind == "dict":
            item = join(held.item, given) if held.item is not None and given is not None else given
            self.env[text] = held.but(item=item, items=None, keyed=None)

    def _of_the_host(self, node: cst.Call) -> bool:
        """Say whether a call is given tensors of the CPU and no others."""
        given = [self.recorded.get(arg.value, UNKNOWN) for arg in node.args]
        places = {each.device for each in given if each.tensor or each.kind == "?"}
        return places == {CPU}

    def _beside(self, node: cst.Call, found: Value) -> Value:
        """Return what a call gives; where that is not known, a thing of the host if it takes what a
        network gave and was copied there, and nothing that may lie on the device."""
        if found != UNKNOWN:
            return found
        given = [self.recorded.get(arg.value, UNKNOWN) for arg in node.args]
        copied = any(each.device == CPU and each.origin in OF_NETWORKS for each in given)
        away = any(
            each.kind == "module"
            or each.device in (CUDA, ACCEL)
            or (each.device is None and each.origin in OF_NETWORKS)
            for each in given
        )
        return Value("?", device=CPU) if copied and not away else found

    def _for_arguments(self, function: cst.CSTNode, node: cst.Call, found: Value) -> Value:
        """Return what a call gives for its own tensors, where the callee says too little for all
        its calls at once."""
        if not isinstance(function, cst.FunctionDef) or not self._has_budget():
            return found
        passed = self.values.tree.bind(function, node)
        values = {name: self.recorded.get(expr, UNKNOWN) for name, expr in passed.items()}
        given = {
            name: v
            if v.kind == "loader"
            else Value("tensor", device=v.device, origin=v.origin, grad=v.grad, loose=v.loose)
            for name, v in values.items()
            if v.kind == "loader" or (v.tensor and v.device is not None)
        }
        given.update(flags_given(function, node, passed))
        if moved := brought(self.values.tree, function, values):
            return moved
        return self.values.summary(function, self.budget - 1, given) if given else found

    def _has_budget(self) -> bool:
        self.values.asked += 1
        if self.budget <= 0:
            self.values.starve()
        return self.budget > 0

    def _mapped(self, node: cst.Call, args: list[Value]) -> Value:
        """Return what ``map`` gives: its function's result for each element."""
        function, over = node.args[0].value, args[1:]
        if not isinstance(function, cst.Lambda) or not self._has_budget():
            return Value("iterator", item=self._applied(node.args[0].value, args[0]))
        if len(over) == 1 and over[0].items:
            items = tuple(self._inlined(function, [each]) or UNKNOWN for each in over[0].items)
            return Value("iterator", items=items, item=join_all(list(items)))
        item = self._inlined(function, [self.element(each) for each in over])
        return Value("iterator", item=item)

    def _applied(self, node: cst.BaseExpression, function: Value) -> Value | None:
        """Return what a function gives for anything."""
        root, _, name = (self.values.names.name(node) or "").partition(".")
        if root == "builtins":
            return self._builtin(name, [])
        if isinstance(function.node, cst.FunctionDef):
            return self.values.summary(function.node, self.budget - 1)
        return None

    def _inlined(self, function: cst.Lambda, given: list[Value]) -> Value | None:
        """Evaluate a lambda's body with the values of positional arguments."""
        self.plain = False
        outer = self.env
        names = [p.name.value for p in function.params.params]
        self.env = {
            **outer,
            **dict.fromkeys(names, UNKNOWN),
            **dict(zip(names, given, strict=False)),
        }
        if isinstance(function.params.star_arg, cst.Param):
            self.env[function.params.star_arg.name.value] = Value(
                "tuple", items=tuple(given[len(names) :])
            )
        self.budget -= 1
        found = self.eval(function.body)
        self.budget += 1
        self.env = outer
        return found if found != UNKNOWN else None

    def _called(self, node: cst.Call, func: Value, args: list[Value]) -> Value:
        if func.kind == "class" and isinstance(func.node, cst.ClassDef):
            return self._instance(node, func.node)
        if isinstance(node.func, cst.Name):
            cls = self.values.scopes.local_class(node.func)
            if cls is not None:
                return self._instance(node, cls)
            if node.func.value in PASS_THROUGH and args:
                return args[0]
        if func.kind == "?" and func.device is not None:
            func = self.recorded[node.func] = _moved_network(func, args)
        if func.kind == "module" and self._makes_network(node, func, args):
            self.recorded[node.func] = UNKNOWN
            return func
        if func.kind == "module":
            return self._mapping_of(node, self.module_call(node, func, args))
        if func.kind == "type":
            return Value(
                "tensor",
                device=func.device,
                dtype=func.dtype,
                origin="factory",
                grad=False,
                node=node,
            )
        if func.kind == "function" and isinstance(func.node, cst.FunctionDef):
            return self.ran(self.values.summary(func.node, self.budget - 1))
        return UNKNOWN

    def _makes_network(self, node: cst.Call, func: Value, args: list[Value]) -> bool:
        """Say whether a constructor calls a parameter that only its name calls a network, on no
        tensor: it was handed what makes one, ``self.encoder = base_encoder(num_classes=dim)``."""
        by_name = func.origin == "name" and func.node is None and isinstance(node.func, cst.Name)
        owner = self.owner
        if not by_name or not isinstance(owner, cst.FunctionDef) or owner.name.value != "__init__":
            return False
        return bool(args) and not any(each.tensor for each in args)

    def _mapping_of(self, node: cst.Call, found: Value) -> Value:
        """Return what a model or a loss gives, a mapping of tensors where the name that is bound to
        it is used as one: ``losses = criterion(out, target); sum(losses.values())``."""
        above = self.values.tree.parents[node]
        if not found.tensor or not isinstance(above, cst.Assign) or len(above.targets) != 1:
            return found
        target = above.targets[0].target
        if not isinstance(target, cst.Name) or target.value not in self.values.mappings(self.owner):
            return found
        return Value("dict", item=found.but(rank=None, dtype=None, loose=True))

    def _instance(self, node: cst.Call, cls: cst.ClassDef) -> Value:
        bases = self.values.scopes.base_names(cls)
        parameter = hands_out(self.values.tree, self.values.scopes, cls)
        init = self.values.scopes.method(cls, "__init__") if parameter is not None else None
        given = self.values.tree.bind(init, node).get(parameter or "") if init is not None else None
        if given is not None and (iterated := self.recorded.get(given, UNKNOWN)).kind in ITERATED:
            return iterated
        if self.values.scopes.is_module(cls):
            name = next(
                (b for b in bases if b.startswith("torch.nn.") and b.endswith("Loss")),
                cls.name.value,
            )
            where = CPU if self.stays(node, cls) else None
            return Value("module", device=where, node=cls, name=name)
        if "torch.utils.data.DataLoader" in bases:
            return Value("loader", node=node, name=cls.name.value)
        if any(b.startswith("torch.optim.") for b in bases):
            return Value("optimizer", node=node)
        return Value("object", node=cls, name=cls.name.value)

    def module_call(self, node: cst.Call, module: Value, args: list[Value]) -> Value:
        """Return what calling a module gives: its forward's summary, a loss, or a model output."""
        if module.name == "loss" and args and all(each.kind == "ndarray" for each in args):
            return PLAIN  # A function of arrays, which only its name calls a loss.
        operands = [a for a in args if a.kind in ("tensor", "batch", "accumulated")]
        if (module.name or "").removeprefix("torch.nn.") in _STATELESS:
            same = mix(operands).but(rank=None, dtype=None, grad=graph_of(args))
            return self.without_graph(same.but(device=same.device or module.device))
        first = operands[0].device if operands else None
        given = next((a.device for a in operands if a.device in (CUDA, ACCEL)), None)
        # What is made on the host says more than what a parameter beside it is.
        host = first == CPU or (given is None and self._takes_host(node, module))
        place = module.device
        if place == CPU and (given or (operands and not host and not self._learns(module.node))):
            place = None  # Without parameters it has no place: a loss of one's own.
        device = place or (CPU if host else given or ACCEL)
        graph = self.graph(node)
        forward = self._of_class(module, "forward")
        if not _is_loss(module, node):
            self._meet_model(node, module, device)
        if forward is not None:
            found = self.values.summary(forward, self.budget - 1)
        else:
            found = self._of_classes(module, "forward")
        if found.tensor:
            if graph and not found.grad and not self._learns(module.node):
                graph = graph_of(args)
            return found.but(device=device, grad=graph, node=None, origin=found.origin or "model")
        if found.kind not in ("?", "none"):
            return placed(found if graph else ungraphed(found, graph), device)
        if _is_loss(module, node):
            # A second positional argument may be ``reduce`` or ``reduction``.
            self._meet_criterion(node, module)
            reduced = (
                isinstance(module.node, cst.Call)
                and len(module.node.args) <= 1
                and not has_keyword(module.node, "reduction", "reduce", "size_average")
                and not (module.name or "").endswith("SoftmaxWithLoss")
            )
            return Value(
                "tensor",
                device=device,
                origin="loss",
                grad=graph,
                rank=0 if reduced else None,
                dtype="float",
            )
        loose = not (module.name or "").startswith("torch.nn.")
        found = Value("tensor", device=device, origin="model", grad=graph, loose=loose)
        return _with_state(found, module.name)

    def _learns(self, cls: cst.CSTNode | None) -> bool:
        """Say whether a network may have parameters: one that makes no layer and calls nothing that
        it holds has none, a table of sines."""
        scopes, names = self.values.scopes, self.values.names
        if not isinstance(cls, cst.ClassDef) or set(scopes.base_names(cls)) != {"torch.nn.Module"}:
            return True
        for call in self.values.tree.within(cls, cst.Call, nested=True):
            func = call.func
            area, _, made = (names.name(func) or "").rpartition(".")
            if (area == "torch.nn" and made[:1].isupper()) or scopes.local_class(func) is not None:
                return True
            match func:
                case cst.Attribute(cst.Name("self"), cst.Name(method)):
                    if method != "register_buffer" and scopes.method(cls, method) is None:
                        return True
        return False

    def _meet_criterion(self, node: cst.Call, module: Value) -> None:
        """Note that what a loss takes lies on one device; one that is not torch's own may take
        anything, and so says it of tensors alone."""
        own = (module.name or "").startswith("torch.nn.")
        taken = [arg.value for arg in node.args[:2]]
        tensors = [each for each in taken if self.recorded.get(each, UNKNOWN).tensor]
        self.meet("cross_entropy", taken if own else tensors)

    def _meet_model(self, node: cst.Call, module: Value, device: str) -> None:
        """Note that a model's inputs live where it does, unless it may bring them there itself."""
        if device == CPU or self.values.scatters or self._moves_inputs(module):
            return
        for arg in node.args:
            given, text = self.recorded.get(arg.value, UNKNOWN), dotted_text(arg.value)
            if given.tensor and given.device is None and text is not None and not arg.star:
                self.env[text] = given.but(device=device)

    def _takes_host(self, node: cst.Call, module: Value) -> bool:
        """Say whether the forward of a class in this file, which moves nothing, is given a tensor
        on the host; a number, and lengths, may lie there beside a network on a device."""
        forward = self._of_class(module, "forward")
        if forward is None or self._moves_inputs(module):
            return False
        passed = self.values.tree.bind(forward, node)
        given = ((name, self.recorded.get(value, UNKNOWN)) for name, value in passed.items())
        return any(
            each.tensor and each.device == CPU and each.rank != 0 and not called(name, LENGTHS)
            for name, each in given
        )

    def _moves_inputs(self, module: Value) -> bool:
        """Say whether the forward of a class in this file moves anything; another type,
        ``x.to(torch.long)``, is no other place."""
        if not isinstance(module.node, cst.ClassDef):
            return False
        forward = self.values.scopes.method(module.node, "forward")
        return forward is None or any(
            method_called(call) in _MOVES
            and not any(self.values.names.name(e.value) in _TYPES for e in call.args[:1])
            for call in self.values.tree.within(forward, cst.Call)
        )

    # -- methods -----------------------------------------------------------------------------------

    def _method(
        self, node: cst.Call, func: cst.Attribute, receiver: Value, args: list[Value]
    ) -> Value:
        name = func.attr.value
        text = dotted_text(func.value) if name == "update" and receiver.keyed is not None else None
        if text is not None:
            self.env[text] = receiver.but(keyed=None)
        # Of a network's forward `module_call` says it, which knows where the network lives.
        runs = receiver.kind == "module" and name == "forward"
        local = None if runs else self._local(node) or self._elsewhere(func, receiver)
        local = local or self.by_library(library.method_name(receiver, name), node, args, receiver)
        if local is not None:
            untold = local.kind == "iterator" and local.item in (None, UNKNOWN)
            return args[0] if untold and name in PASS_THROUGH and args else local
        if receiver.kind == "accumulated":
            receiver = self._no_number(func, receiver)
        if receiver.kind in ("tensor", "batch"):
            return methods.tensor_method(self, receiver, name, node, args)
        if receiver.kind == "module":
            return self._module_method(node, receiver, name, args)
        found = methods.plain_method(self, receiver, name, node, args)
        if found is not None:
            return found
        if (method := self._of_class(receiver, name)) is not None:
            return self.ran(self.values.summary(method, self.budget - 1))
        if name == "prepare" and args:
            items = tuple(a.but(device=ACCEL) for a in args)
            return Value("tuple", items=items) if len(items) > 1 else items[0]
        if name in PASS_THROUGH and args:
            return args[0]
        called = self._method_value(node, func, receiver)
        called = self.recorded[func] = _moved_network(called, args)
        if called.kind == "module":
            return self.module_call(node, called, args)
        found = self._of_itself(node, func, args)
        if found != UNKNOWN:
            return found
        return methods.by_method_name(self, receiver, name, node, args)

    def _no_number(self, func: cst.Attribute, total: Value) -> Value:
        """Return the tensor that a sum is whose method is called: numbers have no such methods. It
        is one from its backward pass on."""
        tensor = total.but(kind="tensor")
        if func.attr.value == "backward" and isinstance(func.value, cst.Name):
            self.env[func.value.value] = tensor
        return tensor

    def _method_value(self, node: cst.Call, func: cst.Attribute, receiver: Value) -> Value:
        """Return what a call finds under a name of an object. What its name alone makes a model is
        none where it gets nothing to run on: ``combo_box.model().item(0)``."""
        found = self.attribute_of(func, receiver)
        by_name = found.kind == "module" and found.node is None and found.name is None
        gets = by_name and not node.args and dotted_text(func.value) != "self"
        return UNKNOWN if gets else found

    def _of_itself(self, node: cst.Call, func: cst.Attribute, args: list[Value]) -> Value:
        """Return what a method of the network gives that `self` is, where its class in this file
        has no such method."""
        own = self._own_network(func) if dotted_text(func.value) == "self" else None
        if own is None or self._of_class(own, func.attr.value) is not None:
            return UNKNOWN
        if func.attr.value in _WEIGHTS:
            return self._module_method(node, own, func.attr.value, args)
        return _of_unseen_part(own, args)

    def _own_network(self, node: cst.CSTNode) -> Value | None:
        """Return the network in whose class a node stands, which its methods call `self`."""
        cls = self.values.scopes.tree.class_of(node)
        if cls is None or not self.values.scopes.is_module(cls):
            return None
        return Value("module", node=cls, name=cls.name.value)

    def _elsewhere(self, func: cst.Attribute, receiver: Value) -> Value | None:
        """Return what a method gives that a class in another file of the project defines."""
        outside = self.values.names.outside
        cls = self.values.scopes.tree.class_of(func) if dotted_text(func.value) == "self" else None
        if cls is not None and self.values.scopes.method(cls, func.attr.value) is None:
            found = outside.method(self.values.scopes.family_outside(cls), func.attr.value)
        else:
            found = self._of_classes(receiver, func.attr.value)
            if found.tensor and receiver.kind == "module" and called(func.attr.value, MODEL):
                # What ``net.encode(x)`` gives lies where the network does.
                found = found.but(device=found.device or receiver.device or ACCEL)
        return self.ran(found) if found.kind != "?" else None

    def _of_classes(self, receiver: Value, name: str) -> Value:
        """Return what a method gives that the class of an object has in another file, or each of
        the classes of which it may be one."""
        values = self.values
        if CLASSES not in (receiver.name or ""):
            return values.names.outside.method(values.family(receiver), name)
        found = []
        for cls in (receiver.name or "").split(CLASSES):
            here = values.scopes.class_called(cls)
            method = values.scopes.method(here, name) if here is not None else None
            found.append(
                values.summary(method, self.budget - 1)
                if method is not None
                else values.names.outside.method(values.family(receiver.but(name=cls)), name)
            )
        return join_all(found)

    def _is_trained(self, name: str) -> bool | None:
        """Say whether what a method of a module yields has a gradient; not known of parameters in a
        file that sets it."""
        return None if name == "parameters" and self.values.freezes else name == "parameters"

    def _begun_here(self, node: cst.Call) -> bool:
        """Say whether a method is called of a network that the code at hand has bound to a name and
        not moved, outside of loops: it may move later."""
        match node.func, self.owner:
            case cst.Attribute(cst.Name(name)), owner:
                given = owner.params.params if isinstance(owner, cst.FunctionDef) else ()
                bound = name in self.env and not any(is_name(each.name, name) for each in given)
                return bound and not self.values.tree.loops(node)
        return False

    def _module_method(self, node: cst.Call, module: Value, name: str, args: list[Value]) -> Value:
        if name in ("to", "cuda", "cpu"):
            where = {"cuda": CUDA, "cpu": CPU}.get(name) or methods.target_device(self, node, args)
            return module.but(device=where or module.device)
        if name == "type" and args and (meant := meant_type(args[0])) is not None:
            return module.but(device=meant.device)
        if name in _CHAINS:
            return module
        home: str | None = CPU if module.device == CPU else ACCEL
        if module.device is None and self._begun_here(node):
            home = None
        weight = Value("tensor", device=home, origin="param")
        if name == "state_dict" and home == CPU:
            return Value("dict", item=weight)
        if name in ("parameters", "buffers"):
            return Value("iterator", item=weight.but(grad=self._is_trained(name)))
        if name in ("named_parameters", "named_buffers"):
            return Value("iterator", item=Value("tuple", items=(STR, weight)))
        if name in ("forward", "generate", "__call__", "module") or (
            module.node is None and (name.startswith("forward_") or name in _FEATURES)
        ):
            return self.module_call(node, module, args)
        if (method := self._of_class(module, name)) is not None:
            return self.ran(self.values.summary(method, self.budget - 1))
        if self.values.is_submodule(module, name) and isinstance(node.func, cst.Attribute):
            part = self.recorded[node.func] = self.attribute_of(node.func, module)
            return self.module_call(node, part if part.kind == "module" else Value("module"), args)
        return _of_unseen_part(module, args)


def flags_given(
    function: cst.FunctionDef, call: cst.Call, passed: Mapping[str, cst.BaseExpression]
) -> dict[str, Value]:
    """Return the flags of a function that a call gives as they are written out, or leaves to such
    defaults."""
    given = {param.name.value: param.default for param in parameters_of(function)}
    given = {**({} if has_star(call) else given), **passed}
    words = ((name, each.value) for name, each in given.items() if isinstance(each, cst.Name))
    return {name: TRUTHS[word] for name, word in words if word in TRUTHS}


def _moved_network(thing: Value, args: list[Value]) -> Value:
    """Return the network that a thing is which was moved to a device and is called, whatever made
    it."""
    moved = thing.kind == "?" and thing.device in (CUDA, ACCEL) and thing.origin is None
    return Value("module", device=thing.device) if moved and args else thing


def _of_unseen_part(module: Value, args: list[Value]) -> Value:
    """Return what a part of a network that is not seen makes of tensors: a thing that lives where
    they do, whatever it is."""
    given = [a for a in args if a.tensor]
    if not given or not isinstance(module.node, cst.ClassDef):
        return UNKNOWN
    like = mix(given)
    return Value("?", device=like.device, origin=like.origin)


def _with_state(output: Value, layer: str | None) -> Value:
    """Return what a layer of torch gives beside its output: recurrent ones their state, which is of
    two tensors in an LSTM."""
    given = _GIVEN.get((layer or "").removeprefix("torch.nn."))
    pair = Value("tuple", item=output, items=(output, output))
    if given == "pair":
        return Value("tuple", items=(output, pair))
    return pair if given is not None else output


def _is_loss(module: Value, node: cst.Call) -> bool:
    name = module.name or ""
    return name == "loss" or name.endswith("Loss") or "criterion" in (dotted_text(node.func) or "")
