"""The settings of a loader: which it lacks, and what its file would write for them, the file's own
words for the number of workers and for pinned memory."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.calls import arguments_of, keyword_argument
from torchlint.semantic.code.flow import call_sites, reads_of, writes_of
from torchlint.semantic.code.imports import torch_name
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.parsed_arguments import options_added
from torchlint.semantic.code.scopes import base_names
from torchlint.semantic.code.tree import (
    COMPREHENSIONS,
    LOOPS,
    components,
    is_name,
    is_zero,
    parameters_of,
)
from torchlint.semantic.code.wording import Wording
from torchlint.semantic.data.datasets import cuda_samples, sample_cost
from torchlint.semantic.data.graphs import loads_graphs
from torchlint.semantic.data.loader_calls import derives, makes_loader, pins_memory
from torchlint.semantic.data.loader_flow import consumers_of, gives_one_batch, loader_loops
from torchlint.semantic.data.loaders import (
    batches_go_to,
    feeds_device,
    loader_feeds,
    moves_batches,
    nobody_pins,
)
from torchlint.semantic.device.new_memory import in_new_memory
from torchlint.semantic.device.transfers import is_network_moved, transfer_of
from torchlint.semantic.module import Module
from torchlint.semantic.project.asked import said_somewhere
from torchlint.semantic.question import question
from torchlint.semantic.torch.names import DATALOADER
from torchlint.semantic.torch.spelling import OPTIONS, WORKERS, called
from torchlint.semantic.values import definitions_behind
from torchlint.semantic.values.accelerator import lightning_trainers
from torchlint.semantic.values.apple import only_apple
from torchlint.semantic.values.inferred import framework_moves_batches, inferred

_WINDOWS = regex(r"""\b[rR]['"][A-Za-z]:\\\w|['"][A-Za-z]:(\\\\|/|\\(?![nrtabfv0x]))\w""")
"""A path of Windows in quotes."""
_AVAILABLE = "torch.cuda.is_available"
_BRINGS = regex(r"\bfor [^\n]*\bin\b[^\n]*[lL]oader\b[^\n]*:\n(?:[^\n]*\n){0,4}[^\n]*\.(to|cuda)\(")
_HOOKS = ("train_dataloader", "val_dataloader")
_EVERY_FEW_EPOCHS = regex(r"check_val_every_n_epoch['\"]?\s*[=:](?!=)\s*(?!(1|None)\b)")

_SETTER = regex(r"(set|update|reset|resample|(re)?shuffle|refresh|advance|step|next)(_|[A-Z]|$)")
"""Methods that change an object from one epoch to the next."""
_SETS_DATASET = Wording(
    regex(
        rf"(?<!cfg|opt)(?<!conf|args|opts)(?<!config)(?<!hparams)"
        rf"\.dataset\.(\w+[ \t]*=(?!=)|{_SETTER.pattern}\w*\()"
    ),
    (".dataset.",),
)
_FETCHES = ("__getitem__", "__iter__", "__next__")


@question(
    yes="the file says `{answer}` for the number of workers",
    no="the file has no word for the number of workers",
)
def workers_word(module: Module, loader: cst.Call) -> cst.BaseExpression | None:
    """Return what the file writes for the number of workers, where it can be read at a loader:
    another loader's, a parameter, a constant, an option; None for nothing."""
    for word in (*_given_elsewhere(module, loader, "num_workers"), *_named_workers(module, loader)):
        if not is_zero(word):
            return word
    return None


@question(yes="`{answer}` says whether to pin", no="nothing says whether to pin")
def pin_word(module: Module, loader: cst.Call) -> cst.BaseExpression:
    """Return what the file would write for ``pin_memory``: what another loader is given, the file's
    own name for whether there is a GPU, else the question itself."""
    words = (*_given_elsewhere(module, loader, "pin_memory"), *_flags(module, loader))
    home, cls = module.scope(loader), module.class_of(loader)
    found = next(
        (
            word
            for word in words
            if not is_name(word, "False", "None")
            # Elsewhere it may warn where this loader does not: without a GPU.
            and (
                not is_name(word, "True")
                or module.scope(word) is home
                or (cls is not None and module.class_of(word) is cls)
            )
        ),
        None,
    )
    if found is not None:
        return found
    torch = torch_name(module)
    return cst.parse_expression(f"{torch}.cuda.is_available()")


def _given_elsewhere(
    module: Module, loader: cst.Call, setting: str
) -> Iterator[cst.BaseExpression]:
    """Yield what other loaders of the file are given, those of the same function first."""
    others = [call for call in module.nodes(cst.Call) if call is not loader]
    home = module.function(loader)
    for call in sorted(others, key=lambda other: module.function(other) is not home):
        if makes_loader(module, call):
            value = arguments_of(module, call, DATALOADER).value(setting)
            if value is not None and _readable(module, value, loader):
                yield value


def _named_workers(module: Module, loader: cst.Call) -> Iterator[cst.BaseExpression]:
    """Yield the names, attributes and items called like a number of workers that can be read at a
    loader."""
    function = module.function(loader)
    if function is not None:
        params = parameters_of(function)
        yield from (param.name for param in params if called(param.name.value, WORKERS))
    for assign in module.nodes(cst.Assign):
        target = assign.targets[0].target
        idle = isinstance(assign.value, cst.Integer) and assign.value.value == "0"
        if not idle and called(_last_word(target), WORKERS) and _readable(module, target, loader):
            yield target
    for read in module.nodes(cst.Attribute, cst.Subscript):
        if called(_last_word(read), WORKERS) and _readable(module, read, loader):
            yield read
    for option, root in _options(module, loader):
        if called(option, WORKERS):
            yield cst.Attribute(cst.Name(root), cst.Name(option))


def _options(module: Module, loader: cst.Call) -> Iterator[tuple[str, str]]:
    """Yield the options that the file's parser has, each with the name for all options that is
    read in the function of a loader."""
    scope: cst.CSTNode = module.scope(loader)
    parsed = {
        _last_word(write.targets[0].target)
        for write in module.nodes(cst.Assign)
        if isinstance(write.value, cst.Call) and _last_word(write.value.func) == "parse_args"
    }
    roots = [name for name in parsed if _is_bound_before(module, scope, name, loader)]
    for option, _ in options_added(module) if len(roots) == 1 else ():
        yield option, roots[0]


@question(yes="it is 0 unless it is given", no="it is not known to be 0 by default")
def is_zero_unless_given(module: Module, word: cst.BaseExpression) -> bool:
    """Say whether an option of the file's parser is 0 by default."""
    added = [call for option, call in options_added(module) if option == _last_word(word)]
    return isinstance(word, cst.Attribute) and any(
        isinstance(default := keyword_argument(module, call, "default"), cst.Integer)
        and default.value == "0"
        for call in added
    )


def _is_bound_before(module: Module, scope: cst.CSTNode, name: str, loader: cst.Call) -> bool:
    """Say whether a function binds or reads a name before it makes a loader, or takes it."""
    places = (*writes_of(module, scope, name), *reads_of(module, scope, name))
    given = isinstance(scope, cst.FunctionDef) and name in _params(scope)
    return given or any(module.before(place, loader) for place in places)


def _flags(module: Module, loader: cst.Call) -> Iterator[cst.BaseExpression]:
    """Yield the file's names for whether there is a GPU that can be read at a loader."""
    for assign in module.nodes(cst.Assign):
        target = assign.targets[0].target
        if _asks(module, assign.value) and _readable(module, target, loader):
            yield target


def _asks(module: Module, value: cst.BaseExpression) -> bool:
    """Say whether a value is that of ``torch.cuda.is_available()``, maybe and something else."""
    return any(module.called(each) == _AVAILABLE for each in components(value, cst.And))


def _last_word(node: cst.BaseExpression) -> str:
    """Return the last name of ``a.b.c`` or ``a["c"]``; nothing for others."""
    match node:
        case cst.Name(name) | cst.Attribute(attr=cst.Name(name)):
            return name
        case cst.Subscript(slice=[cst.SubscriptElement(cst.Index(cst.SimpleString() as text))]):
            return str(text.raw_value)
    return ""


def _root_name(node: cst.BaseExpression) -> cst.Name | None:
    """Return the name that ``a.b["c"]`` starts with; None for what is made otherwise."""
    at = node
    while isinstance(at, (cst.Attribute, cst.Subscript)):
        if isinstance(at, cst.Subscript) and not _last_word(at):
            return None
        at = at.value
    return at if isinstance(at, cst.Name) else None


def _readable(module: Module, word: cst.BaseExpression, loader: cst.Call) -> bool:
    """Say whether what stands elsewhere in the file means the same at a loader."""
    if isinstance(word, cst.Integer) or is_name(word, "True"):
        return True
    root = _root_name(word)
    if root is None or module.is_within(word, loader):
        return False
    there, here = module.function(word), module.function(loader)
    made = isinstance(module.parent(word), cst.AssignTarget)
    if there is here:
        given = root.value in _params(here) and root.value != "self" and not made
        return given or (module.before(word, loader) and _same_block(module, word, loader))
    if root.value == "self":
        mine = module.class_of(word) is module.class_of(loader) is not None
        return mine and there is not None and (not made or there.name.value == "__init__")
    if root.value in _params(here):
        return not made and root.value in _params(there) and called(root.value, OPTIONS)
    own = there is not None and (
        root.value in _params(there) or writes_of(module, there, root.value)
    )
    return not own and _is_global(module, root.value, here)


def _params(function: cst.FunctionDef | None) -> set[str]:
    return {param.name.value for param in parameters_of(function)} if function else set()


def _same_block(module: Module, word: cst.CSTNode, loader: cst.Call) -> bool:
    """Say whether the statement of a word runs whenever that of a loader below it does."""
    line: cst.CSTNode | None = module.statement(word)
    block = module.parent(line)
    return block is not None and module.is_within(loader, block)


def _is_global(module: Module, name: str, here: cst.FunctionDef | None) -> bool:
    """Say whether a function of the file may read a name of its top level, bound there once and
    always."""
    if here is None or writes_of(module, here, name):
        return False
    writes = writes_of(module, module.root, name)
    top = [
        write
        for write in writes
        if module.function(write) is None
        and module.class_of(write) is None
        and module.parent(module.statement(write)) is module.root
    ]
    if not writes:  # An import may bind it.
        return bool(module.names.bindings(name, here)[1])
    return len(top) == len(writes) == 1 or bool(reads_of(module, here, name))


# -- what a loader lacks --------------------------------------------------------------------------


@question(
    yes="the loader feeds an accelerator from memory that is not pinned",
    no="the loader pins its memory, or is not known to feed an accelerator",
)
def lacks_pinning(module: Module, node: cst.Call) -> bool:
    """Say whether a loader does not pin its memory, and feeds an accelerator."""
    if pins_memory(module, node) is not False or only_apple(module):
        return False
    pin = arguments_of(module, node, DATALOADER).value("pin_memory")
    if (pin is not None and framework_moves_batches(module)) or cuda_samples(module, node):
        return False
    if _joins_first(module, node) or loads_graphs(module, node) or gives_one_batch(module, node):
        return False
    # Whether a model's loop over the loader moves its batches to the accelerator. Of a loader
    # that leaves this file, costly samples and a file that moves other batches say that it feeds
    # a GPU, and so does a loader beside it that pins. Of a class of loaders those of the whole
    # project do.
    if feeds_device(module, node) is not None:
        return True
    cls = module.class_of(node)
    if cls is not None and derives(module, cls):
        return nobody_pins(module) and said_somewhere(module, _brings_batches)
    feeds = loader_feeds(module, node)
    if feeds in ("train", "eval"):
        return any(moves_batches(module, loop) is not None for loop in loader_loops(module, node))
    if feeds != "unseen":
        return False
    costly = sample_cost(module, node) is True and batches_go_to(module) is not None
    return costly or _beside_one_that_pins(module, node)


def _joins_first(module: Module, node: cst.Call) -> bool:
    """Say whether the loops over a loader bring to the accelerator only what they have made of its
    batches on the host: ``torch.stack(images)`` is in memory that no loader pins."""
    moved = [
        (where, transfer.source)
        for where, loop in consumers_of(module, node)
        for call in where.within(loop, cst.Call)
        if (transfer := transfer_of(where, call)) is not None
        and not is_network_moved(where, transfer.source)
    ]
    return bool(moved) and all(in_new_memory(*each) for each in moved)


def _brings_batches(text: str) -> bool:
    """Say whether a loop over what is called a loader moves something to a device in its first
    lines."""
    return "oader" in text and _BRINGS.search(text) is not None


def _beside_one_that_pins(module: Module, node: cst.Call) -> bool:
    """Say whether the class, or else the function, that makes a loader makes another one whose
    memory is pinned: what takes the batches of the one takes those of the other."""
    home = module.class_of(node) or module.function(node)
    return home is not None and any(
        makes_loader(module, other) and pins_memory(module, other) is True
        for other in module.within(home, cst.Call, nested=True)
    )


_KEEPS_WORKERS = (1, 7)
"""The first torch whose loaders take ``persistent_workers``."""


@question(
    yes="the loader starts its workers anew in each epoch",
    no="the loader keeps its workers, is iterated once, or its dataset may change",
)
def restarts_workers(module: Module, node: cst.Call) -> bool:
    """Say whether a loader does not say that its workers stay, is iterated once per epoch, and has
    a dataset that stays the same; False for a torch that cannot keep them."""
    bound = arguments_of(module, node, DATALOADER)
    if (
        module.target_torch < _KEEPS_WORKERS
        or bound.open
        or bound.value("persistent_workers") is not None
        or "reload_dataloaders_every" in module.text
    ):
        return False
    return (
        not _many(module, node)
        and _is_repeated(module, node)
        and not _mutable(module, node, bound.value("dataset"))
    )


def _many(module: Module, node: cst.Call) -> bool:
    """Say whether a loader is one of many: a loop or a comprehension makes it."""
    return bool(module.loops(node)) or any(
        isinstance(above, COMPREHENSIONS) for above in module.ancestors(node)
    )


def _is_repeated(module: Module, node: cst.Call) -> bool:
    """Say whether the loader is iterated once per epoch: by loops in any file, or by a
    framework."""
    if any(_is_repeated_alone(module, loop, node) for loop in loader_loops(module, node)):
        return True
    function, cls = module.function(node), module.class_of(node)
    if function is not None and cls is not None and function.name.value in _HOOKS:
        if function.name.value == "val_dataloader" and _rarely_validates(module):
            return False
        return any(
            base.endswith(("LightningModule", "LightningDataModule"))
            for base in base_names(module, cls)
        )
    if any(_is_fit(module, call, node) for call in module.nodes(cst.Call)):
        return True
    return _repeated_elsewhere(module, node)


def _repeated_elsewhere(module: Module, node: cst.Call) -> bool:
    """Say whether a loop of another file goes over the loader, and an outer one there repeats it,
    or one here that hands the loader over."""
    far = [(where, loop) for where, loop in consumers_of(module, node) if where is not module]
    for where, loop in far:
        function = where.function(loop)
        sites = call_sites(where, function) if function is not None else []
        if any(where.loops(place) for place in (loop, *sites)):
            return True
    handed = [
        call
        for call in module.nodes(cst.Call)
        if far and any(inferred(module, arg.value).node is node for arg in call.args)
    ]
    return any(_is_repeated_alone(module, call, node) for call in handed)


@question()
def _is_repeated_alone(module: Module, place: cst.CSTNode, node: cst.Call) -> bool:
    """Say whether a loop that does not make the loader too repeats a place, here or around a call
    of its function."""
    for above in module.ancestors(place):
        if isinstance(above, cst.FunctionDef):
            break
        if isinstance(above, LOOPS) and module.is_within(place, above.body):
            return not module.is_within(node, above)
    function = module.function(place)
    if function is None or module.is_within(node, function):
        return False
    sites = call_sites(module, function)
    passed = [
        site
        for site in sites
        if any(inferred(module, arg.value).kind == "loader" for arg in site.args)
    ]
    own = [
        site
        for site in passed
        if any(inferred(module, arg.value).node is node for arg in site.args)
    ]
    return any(
        _is_repeated_alone(module, site, node) for site in (own or ([] if passed else sites))
    )


def _is_fit(module: Module, call: cst.CSTNode, node: cst.Call) -> bool:
    """Say whether a call gives the loader to a framework's trainer."""
    if (
        not framework_moves_batches(module)
        or not isinstance(call, cst.Call)
        or not isinstance(call.func, cst.Attribute)
    ):
        return False
    if call.func.attr.value != "fit":
        return False
    given = [arg for arg in call.args if inferred(module, arg.value).node is node]
    return any(_trains(arg, call) for arg in given) or (
        bool(given) and not _rarely_validates(module)
    )


def _trains(arg: cst.Arg, call: cst.Call) -> bool:
    """Say whether an argument of ``fit(model, train, val)`` is what it trains on."""
    if arg.keyword is not None:
        return arg.keyword.value in ("train_dataloaders", "train_dataloader")
    return not arg.star and list(call.args).index(arg) == 1


def _rarely_validates(module: Module) -> bool:
    """Say whether the trainer, of this file or else of the project, is told to validate in some of
    the epochs alone."""
    if lightning_trainers(module):
        return _in_some_epochs(module.text)
    return said_somewhere(module, _in_some_epochs)


def _in_some_epochs(text: str) -> bool:
    return _EVERY_FEW_EPOCHS.search(text) is not None


def _mutable(module: Module, node: cst.Call, dataset: cst.BaseExpression | None) -> bool:
    """Say whether the dataset may change between epochs: by a method made for that, by code that
    sets its attributes, or as it counts its samples, for which workers that stay count on."""
    if said_somewhere(module, _sets_dataset) or (dataset is not None and _counts(module, dataset)):
        return True
    home, places = module.function(node), list[cst.CSTNode]()
    for each in module.nodes(cst.Attribute):
        of_loader = each.attr.value == "dataset" and module.loops(each)
        if of_loader or (dataset is not None and each.deep_equals(dataset)):
            places.append(each)
    if isinstance(dataset, cst.Name):
        places += reads_of(module, home or module.root, dataset.value)
    return any(
        _is_touched(module, each, anyhow=bool(module.loops(each)))
        for each in places
        if module.loops(each) or module.function(each) is not home
    )


def _counts(module: Module, dataset: cst.BaseExpression) -> bool:
    """Say whether a dataset wants to be told the epoch, or counts the samples that it gives."""
    held = inferred(module, dataset)
    if definitions_behind.method(module, held, "set_epoch") is not None:
        return True
    fetches = (definitions_behind.method(module, held, name) for name in _FETCHES)
    return any(
        (dotted_text(each.target) or "").startswith("self.")
        for found in fetches
        if found is not None
        for each in found[0].within(found[1], cst.AugAssign)
    )


def _sets_dataset(text: str) -> bool:
    return _SETS_DATASET.search(text) is not None


def _is_touched(module: Module, place: cst.CSTNode, *, anyhow: bool) -> bool:
    """Say whether code assigns an attribute or an item of an object, or calls a method of it, where
    not `anyhow` one that is there to change it."""
    part = module.parent(place)
    above = module.parent(part)
    changes = isinstance(above, cst.Call) and above.func is part
    if changes and not anyhow:
        changes = isinstance(part, cst.Attribute) and _SETTER.match(part.attr.value) is not None
    return changes or isinstance(above, (cst.AssignTarget, cst.AugAssign))


@question(
    yes="a script of Windows without a `__main__` guard makes the loader: its workers raise",
    no="no script of Windows without a `__main__` guard is known to make the loader",
)
def spawned_unguarded(module: Module, loader: cst.Call) -> bool:
    """Say whether a file of a project that has paths of Windows makes a loader at its top level, or
    calls the function there that does, without a ``__main__`` guard. Workers are spawned there, and
    run the file again, which raises (docs of multiprocessing, "Safe importing of main module")."""
    function = module.function(loader)
    if function is None:
        unguarded = "__main__" not in module.text
    else:
        makes = functools.partial(_makes_unguarded, function.name.value)
        unguarded = makes(module.text) or module.outside.others_say(makes, near=True) is True
    return unguarded and (
        _of_windows(module.text) or module.outside.others_say(_of_windows) is True
    )


def _of_windows(text: str) -> bool:
    return _WINDOWS.search(text) is not None


def _makes_unguarded(name: str, text: str) -> bool:
    """Say whether a file calls a function in a line that is not indented."""
    if name not in text or "__main__" in text:
        return False
    return (
        re.search(rf"^(?!def |class )(\w[^\n#]*)?(?<![.\w]){name}\(", text, re.MULTILINE)
        is not None
    )
