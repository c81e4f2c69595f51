"""What a safe fix takes for granted of an ordinary program, and how a project shows that it is not
one.

A fix that is the same bit for bit in every program anybody could write is rare: any object may have
a ``.to`` of its own, any function may look into another's variables. The programs that people run
do no such things. So a fix says by name what it takes for granted, the engine asks whether this
project shows anything else, and only then is the fix unsafe. ``safe = "strict"`` in the
configuration takes nothing for granted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from torchlint.base.records import frozen
from torchlint.base.regex import regex
from torchlint.semantic.code.wording import Wording
from torchlint.semantic.module import Module
from torchlint.semantic.project.asked import said_somewhere
from torchlint.semantic.question import question
from torchlint.semantic.torch import dtypes
from torchlint.semantic.uses.forward_state import keeps_state
from torchlint.semantic.uses.observers import has_own_tensors, says
from torchlint.semantic.values.apple import may_be_mps, names_mps

ACCELERATOR = "accelerator-is-cuda"
AUTOCASTS = "autocasts-stand-alone"
BATCHES = "batches-are-tensors"
BUFFERS = "networks-stay-as-made"
ERRORS = "errors-end-the-program"
EVALUATIONS = "evaluations-are-not-trained-on"
FRAMES = "nothing-reads-frames"
GRAPH = "same-without-graph"
LOSSES = "losses-are-tensors"
MEMORY = "memory-for-a-number-a-step"
ONE_DEVICE = "one-device-a-step"
PINNED = "batches-can-be-pinned"
SIZES = "batches-are-not-negative"
STEPS = "loops-take-a-step"
TORCH = "torch-is-torch"
PATCHED = "The code replaces functions of torch, or has tensors of its own."
"""What a fix that takes torch's functions for torch's says where they are not."""


@frozen
class Assumption:
    """One thing that is taken for granted.

    Args:
        sentence: what an ordinary program does, for people.
        refuted: says whether the project of a file shows that it does not; None where nothing in a
            text could show it.
    """

    sentence: str
    refuted: Callable[[Module], bool] | None


_OTHERS = Wording(
    regex(
        r"\b(?:torch_)?(?:xla|npu|hpu|mlu|xpu)\b|directml|habana|neuronx"
        r"|\bAccelerator\(|accelerator\s*=\s*[\"']auto\b"
    ),
    ("xla", "npu", "hpu", "mlu", "xpu", "directml", "habana", "neuronx", "ccelerator"),
)
"""Words of accelerators other than CUDA, and of what takes whichever it finds."""
_AUTOCASTS = Wording(
    regex(r"set_autocast_\w*(?:dtype|cache)|\.__enter__\(\)"), ("set_autocast_", "__enter__()")
)
"""Words without which each autocast has the defaults of torch."""
_LIGHTNING = regex(r"^[^\S\n]*(?:from|import)\s+(?:pytorch_)?lightning\b", re.MULTILINE)
_OWN_BATCHES = Wording(
    regex(
        r"^[ \t]+def (?:to|cuda)\((?![^)]*(?:non_blocking|\*\*))"
        r"|\b(?:pytorch3d|detectron2)\b|\bBlockMask\b|\bBatchEncoding\b|\breturn_tensors\b",
        re.MULTILINE,
    ),
    (
        *("def to(", "def cuda(", "pytorch3d", "detectron2"),
        *("BlockMask", "BatchEncoding", "return_tensors"),
    ),
)
"""Words without which what a program moves takes ``non_blocking``, as graphs of dgl and
torch_geometric do: encodings, classes with a ``to`` of their own."""
_OWN_LOSSES = Wording(regex(r"^[ \t]+def item\(", re.MULTILINE), ("def item(",))
"""Words without which what has an ``item`` is torch's or NumPy's."""
_CATCHES = Wording(
    regex(
        r"\btry:[^\n]*\n(?:[^\n]*\n){0,4}?"
        r"[ \t]+(?:[\w., ]+ = )?(?:[\w.]+\.)?_?"
        r"(?:(?:run_)?(?:train|fit|main|eval|valid)|\w*epoch)\w*\("
        r"(?:[^\n]*\n){1,12}?[ \t]*except(?::|[^\n]*\b(?:Base)?Exception\b"
        r"|[^\n]*\b(?:Lookup|Index|Key|Value|Arithmetic|ZeroDivision)Error\b)"
    ),
    ("try:",),
    first=True,
)
"""Words without which what a training raises ends the program."""
_FRAMES = Wording(
    regex(
        r"\bf_(?:locals|globals)\b|\bset(?:trace|profile)\b|\bsys\.monitoring\b|getargvalues"
        r"|get(?:generator|coroutine|asyncgen)locals|getclosurevars|capture_locals|show_locals"
        r"|get_(?:referrers|objects)|snoop|\bgetinnerframes\b"
        r"|\b(?:globals|vars)\(\)(?:\.get\(|\[)[\"'][^\"'\n]*[\"'][\]),](?!\s*=[^=])"
        r"|(?<![.\w])eval\([\"'][A-Za-z_]\w*[\"']\s*[),]"
        r"|\bgetattr\(\s*sys\.modules\[[^\]\n]*\],\s*[\"']"
    ),
    tuple(
        """f_locals f_globals settrace setprofile sys.monitoring getargvalues getgeneratorlocals
        getcoroutinelocals getasyncgenlocals capture_locals show_locals getclosurevars
        get_referrers get_objects snoop getinnerframes globals() vars() eval( getattr(""".split()
    ),
    first=True,
)
"""Words without which no code reads the variables of a running function, as who asks a frame for
its line or its caller does not; a person at a breakpoint may."""
_GRAPH = Wording(
    regex(
        r"\bTransformerEnc\w+|\bnn\.Transformer\b|\bMultiheadAtt\w+"
        r"|dot_product_attention|\bis_grad\w+\(|\bretain_gr\w+\("
        r"|\btorch\.(?:compile|jit)\b|\.register_(?:full_backward_)?hook\b"
        r"|\bsaved_tensors_hooks\b|\bvit_\w+\(|\b(?:from|import) (?:transformers|timm|diffusers"
        r"|open_clip|xformers|flash_attn|fairseq|sentence_transformers)\b"
    ),
    tuple(
        """Transformer MultiheadAtt dot_product_attention is_grad retain_gr torch.compile torch.jit
        register_ saved_tensors_hooks vit_ transformers timm diffusers open_clip xformers flash_attn
        fairseq""".split()
    ),
)
"""Words without which a network computes the same with a graph and without: its fast paths for
inference ask whether there is one, and a compiler makes other kernels."""
_DIFFERENTIATES = Wording(
    regex(
        r"\b(?:functional_call|learn2learn|captum|MAML|maml|FGSM|fgsm|PGD|pgd)\b"
        r"|\b(?:from|import) higher\b|[mM]eta(?:_|)[lL]earn|[sS]aliency"
        r"|[gG]rad(?:_|)(?:CAM|Cam|cam)\b"
    ),
    tuple(
        """functional_call learn2learn captum MAML maml FGSM fgsm PGD pgd higher eta_l eta_L etal
        etaL aliency radCAM radCam radcam rad_CAM rad_Cam rad_cam""".split()
    ),
)
"""Words without which no gradients are asked for of what an evaluation computes: who learns to
learn, attacks or explains a network does so."""
_SEVERAL = Wording(
    regex(r"\bcuda:[1-9]|\.cuda\(\s*[1-9]|\bdevice_map\b|\bpipeline_parallel|\bPipelineStage\b"),
    ("cuda:", ".cuda(", "device_map", "pipeline_parallel", "PipelineStage"),
    first=True,
)
"""Words without which a process puts what it computes on one accelerator."""
_WIDTHS = "|".join(sorted(dtypes.spelled(dtypes.of_kind("half", "double"))))
"""The dtypes of floating numbers but for that of most networks."""
_NETWORKS = r"(?i:model|net|network|classifier|generator|discriminator|[gd]_net|net[gd])"
_CONVERTED = regex(
    rf"\.(?:{_WIDTHS})\(|\.(?:to|type)\([^)\n]*(?i:dtype|{_WIDTHS})"
    r"|\btorch_dtype\b|\bset_default_\w*(?:type|device)\b|\bapex\b|\bdeepspeed\b"
    r"|\b(?:FSDP|FullyShardedDataParallel|fully_shard)\b|\b(?:named_)?buffers\("
    r"|\bfrom_pretrained\b|\binit_empty_weights\b|[\"']meta[\"']|\bto_empty\("
    r"|\btorch\.(?:jit|package)\b|\blog_model\("
    rf"|\.(?:save|dump)\([\w.= ]*{_NETWORKS}\w*\s*,"
    rf"|[\"']\w+[\"']\s*:\s*(?:self\.)?(?:\w+_)?{_NETWORKS}\d?(?:\.module)?\s*(?:[,}}\n]|if\b)"
)
"""Words without which a network keeps the dtype that it was made in, and files hold its weights
alone: a buffer is converted with it, and is written where the object is."""
_REPLACED = regex(
    r"\n[^\S\n]*(?:torch|F|nn|Tensor|functional|builtins)\."
    r"(?!(?:backends|_dynamo|_inductor|load|save|print|input|(?:nn\.)?init)\b)[\w.]+\s*=[^=]"
)
_SET = Wording(
    regex(
        r"(?<!monkeypatch\.)\bsetattr\(\s*(?:torch|F|nn|functional)\b(?!(?:\.nn)?\.init\b)"
        r"|\bglobals\(\)\[[\"'](?:float|int)[\"']\]\s*=|\bexec\([\"'](?:float|int)\b"
    ),
    ("setattr(", "globals()[", "exec("),
)
"""Words without which torch's functions are torch's; what tests replace is put back. What changes
settings of a backend or the compiler, how weights are first set, how files are read or which
process prints, changes nothing that a fix calls."""


@question(ground=True)
def sets_autocasts(module: Module) -> bool:
    """Say whether the project sets a default of autocast, or its cache."""
    return says(module, _AUTOCASTS)


@question(ground=True)
def other_accelerator(module: Module) -> bool:
    """Say whether the project names an accelerator other than CUDA, or takes whichever it finds."""
    return names_other_accelerator(module) or may_be_mps(module)


@question(ground=True)
def names_other_accelerator(module: Module) -> bool:
    """Say whether the project names an accelerator other than CUDA, or leaves it to Lightning."""
    return names_mps(module) or says(module, _OTHERS) or says(module, _LIGHTNING)


@question(ground=True)
def own_batches(module: Module) -> bool:
    """Say whether the project may move objects other than tensors that take no ``non_blocking``."""
    return has_own_tensors(module) or says(module, _OWN_BATCHES)


@question(ground=True)
def catches_errors(module: Module) -> bool:
    """Say whether the project catches what a training or an evaluation raises, and may go on."""
    return says(module, _CATCHES)


@question(ground=True)
def own_losses(module: Module) -> bool:
    """Say whether a class of the project has an ``item`` of its own, as a loss that is no tensor
    may."""
    return says(module, _OWN_LOSSES)


@question(ground=True)
def minds_graph(module: Module) -> bool:
    """Say whether a network of the project may compute otherwise where autograd records no
    graph, or keep what it has computed for its next run."""
    return says(module, _GRAPH) or said_somewhere(module, partial(keeps_state, "def forward("))


@question(ground=True)
def converts_networks(module: Module) -> bool:
    """Say whether the project may convert a network to another dtype, look at its buffers, or write
    the object to a file."""
    return says(module, _CONVERTED)


@question(ground=True)
def differentiates_elsewhere(module: Module) -> bool:
    """Say whether the project may ask for gradients of what an evaluation computes."""
    return says(module, _DIFFERENTIATES)


@question(ground=True)
def reads_frames(module: Module) -> bool:
    """Say whether code of the project may read the variables of a running function."""
    return says(module, _FRAMES)


@question(ground=True)
def several_devices(module: Module) -> bool:
    """Say whether one process of the project may compute on several accelerators."""
    return says(module, _SEVERAL)


@question(ground=True)
def changed_torch(module: Module) -> bool:
    """Say whether the project replaces functions of torch, or has tensors of its own."""
    return has_own_tensors(module) or says(module, _REPLACED) or says(module, _SET)


ASSUMPTIONS: Mapping[str, Assumption] = MappingProxyType(
    {
        ACCELERATOR: Assumption(
            "The accelerator is a CUDA device (NVIDIA or AMD), or there is none.",
            other_accelerator,
        ),
        AUTOCASTS: Assumption(
            "No autocast stands inside one with other settings, and nothing sets their defaults.",
            sets_autocasts,
        ),
        BATCHES: Assumption(
            "What a program takes out of a loader's batch and moves to the device is a tensor.",
            own_batches,
        ),
        BUFFERS: Assumption(
            "A network keeps the dtype that it was made in, nobody counts its buffers, and files "
            "hold its weights, not the object.",
            converts_networks,
        ),
        ERRORS: Assumption(
            "What a training raises for an index past the end, a key that lacks or a division by "
            "zero ends the program.",
            catches_errors,
        ),
        EVALUATIONS: Assumption(
            "In an evaluation, what objects other than networks give has no graph, or nobody asks "
            "for it.",
            differentiates_elsewhere,
        ),
        FRAMES: Assumption(
            "No code reads the variables of another function while that runs, or a module's by a "
            "name that it computes; what a person sees at a breakpoint is not promised.",
            reads_frames,
        ),
        GRAPH: Assumption(
            "A network computes the same whether or not autograd records a graph, and keeps "
            "nothing of one run for the next.",
            minds_graph,
        ),
        LOSSES: Assumption(
            "What .backward() is called on, or what is called a loss, is a tensor of floating "
            "numbers.",
            own_losses,
        ),
        MEMORY: Assumption(
            "The device has room for one number for each step of a loop.",
            None,
        ),
        ONE_DEVICE: Assumption(
            "What a step computes with lies on one device.",
            several_devices,
        ),
        PINNED: Assumption(
            "A loader's batches are the same in pinned memory, and the host has room for a few of "
            "them there.",
            own_batches,
        ),
        SIZES: Assumption(
            "What is called a batch size is a whole number of Python's, and not negative.", None
        ),
        STEPS: Assumption(
            "A loop over batches takes at least one step.",
            None,
        ),
        TORCH: Assumption(
            "The program replaces no function of torch or of Python, and gives tensors no methods "
            "of its own; what a tracer records of them is not promised.",
            changed_torch,
        ),
    }
)
"""All that a fix may take for granted, by name."""


def broken(module: Module, name: str) -> bool:
    """Say whether the project of a file shows that one of `ASSUMPTIONS` does not hold in it."""
    refuted = ASSUMPTIONS[name].refuted
    return refuted is not None and refuted(module)
