"""Networks that a function makes and never trains, and what they are run on in each step."""

from __future__ import annotations

import re

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import Module
from torchlint.semantic.code.flow import writes_of
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.text import mentions
from torchlint.semantic.code.tree import Loop, has_star
from torchlint.semantic.data.samples import is_fixed
from torchlint.semantic.question import question
from torchlint.semantic.time.autograd import no_grad
from torchlint.semantic.torch import ops
from torchlint.semantic.uses.frozen import frozen_names
from torchlint.semantic.uses.object_uses import written_key

_RUNS = regex(r"^(forward|encode(_\w+)?|get_\w+_features|extract_features|forward_features)$")
"""Methods by which a frozen network is run, beside calling it."""
_HARMLESS = regex(r"^(eval|config|dtype|device|enable_\w+|disable_\w+|load_state_dict)$")
"""What a program may do with a network before the loop, beside moving and casting it."""
_TAKEN = regex(r"(prepare|print|unwrap_model|[Pp]ipeline(\.from_pretrained)?)$")
"""Calls that may be given a network, and do not train it."""
_TRAINABLE = regex(r"requires_grad|\bParameter\b|\boptim|\bAdam|\bSGD|\bLBFGS")
_TEXTS = regex(r"(^|_)(ids|tokens?|prompts?|texts?|captions?)(_|$)")
"""What people call tokens, which nobody trains."""
_CHANCE = regex(
    r"\bRandom\w+\(|RandAugment|AutoAugment|TrivialAugment|AugMix|Jitter|albumentations|imgaug"
    r"|\baug(ment\w*)?\b|\brandom\.(?!seed|shuffle|sample)\w+\(|\brandint\(|\bchoice\(|tokenizer\.mask|mlm",
    re.IGNORECASE,
)
"""Signs that a file changes samples at random."""
_KEPT = ops.having("same") | ops.having("move") | ops.having("cast")


@question(
    yes="the network is made here, frozen, and trained by nothing",
    no="the network is not known to stay as it is",
)
def never_trained(module: Module, net: cst.Name, loop: Loop) -> bool:
    """Say whether a network is made in the same function, and stays the same in a loop: it is
    frozen, or run without gradients, and everything that names it leaves it alone."""
    scope = module.scope(net)
    writes = writes_of(module, scope, net.value)
    if not writes or any(module.is_within(each, loop) for each in writes):
        return False
    if not any(_assigns_new(module, each) for each in writes):
        return False
    frozen = frozen_names(module, scope).get(net.value)
    return (frozen is not None or no_grad(module, net) is True) and all(
        (frozen is not None and module.is_within(use, frozen)) or _leaves_alone(module, use, loop)
        for use in module.within(scope, cst.Name, nested=True)
        if use.value == net.value and use not in writes and not module.is_label(use)
    )


def _assigns_new(module: Module, write: cst.CSTNode) -> bool:
    """Say whether a name is assigned what a call with a capital, or ``from_pretrained``, makes."""
    target = module.parent(write)
    home = module.parent(target) if isinstance(target, cst.AssignTarget) else None
    return isinstance(home, cst.Assign) and isinstance(home.value, cst.Call)


def _leaves_alone(module: Module, use: cst.Name, loop: Loop) -> bool:
    """Say whether a use reads the network, runs it, or moves it before the loop."""
    inside = module.is_within(use, loop)
    match module.parent(use):
        case cst.Call(func) if func is use:
            return True
        case cst.Attribute(attr=cst.Name(name)) as attribute:
            if _RUNS.match(name) or name in ("config", "dtype", "device"):
                return True
            called = module.parent(attribute)
            harmless = name in _KEPT or _HARMLESS.match(name)
            return bool(harmless) and not inside and isinstance(called, cst.Call)
        case cst.Arg() as arg:
            call = module.parent(arg)
            name = dotted_text(call.func) or "" if isinstance(call, cst.Call) else ""
            return _TAKEN.search(name) is not None
        case cst.Del():
            return True
    return False


# -- what it is run on -----------------------------------------------------------------------------


def runs_network(call: cst.Call) -> cst.Name | None:
    """Return the network that a call runs: ``net(x)``, ``net.encode(x)``."""
    match call.func:
        case cst.Name():
            return call.func
        case cst.Attribute(cst.Name() as net, cst.Name(name)) if _RUNS.match(name):
            return net
    return None


@question()
def inputs_of(module: Module, call: cst.Call, loop: cst.For) -> set[str]:
    """Return what a call is given in each iteration of a loop over a loader: ``constant`` (the same
    in each), ``sample`` (of the same sample the same in each epoch), ``other``."""
    if has_star(call):
        return {"other"}
    return {_input(module, arg.value, loop) for arg in call.args}


@question(circular="other")
def _input(module: Module, node: cst.BaseExpression, loop: cst.For) -> str:
    match node:
        case cst.Call(cst.Attribute(inner, cst.Name(name))) if name in _KEPT:
            return _input(module, inner, loop)
        case cst.Integer() | cst.Float() | cst.SimpleString() | cst.Name("True" | "False" | "None"):
            return "constant"
        case cst.Subscript() if (key := written_key(node)) is not None and isinstance(
            node.value, cst.Name
        ):
            alone = definitions_of(module, node.value) == [loop] and is_text(module, str(key))
            return "sample" if alone else "other"
        case cst.Name():
            if _stays(module, node, loop):
                return "constant"
            made = definitions_of(module, node)
            if made == [loop]:
                return "sample" if is_text(module, node.value) else "other"
            only = made[0] if len(made) == 1 else None
            if isinstance(only, cst.Assign) and module.is_within(only, loop):
                return _input(module, only.value, loop)
    return "other"


def _stays(module: Module, name: cst.Name, loop: cst.For) -> bool:
    """Say whether a name holds the same tensor, with the same numbers, in each iteration: nothing
    in the loop binds it, or does anything with it but hand it to networks, and nothing trains
    it."""
    scope = module.scope(name)
    writes = writes_of(module, scope, name.value)
    if not writes or not is_fixed(module, name, loop.body):
        return False
    for use in module.within(scope, cst.Name, nested=True):
        if use.value != name.value or module.is_label(use) or use in writes:
            continue
        if _TRAINABLE.search(module.source(module.statement(use))) and not module.is_within(
            use, loop
        ):
            return False
        if module.is_within(use, loop) and not _only_handed(module, use):
            return False
    return not any(_may_train(module, each, name.value) for each in writes)


def _may_train(module: Module, write: cst.CSTNode, name: str) -> bool:
    """Say whether a name may get what is trained: by what it is bound to, or as a parameter that is
    not called a text."""
    if isinstance(module.parent(write), cst.Param):
        return _TEXTS.search(name) is None
    return _TRAINABLE.search(module.source(module.statement(write))) is not None


def _only_handed(module: Module, use: cst.Name) -> bool:
    call = module.taker(module.chain_around(use))
    chain = module.links_around(use, cst.Attribute, cst.Call)
    kept = all(at.attr.value in _KEPT for at in chain if isinstance(at, cst.Attribute))
    return kept and call is not None and runs_network(call) is not None


@question(
    yes="what is called `{0}` are texts or their tokens, which nothing here changes at random",
    no="what is called `{0}` are not known to be texts or tokens that nothing changes at random",
)
def is_text(module: Module, word: str) -> bool:
    """Say whether what is called so are texts or their tokens, which this file changes in no way
    at random."""
    return _TEXTS.search(word) is not None and not mentions(module, _CHANCE)
