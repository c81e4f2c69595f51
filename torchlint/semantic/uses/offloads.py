"""What is put on the host to spare the device's memory, and fetched again later."""

from __future__ import annotations

import re

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.conditions import conditions_around
from torchlint.semantic.code.destinations import Place, destinations
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.scopes import base_names
from torchlint.semantic.code.text import explained
from torchlint.semantic.code.tree import LOOPS, root_of
from torchlint.semantic.device.host_reads import host_copy
from torchlint.semantic.device.transfers import transfer_of
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.torch import ops

_FUNCTIONS = frozenset(("torch.autograd.Function", "torch.autograd.function.Function"))
_HOOKS = "torch.autograd.graph.saved_tensors_hooks"
_SAVES = frozenset(("save_for_backward", "save_for_forward"))
_FREES = ops.dotted("empties") | {"gc.collect"}
_MEMORY = regex(
    r"(^|_)(v?ram|mem|memory|oom|empty_cache|clear_cache|offload"
    r"|(grad(ient)?|param(eter)?|state|weight|buffer)s?_(to|on|in)_cpu)(_|$)",
    re.IGNORECASE,
)
_PEAKS = frozenset(("torch.cuda.reset_peak_memory_stats", "torch.cuda.reset_max_memory_allocated"))
_SHORT = regex(r"OutOfMemoryError$")
_CLEARS = regex(
    r"(^|_)(clear|clean|free|release|empty|flush|purge|reclaim)(_?up)?(_\w+)?_?"
    r"(v?ram|mem|memory|cache|caches|gpu|cuda|device|garbage)(_|$)"
    r"|^_*(clear|clean_?up|free|release|flush|gc|garbage_collect|collect_garbage)$",
    re.IGNORECASE,
)
"""What people call a function that exists to free memory."""
_SAYS_MEMORY = regex(r"memory|\boom\b|fragment|\bleak", re.IGNORECASE)
_SPARES = regex(
    r"\b(gpu|cuda|device)('s)?[ -](memory|ram)\b|\bv-?ram\b|\boom\b|out of memory"
    r"|memory\s+(on|for|of|in)\s+the\s+(gpu|device)\b",
    re.IGNORECASE,
)
"""What a comment says of a copy that spares the device's memory."""
_HOST = regex(r"\b(cpu|host|ram)\b", re.IGNORECASE)
_TOO_MUCH = regex(
    r"\b(sav|spar|limit|avoid|reduc|less|low|out of|fit|exceed|too much)\w*\W+(\w+\W+){0,4}"
    r"(memory|v?ram)\b"
    r"|\boom\b|\bmemory[ -](usage|effici|consum|footprint|issue|reason|limit)",
    re.IGNORECASE,
)
"""What a comment says of a loop that keeps the whole out of memory."""
_STATE = regex(r"state_?dict(\(\))?\.items$", re.IGNORECASE)
_REPLAY = regex(r"replay|(memory|experience)_?(buffer|pool|bank)?$", re.IGNORECASE)
_TAKES = regex(r"_?(push|add|store|append|insert|put|remember|save|record|cache)")
_NEAR = 2
"""Statements above a call whose comments may be about it."""
LITTLE = " Each iteration runs a network many times, so little is gained."
_OFFLOAD = regex(r"off_?load|low_?mem|spare_?mem|save_?mem", re.IGNORECASE)


@question(
    yes="`{0}` is put on the host to spare the device's memory",
    no="nothing says that `{0}` is put on the host to spare the device's memory",
)
def offloads(module: Module, copy: cst.Call) -> bool:
    """Say whether a copy to the host is an offload: named one, or explained as one by a comment,
    kept for the backward pass, fetched again by the same class, or fetched again by a function that
    gives memory back in between; or a part of a network's state, which is put aside as a whole."""
    if _named_so(module, copy) or _in_hook(module, copy):
        return True
    if explained(module, copy, _SPARES) or _documented(module, copy) or _of_state(module, copy):
        return True
    places = destinations(module, copy)
    if any(_kept_for_backward(module, place) for place in places):
        return True
    fetched = (p for p in places if isinstance(p, cst.Call) and transfer_of(module, p) is not None)
    if any(fetched) and _frees(module, copy):
        return True
    return any(_fetched_by_class(module, place) for place in places)


@question(
    yes="memory is the point there: a setting asks for it, it is measured, or saved by offloads",
    no="no setting about memory asks for it, and nothing around it measures memory or offloads",
)
def frees_for_offload(module: Module, call: cst.Call) -> bool:
    """Say whether a call that gives memory back is asked for by a setting about memory, or
    stands in a function that offloads, that measures how much memory is needed, or that exists to
    free memory."""
    function = module.function(call)
    if _named_so(module, call) or (function and _CLEARS.search(function.name.value)):
        return True
    if function is None:
        return False
    if _tries_memory(module, call):
        return True
    copies = (each for each in module.within(function.body, cst.Call) if host_copy(module, each))
    return any(offloads(module, each) for each in copies)


def _tries_memory(module: Module, call: cst.Call) -> bool:
    """Say whether a call stands where one tries how much memory is enough: behind what ran out of
    it, or beside what begins to measure the peak anew."""
    block = module.parent(module.statement(call))
    lines = block.body if isinstance(block, cst.IndentedBlock) else ()
    if any(
        module.name(each.func) in _PEAKS
        for line in lines
        if isinstance(line, cst.SimpleStatementLine)
        for each in module.within(line, cst.Call)
    ):
        return True
    for above in module.ancestors(call):
        if isinstance(above, cst.Try) and not module.is_within(call, above.body):
            caught = (dotted_text(each.type) for each in above.handlers if each.type is not None)
            if any(_SHORT.search(name or "") for name in caught):
                return True
    return False


@question(yes="a comment there speaks of memory", no="no comment there speaks of memory")
def frees_on_purpose(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a comment at a statement, or just above the ones in front of it, says that memory
    is short there."""
    line = module.statement(node)
    block = module.parent(line)
    lines = list(block.body) if isinstance(block, (cst.IndentedBlock, cst.Module)) else []
    at = next((number for number, each in enumerate(lines) if each is line), 0)
    near = [line, *lines[max(at - _NEAR, 0) : at]]
    return any(explained(module, each, _SAYS_MEMORY) for each in near)


@question(
    yes="a comment says that the loop spares memory", no="no comment says that a loop spares memory"
)
def spares_memory(module: Module, loop: cst.CSTNode) -> bool:
    """Say whether a comment above a loop, or above the first line in it, says that all at once
    would take too much memory; also at a loop around it."""
    if _TOO_MUCH.search(module.text) is None:
        return False
    around = (each for each in (loop, *module.loops(loop)) if isinstance(each, LOOPS))
    lines = [line for each in around for line in (each, *each.body.body[:1])]
    above = [each for line in lines for each in getattr(line, "leading_lines", ())]
    said = " ".join(each.comment.value for each in above if each.comment is not None)
    return _TOO_MUCH.search(said) is not None


def _of_state(module: Module, copy: cst.Call) -> bool:
    """Say whether what is copied is one by one the state of a network, ``{k: v.cpu() for k, v in
    net.state_dict().items()}``."""
    names = module.names_in(copy.func)
    return any(
        _STATE.search(module.source_of(call.func))
        for loop in module.ancestors(copy)
        if isinstance(loop, (cst.DictComp, cst.For))
        for over in [loop.for_in if isinstance(loop, cst.DictComp) else loop]
        if not names.isdisjoint(module.names_in(over.target))
        for call in module.within(over.iter, cst.Call)
    )


def _named_so(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a condition, the function or the class is named after the memory it spares."""
    asked = (
        name.value
        for test, needed in conditions_around(module, node)
        if needed
        for name in module.within(test, cst.Name)
    )
    around = (
        above.name.value
        for above in module.ancestors(node)
        if isinstance(above, (cst.FunctionDef, cst.ClassDef))
    )
    return (
        any(map(_MEMORY.search, asked))
        or any(map(_OFFLOAD.search, around))
        or _put_into_replay(module, node)
    )


def _put_into_replay(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a replay memory takes something, which it keeps on the host for long."""
    function, cls = module.function(node), module.class_of(node)
    return (
        function is not None
        and cls is not None
        and _REPLAY.search(cls.name.value) is not None
        and _TAKES.match(function.name.value) is not None
    )


def _documented(module: Module, copy: cst.CSTNode) -> bool:
    """Say whether what is written of the function says that the device's memory is spared on the
    CPU."""
    function = module.function(copy)
    text = (function.get_docstring() if function is not None else None) or ""
    return _SPARES.search(text) is not None and _HOST.search(text) is not None


def _in_hook(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a function is one that packs what autograd saves."""
    function = module.function(node)
    return function is not None and any(
        arg.value.value == function.name.value
        for call in module.nodes(cst.Call)
        if module.name(call.func) == _HOOKS
        for arg in call.args
        if isinstance(arg.value, cst.Name)
    )


def _kept_for_backward(module: Module, place: Place) -> bool:
    """Say whether a value is saved by ``ctx``, the first parameter of an autograd function."""
    cls = module.class_of(place)
    function = module.function(place)
    if cls is None or function is None or not _FUNCTIONS & set(base_names(module, cls)):
        return False
    first = function.params.params[0].name.value if function.params.params else ""
    match place:
        case cst.Call(cst.Attribute(cst.Name(owner), cst.Name(method))):
            return owner == first and method in _SAVES
        case cst.Assign([cst.AssignTarget(cst.Attribute(cst.Name(owner)))]):
            return owner == first
    return False


def _frees(module: Module, node: cst.CSTNode) -> bool:
    """Say whether the function around a node gives memory back."""
    function = module.function(node)
    calls = module.within(function.body, cst.Call) if function is not None else ()
    return any(module.name(call.func) in _FREES for call in calls)


def _fetched_by_class(module: Module, place: Place) -> bool:
    """Say whether a value is stored in an attribute that the same class brings to a device."""
    cls = module.class_of(place)
    match place:
        case cst.Assign([cst.AssignTarget(target)]) if cls is not None:
            held = target.value if isinstance(target, cst.Subscript) else target
            text = dotted_text(held)
            if text is None or not text.startswith("self."):
                return False
            return any(
                _taken_from(transfer.source, text)
                for call in module.within(cls, cst.Call, nested=True)
                if (transfer := transfer_of(module, call)) is not None
            )
    return False


def _taken_from(source: cst.BaseExpression, text: str) -> bool:
    source = root_of(source, cst.Subscript)
    return dotted_text(source) == text
