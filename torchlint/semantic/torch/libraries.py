"""What names of other libraries stand for, and which of them lie on the host whatever goes in.

Sources: the index of Python's standard library, and the documentation of the others. What hands on
what it is given (`copy`, `collections`, `functools`, `itertools`, `pickle`, `queue`) or can hold
tensors of its own (`transformers`, `albumentations`) is not among them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

HOST = frozenset(
    """argparse ast base64 binascii bisect calendar cmath cmd codecs configparser csv datetime
    decimal difflib fileinput fnmatch fractions getopt getpass gettext glob gzip hashlib html http
    imghdr inspect io json keyword linecache locale logging math mimetypes numbers os pathlib
    platform pprint psutil re resource secrets shlex shutil signal socket sqlite3 stat statistics
    string struct subprocess sys sysconfig tarfile tempfile textwrap time timeit token tokenize
    traceback unicodedata urllib uuid warnings wave xml zipfile zlib
    PIL cv2 imageio matplotlib nibabel nltk pandas plotly pycocotools pydicom scipy seaborn skimage
    sklearn tabulate termcolor tifffile SimpleITK
    absl click configargparse docopt easydict fire ml_collections omegaconf ruamel toml tomli
    tomllib yacs yaml bs4 lxml pynvml requests wandb""".split()
)
"""Packages and modules: a number, a text, an array or an object of theirs."""
_ON_TENSORS = frozenset(
    "apex dgl einops flash_attn fvcore ignite kornia monai pyro pytorch3d xformers".split()
)
"""Packages that compute with tensors, beside those with rows below and those named after torch."""
_ROWS = """
# Python's own modules, torch 2.13 and NumPy 2
random random uniform gauss normalvariate betavariate expovariate triangular : float
random randint randrange getrandbits : int
operator index : int
itertools count : int repeated
math ceil floor gcd comb : int
torch.nn SyncBatchNorm.convert_sync_batchnorm : first
torch.distributed get_rank get_world_size get_node_local_rank : int
torch.cuda device_count current_device memory_allocated max_memory_allocated memory_reserved : int
torch.cuda max_memory_reserved : int
torch get_num_threads initial_seed numel : int
torch.distributed is_initialized is_available : bool
torch.cuda is_available is_bf16_supported is_initialized : bool
torch is_grad_enabled is_inference_mode_enabled is_autocast_enabled : bool
math e inf nan pi tau : float held
numpy e inf nan pi Inf NaN PINF NINF : float held
torch e inf nan pi : float held

# torch 2.13, distributions/: sample() is under no_grad in distribution.py, normal.py, bernoulli.py …,
# and of whole numbers or multinomial() elsewhere; numbers become tensors of the CPU (utils.py,
# broadcast_all); the mode and the mean of a Categorical have no graph, those of a Normal have one;
# the entropy of a Normal has that of its scale alone
torch.distributions Distribution Bernoulli Beta Binomial Categorical Cauchy Chi2 : object like as Distribution
torch.distributions ContinuousBernoulli Dirichlet Exponential FisherSnedecor Gamma : object like as Distribution
torch.distributions Geometric Gumbel HalfCauchy HalfNormal Independent : object like as Distribution
torch.distributions InverseGamma Kumaraswamy Laplace LKJCholesky LogNormal : object like as Distribution
torch.distributions LogisticNormal LowRankMultivariateNormal MixtureSameFamily : object like as Distribution
torch.distributions Multinomial MultivariateNormal NegativeBinomial Normal : object like as Distribution
torch.distributions OneHotCategorical OneHotCategoricalStraightThrough Pareto : object like as Distribution
torch.distributions Poisson RelaxedBernoulli RelaxedOneHotCategorical StudentT : object like as Distribution
torch.distributions Uniform VonMises Weibull Wishart : object like as Distribution
torch.distributions Distribution.expand : object like as Distribution
torch.distributions Distribution.sample Distribution.sample_n : tensor like no-graph
torch.distributions Distribution.rsample Distribution.log_prob kl_divergence : tensor like
torch.distributions Distribution.cdf Distribution.icdf : tensor like
torch.distributions Distribution.entropy Distribution.perplexity : tensor like any-graph
torch.distributions Distribution.probs Distribution.logits : tensor like held
torch.distributions Distribution.mean Distribution.mode Distribution.stddev : tensor like any-graph held
torch.distributions Distribution.variance Distribution.loc Distribution.scale : tensor like any-graph held

# timm 1.0.31, utils/metrics.py, distributed.py, model_ema.py; models/_factory.py; data/loader.py;
# loss/, optim/ and scheduler/
timm.utils accuracy : tensor like scalar float no-graph repeated
timm.utils reduce_tensor : tensor like
timm.utils ModelEma : object
timm.utils ModelEmaV2 ModelEmaV3 : module
timm.utils ModelEma.ema ModelEmaV2.module ModelEmaV3.module : module held
timm create_model : module
timm.data create_loader : loader on-device switch=use_prefetcher
timm.loss LabelSmoothingCrossEntropy SoftTargetCrossEntropy JsdCrossEntropy BinaryCrossEntropy : loss
timm.loss AsymmetricLossMultiLabel AsymmetricLossSingleLabel : loss
timm.optim create_optimizer create_optimizer_v2 AdaBelief Adafactor AdafactorBigVision Adahessian : optimizer
timm.optim AdamP Adan Adopt Lamb LaProp Lars Lion Lookahead MADGRAD Mars NAdamW NvNovoGrad : optimizer
timm.scheduler CosineLRScheduler MultiStepLRScheduler PlateauLRScheduler PolyLRScheduler : scheduler
timm.scheduler StepLRScheduler TanhLRScheduler WSDLRScheduler : scheduler
timm.scheduler create_scheduler create_scheduler_v2 : scheduler counted

# torchmetrics 1.9.0, functional/: what is counted from classes has no graph; scores of texts are
# made by tensor(0.0), on the CPU (text/wer.py, cer.py, mer.py, wil.py, wip.py, bleu.py)
torchmetrics.functional accuracy precision recall f1_score fbeta_score specificity : tensor like no-graph
torchmetrics.functional hamming_distance jaccard_index matthews_corrcoef cohen_kappa : tensor like no-graph
torchmetrics.functional exact_match confusion_matrix stat_scores auroc spearman_corrcoef : tensor like no-graph
torchmetrics.functional binary_accuracy multiclass_accuracy multilabel_accuracy : tensor like no-graph
torchmetrics.functional binary_f1_score multiclass_f1_score multilabel_f1_score : tensor like no-graph
torchmetrics.functional binary_precision multiclass_precision multilabel_precision : tensor like no-graph
torchmetrics.functional binary_recall multiclass_recall multilabel_recall : tensor like no-graph
torchmetrics.functional binary_jaccard_index multiclass_jaccard_index : tensor like no-graph
torchmetrics.functional binary_auroc multiclass_auroc multilabel_auroc : tensor like no-graph
torchmetrics.functional mean_squared_error mean_absolute_error mean_squared_log_error : tensor like
torchmetrics.functional mean_absolute_percentage_error symmetric_mean_absolute_percentage_error : tensor like
torchmetrics.functional weighted_mean_absolute_percentage_error cosine_similarity r2_score : tensor like
torchmetrics.functional explained_variance pearson_corrcoef : tensor like
torchmetrics.functional concordance_corrcoef kl_divergence log_cosh_error minkowski_distance : tensor like
torchmetrics.functional pairwise_cosine_similarity pairwise_euclidean_distance : tensor like
torchmetrics.functional pairwise_linear_similarity pairwise_manhattan_distance : tensor like
torchmetrics.functional peak_signal_noise_ratio total_variation universal_image_quality_index : tensor like
torchmetrics.functional learned_perceptual_image_patch_similarity spectral_angle_mapper : tensor like
torchmetrics.functional structural_similarity_index_measure : tensor like unless=return_full_image unless=return_contrast_sensitivity
torchmetrics.functional multiscale_structural_similarity_index_measure perplexity : tensor like
torchmetrics.functional signal_noise_ratio scale_invariant_signal_noise_ratio : tensor like
torchmetrics.functional signal_distortion_ratio scale_invariant_signal_distortion_ratio : tensor like
torchmetrics.functional word_error_rate char_error_rate match_error_rate bleu_score : tensor on-cpu scalar float no-graph
torchmetrics.functional word_information_lost word_information_preserved : tensor on-cpu scalar float no-graph

# datasets 5.2.0, load.py, combine.py, arrow_dataset.py and dataset_dict.py
datasets load_dataset load_from_disk : object as Dataset unless=streaming
datasets concatenate_datasets interleave_datasets : object as Dataset
datasets Dataset DatasetDict DatasetDict.load_from_disk Dataset.load_from_disk : object as Dataset
datasets Dataset.map Dataset.filter Dataset.shuffle Dataset.select Dataset.train_test_split : object as Dataset
datasets Dataset.shard Dataset.sort Dataset.rename_column Dataset.rename_columns : object as Dataset
datasets Dataset.remove_columns Dataset.select_columns Dataset.with_format Dataset.take : object as Dataset
datasets Dataset.cast_column Dataset.add_column Dataset.flatten_indices Dataset.skip : object as Dataset
datasets Dataset.num_rows Dataset.num_columns : int held
datasets Dataset.column_names Dataset.features : plain held

# transformers 5.24.0, training_args.py and trainer.py; trl 1.16.0, trainer/*_config.py and
# *_trainer.py: these configs are TrainingArguments (those of reinforcement learning log rewards of
# every step, and are left out), SFTTrainer is a Trainer
transformers TrainingArguments Seq2SeqTrainingArguments : object as TrainingArguments
trl SFTConfig DPOConfig KTOConfig RewardConfig DistillationConfig : object as transformers.TrainingArguments
trl CPOConfig GKDConfig ORPOConfig : object as transformers.TrainingArguments
transformers Trainer Seq2SeqTrainer : object as Trainer
trl SFTTrainer : object as transformers.Trainer

# peft 0.21.2, mapping_func.py, peft_model.py, auto.py and config.py
peft get_peft_model : first
peft PeftModel PeftModelForCausalLM PeftModelForSeq2SeqLM PeftModelForFeatureExtraction : module
peft PeftModelForSequenceClassification PeftModelForTokenClassification : module
peft PeftModelForQuestionAnswering AutoPeftModel AutoPeftModelForCausalLM : module
peft LoraConfig AdaLoraConfig IA3Config LoHaConfig LoKrConfig OFTConfig BOFTConfig VeraConfig : plain
peft PrefixTuningConfig PromptTuningConfig PromptEncoderConfig PeftConfig get_peft_config : plain

# accelerate 1.15.0, accelerator.py, utils/operations.py and utils/dataclasses.py: a gathered tensor
# is on the device (_gpu_gather), with a graph where there is one process
accelerate Accelerator : object
accelerate Accelerator.unwrap_model : first
accelerate Accelerator.gather Accelerator.gather_for_metrics Accelerator.reduce : first any-graph placed
accelerate Accelerator.pad_across_processes : first any-graph placed
accelerate.utils gather reduce pad_across_processes broadcast : first any-graph placed
accelerate Accelerator.clip_grad_norm_ : tensor on-device scalar float
accelerate Accelerator.device : device held
accelerate Accelerator.num_processes Accelerator.process_index Accelerator.local_process_index : int held
accelerate Accelerator.gradient_accumulation_steps : int held
accelerate Accelerator.is_main_process Accelerator.is_local_main_process : bool held
accelerate Accelerator.is_last_process Accelerator.sync_gradients : bool held
accelerate.utils ProjectConfiguration DistributedDataParallelKwargs GradScalerKwargs : plain
accelerate.utils InitProcessGroupKwargs DataLoaderConfiguration AutocastKwargs ProfileKwargs : plain

# diffusers 0.42.1, schedulers/scheduling_*.py, models/autoencoders/, models/unets/,
# training_utils.py and optimization.py
diffusers DDPMScheduler DDIMScheduler PNDMScheduler LMSDiscreteScheduler UniPCMultistepScheduler : object as SchedulerMixin
diffusers EulerDiscreteScheduler EulerAncestralDiscreteScheduler HeunDiscreteScheduler : object as SchedulerMixin
diffusers DPMSolverMultistepScheduler DPMSolverSinglestepScheduler DEISMultistepScheduler : object as SchedulerMixin
diffusers FlowMatchEulerDiscreteScheduler LCMScheduler DDIMInverseScheduler : object as SchedulerMixin
diffusers SchedulerMixin.add_noise SchedulerMixin.get_velocity SchedulerMixin.scale_noise : tensor like
diffusers SchedulerMixin.scale_model_input : tensor like
diffusers SchedulerMixin.config : plain held
diffusers UNet2DModel UNet2DConditionModel UNet1DModel ControlNetModel Transformer2DModel VQModel : module
diffusers AutoencoderKL : module
diffusers AutoencoderKL.encode : object like any-graph as AutoencoderKLOutput
diffusers AutoencoderKLOutput.latent_dist : object like as DiagonalGaussianDistribution held
diffusers DiagonalGaussianDistribution.sample DiagonalGaussianDistribution.mode : tensor like
diffusers.optimization get_scheduler get_constant_schedule get_constant_schedule_with_warmup : scheduler
diffusers.optimization get_linear_schedule_with_warmup get_cosine_schedule_with_warmup : scheduler
diffusers.training_utils compute_snr : tensor like no-graph
diffusers.training_utils compute_density_for_timestep_sampling : tensor on-cpu no-graph unless=device

# lightning 2.6.6, pytorch/trainer/trainer.py and fabric/fabric.py: setup() and setup_dataloaders()
# bring what they are given to the device
lightning Trainer : object
lightning Fabric : object
lightning Fabric.setup Fabric.setup_optimizers : each on-device unless=move_to_device
lightning Fabric.setup_module : each on-device module unless=move_to_device
lightning Fabric.setup_dataloaders : each on-device loader unless=move_to_device
lightning Fabric.to_device Fabric.all_reduce : first on-device
lightning Fabric.all_gather : first on-device any-graph
lightning Fabric.device : device held
lightning Fabric.global_rank Fabric.local_rank Fabric.node_rank Fabric.world_size : int held
lightning Fabric.is_global_zero : bool held
"""  # noqa: E501
"""What names of libraries stand for: a package or module, names in it, what a call of them gives,
and what is true of that (`Row`). ``Class.name`` is a method, or with ``held`` an attribute, of what
a row calls so. To add a library, add its rows, with its version and the files that say so."""


class Row(NamedTuple):
    """What a call of a name gives, or what stands under it.

    Args:
        gives: a kind of value, ``loss``, ``first`` (its first argument) or ``each`` (each of them).
        of: the dotted name of its class.
        words: what else is true: ``like`` (where the tensors lie that it is given, with their
            graph), ``on-cpu``, ``on-device``, ``scalar`` (0-dim), ``float``, ``no-graph``,
            ``any-graph`` (not known whether it has one), ``placed`` (on the device, where nothing
            says otherwise), ``loader`` and ``module`` (each is one), ``repeated`` (several of
            them), ``counted`` (and a number behind it).
        unless: keywords of which any makes it something else.
        switch: the keyword that switches off what it does.
    """

    gives: str
    of: str
    words: frozenset[str]
    unless: tuple[str, ...]
    switch: str


def _lines() -> Iterator[tuple[str, Row]]:
    for line in _ROWS.splitlines():
        names, separator, said = line.partition(" : ")
        if not separator or line.startswith("#"):
            continue
        package, *members = names.split()
        gives, *words = said.split()
        base = words[words.index("as") + 1] if "as" in words else ""
        base = f"{package}.{base}" if base and "." not in base else base
        given = [word.partition("=") for word in words]
        unless = tuple(value for word, _, value in given if word == "unless")
        switch = next((value for word, _, value in given if word == "switch"), "")
        for member in members:
            name = f"{package}.{member}"
            held = ":held" if "held" in words else ""
            yield name + held, Row(gives, base or name, frozenset(words), unless, switch)


@cache
def rows() -> dict[str, Row]:
    return dict(_lines())


@cache
def _roots() -> frozenset[str]:
    return frozenset(name.partition(".")[0] for name in rows())


def on_tensors(name: str) -> bool:
    """Say whether what a dotted name stands for is of a package that computes with tensors."""
    root = name.partition(".")[0]
    return "torch" in root or root in _ON_TENSORS or root in _roots()


@cache
def row(name: str, suffix: str = "") -> Row | None:
    """Return the row of a dotted name. What a package exports stands in a module below it as well,
    and what a class makes ``from_…`` something is one of its objects."""
    parts = name.split(".")
    if parts[0] not in _roots():
        return None
    while (found := rows().get(".".join(parts) + suffix)) is None:
        below = [place for place in range(1, len(parts) - 1) if parts[place].islower()]
        if not below:
            break
        del parts[below[-1]]
    if found is None and parts[-1].startswith("from_"):
        made = row(name.rpartition(".")[0])
        return made if made is not None and made.gives in ("object", "module") else None
    return found


def held(name: str) -> Row | None:
    """Return the row of what stands under a dotted name: an attribute, a constant."""
    return row(name, ":held")


OF_TEXT = frozenset(
    """casefold capitalize endswith isalnum isalpha isdigit islower isnumeric isspace isupper ljust
    lower lstrip removeprefix removesuffix rjust rpartition rsplit rstrip splitlines startswith
    strip swapcase upper zfill""".split()
)
"""Methods that texts have, and no tensors."""
FINDS = frozenset("find rfind index rindex count replace".split())
"""Methods that texts have, and that are of them where they are given a text."""
OF_PLAIN = (
    OF_TEXT
    | FINDS
    | frozenset(
        """as_posix copy decode encode exists format get is_dir is_file items join keys
        partition pop rglob setdefault split values""".split()
    )
)
"""Methods of texts, paths and mappings: what options hold."""
WRITERS = frozenset(
    """torch.save numpy.save numpy.savez numpy.savez_compressed numpy.savetxt pickle.dump
    joblib.dump cv2.imwrite imageio.imwrite imageio.imsave imageio.v2.imwrite
    imageio.v3.imwrite imageio.mimsave skimage.io.imsave tifffile.imwrite soundfile.write
    scipy.io.savemat scipy.io.wavfile.write torchaudio.save torchvision.utils.save_image
    torchvision.io.write_png torchvision.io.write_jpeg torchvision.io.write_video
    safetensors.torch.save_file""".split()
)
"""Functions that write what they are given to a file."""
SOLVERS = frozenset(("torchdiffeq.odeint", "torchdiffeq.odeint_adjoint"))
ADAPTIVE = frozenset("dopri8 dopri5 bosh3 fehlberg2 adaptive_heun".split())
"""Methods of torchdiffeq 0.2.5 that choose their steps by the error (`rk_common.py`, `misc.py`):
Python asks after each step whether it was small enough. Without a method it is the second."""
