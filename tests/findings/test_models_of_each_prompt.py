"""Prompts of which each has a model of its own cannot share a batch."""

from __future__ import annotations

import pytest

from tests.findings.test_fresh_misreadings import messages

LOOP = """\
from transformers import AutoModelForCausalLM, AutoTokenizer
from peft import PeftModel, get_peft_model, set_peft_model_state_dict

tokenizer = AutoTokenizer.from_pretrained("gpt2")
base = AutoModelForCausalLM.from_pretrained("gpt2").to("cuda")


def answer(facts, prompts, weights, config):
    model = base
    for fact in facts:
        {line}
        inputs = tokenizer(f"Q: {{fact}}", return_tensors="pt").to("cuda")
        out = model.generate(**inputs, max_new_tokens=9)
        print(tokenizer.decode(out[0]))
"""
CALLED = """\
from transformers import AutoModelForCausalLM, AutoTokenizer
from peft import get_peft_model

tokenizer = AutoTokenizer.from_pretrained("gpt2")


def answer(i, rows, base, weights, config):
    model = get_peft_model(base, config)
    state = model.state_dict()
    for name, value in weights[{key}].items():
        {line}
    question = rows[i]["question"]
    inputs = tokenizer(f"Q: {{question}}", return_tensors="pt").to("cuda")
    out = model.generate(**inputs, max_new_tokens=9)
    return tokenizer.decode(out[0])


def answers(rows, weights, config, n):
    base = AutoModelForCausalLM.from_pretrained("gpt2").to("cuda")
    for i in range(n):
        {before}
        print(answer(i, rows, base, weights, config))
"""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("model.load_state_dict(weights[fact], strict=False)", False),
        ("model.set_adapter(fact)", False),
        ("model = PeftModel.from_pretrained(base, weights[fact])", False),
        ("set_peft_model_state_dict(model, weights[fact])", False),
        ("model.lm_head.weight.data[0] = weights[fact]", False),
        ("handle = model.transformer.h[3].register_forward_hook(weights[fact])", False),
        ("[layer] = [model.transformer.h[3]]; model.transformer.h[3] = weights[fact]", False),
        ("loss = model(weights[fact]).loss; loss.backward()", False),
        ("model.eval()", True),
        ("model.config.use_cache = True", True),
        ("weights[fact] = load_on(fact, model.device)", True),
        ("weights.update({fact: 1})", True),
        ("other = PeftModel.from_pretrained(weights[fact])", True),
    ],
)
def test_a_model_that_changes_in_the_loop(line: str, said: bool) -> None:
    assert bool(messages(LOOP.format(line=line), "TL911")) is said


@pytest.mark.parametrize(
    ("line", "before", "said"),
    [
        ("state[name].copy_(value.to('cuda'))", "pass", False),
        ("print(name)", "base.load_adapter(weights[i])", False),
        ("print(name)", "edit_weights(base, weights[i])", False),
        ("print(name)", "pass", True),
        ("print(state[name].sum())", "base.eval()", True),
        ("value.copy_(value)", "pass", True),
    ],
)
def test_a_model_that_changes_in_the_function(line: str, before: str, said: bool) -> None:
    program = CALLED.format(line=line, before=before, key="i")
    assert bool(messages(program, "TL911")) is said
