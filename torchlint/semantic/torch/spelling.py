"""What people call things: a name alone says what it is likely to be, where no definition does.
Data only.

Each row says how one knows. Where that is a count, it is of 36 public training repositories that
nobody here wrote, and of pairs of a name and a repository.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple


class Spelling(NamedTuple):
    """What a kind of thing is called: a pattern, one of what it is not in spite of that, and how
    one knows."""

    pattern: str
    source: str
    not_these: str = r"(?!)"  # matches nothing
    any_case: bool = True


@cache
def called(name: str, what: Spelling) -> bool:
    """Say whether a name is one that people give to such a thing."""
    pattern, not_these = _compiled(what)
    return pattern.search(name) is not None and not not_these.search(name)


@cache
def _compiled(what: Spelling) -> tuple[re.Pattern[str], re.Pattern[str]]:
    flags = re.IGNORECASE if what.any_case else 0
    return re.compile(what.pattern, flags), re.compile(what.not_these, re.IGNORECASE)


LOADER = Spelling(
    r"(^|_)(data_?)?(loaders?|dl|dataloaders?|(data|train|test|val|valid|eval)_iter(ator)?)"
    r"(_(train|val|valid|test|eval|trn|tst|tr|te))?\d*$|[a-z](Data)?Loader$",
    "41 of the 41 names bound to a DataLoader",
)
WORKERS = Spelling(
    r"^(\w+_)?(num_?|n_?|nb_)?(data_?)?(loader_?)?workers$|^(num_|n_)(threads|cpus)$",
    "14 of the 16 names, attributes and items that a DataLoader is given as its num_workers",
    r"max_workers|ddp|world",
)
MODEL = Spelling(
    r"^(\w+_)?(model|net|network|generator|discriminator|critic|actor|policy|encoder|decoder|backbone|classifier|teacher|"
    r"student|unet|vae|netG|netD|net_g|net_d|model_ema)(_\w+)?$|^net_?[A-Z]\w*$|^net_\w+$",
    "45 of the 71 names that are asked for their parameters(); the others are parts, or one letter",
    # ``model_path`` is none, nor is what does something with a model or makes one, as
    # ``unwrap_model(m)`` does, nor a number of one: ``lr_actor``, ``d_model``; nor what pydantic's
    # models are asked, ``model_validate_json``.
    r"(name|path|dir|file|type|cfg|config|args?|kwargs|params?|id|ids|key|size|dim|dict|url|list|class|cls|version|fn|"
    r"func|step|input|inputs|output|outputs|out|loss|losses|target|device|state|score|scores|pred"
    r"|preds|info|spec|s|grads?|gradients?|proto|history|histories|results?|metrics?|stats|logs?)$|"
    r"^_*(?-i:is|has|can|should|use|get|set|build|create|make|init|setup|prepare|load|save|export|convert|wrap|unwrap|"
    r"log|print|plot|quantize|freeze|update|register|compute|calc|calculate|reset|sync"
    r"|lr|dim|num|n|tau|eps|dropout)_|^d_model$|^model_(validate|dump|construct|copy|rebuild)(_|$)",
    any_case=False,
)
CLASS = Spelling(
    r"(^|_)(class|cls|klass)$",
    "model_class (67 calls of it in 64 projects), optimizer_cls, block_class: what makes objects",
    r"(num|n|nb|per|of|target|true|pred|gt)_(class|cls)$",
)
HELD_OUT = Spelling(
    r"(^|_)((?i:val|valid|validation|eval|evaluation|test|testing|held_?out))(_|[sS]et|[dD]ata|\d|$)"
    r"|[a-z](Val|Valid|Validation|Test)(Data|Set|$)",
    "what the loaders' arguments are called that evaluation loops of PyTorch's tutorials go over",
    r"(^|_)train",
    any_case=False,
)
CRITERION = Spelling(
    r"^(\w+_)?(criterion|criteria|loss_fn|loss_func|loss_function|lossfn|loss_fct|crit|cri_\w+|criterion_\w+|\w+_loss_fn|"
    r"loss_module|loss_layer)$",
    (
        "19 of the 30 names bound to a loss of torch.nn; the others are loss itself, or the loss's "
        "own name"
    ),
)
LOSS = Spelling(
    r"(^|_)loss(_\w+)?$|^[a-z]+_?loss$",
    "32 of the 39 names on which backward() is called",
)
METRIC = Spelling(
    r"(^|_)(acc|accuracy|psnr|ssim|m?iou|dice|jaccard|f1|precision|recall|auc|auroc|bleu|rouge|wer|cer|"
    r"mse|mae|rmse|mape|r2|ndcg|perplexity|metrics?|scores?|errors?|correct|correlation|similarity|"
    r"confusion_matrix|hits?)(_\w+)?$|[a-z](Accuracy|Score|Error|Metric|Similarity)$",
    "the functions of sklearn.metrics and of torchmetrics.functional",
)
ACTING = Spelling(
    r"^_*((select|get|choose|take|pick|sample)_(greedy_)?actions?|act|sample\w*|generate\w*"
    r"|(greedy_)?decode\w*|(beam|greedy)_\w+|translate\w*|caption\w*|infer\w*|predict\w*"
    r"|reconstruct\w*|interpolate\w*)$",
    "the functions that act, sample, decode or predict in the tutorials of PyTorch",
    r"(batch|data\w*|noise|z|latents?|indices|index|idx|negatives?|memory|replay|mask|anchors"
    r"|points|grid|path|config|prior)$",
)
KEPT_STILL = Spelling(
    r"(^|_)(teacher|target|ema|momentum|frozen|fixed|pre_?trained|ref|reference|old|expert|vgg\d*"
    r"|lpips|clip|t)(_|$)|[a-z](Teacher|Target|Ema|EMA)$",
    "what people call a network that no optimizer gets, and whose gradients they often switch off",
    any_case=False,
)
SHOWING = Spelling(
    r"^(log\w*|debug|info|warning|error|add_(scalars?|images?|image_with_boxes|histogram|text|video)"
    r"|set_(postfix|description)(_str)?|write|print\w*|display|format|save_image)$",
    "the methods of loggers, of progress bars and of TensorBoard's writer",
    r"^log_?(prob|softmax|sum_?exp|sigmoid|likelihood|det|its?)\w*$",
)
OPTIMIZER = Spelling(
    r"^(\w+_)?(optim(izer)?\w*|opt|opts)$",
    "38 of the 38 names bound to an optimizer of torch.optim",
)
SCALER = Spelling(
    r"^(\w+_)?(grad_?)?scaler$",
    "6 of the 8 names bound to a GradScaler; the others are scaler_D and scaler_G",
    any_case=False,
)
DEVICE = Spelling(
    r"^(\w+_)?(device|dev)(_\w+)?$",
    "21 of the 22 names bound to a torch.device; the other is _device",
    r"(count|id|ids|type|name|num|n|map|list|placement|memory|mesh|stats|index|s)$",
)
OPTIONS = Spelling(
    r"^_*([a-z]+_?)?(args?|opts?|options|cfgs?|conf|configs?|hparams?|hps|hyp|flags|settings?"
    r"|hyper_?param(eter)?s?)$",
    "29 of the 29 names bound to what argparse gives",
    r"(kw|var)args$|(^|_)arg$",
)
NUMBER = Spelling(
    r"^((in|out|mid|base|num|n)_?(channels?|planes|chans)"
    r"|(num|n)_?(layers?|class(es)?|heads|workers|epochs?|blocks|groups|channels|steps|iters?"
    r"|iterations|gpus|actions|batches|levels)"
    r"|(hidden|embed(ding)?|latent|model|vocab|word|input|output|batch|mini_?batch|kernel|image|patch"
    r"|window|crop|pool|beam|latent_vector|memory|buffer|chunk|block)_?(size|dim)"
    r"|(max|total|cur(rent)?|start|end|warmup)_(steps?|iters?|epochs?|iterations|seq_len(gth)?)"
    r"|epochs?|global_?step|n_iter|lr|learning_rate|weight_decay|momentum|dilation|stride|padding"
    r"|world_size|nheads|n_?samples|seq_length|patience|[a-z]\w*_(freq|frequency|every|interval))$",
    (
        "723 of the 741 of which 25 repositories show what they are, each once a function; the "
        "others are tuples and lists of numbers"
    ),
)
LENGTHS = Spelling(
    r"(^|_)(lens|lengths)$",
    (
        "beside scores, networks give the lengths of sequences as tensors (torch.nn.utils.rnn's "
        "pad_packed_sequence) or as lists (tutorials on captioning): the name leaves it open"
    ),
)
SPECIAL_TOKEN = Spelling(
    r"^(<[^<>]+>|\[[A-Z]+\d*\])$",
    "the special tokens of the vocabularies of torchtext, T5 and GPT, and of BERT",
    any_case=False,
)
BATCH = Spelling(
    r"(^|_)(batch|inputs?|data|samples?|features?|feats?|examples?|x|items?|targets?|labels?|outputs?"
    r"|preds?|predictions?|results?|interaction)(_?dict|s)?(_\w)?\d*$",
    "what the collate functions of PyTorch's and transformers' tutorials hand over; not counted",
)
BATCH_SIZE = Spelling(
    r"^(n(um)?_?)?(batch_?size|bs|bsz|bsize|bat_size|B|batch|images?|imgs|samples)$",
    (
        "DataLoader's own argument is batch_size; B is the first letter in the shapes of PyTorch's "
        "documentation"
    ),
    r"^(batch|images?|imgs|samples)$",
    any_case=False,
)
SURE_BATCH_SIZE = Spelling(
    r"^(mini_?)?(batch_?size|bs|bsz)$",
    "DataLoader's own argument is batch_size, which is 1 or more; the others are short for it",
    any_case=False,
)
RANK = Spelling(
    r"^(rank|local_rank|gpu|gpu_id|gpu_idx|LOCAL_RANK)$",
    (
        "torchrun sets LOCAL_RANK; rank and gpu_id are PyTorch's tutorials on DDP, gpu is its "
        "ImageNet example"
    ),
    any_case=False,
)
DEVICE_FLAG = Spelling(
    r"cuda|(^|_)(gpus?|cpu)(_|$)|^device$",
    "16 of the 27 tests right above a move to a device; the other 11 speak of no device",
)
COLLATE = Spelling(
    r"(^|_)collat(e|or)(_|$|fn)|Collat(e|or)\w*$",
    "4 of the 4 names given as collate_fn= that are no lambda",
)
ACTS = Spelling(
    r"^_*((select|choose|get|sample|take|pick|best|greedy|batch)_)?(action|act|actions)(_\w+)?$",
    (
        "select_action, act and the like: what the functions are called whose result goes to "
        "env.step() in the 3 repositories with an environment"
    ),
    r"(space|dim|size|shape|num|count|mask|names?|layer|fn|func|activation|loss|value|bound|scale)",
)

TEXT_KEY = Spelling(
    r"(^|_)(types?|kinds?|modes?|names?|texts?|captions?|paths?|file_?names?|reduction(_type)?)$",
    "these keys of a mapping speak of words, not of numbers; not counted",
)
META = Spelling(
    r"(^|_)((img|image|input|frame|video)_?metas?|im(g|age)_?(ids?|sizes?|shapes?)"
    r"|meta_?(info|data)s?)$",
    (
        "what mmengine, mmdet and COCO's readers call the shapes, scales, numbers and paths of "
        'samples (mmengine\'s page "Abstract Data Element"): numbers and texts of the host'
    ),
)
MASK = Spelling(
    r"(^|_)masks?$",
    "what is called so selects by truth values; attention's masks of numbers index nothing",
)
