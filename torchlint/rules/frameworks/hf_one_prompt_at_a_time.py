"""Give generate() a batch of prompts, not one after the other

## Why
Each token of a decoder reads all weights once, for one prompt or for thirty: the GPU waits for
memory and has arithmetic to spare, so prompts that are decoded together cost little more than one.
A loop that tokenises a prompt, generates and decodes leaves that out. Transformers says so of its
pipelines, too: "You seem to be using the pipelines sequentially on GPU. In order to maximize
efficiency please use a dataset".

Flagged: `generate` (or the call of a transformers pipeline) in a loop over prompts, or in a
function that such a loop calls, where the text is one item of the loop and nothing of an earlier
iteration goes into it. That it is one text is seen by how it is built, or by the result, of which
only `[0]` is read, or which is one number. The same for other calls of a model with what a
tokenizer gave, `model(**inputs)`, and for a prompt of which a loop draws one answer after the other
(`do_sample=True`).

The examples need transformers and are not executed by the tests.

## Setup
```python
import torch
```

## Bad
```python
def answers(questions):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained("gpt2")
    model = AutoModelForCausalLM.from_pretrained("gpt2").to("cuda").eval()
    found = []
    for question in questions:
        inputs = tokenizer(f"Q: {question}\\nA:", return_tensors="pt").to("cuda")
        with torch.no_grad():
            out = model.generate(**inputs, max_new_tokens=64)
        found.append(tokenizer.decode(out[0], skip_special_tokens=True))
    return found
```

## Good
```python
def answers(questions):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained("gpt2", padding_side="left")
    tokenizer.pad_token = tokenizer.eos_token
    model = AutoModelForCausalLM.from_pretrained("gpt2").to("cuda").eval()
    found = []
    for start in range(0, len(questions), 32):
        prompts = [f"Q: {question}\\nA:" for question in questions[start : start + 32]]
        inputs = tokenizer(prompts, return_tensors="pt", padding=True).to("cuda")
        with torch.no_grad():
            out = model.generate(**inputs, max_new_tokens=64)
        found += tokenizer.batch_decode(out, skip_special_tokens=True)
    return found
```

## Leave alone
A conversation: what was said before is part of the next prompt.
```python
def talk(model, tokenizer, questions):
    history = ""
    for question in questions:
        history += f"Q: {question}\\nA:"
        inputs = tokenizer(history, return_tensors="pt").to("cuda")
        out = model.generate(**inputs, max_new_tokens=64)
        history = tokenizer.decode(out[0])
    return history
```

Each prompt has weights of its own.
```python
def edited(model, tokenizer, facts, weights):
    for fact in facts:
        model.load_state_dict(weights[fact], strict=False)
        inputs = tokenizer(f"Q: {fact}\\nA:", return_tensors="pt").to("cuda")
        print(tokenizer.decode(model.generate(**inputs)[0]))
```

A handful of prompts, to look at.
```python
def show(model, tokenizer):
    for prompt in ["Once upon a time", "The weather today"]:
        inputs = tokenizer(prompt, return_tensors="pt").to("cuda")
        print(tokenizer.decode(model.generate(**inputs)[0]))
```

## Fix safety
No fix is offered: prompts of different lengths need a token to pad with, on the left, and in half
precision sums over padded rows may round otherwise.

## Measure
Not timed: the example needs transformers and a model. On a GPU a gain near the number of prompts in
a batch can be expected until arithmetic, not memory, is the limit.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import Hit, Module, Rule, keyword_argument
from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.flow import callees_of, writes_of
from torchlint.semantic.code.reaching import assigned_value, uses_of
from torchlint.semantic.code.text import mentions
from torchlint.semantic.code.tree import attr_of, is_name, last_name, positional
from torchlint.semantic.uses.changed_models import changes_for_each
from torchlint.semantic.uses.each_item import each_item

_TOKENIZER = regex(r"(^|_)(tok|tokeni[sz]er|processor)$")
_ACCELERATOR = regex(r"cuda|device")
_PLACED = regex(r"device_map|set_default_device")
"""What brings inputs to where the model is without a move that is written down."""
_PIPELINE = "transformers.pipeline"
_MAKES_PIPELINE = regex(r"\bpipeline\(")
_MOVES = ("to", "cuda")
_INPUTS = ("input_ids", "inputs")
_SEVERAL = ("num_return_sequences", "num_beams")
"""With these, one prompt is a batch already."""
_REPEATED = (
    "`{call}(…)` gets the same prompt in each pass of the loop, and reads it and all weights "
    "again; num_return_sequences= draws all answers in one call."
)
_DECODES = ("format", "strip", "join")
"""Methods of texts that give one text."""

rule = Rule(
    __name__,
    __doc__,
    code="TL911",
    message=(
        "`{call}(…)` gets one {what} at a time, though none depends on another: the GPU reads all "
        "weights for each; give it a batch{how}."
    ),
    severity="warning",
    default=True,
    effect="none",
    triggers=(b"return_tensors", b"pipeline("),
    equivalence="opt-in",
)


@rule.on(
    cst.Call,
    about=lambda _, node: (
        attr_of(node.func) == "generate" or "**" in {arg.star for arg in node.args}
    ),
)
def check_model(node: cst.Call, module: Module) -> Iterator[Hit]:
    text = _tokenised(module, node)
    if text is None or not mentions(module, _ACCELERATOR) or callees_of(module, node):
        return
    if any(keyword_argument(module, node, name) is not None for name in _SEVERAL):
        return
    if attr_of(node.func) == "generate" and _repeats(module, node):
        yield Hit(node, {"call": module.shown(node.func)}, message=_REPEATED)
    elif (_is_text(module, text) or _is_one(module, node)) and each_item(module, text):
        decodes = attr_of(node.func) == "generate"
        model = node.func.value if decodes and isinstance(node.func, cst.Attribute) else node.func
        if changes_for_each(module, model, text):
            return
        how = ' of them, padded on the left (padding_side="left")' if decodes else ", padded"
        what = "prompt" if decodes else "input"
        yield Hit(node, {"call": module.shown(node.func), "what": what, "how": how})


@rule.on(cst.Call, file=lambda module: mentions(module, _MAKES_PIPELINE))
def check_pipeline(node: cst.Call, module: Module) -> Iterator[Hit]:
    made = sole_definition(module, node.func)
    given = positional(node)
    if not given or module.called(made) != _PIPELINE or not isinstance(made, cst.Call):
        return
    if keyword_argument(module, node, "batch_size") is not None or not _on_gpu(module, made):
        return
    if (_is_text(module, given[0]) or _is_one(module, node)) and each_item(module, given[0]):
        how = ": the whole list, with batch_size="
        yield Hit(node, {"call": module.shown(node.func), "what": "input", "how": how})


def _repeats(module: Module, call: cst.Call) -> bool:
    """Say whether a loop that only counts draws again and again with nothing changed."""
    loop, scope = module.loop(call), module.scope(call)
    if not isinstance(loop, cst.For) or module.called(loop.iter) != "builtins.range":
        return False
    return is_name(keyword_argument(module, call, "do_sample"), "True") and not any(
        module.is_within(write, loop)
        for name in module.names_in(*call.args)
        for write in writes_of(module, scope, name)
    )


def _on_gpu(module: Module, pipeline: cst.Call) -> bool:
    """Say whether a pipeline is told where to run, and not on the CPU."""
    place = keyword_argument(module, pipeline, "device")
    if place is None:
        return keyword_argument(module, pipeline, "device_map") is not None
    return module.source_of(place).strip("\"'") not in ("cpu", "-1")


def _tokenised(module: Module, call: cst.Call) -> cst.BaseExpression | None:
    """Return the text whose tokens the model is given; None where that is not known, or nothing
    shows that they come to an accelerator."""
    given = [
        arg.value
        for arg in call.args
        if arg.star == "**"
        or (arg.keyword is None and not arg.star)
        or is_name(arg.keyword, *_INPUTS)
    ]
    steps = list(_steps_to(module, given[0])) if given else []
    moved = any(isinstance(each, cst.DictComp) or attr_of(each) in _MOVES for each in steps)
    comes = moved or mentions(module, _PLACED)
    return _text_of(module, steps[-1]) if steps and comes else None


def _steps_to(module: Module, tokens: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Yield what leads to some tokens: they may have been moved to a device, or be one field."""
    yield tokens
    inner: cst.BaseExpression | None = None
    match tokens:
        case cst.Name():
            inner = assigned_value(module, tokens)
        case cst.Attribute(holder) | cst.Subscript(holder):
            inner = holder
        case cst.DictComp(for_in=cst.CompFor(iter=cst.Call(cst.Attribute(holder)))):
            inner = holder
        case cst.Call(cst.Attribute(holder, cst.Name(method)) as moves) if method in _MOVES:
            yield moves
            inner = holder
    if inner is not None:
        yield from _steps_to(module, inner)


def _text_of(module: Module, tokens: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return the first argument of a tokenizer's call."""
    match tokens:
        case cst.Call(func) if _TOKENIZER.search(_tokenizer(func).lower()):
            several = keyword_argument(module, tokens, "padding") is not None
            texts = [keyword_argument(module, tokens, "text"), *positional(tokens)]
            text = next((each for each in texts if each is not None), None)
            own = callees_of(module, tokens)
            return None if own or (several and not _is_text(module, text)) else text
    return None


def _tokenizer(func: cst.BaseExpression) -> str:
    """Return the last part of the name of what a call is asked of: of a method, its object."""
    holds = attr_of(func) in ("encode", "apply_chat_template")
    return last_name(func.value if holds and isinstance(func, cst.Attribute) else func)


def _is_text(module: Module, node: cst.BaseExpression | None) -> bool:
    """Say whether an expression is known to be one text, or a list of one."""
    match node:
        case cst.SimpleString() | cst.FormattedString() | cst.ConcatenatedString():
            return True
        case cst.List([cst.Element(only)]):
            return not isinstance(only, cst.StarredElement)
        case cst.BinaryOperation(left, cst.Add(), right):
            return _is_text(module, left) or _is_text(module, right)
        case cst.Call(cst.Attribute(attr=cst.Name(method))) if method in _DECODES:
            return True
        case cst.Call(func) if attr_of(func) == "apply_chat_template":
            return is_name(keyword_argument(module, node, "tokenize"), "False")
        case cst.Name():
            made = assigned_value(module, node)
            return made is not None and _is_text(module, made)
    return False


def _is_one(module: Module, call: cst.Call) -> bool:
    """Say whether only the first row of the result is read, or a number: a batch of one."""
    reads = uses_of(module, call)
    return bool(reads) and all(_takes_one(module, read) for read in reads)


def _takes_one(module: Module, read: cst.CSTNode) -> bool:
    node, above = read, module.parent(read)
    while isinstance(above, cst.Attribute) or (isinstance(above, cst.Call) and above.func is node):
        if isinstance(above, cst.Call) and attr_of(node) in ("item", "tolist"):
            return attr_of(node) == "item"
        node, above = above, module.parent(above)
    match above:
        case cst.Subscript(slice=[cst.SubscriptElement(cst.Index(cst.Integer("0"))), *_]):
            return above.value is node
    return False
