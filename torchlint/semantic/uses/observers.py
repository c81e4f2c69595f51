"""Who may see or change what the code does not show: names read by a string, patched functions,
hooked operations.

A rewrite that is bit for bit the same at the end can still be told apart in between by code that
looks at another function's frame, at a module's globals or at every operation that torch runs. Such
code has to say so somewhere; these questions look for the words, in this file and, where they can
reach it, in the project's others.
"""

from __future__ import annotations

import re

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.bindings import top_level
from torchlint.semantic.code.flow import reads_of
from torchlint.semantic.code.imports import sole_binding
from torchlint.semantic.code.named_tests import Holds
from torchlint.semantic.code.text import mentions
from torchlint.semantic.code.wording import Wording
from torchlint.semantic.device.possible_waits import synchroniser
from torchlint.semantic.module import Module
from torchlint.semantic.project.asked import reached_elsewhere, said_somewhere
from torchlint.semantic.question import question
from torchlint.semantic.time.grades import Grade
from torchlint.semantic.time.heat import heat_of

_OWN_TENSORS = regex(
    r"__torch_function__|__torch_dispatch__|(Function|Dispatch)Mode|as_subclass"
    r"|_make_(wrapper_)?subclass"
    r"|class\s+\w+\([^)]*(?<!\[)\bTensor\b(?!\])"
)
"""Words without which all tensors are torch's own, and no code sees each operation on them."""
_SCRIPT = Wording(
    regex(r"\bjit\b\W*(script|export|trace|ignore)|\bjit\s+import\b|script_method|ScriptModule"),
    ("jit", "script_method", "ScriptModule"),
)
_CELLS = regex(r"^# ?%%", re.MULTILINE)
_DYNAMIC = ("eval", "exec", "globals", "locals", "compile")


# -- names -----------------------------------------------------------------------------------------


@question(ground=True)
def reads_by_string(module: Module) -> bool:
    """Say whether code of this file can reach any variable by a name that it computes: ``eval``,
    ``globals()``."""
    for name in _DYNAMIC:
        own = isinstance(
            top_level(module, name), (cst.FunctionDef, cst.ClassDef)
        )  # ``def eval(model, loader)``
        if not own and reads_of(module, module.root, name):
            return True
    # ``vars(args)`` reads an object; without an argument, or called under another name, the
    # variables around it.
    for read in (*reads_of(module, module.root, "vars"), *reads_of(module, module.root, "dir")):
        call = module.parent(read)
        if not (isinstance(call, cst.Call) and call.func is read and call.args):
            return True
    return False


def is_interactive(module: Module) -> bool:
    """Say whether the file runs cell by cell, so that its variables outlive an interrupted loop."""
    return module.filename.endswith(".ipynb") or mentions(module, _CELLS)


# -- functions -------------------------------------------------------------------------------------


@question(remember=False)
def has_own_tensors(module: Module) -> bool:
    """Say whether the program has tensors with methods of their own, or a mode that sees every
    call."""
    return said_somewhere(module, _owns_tensors)


def _owns_tensors(text: str) -> bool:
    """Say whether a text makes tensors of its own; what a comment says does nothing."""
    return any(
        "#" not in text[text.rfind("\n", 0, found.start()) + 1 : found.start()]
        for found in _OWN_TENSORS.finditer(text)
    )


@question(ground=True)
def scripted(module: Module) -> bool:
    """Say whether code of the project is compiled by TorchScript, in which a variable has one
    type."""
    return says(module, _SCRIPT)


def is_stored(module: Module, node: cst.CSTNode) -> bool:
    """Say whether an attribute or an element is written or deleted here, not read."""
    child = node
    for above in module.ancestors(node):
        if isinstance(above, (cst.Tuple, cst.List, cst.Element, cst.StarredElement)):
            child = above
            continue
        if isinstance(above, (cst.AssignTarget, cst.AsName, cst.Del)):
            return True
        if isinstance(above, (cst.AnnAssign, cst.AugAssign, cst.For, cst.CompFor)):
            return above.target is child
        return False
    return False


# -- other files -----------------------------------------------------------------------------------


def says(module: Module, pattern: re.Pattern[str] | Wording) -> bool:
    """Say whether this file, or any other of the project, holds a pattern."""
    return said_somewhere(module, Holds(pattern))


def elsewhere(module: Module, pattern: re.Pattern[str] | Wording) -> bool:
    """Say whether another file that may run with this one holds a pattern."""
    return module.outside.others_say(Holds(pattern)) is not False


def elsewhere_reached(module: Module, name: str) -> bool:
    """Say whether another file of the project may read or replace a top-level name of this one."""
    return module.outside.reached(name, module.text, module.filename) is not False or elsewhere(
        module, _LOOKS_AT_MODULES
    )


_LOOKS_AT_MODULES = Wording(
    regex(r"import\s+__main__|\bsys\.modules\b|__main__\.|[\"']__main__[\"']\s*[\])]"),
    ("__main__", "sys.modules"),
)


@question(yes="the new object is only used here", no="the new object is handed to other code")
def stays_here(module: Module, call: cst.BaseExpression) -> bool:
    """Say whether a new object is only seen by its own function or script, which calls its
    methods."""
    name = sole_binding(module, call)
    if name is None:
        return False
    return (
        module.tree.owners[call] is not module.tree.root or reached_elsewhere(module, name) is False
    )


CLOCKS = frozenset(
    """time.time time.time_ns time.perf_counter time.perf_counter_ns time.monotonic
    time.monotonic_ns timeit.default_timer""".split()
)


@question(
    yes="`{answer}` waits for the device in each batch of the evaluation, for a clock",
    no="no batch of an evaluation is known to wait for the device as a clock measures it",
)
def timed_by(module: Module, node: cst.CSTNode) -> cst.Call | None:
    """Return what waits for all work of the device in each iteration of the evaluation around a
    place, which reads a clock: what else it waits for there costs nothing."""
    loop = module.loop(node)
    if loop is None or heat_of(module, node).grade is not Grade.EVAL:
        return None
    calls = list(module.within(loop.body, cst.Call))
    clocks = any(module.name(call.func) in CLOCKS for call in calls)
    return next((call for call in calls if clocks and synchroniser(module, call)), None)


@question(
    yes="the same iteration reads a clock behind it, in `{answer}`",
    no="no clock is read behind it in the same iteration",
)
def clock_after(module: Module, node: cst.CSTNode) -> cst.Call | None:
    """Return the first reading of a clock behind a place in the innermost loop around it: what it
    says changes where the host no longer waits there."""
    loop = module.loop(node)
    calls = module.within(loop.body, cst.Call) if loop is not None else ()
    return next(
        (call for call in calls if module.name(call.func) in CLOCKS and module.before(node, call)),
        None,
    )
