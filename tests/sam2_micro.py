"""A SAM 2 of 1.3 million parameters with random weights: the official classes and checkpoint layout, an input of 1024 pixels.

It proves code paths, and nothing about masks. Not here: the adapter (`trigpoint.proposals.sam2`).
"""

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml


class Micro(NamedTuple):
    """Files of the model."""

    checkpoint: Path
    config_file: Path


def _attention(**more: Any) -> dict[str, Any]:
    return {
        "_target_": "sam2.modeling.sam.transformer.RoPEAttention", "rope_theta": 10000.0, "feat_sizes": [64, 64], "embedding_dim": 64,
        "num_heads": 1, "downsample_rate": 1, "dropout": 0.1, **more,
    }  # fmt: skip


def _positions(features: int) -> dict[str, Any]:
    return {
        "_target_": "sam2.modeling.position_encoding.PositionEmbeddingSine", "num_pos_feats": features, "normalize": True, "scale": None,
        "temperature": 10000,
    }  # fmt: skip


MODEL: dict[str, Any] = {
    "_target_": "sam2.modeling.sam2_base.SAM2Base",
    "image_encoder": {
        "_target_": "sam2.modeling.backbones.image_encoder.ImageEncoder",
        "scalp": 1,
        "trunk": {
            "_target_": "sam2.modeling.backbones.hieradet.Hiera",
            "embed_dim": 16, "num_heads": 1, "stages": [1, 1, 2, 1], "global_att_blocks": [3], "window_pos_embed_bkg_spatial_size": [7, 7],
        },
        "neck": {
            "_target_": "sam2.modeling.backbones.image_encoder.FpnNeck",
            "position_encoding": _positions(64),
            "d_model": 64, "backbone_channel_list": [128, 64, 32, 16], "fpn_top_down_levels": [2, 3], "fpn_interp_model": "nearest",
        },
    },
    "memory_attention": {
        "_target_": "sam2.modeling.memory_attention.MemoryAttention",
        "d_model": 64, "pos_enc_at_input": True, "num_layers": 1,
        "layer": {
            "_target_": "sam2.modeling.memory_attention.MemoryAttentionLayer",
            "activation": "relu", "dim_feedforward": 64, "dropout": 0.1, "d_model": 64, "pos_enc_at_attn": False,
            "pos_enc_at_cross_attn_keys": True, "pos_enc_at_cross_attn_queries": False,
            "self_attention": _attention(),
            "cross_attention": _attention(rope_k_repeat=True, kv_in_dim=16),
        },
    },
    "memory_encoder": {
        "_target_": "sam2.modeling.memory_encoder.MemoryEncoder",
        "in_dim": 64, "out_dim": 16,
        "position_encoding": _positions(16),
        "mask_downsampler": {
            "_target_": "sam2.modeling.memory_encoder.MaskDownSampler", "embed_dim": 64, "kernel_size": 3, "stride": 2, "padding": 1,
        },
        "fuser": {
            "_target_": "sam2.modeling.memory_encoder.Fuser",
            "layer": {
                "_target_": "sam2.modeling.memory_encoder.CXBlock",
                "dim": 64, "kernel_size": 7, "padding": 3, "layer_scale_init_value": 1e-6, "use_dwconv": True,
            },
            "num_layers": 1,
        },
    },
    "num_maskmem": 7, "image_size": 1024, "sigmoid_scale_for_mem_enc": 20.0, "sigmoid_bias_for_mem_enc": -10.0,
    "use_mask_input_as_output_without_sam": True, "directly_add_no_mem_embed": True, "no_obj_embed_spatial": True,
    "use_high_res_features_in_sam": True, "multimask_output_in_sam": True, "iou_prediction_use_sigmoid": True,
    "use_obj_ptrs_in_encoder": True, "add_tpos_enc_to_obj_ptrs": True, "proj_tpos_enc_in_obj_ptrs": True,
    "use_signed_tpos_enc_to_obj_ptrs": True, "only_obj_ptrs_in_the_past_for_eval": True, "pred_obj_scores": True,
    "pred_obj_scores_mlp": True, "fixed_no_obj_ptr": True, "multimask_output_for_tracking": True, "use_multimask_token_for_obj_ptr": True,
    "multimask_min_pt_num": 0, "multimask_max_pt_num": 1, "use_mlp_for_obj_ptr_proj": True, "compile_image_encoder": False,
}  # fmt: skip


def make_micro(folder: Path, seed: int = 0) -> Micro:
    """Write configuration and checkpoint; skips the test where the extra is not installed."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("sam2")
    from hydra.utils import instantiate
    from omegaconf import OmegaConf

    torch.set_num_threads(1)  # test workers share the cores
    folder.mkdir(parents=True, exist_ok=True)
    config_file = folder / "sam2_micro.yaml"
    config_file.write_text("# @package _global_\n" + yaml.safe_dump({"model": MODEL}, sort_keys=False), encoding="utf-8")
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = instantiate(OmegaConf.create(MODEL), _recursive_=True)
    checkpoint = folder / f"micro{seed}.pt"
    torch.save({"model": model.state_dict()}, checkpoint)
    return Micro(checkpoint, config_file)
