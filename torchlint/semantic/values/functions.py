"""What functions of torch, NumPy and the builtins give, by their dotted names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.tree import DISPLAYS, keyword_of
from torchlint.semantic.elsewhere import Definition
from torchlint.semantic.torch import arrays, dtypes, ops
from torchlint.semantic.torch.names import DATALOADER, WRAPPERS
from torchlint.semantic.values import library, methods, plain, sharing, unmoved
from torchlint.semantic.values.tensor_types import tensor_type
from torchlint.semantic.values.value import (
    ACCEL,
    BOOL,
    CPU,
    CUDA,
    FLOAT,
    INT,
    META,
    NDARRAY,
    NONE,
    NUMBER,
    OPTIONS,
    PLAIN,
    STR,
    UNKNOWN,
    Value,
    computed_on,
    graph_of,
    join_all,
    joined,
    mix,
    ungraphed,
)

if TYPE_CHECKING:
    from torchlint.semantic.values.facts import Values

PASS_THROUGH = frozenset(
    (
        "tqdm trange track progress_bar islice log_every prefetch autonotebook cycle chain progress"
    ).split()
)
_NO_TENSORS = frozenset(
    """cuda utils backends distributed profiler jit multiprocessing hub onnx amp autograd compiler
    accelerator mps xpu overrides testing random""".split()
) | {""}  # the module itself, called
_SEVERAL = ops.having("several")
_TRUTHS = ops.dotted("truth")
_PREDICATES = ("is_", "has_", "are_", "can_", "may_", "should_", "supports_")
"""How the names of functions begin that give a Python truth value, whatever they are asked about;
`torch.isnan` and its like are spelled in one word, and give a tensor."""
_WHOLE = ops.having("factory", "whole")
_ROWS = ops.having("factory", "flat")
_SIZES = ops.having("factory", "only-sizes")
_OF_ANYTHING = ops.dotted("from-data", "own-dtype", "lists")
_SEVERAL_WITH_MORE = ops.having("several-with-more")
_BUILTINS = {
    "len": INT,
    "int": INT,
    "float": FLOAT,
    "bool": BOOL,
    "str": STR,
    "repr": STR,
    "isinstance": BOOL,
    "hasattr": BOOL,
    "round": NUMBER,
    "print": NONE,
    "id": INT,
    "ord": INT,
    "callable": BOOL,
    "input": STR,
    "all": BOOL,
    "any": BOOL,
    "chr": STR,
    "hex": STR,
    "hash": INT,
    "issubclass": BOOL,
    "open": PLAIN,
    "format": STR,
}


_EMPTY = {
    "list": Value("list", items=()),
    "dict": Value("dict", keyed=()),
    "tuple": Value("tuple", items=()),
}


class Functions:
    """The part of the evaluator that knows functions by name, devices, and the elements of
    containers."""

    values: Values
    owner: cst.CSTNode
    at: cst.CSTNode
    """The statement, or the header, that is evaluated."""
    budget: int
    env: dict[str, Value]
    recorded: dict[cst.CSTNode, Value]
    plain: bool

    def eval(self, node: cst.CSTNode) -> Value:
        """Evaluate an expression; the evaluator of expressions knows how."""
        raise NotImplementedError

    # -- functions by dotted name ------------------------------------------------------------------

    def dotted_call(self, name: str, node: cst.Call, args: list[Value]) -> Value | None:
        known = self.by_library(name, node, args) or plain.given_by(name)
        if known is not None:
            return known
        root, _, rest = name.partition(".")
        last = name.rpartition(".")[2]
        if name == "builtins.dict" and args and all(arg.keyword for arg in node.args):
            named = zip(map(keyword_of, node.args), args, strict=True)
            return Value("dict", item=join_all(args), keyed=tuple(sorted(named)))
        if root == "builtins":
            return self._builtin(rest, args)
        if name == "torch.nn.utils.rnn.pad_packed_sequence":
            # The lengths are on the CPU (docs of the function), wherever the sequences are.
            padded = Value("tensor", device=args[0].device if args else None)
            lengths = Value("tensor", device=CPU, dtype="int", rank=1)
            return Value("tuple", items=(padded, lengths))
        if root == "torch":
            return self._torch(name, last, node, args)
        if root == "numpy":
            shape = arrays.DRAWS.get(name)
            alone = shape is not None and len(args) <= shape and not has_keyword(node, "size")
            return NUMBER if alone and all(a.kind == "number" for a in args) else NDARRAY
        if name == "collections.defaultdict" or (name == "collections.OrderedDict" and not args):
            return Value("dict")
        if name in ("copy.deepcopy", "copy.copy") and args:
            return args[0]
        if name == "random.choice" and args:
            return self.element(args[0])
        if (
            last in PASS_THROUGH
            and args
            and root in ("tqdm", "itertools", "rich", "fastprogress", "torchlint")
        ):
            if args[0].tensor:
                return Value("iterator", item=self.element(args[0]))
            return args[0]
        return None

    def by_library(
        self, name: str, node: cst.Call, args: list[Value], receiver: Value = UNKNOWN
    ) -> Value | None:
        """Return what a call gives by the row of its dotted name; None where there is none, or the
        project defines what is called so."""
        found = library.given(name, node, args, receiver, self.values.tree.nodes(cst.Arg))
        if found is None or self.values.names.outside.find(name) is not None:
            return None
        if found.device == CPU and self.values.default_device:
            found = found.but(device=None)
        return self.without_graph(found)

    def _builtin(self, name: str, args: list[Value]) -> Value | None:
        if name in _BUILTINS:
            return _BUILTINS[name]
        if name == "range":
            return Value("iterator", item=INT, name="range")
        if not args:
            return _EMPTY.get(name)
        first = args[0]
        if name == "type" and len(args) == 1:
            return Value("class")
        if name in ("getattr", "vars") and first.kind == "plain":
            return OPTIONS
        if name == "enumerate":
            return Value(
                "iterator",
                item=Value("tuple", items=(INT, self.element(first))),
                name=_passed(first),
            )
        if name == "zip":
            return Value(
                "iterator",
                item=Value("tuple", items=tuple(self.element(a) for a in args)),
                name=_passed(*args),
            )
        if name in ("list", "tuple", "sorted", "reversed", "iter", "set"):
            kind = (
                "iterator"
                if name in ("iter", "reversed")
                else "tuple"
                if name == "tuple"
                else "list"
            )
            kept = first.items if name in ("list", "tuple") else None
            return Value(kind, item=self.element(first), items=kept, name=_passed(first))
        if name == "next":
            return self.element(first)
        if name in ("sum", "max", "min", "abs"):
            return self._reduced(name, args)
        return None

    def _reduced(self, name: str, args: list[Value]) -> Value:
        if name in ("max", "min") and len(args) > 1:
            return mix(args) if any(a.tensor for a in args) else join_all(args)
        if args[0].tensor:
            return args[0].but(rank=None)
        if args[0].kind == "plain":
            return PLAIN
        return UNKNOWN if name != "abs" and args[0].item is None else (args[0].item or args[0])

    def _torch(self, name: str, last: str, node: cst.Call, args: list[Value]) -> Value | None:
        if name in ops.FACTORIES:
            return self._factory(last, node, args)
        if name in ops.DATA_FACTORIES:
            return self._from_data(name, node, args)
        if name in ops.LOSS_FUNCTIONS:
            return self._loss(node, args)
        if name == "torch.device":
            where = (self.device_of(args[0]) if args else None) or ACCEL
            written = args[0].name if args and args[0].kind == "str" else None
            return Value("device", device=where, name=written if where == ACCEL else None)
        if name in ("torch.nn.Parameter", "torch.nn.Buffer"):
            data = args[0] if args and args[0].tensor else Value("tensor")
            # A module takes it along; asked for something at once, it lies where its data do.
            above = self.values.tree.parents.get(node)
            alone = isinstance(above, cst.Attribute) or unmoved.kept_apart(self.values.flow, node)
            kept = data.but(device=data.device if alone else ACCEL, origin="buffer")
            grad = methods.wants_grad(node, 1, otherwise=True)
            return kept if last == "Buffer" else kept.but(origin="param", grad=grad)
        if name.startswith("torch.cuda.") and last.endswith("Tensor"):
            return Value("tensor", device=CUDA, origin="factory")
        if name in ("torch.from_file", "torch.autograd.Variable"):
            file = Value("tensor", device=CPU, grad=False)
            return file if last == "from_file" else _variable(node, args)
        if name in _TRUTHS or last.lstrip("_").startswith(_PREDICATES):
            return BOOL
        if name.startswith("torch.nn.utils.rnn.pack"):
            return Value("packed", device=args[0].device if args else None)
        if last == "clip_grad_norm_":
            return Value("tensor", device=ACCEL, rank=0, origin="model", dtype="float")
        if last[:1].isupper():
            return self._torch_class(name, node, args)
        return self._torch_function(name, last, node, args)

    def stays(
        self, node: cst.Call, cls: cst.ClassDef | None, others: Sequence[Definition] = ()
    ) -> bool:
        """Say whether nothing moves a network that a call makes, no framework either; `cls` is the
        class of this file, where it is one, `others` are those of other files and its bases."""
        values = self.values
        if values.framework or values.scatters or values.default_device:
            return False
        return unmoved.stays(values.flow, node, cls, others)

    def _torch_class(self, name: str, node: cst.Call, args: list[Value]) -> Value:
        if name in WRAPPERS and args and args[0].kind == "module":
            known = isinstance(args[0].node, cst.ClassDef) or ":" in (args[0].name or "")
            if known:  # Its attributes are behind ``.module``; called, it is what it wraps.
                return args[0]
        if name == DATALOADER:
            return Value("loader", node=node, name=name)
        if name.rpartition(".")[2] == "GradScaler":
            return Value("scaler", node=node)
        if name.startswith("torch.nn."):
            where = CPU if self.stays(node, None) else None
            return Value("module", device=where, node=node, name=name)
        if name.startswith("torch.optim.lr_scheduler."):
            return Value("scheduler", node=node, name=name)
        if name.startswith("torch.optim."):
            return Value("optimizer", node=node, name=name)
        return Value("object", node=node, name=name)

    def _torch_function(self, name: str, last: str, node: cst.Call, args: list[Value]) -> Value:
        if name == "torch.autograd.grad":
            # Gradients live where the network's outputs do.
            where = mix([a for a in args if a.tensor]).device or ACCEL
            return Value("tuple", item=Value("tensor", device=where, origin="model"))
        if name == "torch.load":
            to = _keyword(node, args, "map_location") or (args[1] if len(args) > 1 else UNKNOWN)
            # What a file holds as a mapping; a network that is one is moved as such.
            host = self.device_of(to) == CPU
            return Value("?", item=Value("?", device=CPU)) if host else UNKNOWN
        area = name.partition(".")[2].partition(".")[0]
        if name in ops.NO_TENSOR or area in _NO_TENSORS or (area == "nn" and last[:1] == "_"):
            return UNKNOWN
        self.meet(last, sharing.operands(last, node))
        lists = ("list", "tuple")
        operands = [
            a if a.kind not in lists else joined(a.items) if a.items else self.element(a)
            for a in args
        ]
        result = mix([computed_on(each) for each in operands])
        if sharing.takes_several(last) or last in ("max", "min"):
            result = result.but(grad=graph_of(operands))
        several = _several(last, node, args, result)
        if several is not None:
            return self.without_graph(several)
        if (
            last in ops.REDUCTIONS
            and len(args) == 1
            and not has_keyword(node, "dim", "axis", "keepdim")
        ):
            result = result.but(rank=0)
        elif last not in methods.SAME_RANK or area in ("linalg", "nn"):
            result = result.but(rank=None)
        result = result.but(
            dtype=None if has_keyword(node, "dtype") else methods.computed_dtype(result.dtype, last)
        )
        if last in ops.BOOL_METHODS:
            result = result.but(dtype="bool", grad=False)
        elif last in ops.INT_METHODS:
            result = result.but(dtype="int", grad=False)
        return self.without_graph(result)

    def meet(self, name: str, operands: Iterable[cst.CSTNode]) -> None:
        """Note that what an operation takes lies on one device, for the rest of this way."""
        if sharing.takes_several(name):
            known = [(each, self.recorded.get(each, UNKNOWN)) for each in operands]
            self.env.update(sharing.shared(name, known))

    def _factory(self, last: str, node: cst.Call, args: list[Value]) -> Value:
        device = _keyword(node, args, "device")
        if device is not None and device.kind != "none":
            where = self.device_of(device)
        elif last.endswith("_like"):
            where = args[0].device if args else None
        elif last == "normal" and any(each.kind in ("tensor", "?") for each in args[:2]):
            where = mix(args[:2]).device  # Drawn where its mean and its deviation are.
        else:
            where = None if self.values.default_device else CPU
        counted = last in _WHOLE
        whole = (
            counted
            and not has_keyword(node, "dtype")
            and all(a.dtype == "int" for a in args if a.kind == "number")
        )
        given = _keyword(node, args, "dtype")
        dtype = (
            dtypes.KINDS.get(given.name or "") if given is not None else "int" if whole else None
        )
        rank = 1 if last in _ROWS else _number_of_sizes(node, last in _SIZES)
        grad = methods.wants_grad(node, len(node.args), otherwise=False)
        return Value(
            "tensor", device=where, dtype=dtype, rank=rank, origin="factory", grad=grad, node=node
        )

    def _from_data(self, name: str, node: cst.Call, args: list[Value]) -> Value:
        device = _keyword(node, args, "device")
        first = args[0] if args else UNKNOWN
        if device is not None and device.kind != "none":
            where = self.device_of(device)
        elif name in _OF_ANYTHING and first.kind in ("tensor", "?"):
            where = first.device
        else:
            where = None if self.values.default_device else CPU
        rank = 0 if first.kind in ("number", "bool") and name == "torch.tensor" else None
        old = tensor_type(name)
        return Value(
            "tensor",
            device=where,
            rank=rank,
            dtype=old.dtype if old is not None else first.dtype if rank == 0 else None,
            origin="factory",
            grad=methods.wants_grad(node, len(node.args), otherwise=False),
            node=node,
        )

    def _loss(self, node: cst.Call, args: list[Value]) -> Value:
        self.meet("cross_entropy", [arg.value for arg in node.args[:2]])
        # A fourth positional argument may be ``reduce`` or ``reduction``.
        reductions = [arg.value for arg in node.args if keyword_of(arg) == "reduction"]
        whole = any(
            isinstance(each, cst.SimpleString) and each.evaluated_value in ("mean", "sum")
            for each in reductions
        )
        told = has_keyword(node, "reduction", "reduce", "size_average") or len(node.args) > 3
        rank = 0 if whole or not told else None
        found = mix(args)
        # Beside a tensor of the host nothing may lie elsewhere.
        host = any(each.tensor and each.device == CPU and each.rank != 0 for each in args)
        where = CPU if host and found.device is None else found.device
        return found.but(
            device=where, rank=rank, dtype="float", origin="loss", grad=self.graph(node)
        )

    def graph(self, node: cst.CSTNode) -> bool | None:
        held = self.values.scopes.lexical_no_grad(node)
        if held is None:
            return None if self.values.scopes.conditional_grad(node) else True
        return not held

    def without_graph(self, result: Value) -> Value:
        """Return what an operation gives: without a graph where the text says ``no_grad``."""
        return result.but(grad=False) if result.grad and self._graphless() else result

    def ran(self, result: Value) -> Value:
        """Return what a function of the project gives. Where the text around the call says
        ``no_grad``, only what it hands on can have a graph: that is not known."""
        return ungraphed(result, None) if self._graphless() else result

    def _graphless(self) -> bool:
        """Say whether the text around the statement at hand says ``no_grad``."""
        known = self.values.graphless
        if self.at not in known:
            known[self.at] = self.values.scopes.lexical_no_grad(self.at) is True
        return known[self.at]

    def written(self, node: cst.CSTNode, holder: Value, value: Value) -> None:
        """Note that a tensor takes over the graph of what is written into it."""
        text, graph = dotted_text(node), graph_of((holder, value))
        gains = holder.grad is False and graph is not False
        if text is not None and gains and not self._graphless():
            self.env[text] = holder.but(grad=graph)

    # -- devices and elements ----------------------------------------------------------------------

    def device_of(self, value: Value) -> str | None:
        """Return the device that a device-like argument names, or None where it names none for
        certain."""
        if value.kind == "device" or (value.kind == "str" and value.device is not None):
            return value.device
        if value.kind == "str" and value.name is not None:
            return (
                CUDA
                if value.name.startswith("cuda")
                else {"cpu": CPU, "meta": META}.get(value.name, ACCEL)
            )
        if value.kind == "number" and value.dtype in ("int", None):
            return CUDA
        if value.tensor:
            return value.device
        return None

    def element(self, value: Value) -> Value:
        """Return what iterating over a value gives."""
        if value.kind == "loader":
            return Value(
                "batch", device=self.values.batch_device(value), origin="batch", loose=True
            )
        if value.kind == "batch":
            return Value("tensor", device=value.device, origin="batch", loose=True, grad=False)
        if value.kind in ("tensor", "accumulated"):
            rank = value.rank - 1 if value.rank else None
            return (
                value.but(rank=rank, node=None)
                if not value.loose or value.origin != "batch"
                else value
            )
        if value.kind == "ndarray":
            return NDARRAY
        if value.kind == "shape":
            return INT
        if value.kind == "plain":
            return PLAIN
        if value.items:
            return join_all(list(value.items))
        return value.item if value.item is not None else UNKNOWN


def _several(last: str, node: cst.Call, args: list[Value], result: Value) -> Value | None:
    """Return what a function gives that gives several tensors, or one where it compares two; None
    of any other."""
    if last in _SEVERAL or (last in _SEVERAL_WITH_MORE and len(args) > 1):
        if last in ("max", "min") and node.args[1].keyword is None:
            if args[1].tensor:
                return result
            if args[1].kind not in ("number", "bool"):
                return Value("?", device=result.device)  # of two, or along a dimension
        return methods.several(result.but(rank=None), last)
    if last.startswith("_foreach_"):
        return Value("tuple", item=result.but(rank=None))
    if _asks_for_several(last, node):
        return methods.several(result.but(dtype="int", grad=False, rank=None), last)
    return None


def _asks_for_several(name: str, node: cst.Call) -> bool:
    """Say whether the arguments ask for several tensors where there may be one."""
    asked = methods.as_tuple(node) or (name == "where" and len(node.args) == 1)
    return name in methods.ON_REQUEST and asked


def _passed(*values: Value) -> str | None:
    return "loader" if any(v.kind == "loader" or v.name == "loader" for v in values) else None


def _keyword(node: cst.Call, args: list[Value], name: str) -> Value | None:
    for arg, value in zip(node.args, args, strict=True):
        if keyword_of(arg) == name:
            return value
    return None


def _number_of_sizes(node: cst.Call, sizes: bool) -> int | None:
    """Return how many sizes a factory is given: ``torch.zeros(2, n)``, ``torch.full((2, n), 0.0)``;
    `sizes` says whether all positional arguments are."""
    given: Sequence[cst.Arg | cst.BaseElement] = [a for a in node.args if a.keyword is None]
    if given and isinstance(given[0].value, DISPLAYS):
        given, sizes = given[0].value.elements, True
    elif len(given) < 2 and not (given and isinstance(given[0].value, cst.Integer)):
        return None  # ``torch.zeros(n)``: a number, or a shape
    stars = any(
        isinstance(each, cst.StarredElement) or (isinstance(each, cst.Arg) and each.star)
        for each in given
    )
    return len(given) if sizes and not stars else None


def _variable(node: cst.Call, args: list[Value]) -> Value:
    if not args:
        return UNKNOWN
    return args[0].but(grad=methods.wants_grad(node, 1, otherwise=args[0].grad))


def has_keyword(node: cst.Call, *names: str) -> bool:
    return any(arg.star == "**" or keyword_of(arg) in names for arg in node.args)
