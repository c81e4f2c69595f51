"""Where a model runs that is not trained there: in an evaluation, to act or to sample; and what
speaks against it."""

from __future__ import annotations

import re
from functools import partial

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import Grade, Module, heat_of, inferred
from torchlint.rules.training._eval_without_no_grad.graphless_calls import (
    calls_method,
    calls_without_graph,
)
from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.flow import call_sites
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.reaching import assigned_to, assigned_values, definitions_of
from torchlint.semantic.code.scopes import name_outside
from torchlint.semantic.code.text import in_main_guard
from torchlint.semantic.code.tree import attr_of, keyword_of, method_called
from torchlint.semantic.code.updates import is_step
from torchlint.semantic.device.host_reads import host_copy
from torchlint.semantic.project.asked import said_somewhere
from torchlint.semantic.question import question
from torchlint.semantic.time.autograd import no_grad
from torchlint.semantic.time.heat import callers_outside, may_be_hot
from torchlint.semantic.torch.names import STEP_METHODS
from torchlint.semantic.torch.spelling import ACTING, KEPT_STILL, called
from torchlint.semantic.uses.gradients import differentiates, runs_without_graph, switches_off
from torchlint.semantic.uses.graph_use import calls_in_view
from torchlint.semantic.values import definitions_behind
from torchlint.semantic.values.classes import is_network
from torchlint.semantic.values.value import CPU

EVALUATION = regex(
    r"(^|_)(val|valid\w*|eval\w*|tests?|testing|infer\w*|predict\w*)(_|$)"
    r"|[a-z](Eval|Valid|Test|Predict)"
)
_GRADIENTS = regex(
    r"(^|_)(attack\w*|adv\w*|saliency|grad_?cam|cam|attribut\w*|langevin|inver(t|sion)|perturb\w*|optimi\w+|calibrat\w*|"
    r"train\w*|fit|learn|finetune|guid\w+)(_|$)",
    re.IGNORECASE,
)
_TRAINING = regex(
    r"(^|_)(forward|loss\w*|objective|train\w*|fit|learn|update|step)(_|$)", re.IGNORECASE
)
_TRAINS = regex(r"\.(backward|step)\(")
_UNIT_TEST = regex(r"^test_\w+$")


def evaluates_by_name(place: cst.CSTNode) -> bool:
    """Say whether a function's name speaks of evaluation, and not of attacks, saliency or
    training."""
    name = place.name.value if isinstance(place, cst.FunctionDef) else ""
    return bool(EVALUATION.search(name)) and not _GRADIENTS.search(name)


@question(yes="the code around it calls .eval()", no="the code around it never calls .eval()")
def calls_eval(module: Module, place: cst.CSTNode) -> bool:
    """Say whether the code of a function calls ``eval()`` on anything, other than in one branch
    beside another that calls ``train()``."""
    calls = (c for c in module.within(place, cst.Call) if not c.args)
    return any(
        attr_of(call.func) == "eval" and not _trains_else(module, call, place) for call in calls
    )


def _trains_else(module: Module, call: cst.CSTNode, place: cst.CSTNode) -> bool:
    return any(
        isinstance(above, cst.If)
        and above.orelse is not None
        and module.is_within(above, place)
        and any(attr_of(each.func) == "train" for each in module.within(above, cst.Call))
        for above in module.ancestors(call)
    )


@question(
    yes="all that calls `{0}` evaluates",
    no="`{0}` may be called by code that trains",
)
def only_evaluated(module: Module, function: cst.CSTNode) -> bool:
    """Say whether a function evaluates by its own name or code, or else all of its callers do: one
    that nobody here calls, as a ``forward``, may train."""
    if not isinstance(function, cst.FunctionDef) or _evaluates_itself(module, function):
        return True
    sites = [s for s in call_sites(module, function) if module.function(s) is not function]
    others = module.outside.calls(name_outside(module, function))
    if not (sites or others):
        return not sites and heat_of(module, function.body).grade is Grade.EVAL
    return all(site.grade is not Grade.FORWARD for site in others) and all(
        no_grad(module, site) is True
        or ((heat := heat_of(module, site)).grade is Grade.EVAL and heat.loop is not None)
        or only_evaluated(module, module.scope(site))
        for site in sites
    )


@question(
    yes="a forward pass or a loss is made of what `{0}` gives",
    no="no forward pass or loss in view is made of what `{0}` gives",
)
def serves_training(module: Module, function: cst.CSTNode) -> bool:
    """Say whether code that may train, a forward pass or what is called a loss, takes what a
    function gives, whatever that is called: ``self.predict(x)`` in ``forward``."""
    if not isinstance(function, cst.FunctionDef):
        return False
    for where, site in calls_in_view(module, function):
        home = where.function(site)
        if home is None or home is function or no_grad(where, site) is True:
            continue
        if not _evaluates_itself(where, home) and _TRAINING.search(home.name.value):
            if not only_evaluated(where, home):
                return True
        elif serves_training(where, home):
            return True
    return False


def _evaluates_itself(module: Module, function: cst.FunctionDef) -> bool:
    return evaluates_by_name(function) or calls_eval(module, function)


@question(
    yes="`{0}` takes what was copied to the host, and only its name says that it runs a model",
    no="`{0}` is not known to be something that works on the host",
)
def works_on_host(module: Module, node: cst.Call) -> bool:
    """Say whether a call hands what was copied from the device to something that only its name
    calls a model, ``decoder(logits.cpu())``: a beam search, which records no graph."""
    model = inferred(module, node.func)
    if model.node is not None or model.name is not None:
        return False
    for arg in node.args:
        made = definitions_of(module, arg.value) if isinstance(arg.value, cst.Name) else []
        values = [arg.value, *(each.value for each in made if isinstance(each, cst.Assign))]
        if inferred(module, arg.value).device == CPU and any(
            isinstance(each, cst.Call) and host_copy(module, each) is not None for each in values
        ):
            return True
    return False


@question(
    yes="it is repeated, or stands in code that evaluates, acts or samples",
    no="it runs once, and nothing around it evaluates, acts or samples",
)
def matters(module: Module, node: cst.Call) -> bool:
    """Say whether a call is more than an example: it is repeated, or stands in a function that
    evaluates, acts or samples."""
    if module.loops(node) or heat_of(module, node).hot:
        return True
    home = module.function(node)
    if home is None:
        return _evaluates_file(module, node)
    if _UNIT_TEST.search(home.name.value):
        return False
    acts = called(home.name.value, ACTING) and not _GRADIENTS.search(home.name.value)
    return acts or _evaluates_itself(module, home)


def may_matter(module: Module, node: cst.Call) -> bool:
    """Say whether a call may be evaluated or `matters`; False is certain, and asks for no value of
    the function around it."""
    if module.loops(node) or may_be_hot(module, node):
        return True
    home = module.function(node)
    if home is None:
        return calls_eval(module, module.root)
    return called(home.name.value, ACTING) or _evaluates_itself(module, home)


def _evaluates_file(module: Module, node: cst.Call) -> bool:
    """Say whether a script runs a model that it has set to evaluate, and not on what it has just
    made up to try that out."""
    tried = any(inferred(module, arg.value).origin == "factory" for arg in node.args)
    return not tried and calls_eval(module, module.root) and not differentiates(module, module.root)


@question(
    yes="its function evaluates, and asks for no gradient",
    no="its function is not known to evaluate only",
)
def trains_nothing(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a place is in a function that evaluates, and asks for no gradient itself."""
    home = module.function(node)
    if home is None:
        return isinstance(node, cst.Call) and _evaluates_file(module, node)
    return not differentiates(module, home) and _evaluates_itself(module, home)


@question(
    yes="`{0}` is called a teacher or the like, and its gradients may be off",
    no="nothing says that the gradients of `{0}` are off",
)
def kept_still(module: Module, model: cst.BaseExpression) -> bool:
    """Say whether a network is called a teacher or the like, and comes from where its gradients may
    be switched off."""
    name = dotted_text(model) or ""
    if not any(called(part, KEPT_STILL) for part in name.split(".")):
        return False
    if isinstance(model, cst.Name):
        return not assigned_values(module, model)
    assigned = assigned_to(module, model)
    return not assigned or any(isinstance(value, cst.Name) for value in assigned)


@question(
    yes="`{0}` is a teacher or the like, and a file of the program switches gradients off",
    no="no file of the program switches off the gradients of `{0}`",
)
def still_by_project(module: Module, model: cst.BaseExpression) -> bool:
    """Say whether a network is called a teacher or the like, in a program of which a file switches
    the gradients of parameters off."""
    return kept_still(module, model) and said_somewhere(module, switches_off)


@question(
    yes="a framework calls the method, and switches autograd off itself",
    no="no framework is known to call it",
)
def called_by_framework(module: Module, node: cst.Call) -> bool:
    """Say whether a framework may call the method around a node, and switch autograd off itself."""
    home = module.function(node)
    return (
        home is not None
        and home.name.value in STEP_METHODS
        and module.class_of(home) is not None
        and not call_sites(module, home)
    )


@question(
    yes="it is for callers in other files, which decide about autograd",
    no="no caller in another file is known to decide about autograd here",
)
def callers_decide(module: Module, node: cst.Call) -> bool:
    """Say whether a place is in a network's own method that nobody in view calls, its forward pass
    or one that detaches nothing itself, or runs only in a mode that is none of training: those who
    call it, or ask for that, may switch autograd off."""
    if heat_of(module, node).untrained:
        return True
    home = module.function(node)
    if home is None or call_sites(module, home) or callers_outside(module, home):
        return False
    cls = module.class_of(home)
    if cls is None or not is_network(module, cls):
        return False
    calls = module.within(home, cst.Call) if home.name.value != "forward" else ()
    detaches = any(method_called(call) == "detach" for call in calls)
    return not (detaches or module.outside.calls(name_outside(module, home)))


@question(
    yes="it is part of a network that only the file's own test of it runs, on what it makes up",
    no="no test of a network by its own file is all that runs it",
)
def only_tried(module: Module, node: cst.Call) -> bool:
    """Say whether a place is in the methods of networks that nothing runs but what stands under the
    guard of the file, on a tensor that it makes up: under ``no_grad`` who trains them would get no
    gradients."""
    home = module.function(node)
    if home is None:
        tried = any(inferred(module, arg.value).origin == "factory" for arg in node.args)
        return tried and in_main_guard(module, node)
    cls = module.class_of(home)
    if cls is None or not is_network(module, cls) or _evaluates_itself(module, home):
        return False
    sites = call_sites(module, home)
    return (
        bool(sites)
        and not callers_outside(module, home)
        and all(only_tried(module, site) for site in sites)
    )


@question(
    yes="another file that calls a method of its name switches autograd off, or decides about it",
    no="no other file that calls a method of its name switches autograd off",
)
def switched_off_elsewhere(module: Module, node: cst.Call) -> bool:
    """Say whether a place is in a network's own method, or one that acts or samples, of which no
    call is known but those that try it out where the file is run itself, as objects of several
    classes have it, and another file that calls it by name switches autograd off, or, where a
    network's is tried out, calls it at all; or in what only such methods call."""
    home = module.function(node)
    if home is None:
        return False
    own = call_sites(module, home)
    sites = [(module, site) for site in own if not in_main_guard(module, site)]
    sites += [(caller.module, caller.call) for caller in callers_outside(module, home)]
    if sites:
        return all(
            no_grad(where, site) is True or switched_off_elsewhere(where, site)
            for where, site in sites
        )
    cls = module.class_of(home)
    name = home.name.value
    if cls is None or not (is_network(module, cls) or called(name, ACTING)):
        return False
    tried = is_network(module, cls) and bool(own) and not _evaluates_itself(module, home)
    if tried and module.outside.others_say(partial(calls_method, name)) is True:
        return True
    return said_somewhere(module, partial(calls_without_graph, name))


@question(
    yes="the network's own forward pass asks for gradients, or switches autograd off",
    no="no forward pass in view asks for gradients or switches autograd off itself",
)
def decides_on_autograd(module: Module, node: cst.Call) -> bool:
    """Say whether a call runs a network of the project whose forward pass runs the backward pass
    too, or takes gradients (a wrapper that trains what it holds, forces of an energy), or runs all
    that it holds with autograd off (the features of a metric); or a network that is not in view, in
    a project of layers that take gradients."""
    model = inferred(module, node.func)
    forward = definitions_behind.method(module, model, "forward")
    if forward is not None:
        return differentiates(*forward) or runs_without_graph(*forward)
    return model.node is None and said_somewhere(module, _layers_take_gradients)


def _layers_take_gradients(text: str) -> bool:
    """Say whether a file has networks that ask for gradients, and trains none."""
    return "autograd.grad(" in text and "def forward(" in text and not _TRAINS.search(text)


@question(
    yes="an optimizer steps there, and only the call itself can have run the backward pass",
    no="no optimizer steps there, or the backward pass is in view",
)
def may_run_backward(module: Module, node: cst.Call) -> bool:
    """Say whether a call of something unknown may back-propagate itself: the function around it
    makes an optimizer's step, and nothing else that it does leaves gradients for that."""
    return _only_steps(module, module.scope(node)) and not definitions_behind.functions(
        module, node
    )


@question(circular=False)
def _only_steps(module: Module, home: cst.CSTNode) -> bool:
    """Say whether a function makes an optimizer's step, and leaves no gradients for it."""
    calls = list(module.within(home, cst.Call))
    steps = [each for each in calls if is_step(module, each)]
    if not steps or any(method_called(each) != "step" for each in steps):
        return False
    return not any(
        differentiates(where, callee)
        for each in calls
        for where, callee in definitions_behind.functions(module, each)
    )


@question(yes="the function says volatile=True", no="the function does not say volatile=True")
def volatile(module: Module, node: cst.Call) -> bool:
    """Say whether the function speaks of ``volatile=True``, or sets ``x.volatile``, which was
    no_grad before torch 0.4."""
    return _says_volatile(module, module.scope(node))


@question(ground=True)
def _says_volatile(module: Module, place: cst.CSTNode) -> bool:
    return any(keyword_of(arg) == "volatile" for arg in module.within(place, cst.Arg)) or any(
        attr_of(each.target) == "volatile" for each in module.within(place, cst.AssignTarget)
    )


@question(
    yes="`{0}` comes from another library or from an exported file",
    no="`{0}` is not known to come from another library",
)
def foreign(module: Module, model: cst.BaseExpression) -> bool:
    """Say whether a model comes from a library that is not torch, or from an exported file."""
    if isinstance(model, cst.Name):
        made = sole_definition(module, model)
    else:
        assigned = assigned_to(module, model)
        made = assigned[0] if len(assigned) == 1 else None
    name = module.called(made)
    if "." not in name:
        return False
    return name.startswith("torch.jit.") or not (
        name.startswith(("torch.", "torchvision.", "builtins.", "copy."))
        or module.outside.is_ours(name)
        or module.outside.find(name) is not None
    )
