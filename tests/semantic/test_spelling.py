"""What people call things is told from what only sounds like it."""

from __future__ import annotations

import pytest

from torchlint.semantic.torch import spelling
from torchlint.semantic.torch.spelling import Spelling, called

CASES = {
    "LOADER": (
        "train_loader dl valLoader data_iter test_loader2",
        "download loaded loader_args iteration",
    ),
    "WORKERS": (
        "num_workers NUM_WORKERS workers n_workers data_workers num_data_workers n_threads",
        "max_workers worker worker_id workers_dir ddp_workers threads",
    ),
    "MODEL": (
        "model netG student_net self_model encoder_q",
        "model_path unwrap_model is_model models get_net",
    ),
    "CLASS": (
        "model_class optimizer_cls cls block_class",
        "num_class classes class_name per_class",
    ),
    "HELD_OUT": (
        "val_dataset dataset_val testset test_data valSet valid",
        "value validate train_val dataset lastly evaluator",
    ),
    "CRITERION": ("criterion loss_fn criterion_gan recon_loss_fn", "name_of_criterion_ loss lossy"),
    "LOSS": ("loss total_loss closs loss_G", "lossless glossary losses_dict"),
    "METRIC": (
        "accuracy psnr dice_coeff macro_f1 BinaryAccuracy",
        "accrue scored_by update erratum",
    ),
    "SHOWING": ("log info add_scalar set_postfix save_image", "log_prob logit logits inform add"),
    "KEPT_STILL": ("teacher target_net model_ema vgg16 netTarget model_t", "student net retarget"),
    "ACTING": (
        "select_action act sample_images greedy_decode predict translate_sentence",
        "action sample_batch generate_noise sample_data encode",
    ),
    "OPTIMIZER": ("optimizer opt d_optim optimizer_G", "option opt_level adopt"),
    "SCALER": ("scaler grad_scaler amp_gradscaler", "scale StandardScaler scaler_D"),
    "DEVICE": ("device my_dev device_map_dev", "device_count devices device_ids deviation"),
    "OPTIONS": (
        "args opt cfg self_config model_config FLAGS hparams train_opts setting",
        "kwargs arg option_a optim configure argsort",
    ),
    "NUMBER": (
        "in_channels num_classes batch_size hidden_dim epoch lr max_iters log_interval",
        "feature_dim freq num_boxes n_pos step steps size index gamma num_tokens lengths",
    ),
    "LENGTHS": ("lens decode_lengths lengths", "length max_len lengthen lenses"),
    "SPECIAL_TOKEN": ("<pad> </s> <|endoftext|> [CLS]", "pad start a<b> [pad]"),
    "RANK": ("rank local_rank LOCAL_RANK gpu", "ranking RANK gpus world_rank"),
    "BATCH": ("batch inputs data_dict features targets x batch_x", "plan extra sizes options meta"),
    "BATCH_SIZE": ("batch_size bs B num_batch n_samples", "batch b samples num_batches big_batch"),
    "SURE_BATCH_SIZE": (
        "batch_size batchsize bs bsz minibatch_size",
        "B n_samples num_batch n_images batch batches",
    ),
    "DEVICE_FLAG": (
        "use_cuda is_cuda no_cuda use_cpu on_gpu device",
        "debug cpus gpumax device_map",
    ),
    "ACTS": (
        "select_action act get_action choose_actions act_e_greedy _act",
        "action_space get_action_dim act_fn activation factor actor interact",
    ),
    "TEXT_KEY": ("file_name type reduction_type captions", "logits types_of input_ids texture"),
    "META": ("img_meta batch_img_metas metainfo meta_info metadata", "meta metal beta metas_loss"),
    "MASK": ("mask pad_mask masks is_masks", "masked task maskrcnn mask_value"),
    "COLLATE": ("collate_fn my_collator PadCollate", "collapse late"),
}


@pytest.mark.parametrize("kind", CASES)
def test_a_name_is_told_from_what_sounds_like_it(kind: str) -> None:
    what: Spelling = getattr(spelling, kind)
    yes, no = CASES[kind]
    assert [name for name in yes.split() if not called(name, what)] == []
    assert [name for name in no.split() if called(name, what)] == []


def test_each_spelling_has_a_case_and_a_source() -> None:
    rows = {name: value for name, value in vars(spelling).items() if isinstance(value, Spelling)}
    assert rows.keys() == CASES.keys()
    assert all(row.source for row in rows.values())
