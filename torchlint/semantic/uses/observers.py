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
from torchlint.semantic.module import Module
from torchlint.semantic.project.asked import reached_elsewhere, said_somewhere
from torchlint.semantic.question import question

_MPS = Wording(regex(r"\bmps\b"), ("mps",))
_CUDA = regex(r"cuda|nccl|\brank\b")
_DEVICE = regex(r"\bdevice\b")
_FRAMES = Wording(
    regex(
        r"_getframe|currentframe|_current_frames|\bf_(locals|globals|back)\b"
        r"|\b(tb|gi|cr|ag)_frame\b|\bset(trace|profile)\b"
        r"|\bsys\.monitoring\b|getargvalues|get(generator|coroutine|asyncgen)locals"
        r"|getclosurevars|capture_locals"
        r"|show_locals|set_trace|\bbreakpoint\b|^[^#\n]*(?<!self\.)(?<!def )\bembed\("
        r"|get_(referrers|objects)|numexpr|snoop|pythonapi|py_object",
        re.MULTILINE,
    ),
    tuple(
        """getframe currentframe current_frames tb_frame gi_frame cr_frame ag_frame f_locals
        f_globals f_back settrace setprofile sys.monitoring getargvalues getgeneratorlocals
        getcoroutinelocals getasyncgenlocals getclosurevars capture_locals show_locals set_trace
        breakpoint embed( get_referrers get_objects numexpr snoop pythonapi py_object""".split()
    ),
)
"""Words without which no code can look into the variables of a running function."""
_INTERACT = regex(r"interact(?<=\binteract)\b")
"""One more of those; the order is that which Python searches fast."""
_MODULES = Wording(
    regex(
        r"__main__|\bsys\.modules\b|\bfrom\s+sys\s+import\b|\.modules\s*\[|\.modules\.get\b"
        r"|[\"']modules[\"']"
        r"|\bimportlib\b|\bimport_module\b|__import__|__globals__|\brunpy\b|\bgetmembers\b"
    ),
    (
        "__main__",
        "sys",
        "modules",
        "importlib",
        "import_module",
        "__import__",
        "__globals__",
        "runpy",
        "getmembers",
    ),
)
"""Words without which no code can look at the variables of a module that it does not import by
name."""
_IMP = regex(r"imp(?<=\bimp)\b")
"""The module of that name, which does so, too."""
_MAIN_GUARD = regex(r"__name__\s*[!=]=\s*[\"']__main__[\"']|[\"']__main__[\"']\s*[!=]=\s*__name__")
_OWN_TENSORS = regex(
    r"__torch_function__|__torch_dispatch__|(Function|Dispatch)Mode|as_subclass"
    r"|_make_(wrapper_)?subclass"
    r"|class\s+\w+\([^)]*(?<!\[)\bTensor\b(?!\])"
)
"""Words without which all tensors are torch's own, and no code sees each operation on them."""
_WARNINGS = Wording(
    regex(
        r"catch_warnings\([^)]*record\s*=\s*True|(?:simplefilter"
        r"|filterwarnings)\(\s*(?:action\s*=\s*)?"
        r"(?![\"'](?:ignore|default|once|always|module)\b)|\bwarnings\.filters\b"
        r"|\bredirect_stderr\b"
        r"|captureWarnings|\bshowwarning\b|\bformatwarning\b|warns\(\s*\w*Warning|assertWarns"
        r"|catch_warnings\([^)]*action"
    ),
    tuple(
        """catch_warnings( simplefilter filterwarnings warnings.filters redirect_stderr
        captureWarnings showwarning formatwarning warns( assertWarns""".split()
    ),
)
"""Words without which warnings are printed or ignored, and nothing else."""
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


@question(remember=False)
def sees_variables(module: Module) -> bool:
    """Say whether code of the project may look into the variables of a running function."""
    return reads_by_string(module) or says(module, _FRAMES) or says(module, _INTERACT)


@question(ground=True)
def sees_itself(module: Module) -> bool:
    """Say whether code of this file may look up its own top-level names: by a string, as a module,
    through frames."""
    text = _MAIN_GUARD.sub("", module.text)
    return (
        any(pattern.search(text) for pattern in (_MODULES, _IMP))
        or reads_by_string(module)
        or mentions(module, _FRAMES)
        or mentions(module, _INTERACT)
    )


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


@question(remember=False)
def minds_warnings(module: Module, *, near: bool = False) -> bool:
    """Say whether code of the project, or that `near` to this file, collects warnings or makes
    errors of them."""
    return said_somewhere(module, Holds(_WARNINGS), near=near)


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


@question(
    yes="the accelerator may be MPS, which has no float64",
    no="no file of the project speaks of MPS, and one of CUDA",
)
def may_be_mps(module: Module) -> bool:
    """Say whether a file of the project names the accelerator without float64, or a device is given
    by a caller and no file says that it is a CUDA device."""
    return says(module, _MPS) or (mentions(module, _DEVICE) and not says(module, _CUDA))


def says(module: Module, pattern: re.Pattern[str] | Wording) -> bool:
    """Say whether this file, or any other of the project, holds a pattern."""
    return said_somewhere(module, Holds(pattern))


def elsewhere(module: Module, pattern: re.Pattern[str] | Wording) -> bool:
    """Say whether another file that may run with this one holds a pattern."""
    return module.outside.others_say(Holds(pattern), near=False) is not False


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
    if name is None or sees_itself(module):
        return False
    return (
        module.tree.owners[call] is not module.tree.root or reached_elsewhere(module, name) is False
    )


CLOCKS = frozenset(
    """time.time time.time_ns time.perf_counter time.perf_counter_ns time.monotonic
    time.monotonic_ns timeit.default_timer""".split()
)


@question(
    yes="the same turn reads a clock behind it, in `{answer}`",
    no="no clock is read behind it in the same turn",
)
def clock_behind(module: Module, node: cst.CSTNode) -> cst.Call | None:
    """Return the first reading of a clock behind a place in the innermost loop around it: what it
    says changes where the host no longer waits there."""
    loop = module.loop(node)
    calls = module.within(loop.body, cst.Call) if loop is not None else ()
    return next(
        (call for call in calls if module.name(call.func) in CLOCKS and module.before(node, call)),
        None,
    )
