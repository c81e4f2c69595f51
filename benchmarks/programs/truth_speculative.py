"""Two tiny GPT-2 for romsto/Speculative-Decoding: its three ways to decode, and its beam search."""

import os
import sys
from unittest import mock

os.environ["HF_HUB_OFFLINE"] = "1"
sys.modules["termcolor"] = mock.MagicMock()
from ngram_assisted import OneLevelNGramStorage, ngram_assisted_speculative_generate  # noqa: E402
from sampling import autoregressive_generate, beam_search_generate, speculative_generate  # noqa: E402
from transformers import GPT2Config, GPT2LMHeadModel  # noqa: E402
from utils.logits_processor import GreedyProcessor, NucleusProcessor  # noqa: E402


def network(layers: int) -> GPT2LMHeadModel:
    """Return a tiny language model on the GPU."""
    sizes = {"vocab_size": 32, "n_positions": 64, "n_embd": 16, "n_head": 2}
    return GPT2LMHeadModel(GPT2Config(n_layer=layers, **sizes)).cuda().eval()


target, drafter = network(2), network(1)
prompt, common = [1, 2, 3, 4], {"max_gen_len": 16, "eos_tokens_id": 0, "pad_token_id": 31}
for processor in (GreedyProcessor(), NucleusProcessor(1.0, 0.9)):
    print(autoregressive_generate(prompt, target, logits_processor=processor, **common))
    print(speculative_generate(prompt, drafter, target, logits_processor=processor, **common))
    storage = OneLevelNGramStorage(n=3, vocab_size=32)
    print(
        ngram_assisted_speculative_generate(
            prompt, storage, target, logits_processor=processor, **common
        )
    )
print(beam_search_generate(prompt, target, **common))
