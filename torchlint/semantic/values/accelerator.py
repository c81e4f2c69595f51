"""Whether the code of a file runs on an accelerator: by what the file says, or the files of the
project that may run in one process with it."""

from __future__ import annotations

import re
from functools import partial

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.calls import keyword_argument, string
from torchlint.semantic.code.failures import only_itself
from torchlint.semantic.code.flow import callees_of
from torchlint.semantic.code.scopes import scopes
from torchlint.semantic.code.text import MAIN, has_main_guard
from torchlint.semantic.code.tree import is_name, keyword_of
from torchlint.semantic.code.updates import is_step
from torchlint.semantic.code.versions import before_lightning_2
from torchlint.semantic.code.wording import Wording
from torchlint.semantic.elsewhere import Definition
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.values import library

_TORCH = regex(r"^[^\S\n]*(import|from)\s+(torch|lightning|pytorch_lightning)", re.MULTILINE)
_OTHER = Wording(
    regex(r"^[^\S\n]*(import|from)\s+(mxnet|jax|tensorflow|paddle|mindspore)\b", re.MULTILINE),
    ("mxnet", "jax", "tensorflow", "paddle", "mindspore"),
)
_ACCEL = Wording(
    regex(
        r"cuda|\bdevice\b|\bgpus?\b|accelerat(?!ion)|\bmps\b|\.cpu\(\)|lightningmodule|\btrainer\b"
        r"|\.to\([\w.]*\brank\b|\.to\([\w.]*_rank\b"
    ),
    ("cuda", "device", "gpu", "accelerat", "mps", ".cpu()", "lightningmodule", "trainer", ".to("),
    first=True,
)
"""What speaks of one in a text in lower case."""
_CUDA = regex(r"\.cuda\(|torch\.cuda\.|[\"']cuda[\"':]|cuda\.is_available")
_MOVES = regex(r"\.cuda\(\s*[^)]*\)|[\"']cuda|set_default_|\bmps\b|\baccelerator\b|Accelerator\(")
"""What moves something, or names a device to which it might."""
_TO = regex(r"\.to\((?P<given>(?:[^()]|\([^()]*\))*)\)")
_NO_DEVICE = regex(
    r"(?:non_blocking|copy|memory_format|dtype)\s*=.*|(?:[\w.]+\.)?dtype|torch\.(?!device)\w+"
    r"|(?:device\s*=\s*)?(?:[\"']cpu[\"']|(?!self|args|opt|conf|cfg|hp)\w+\.device)"
)
"""An argument of ``.to()`` that names the host, a dtype, or the place of another tensor."""
_TAKEN = regex(r"\s*(?:\w+\.\w+,\s*)*(?!self|args|opt|conf|cfg|hp)\w+\.device(?:,\s*\w+\.\w+)*\s*")
"""What binds a name to the place of another tensor."""
_AT_TENSOR = regex(r"\bdevice\s*=\s*(?!self|args|opt|conf|cfg|hp)\w+\.device\b")
_MAY_BE_DEVICE = r"(?<!\w)device|_dev|\bdev\b|gpu|rank|cuda|accel|backend|getattr|config|\bargs"
_COMMENT = regex(r"(?m)#[^\n\"']*$")
_OWNERS = regex(r"set_default_|fastai|ignite|deepspeed|catalyst|skorch|transformers")
"""What may bring a network to a device on its own."""
_CPU = regex(r"cpu(?<=[\"']cpu)[\"']")
"""The name of the device as a text; the pattern begins with what is found soon."""
_ON_CPU = regex(
    r"^(?P<indent>[^\S\n]*)(?!self\.)[\w.]*\bdevice[^\S\n]+=[^\S\n]+"
    r"(torch\.device\([^\S\n]*)?([\"'])cpu\3\)?[^\S\n]*(#.*)?$",
    re.MULTILINE,
)
"""A statement that chooses the CPU: ``device = "cpu"``, ``conf.train.device = "cpu"``."""
_CPU_DEFAULT = regex(r"\bdef\s+\w+\([^)]*\bdevice(?:\s*:[^=,)]+)?\s*=\s*[\"']cpu(?<=[\"']cpu)[\"']")
"""A function that puts what it makes on the CPU, unless a call says where."""
_OTHER_DEVICE = regex(r"\bdevice\s*=(?!=|\s*(?:device\b|[\"']cpu[\"']))")
_CHOOSES = regex(
    r"^[^\S\n]*[\w.]*\bdevices?[^\S\n]*(:[^=\n]+)?=(?!=)(?!\s*next\([\w.]+\.parameters\(\)\)\.device$)|\bdef\s+\w+\([^)]*\bdevice\b|--device",
    re.MULTILINE,
)
_REJECTED = r"[\"'](?:gpu|GPU|CUDA|Cuda|nvidia|tpu|TPU)(?::\d+)?[\"']"
"""A text of which torch makes no device (torch 2.13, c10/core/Device.cpp): ``.to`` raises."""
_TAKES_REJECTED = Wording(
    regex(
        rf"^[^\S\n]*[\w.]*\bdevice[^\S\n]+=[^\S\n]+(?:torch\.device\(\s*)?{_REJECTED}"
        rf"|\btorch\.device\(\s*{_REJECTED}|\.to\(\s*{_REJECTED}",
        re.MULTILINE,
    ),
    tuple(f"{mark}{name}" for mark in "'\"" for name in "gpu GPU CUDA Cuda nvidia tpu TPU".split()),
)
_MOVED_THERE = regex(rf"(?:\.to|\btorch\.device)\(\s*(?:(?:self\.)?device\b|{_REJECTED})")
_NO_CUDA = regex(
    r"\bcuda\.(?:is_available|device_count|get_device_name|empty_cache|synchronize|manual_seed\w*)\b"
    r"|\bif\s+[\w.]*device\s*==\s*[\"']cpu[\"']:\n(?:[^\S\n]+(?!else\b)\S.*\n)+[^\S\n]*else:\n.*"
)
"""What asks for CUDA, and computes nothing there; what is done on another device than the CPU."""
_NAMES_ACCELERATOR = regex(
    r"cuda|\bgpus?\b|\b(?:mps|xpu|hip|nccl|hpu|npu)\b|\bxla\b|xla_|accelerat|lightning|trainer\("
    r"|fabric|--device|set_default_|privateuse|\.to\([^)\n]*rank|tensorflow|\bjax\b",
    re.IGNORECASE,
)
_BOUND_DEVICE = regex(r"^[^\S\n]*[\w.]*\bdevice[^\S\n]*(?::[^=\n]+)?=(?!=)(.*)$", re.MULTILINE)
_KNOWN_DEVICE = regex(
    rf"\s*(?:torch\.device\(\s*)?(?:{_REJECTED}|[\"']cpu[\"']|[\w.]*\bdevice)\)?"
    rf"(?:\s+if\s.*\belse\s+(?:torch\.device\(\s*)?(?:{_REJECTED}|[\"']cpu[\"'])\)*)?,?\s*"
)
_OTHER_DEVICES = regex(r"cuda|\bgpus?\b|\bmps\b|\bxpu\b|is_available|accelerat|\btrainer\b")
_MODEL = regex(r"^[^\S\n]*class\s+\w+\(.*Module\b", re.MULTILINE)
_TRAINER = "lightning.Trainer"
TRAINERS = partial(library.gives, _TRAINER)
"""What makes one has one of these names."""
_KEEPS_PLACE = frozenset(
    """accumulate_grad_batches benchmark callbacks check_val_every_n_epoch checkpoint_callback
    default_root_dir deterministic enable_checkpointing enable_model_summary enable_progress_bar
    fast_dev_run gradient_clip_val limit_test_batches limit_train_batches limit_val_batches
    log_every_n_steps logger max_epochs max_steps min_epochs num_sanity_val_steps overfit_batches
    profiler progress_bar_refresh_rate reload_dataloaders_every_n_epochs
    resume_from_checkpoint val_check_interval weights_summary""".split()
)
"""Arguments of a Trainer that say nothing of where it trains: on the CPU before Lightning 2."""
_SWITCHES = (".set_gpu_mode", "set_gpu_mode")
_RUNS_ALWAYS = regex(r"(async\s+)?def\b|with\b|if\s+__name__\b")


@question(
    yes="the file runs on an accelerator",
    no=(
        "nothing in the file shows an accelerator (no cuda, no device, no nn.Module), nor does a "
        "file that runs with it, or it is told to stay on the CPU"
    ),
    ground=True,
)
def on_accelerator(module: Module) -> bool:
    """Whether the file, another one of its program, or the configuration shows that the code runs
    on an accelerator."""
    if (_OTHER.search(module.text) and not _TORCH.search(module.text)) or trains_on_cpu(module):
        return False  # Another framework's arrays, or a Trainer for the CPU.
    if module.accelerator != "auto":
        return module.accelerator != "cpu"
    if stays_on_host(module) or _chooses_cpu(module) or _asks_for_no_device(module):
        return False
    classes = module.nodes(cst.ClassDef)
    return (
        any(scopes(module).is_module(c) or scopes(module).is_optimizer(c) for c in classes)
        or _ACCEL.search(module.text.lower()) is not None
        or module.outside.others_say(_uses_cuda, by_place=True) is True
    )


@question(
    yes="the program trains on the host: neither it nor a file that it runs with moves anything",
    no="the file is of no program that surely trains on the host",
    ground=True,
)
def stays_on_host(module: Module) -> bool:
    """Say whether the file is a notebook, or a program that trains and that no other file names,
    and moves nothing, nor does a file that it runs with; or whether it is a part of a program that
    trains, of which no file speaks of an accelerator, or of a package that trains on arrays."""
    notebook = module.filename.endswith(".ipynb")
    if module.accelerator != "auto" or _speaks_of_one(module.text):
        return False
    say, own_run = module.outside.others_say, has_main_guard(module)
    if (notebook or (_learns(module.text) and _is_program(module))) and (
        say(_moves, by_place=notebook) is False and (notebook or say(_anything, near=True) is False)
    ):
        return True
    package = module.outside.offered() or module.outside.of_library()
    if notebook or say(_speaks_of_one, anywhere=package) is not False:
        return False
    if package:
        return _learns_from_arrays(module.text) or say(_learns_from_arrays, anywhere=True) is True
    return (own_run or say(_is_run) is True) and (_learns(module.text) or say(_learns) is True)


def _speaks_of_one(text: str) -> bool:
    """Say whether a file speaks of an accelerator, or of what may choose one, outside of its
    comments; what only comes back to the host says nothing."""
    code = _COMMENT.sub("", text)
    said = _ACCEL.search(code.lower().replace(".cpu()", "")) is not None
    return said or _OWNERS.search(code) is not None


def _learns(text: str) -> bool:
    return ".backward(" in text and ".step(" in text


def _learns_from_arrays(text: str) -> bool:
    """Say whether a file trains on what it makes of arrays: who gives it a network has it there."""
    return _learns(text) and "torch.from_numpy(" in text


def _is_run(text: str) -> bool:
    return MAIN.search(text) is not None


@question(
    yes="the file computes on a TPU, through torch_xla",
    no="the file asks torch_xla for no device, or CUDA too",
    ground=True,
)
def on_tpu(module: Module) -> bool:
    """Say whether the file asks torch_xla for its device and does nothing with CUDA."""
    return "xla_device(" in module.text and _CUDA.search(module.text) is None


def _chooses_cpu(module: Module) -> bool:
    """Say whether the file, or each that may use it, is written for the CPU alone."""
    say = module.outside.others_say
    alone = _sets_cpu(module.text) or _defaults_to_cpu(module.text)
    if alone and say(_anything, near=True) is False:
        return True
    return _for_cpu(module.text) or (
        _CUDA.search(module.text) is None
        and say(_for_cpu, near=True) is True
        and say(_for_any, near=True) is False
    )


def _asks_for_no_device(module: Module) -> bool:
    """Say whether all that the project names as a device besides the CPU is a text that torch
    rejects, ``"gpu" if torch.cuda.is_available() else "cpu"``: what runs of it runs on the CPU."""
    say = module.outside.others_say
    return (
        (_takes_rejected(module.text) or say(_takes_rejected) is True)
        and not _names_accelerator(module.text)
        and (_moves_there(module.text) or say(_moves_there) is True)
        and say(_names_accelerator) is False
    )


def _takes_rejected(text: str) -> bool:
    found = _TAKES_REJECTED.search(text) is not None
    return found and _TAKES_REJECTED.search(_COMMENT.sub("", text)) is not None


def _moves_there(text: str) -> bool:
    return _MOVED_THERE.search(_COMMENT.sub("", text)) is not None


def _names_accelerator(text: str) -> bool:
    """Say whether a file names an accelerator that torch knows, or has a device from elsewhere."""
    code = _COMMENT.sub("", text)
    bound = _BOUND_DEVICE.findall(code)
    named = _NO_CUDA.sub("", _TAKES_REJECTED.pattern.sub("", code))
    return _NAMES_ACCELERATOR.search(named) is not None or not all(
        map(_KNOWN_DEVICE.fullmatch, bound)
    )


def _for_any(text: str) -> bool:
    return not _for_cpu(text)


def _for_cpu(text: str) -> bool:
    """Say whether a file has one device, which it sets to the CPU on each way, and no network that
    other files may take to another."""
    return _sets_cpu(text) and (
        _MODEL.search(text) is None or not all(each["indent"] for each in _ON_CPU.finditer(text))
    )


def _sets_cpu(text: str) -> bool:
    """Say whether a file has one device, which it sets to the CPU on each way."""
    lines = {text.rfind("\n", 0, named.start()) + 1 for named in _CPU.finditer(text)}
    found = (_ON_CPU.match(text, line) for line in lines)
    chosen = [each for each in found if each is not None and _always(text, each)]
    return (
        bool(chosen)
        and len(chosen) == sum(1 for _ in _CHOOSES.finditer(text))
        and _OTHER_DEVICES.search(text.lower()) is None
    )


def _defaults_to_cpu(text: str) -> bool:
    """Say whether functions of a file put things on the CPU by default, and it names no other
    device, nor gives them one."""
    defaults = sum(1 for _ in _CPU_DEFAULT.finditer(text))
    return (
        bool(defaults)
        and defaults == sum(1 for _ in _CHOOSES.finditer(text))
        and _OTHER_DEVICE.search(text) is None
        and _OTHER_DEVICES.search(text.lower()) is None
    )


def _always(text: str, line: re.Match[str]) -> bool:
    """Say whether no condition, loop or class stands around a line, but for a main guard."""
    indent = len(line["indent"])
    for above in reversed(text[: line.start()].splitlines()):
        own = len(above) - len(above.lstrip())
        if own < indent and above.strip() and not above.lstrip().startswith(("#", ")")):
            if not _RUNS_ALWAYS.match(above.lstrip()):
                return False
            indent = own
    return True


def _is_program(module: Module) -> bool:
    """Say whether the file trains where it is run: behind a main guard, or at its top level."""
    return has_main_guard(module) or any(
        module.function(call) is None and module.class_of(call) is None and _trains(module, call)
        for call in module.nodes(cst.Call)
    )


@question(circular=False)
def _trains(module: Module, call: cst.Call) -> bool:
    """Say whether a call is a step of a training, or runs a function of the file that takes any."""
    return is_step(module, call) or any(
        _trains(module, inner)
        for callee in callees_of(module, call)
        for inner in module.within(callee, cst.Call)
    )


def _moves(text: str) -> bool:
    """Say whether a file moves anything, or names a device to which it might: not what goes to
    where another tensor is, nor what a comment says."""
    text = _COMMENT.sub("", text)
    return _MOVES.search(text) is not None or any(
        not _stays(text, argument.strip())
        for move in _TO.finditer(text)
        for argument in move["given"].split(",")
    )


def _stays(text: str, argument: str) -> bool:
    """Say whether an argument of ``.to()`` names the place of another tensor, or none: as it is
    written, or as the file says of each place where it binds that name."""
    if not argument or _NO_DEVICE.fullmatch(argument):
        return True
    if not argument.isidentifier():
        return False
    if re.search(rf"\bdef\s+\w+\([^)]*\b{argument}\b", text) and _device_like(argument):
        return False
    bound = re.findall(rf"^[^\S\n]*(?:\w+,\s*)*{argument}\b[\w, ]*=(?!=)(.*)$", text, re.MULTILINE)
    if _device_like(argument):
        return bool(bound) and all(map(_TAKEN.fullmatch, bound))
    return not any(_device_like(_AT_TENSOR.sub("", each)) for each in bound)


def _device_like(text: str) -> bool:
    return text.isupper() or re.search(_MAY_BE_DEVICE, text.lower()) is not None


def _anything(text: str) -> bool:
    """Say yes of each file: which are asked decides."""
    return bool(text)


def _uses_cuda(text: str) -> bool:
    """Say whether a file of the same program moves things to CUDA, or asks for it."""
    return _CUDA.search(text) is not None


@question(ground=True)
def trains_on_cpu(module: Module) -> bool:
    """Whether every Lightning ``Trainer`` of the file is told to stay on the CPU, or, before
    Lightning 2, to go nowhere else."""
    every = lightning_trainers(module)
    return bool(every) and all(
        string(keyword_argument(module, call, "accelerator")) == "cpu"
        or (
            all(keyword_of(arg) in _KEEPS_PLACE for arg in call.args) and before_lightning_2(module)
        )
        for call in every
    )


@question()
def lightning_trainers(module: Module) -> list[cst.Call]:
    """Return the calls that make a Lightning ``Trainer``."""
    called = module.names.calls_of(TRAINERS)
    return [call for call in called if makes_lightning_trainer(module, call)]


@question(yes="`{0}` makes a Lightning Trainer", no="`{0}` makes no Lightning Trainer")
def makes_lightning_trainer(module: Module, call: cst.Call) -> bool:
    """Say whether a call makes a Lightning ``Trainer``."""
    return library.makes(module, module.name(call.func), _TRAINER)


@question(
    yes="`{answer}` keeps what is computed there on the CPU",
    no="no switch, no construction of its object, and no worker of Ray keeps it on the CPU",
    circular=None,
)
def kept_on_cpu(module: Module, node: cst.CSTNode) -> cst.BaseExpression | None:
    """Return what has code compute on the CPU: the last call before it at the top of a file
    that turns the GPU off, ``set_gpu_mode(False)``, before all uses of its function as well, or
    one that makes the object of its class, where each gives it the CPU as its device, or what
    makes a worker of Ray of its class or function, of which none gets a GPU."""
    cls, function = module.class_of(node), module.function(node)
    for home in (cls, function):
        remote = _remote(module, home) if home is not None and home.decorators else None
        if remote is not None:
            return remote
    if cls is not None:
        return _made_on_cpu(module, cls)
    uses = _uses_until_bound_anew(module, function) if function is not None else []
    if not uses:
        switches = (call for call in module.names.calls_of(_SWITCHES) if _turns(module, call))
        last = max(
            (call for call in switches if module.before(call, node)),
            key=module.tree.order.__getitem__,
            default=None,
        )
        return last if last is not None and is_name(last.args[0].value, "False") else None
    kept = [kept_on_cpu(module, each) for each in uses]
    return kept[0] if all(kept) else None


def _remote(module: Module, home: cst.ClassDef | cst.FunctionDef) -> cst.BaseExpression | None:
    """Return the decorator by which Ray runs a class or function in a process of its own, from
    which it hides the GPUs where nobody asks for any, ``num_gpus=1``."""
    decorators = scopes(module).decorators(home)
    made = next((each for each, name in decorators if name == "ray.remote"), None)
    asked = made is None or _may_give_gpus(module.text)
    return None if asked or module.outside.others_say(_may_give_gpus) is not False else made


def _may_give_gpus(text: str) -> bool:
    return "num_gpus" in text or "CUDA_VISIBLE_DEVICES" in text


def _uses_until_bound_anew(module: Module, function: cst.FunctionDef) -> list[cst.Name]:
    """Return where a function is named before another one gets its name, as in later cells."""
    uses: list[cst.Name] = []
    for each in module.tree.named(function.name.value):
        if module.before(each, function) or module.is_within(each, function):
            continue
        if isinstance(module.parent(each), cst.FunctionDef):
            break
        if not module.is_label(each):
            uses.append(each)
    return uses


def _turns(module: Module, call: cst.Call) -> bool:
    given = call.args[0].value if call.args else None
    return module.function(call) is None and is_name(given, "True", "False")


@question()
def _made_on_cpu(module: Module, cls: cst.ClassDef) -> cst.Call | None:
    """Return a call that makes an object of a class, which is no library's and of which no other is
    made, where each such call of the project gives it the CPU as its device."""
    init = scopes(module).method(cls, "__init__")
    made = partial(_makes_anywhere, cls.name.value)
    if (
        init is None
        or all(each.name.value != "device" for each in init.params.params)
        or module.outside.of_library()
        or not only_itself(module, cls)
        or module.outside.others_say(made) is not False
    ):
        return None
    named = (module.tree.call_of(each) for each in module.tree.named(cls.name.value))
    sites = [(module, call) for call in named if call is not None]
    sites += module.outside.calling(Definition(module.path, cls.name.value, ""))
    given = [(where, module.bind(init, call).get("device")) for where, call in sites]
    on_cpu = all(
        value is not None and (string(value) or string(_named(where, value))) == "cpu"
        for where, value in given
    )
    return sites[0][1] if sites and on_cpu else None


def _makes_anywhere(name: str, text: str) -> bool:
    """Say whether a file makes an object of a class in a line that does not speak of the CPU."""
    calls = re.findall(rf"^.*(?<!\w){name}\(.*$", text, re.MULTILINE) if name in text else ()
    return any("cpu" not in line for line in calls)


def _named(module: Module, device: cst.BaseExpression) -> cst.BaseExpression | None:
    match device:
        case cst.Call(func, [cst.Arg(name)]) if module.name(func) == "torch.device":
            return name
    return None
