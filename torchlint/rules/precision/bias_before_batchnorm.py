"""Leave the bias out of a layer whose output goes straight into batch or instance norm

## Why
Batch norm and instance norm subtract the mean of each channel, and a bias is a part of that mean:
it cancels out, and the norm's own shift, where it has one, takes its place. What is left of it is a parameter that gets (almost) no
gradient, its optimizer state, and one more addition per forward pass. The tuning guide of the
PyTorch docs lists "Disable bias for convolutions directly followed by a batch norm", and the
profiler's pattern matcher looks for the same pair. Expect little: no gain was seen on a CPU.

Flagged: a convolution made with its default bias or with `bias=True`, with
`BatchNorm` or `SyncBatchNorm` directly behind it in a `Sequential` (also in the list that becomes
one), or as an attribute (alone or in a list of layers) whose output `forward` always gives to a
batch norm, in the form `self.bn(self.conv(x))` or on two lines. `spectral_norm` and `weight_norm`
around the layer leave its bias as it is. `InstanceNorm` counts where it keeps no running
statistics: the bias then cancels in eval mode, too. Silent where the file, or one that
uses it, fetches weights from a URL or a hub and loads with `strict=False` what fits of them.

## Setup
```python
import torch
from torch import nn
```

## Bad
```python
net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
```

## Good
```python
net = nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU())
```

## Leave alone
Behind an activation the bias is not a part of the mean any more.
```python
net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.BatchNorm2d(8))
```

Group norm and layer norm take one mean over several channels, whose biases differ.
```python
net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.Conv2d(8, 8, 3), nn.GroupNorm(1, 8))
```

A linear layer's bias costs no kernel: the one that multiplies adds it.
```python
net = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32))
```

## Fix safety
Unsafe: a checkpoint saved with the bias no longer loads with `strict=True`, and with `strict=False`
it gives other outputs until the bias is taken off the batch norm's `running_mean`; the layers made
afterwards draw other initial weights, and outputs in eval mode differ until a batch norm's running mean
has settled. Where a file of the program loads weights, or this one speaks of pretrained ones, the fix is
only suggested, as for a layer that a package offers to others and that no file of the project makes, and where it, or another file of the program, reads a `.bias` without a test for `None` (to initialise
layers, say), counts biases, asserts a number of parameters, or pairs the parameters of two networks
of which none is a copy, there is none; nor where another file of a project that loads weights has
a class of the same name, which would keep its bias.

## Measure
A forward and a backward pass in training mode. Little is expected: what is saved is an addition and
the gradient of the bias.
```python
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
x = torch.randn(8, 3, 32, 32, device=device)
```

```python
out = net.to(device)(x)
out.sum().backward()
```
"""  # noqa: E501

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import (
    Fix,
    Hit,
    Module,
    Replace,
    Rule,
    Safety,
    conditions_around,
    keyword_argument,
    with_keyword,
)
from torchlint.rules.precision._bias_before_batchnorm.layers import next_layers
from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.text import mentions
from torchlint.semantic.code.tree import argument_for, has_star, is_name, keyword_of
from torchlint.semantic.project.asked import said_somewhere
from torchlint.semantic.time.entry_points import called_out_of_view
from torchlint.semantic.torch import ops

_BIAS = ops.values("bias", "layer")
"""The position of the argument ``bias`` of the layers that have one, counted from one."""
_NORMS = ops.dotted("layer", "batch-norm")
_INSTANCE_NORMS = ops.dotted("layer", "instance-norm")
_FROZEN = regex(
    (
        r"(freeze|frozen|fix)\w*_(bn|batch_?norm)|(bn|norm)_?(eval|frozen)\b"
        r"|BatchNorm\w*[\])]*:?\s*\w+\.eval\(\)"
    ),
    re.IGNORECASE,
)
_TAKES = regex(r"(?<!self)\.bias\b(?!\s*=[^=])")
_ASKS = regex(r"bias\s+is\s+(not\s+)?None|(has|get)attr\([^)]*bias|if\s+\w+\.bias\s*:")
_LOADS = regex(r"load_state_dict|load_url|torch\.load\(")
_PUBLISHED = regex(r"pretrain|checkpoint|load_state_dict|load_url|model_zoo", re.IGNORECASE)
_FILLS = regex(
    r"load_state_dict\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*,\s*(?:strict\s*=\s*)?False\b"
)
"""Loads the weights that have a place, and is silent about others."""
_WEIGHTS = regex(r"\b(load_url|load_state_dict_from_url)\(")
"""Fetches weights, and nothing else."""
_FETCHES = regex(
    r"\b(\w+_)?urls?\b\s*[=,)\[]|load_url\(|_from_url\(|download\w*\(|hf_hub_\w+\(|\bgdown\b",
    re.IGNORECASE,
)
"""Fetches weights from where somebody has put them."""
_COUNTS = regex(
    r"\b(n|num(ber)?|counts?|total)(_?of)?_?bias(es)?\b|\bnumber of (\w+ and )?bias"
    r"|\bassert\b[^\n]*\bnumel\(\)",
    re.IGNORECASE,
)
_PAIRS = regex(r"\bzip\([^()\n]*\.(named_)?parameters\(\)\s*,[^()\n]*\.(named_)?parameters\(\)")
_CALLERS = 3
_NOTE = (
    "Checkpoints saved with this bias no longer load strictly, and the layers behind it draw "
    "other initial weights."
)

_SAVED = " Weights saved with the bias then have to lose it{shift}."
_COPIED = " Another file has a class `{cls}`, too, and weights are loaded here: change both."
_SHIFT = ", and the norm's running_mean as much"

rule = Rule(
    __name__,
    __doc__,
    code="TL409",
    message=(
        "{layer} bias before {norm} is cancelled by the mean; bias=False saves a parameter "
        "and an add."
    ),
    severity="info",
    default=True,
    effect="none",
    triggers=(b"BatchNorm", b"InstanceNorm"),
    equivalence="opt-in",
)


@rule.call(*(each for each in ops.dotted("layer", "bias") if "Conv" in each))
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    # Whether the call leaves the bias out or open: ``bias=…``, ``*args``, ``**options``.
    bias = _bias(module, node)
    written = bias is None or is_name(bias.value, "True")
    if (not written or has_star(node)) or mentions(module, _FROZEN):
        return
    norms = next_layers(module, node)
    if not norms or not all(_cancels(module, node, norm) for norm in norms):
        return
    cls = module.class_of(node)
    if (cls is not None and _LOADS.search(module.source(cls)) is not None) or _fills_from_published(
        module
    ):
        return
    layer, norm = (module.called(n).rpartition(".")[2] for n in (node, norms[0]))
    message = None
    copied = cls is not None and _keeps_copy(module, cls.name.value)
    if copied:
        message = rule.message + _COPIED
    elif said_somewhere(module, _reads_weights):
        message = rule.message + _SAVED
    shift = _SHIFT if module.name(norms[0].func) in _NORMS else ""
    words = {"layer": layer, "norm": norm, "shift": shift}
    words["cls"] = cls.name.value if cls is not None else ""
    yield Hit(node, words, None if copied else _fix(module, node), message=message)


def _cancels(module: Module, layer: cst.Call, norm: cst.Call) -> bool:
    """Say whether a layer is a norm that subtracts the mean of each channel which the layer before
    it made."""
    if module.name(norm.func) in _INSTANCE_NORMS:
        return _by_sample(module, norm) and _same_channels(module, layer, norm)
    if module.name(norm.func) not in _NORMS or not _of_one_kind(module, layer, norm):
        return False
    if keyword_argument(module, norm, "track_running_stats") is not None:
        return False
    momentum = keyword_argument(module, norm, "momentum")
    return (momentum is None or _moves(module, momentum)) and _same_channels(module, layer, norm)


def _of_one_kind(module: Module, layer: cst.Call, norm: cst.Call) -> bool:
    """Say whether the norm has as many dimensions as a convolution."""
    given, taken = (module.called(each) for each in (layer, norm))
    return taken.endswith((given[-2:], "SyncBatchNorm"))


def _by_sample(module: Module, norm: cst.Call) -> bool:
    """Say whether an instance norm always takes the mean of the sample at hand: it keeps no running
    statistics."""
    kept = keyword_argument(module, norm, "track_running_stats")
    if has_star(norm) or sum(arg.keyword is None for arg in norm.args) > 4:
        return False
    return kept is None or is_name(kept, "False")


def _moves(module: Module, momentum: cst.BaseExpression) -> bool:
    """Say whether the running mean follows the batches: momentum is a number, and not zero."""
    value = sole_definition(module, momentum) or momentum
    return isinstance(value, (cst.Float, cst.Integer)) and float(value.evaluated_value) > 0


def _bias(module: Module, layer: cst.Call) -> cst.Arg | None:
    """Return the argument that says whether the layer has a bias."""
    position = int(_BIAS[module.called(layer).rpartition(".")[2]])
    positional = [a for a in layer.args if a.keyword is None]
    named = [a for a in layer.args if keyword_of(a) == "bias"]
    return next(iter(named or positional[position - 1 : position]), None)


def _same_channels(module: Module, layer: cst.Call, norm: cst.Call) -> bool:
    """Say whether nothing disproves that the norm's channels are the convolution's."""
    if "Lazy" in module.called(layer) or not norm.args or "Lazy" in module.called(norm):
        return True
    out = argument_for(layer, 1, "out_channels")
    channels = norm.args[0].value
    integers = isinstance(out, cst.Integer) and isinstance(channels, cst.Integer)
    return out is None or not integers or out.deep_equals(channels)


def _fills_from_published(module: Module) -> bool:
    """Say whether the file fetches weights that others trained and loads them, or one that uses it
    loads what fits of such: without its parameter their bias would be refused, or dropped and no
    one told."""
    text = module.text
    return (
        ("load_state_dict(" in text and _WEIGHTS.search(text) is not None)
        or _fetches_and_fills(text)
        or module.outside.others_say(_fetches_and_fills, near=True) is True
    )


def _fetches_and_fills(text: str) -> bool:
    return _FILLS.search(text) is not None and _FETCHES.search(text) is not None


def _fix(module: Module, node: cst.Call) -> Fix | None:
    if any(_needs_bias(module, read) for read in module.nodes(cst.Attribute)):
        return None
    if module.outside.others_say(_takes_for_granted) is not False:
        return None
    if said_somewhere(module, _needs_each_parameter):
        return None
    bias = _bias(module, node)
    new = with_keyword(node, "bias", cst.Name("False"))
    if bias is not None:
        args = [a.with_changes(value=cst.Name("False")) if a is bias else a for a in node.args]
        new = node.with_changes(args=args)
    edit = Replace(node, new)
    saved = mentions(module, _PUBLISHED) or said_somewhere(module, _reads_weights)
    if saved or called_out_of_view(module, node, callers=_CALLERS):
        return Fix(
            (edit,), Safety.SUGGESTION, "Pass bias=False, unless saved weights hold this bias"
        )
    return Fix((edit,), Safety.UNSAFE, "Pass bias=False", _NOTE)


def _keeps_copy(module: Module, cls: str) -> bool:
    """Say whether another file of the project, which need not run with this one, defines a class of
    the same name that has convolutions, and one of them loads weights: those that this class saves,
    maybe."""
    say = module.outside.others_say
    defined = functools.partial(_defines, cls)
    return say(defined, anywhere=True) is True and (
        _reads_weights(module.text) or say(_reads_weights, anywhere=True) is True
    )


def _defines(cls: str, text: str) -> bool:
    """Say whether a file has a class of that name with a convolution, and norms."""
    body = rf"^([^\S\n]*)class\s+{cls}\b(?:.*\n(?!\1[^\s#)\]}}]))*.*"
    found = re.finditer(body, text, re.MULTILINE) if "Norm" in text else ()
    return any("conv" in each[0].lower() for each in found)


def _reads_weights(text: str) -> bool:
    """Say whether a file loads weights that were saved, maybe with this bias."""
    return "load_state_dict(" in text or "load_from_checkpoint(" in text


def _needs_each_parameter(text: str) -> bool:
    """Say whether a file counts biases, asserts how many parameters there are, or pairs those of
    two networks of which none is a copy."""
    pairs = "deepcopy(" not in text and _PAIRS.search(text) is not None
    return pairs or _COUNTS.search(text) is not None


def _takes_for_granted(text: str) -> bool:
    """Say whether a file reads a ``.bias`` that is not of its own class, and never asks whether
    there is one: what initialises layers by their class, as ``model.apply(init)`` does."""
    return _TAKES.search(text) is not None and _ASKS.search(text) is None


def _needs_bias(module: Module, read: cst.Attribute) -> bool:
    """Say whether code takes for granted that a layer has a bias: ``m.bias.data.zero_()``."""
    if read.attr.value != "bias" or dotted_text(read.value) == "self":
        return False
    above = module.parent(read)
    if isinstance(above, (cst.Comparison, cst.If, cst.IfExp, cst.BooleanOperation)):
        return False
    tests = [module.source_of(test) for test, _ in conditions_around(module, read)]
    norms_only = any("Norm" in t and not re.search("Conv|Linear", t) for t in tests)
    return not norms_only and not any("bias" in t for t in tests)
