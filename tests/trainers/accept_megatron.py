#!/usr/bin/env python3
"""Megatron-LM's flags, its rules, and megatron-core's own objects accept every exported script, and hold the plan's
settings; models that megatron-core builds of them have the parameters of the plan. (megatron.training, which parses
the flags, is not on PyPI: a list of its flags takes its place.)

usage: accept_megatron.py DTFM_PLAN DTFM_EXPORT
"""

import dataclasses
import itertools
import json
import os
import re
import shlex
import shutil
import sys
import tempfile
import warnings
from collections import Counter
from types import SimpleNamespace

import exported_plans
from exported_plans import GPT, LLAMA, REPORTS, SOURCE, Checks, Planner, jobs

FLAGS = SOURCE.parent / "shared" / "data" / "trainers" / "megatron-lm-flags.json"

MODELS = [
    GPT,
    GPT + ", tied: false, attention: flash",
    GPT + ", gated: true",  # finding 6: the width is still 4 x hidden
    GPT.replace("heads: 12", "heads: 12, kv_heads: 4"),
    GPT + ", attention_dropout: false",
    GPT.replace("hidden: 768", "hidden: 1536") + ", feed_forward: 6002",  # not a multiple of 4
    LLAMA,
    LLAMA.replace("kv_heads: 4", "kv_heads: 2"),
    LLAMA + ", tied: false",
    LLAMA.replace("heads: 16", "heads: 12") + ", head_dim: 128, qk_norm: true",
    LLAMA.replace("attention: flash", "attention: eager"),
    "preset: gpt2",
    "preset: opt-125m",
    "preset: gpt3-xl",
    "preset: llama-3.2-1b, sequence: 2048",
    "preset: llama-3.2-3b, sequence: 2048",
    "preset: qwen-2.5-0.5b",
    "preset: qwen-2.5-1.5b",
    "preset: llama-3-8b, sequence: 4096",
    "preset: gpt-neo-2.7b, sequence: 1024",
]
TINY = (
    "kind: transformer, layers: 4, hidden: 64, heads: 8, sequence: 128, vocabulary: 1000, feed_forward: 96, gated: true, "
    "norm: rms, positions: rotary, attention: flash, tied: false, "
)
LATENT = "latent_attention: {kv_rank: 24, query_rank: 40, nope_dim: 16, rope_dim: 8, value_dim: 12}"
DENSE_FIRST = "blocks: [{mlp: dense}, {mlp: experts, repeat: 3}]"
# Models of today, so small that megatron-core builds them on a CPU.
TODAY = {
    "Mixtral": TINY + "biases: false, kv_heads: 4, experts: {count: 8, per_token: 2, width: 96}",
    "Qwen3-MoE": TINY + "biases: false, kv_heads: 4, head_dim: 16, qk_norm: true, experts: {count: 16, per_token: 4, width: 32}",
    "Qwen2-MoE": TINY + "biases: [qkv], experts: {count: 6, per_token: 4, width: 32, shared_width: 96, shared_gate: true}",
    "Switch": TINY + "biases: false, experts: {count: 4, per_token: 1, width: 64}, "
    "blocks: [{mlp: dense}, {mlp: experts}, {mlp: dense}, {mlp: experts}]",
    "DeepSeek-V2-Lite": TINY + "biases: false, experts: {count: 8, per_token: 3, width: 32, shared_width: 64}, "
    + LATENT.replace("query_rank: 40, ", "") + ", " + DENSE_FIRST,
    "DeepSeek-V3": TINY + "biases: false, experts: {count: 16, per_token: 4, width: 32, shared_width: 32}, "
    + LATENT + ", " + DENSE_FIRST + ", predicted_tokens: 1",
    "two predictions": TINY + "biases: false, predicted_tokens: 2",
    "latent attention of GPT": TINY.replace("flash", "eager") + "biases: false, " + LATENT,
    "gpt-oss": TINY + "biases: [qkv, output], kv_heads: 2, head_dim: 16, attention_sinks: true, window: 32, "
    "experts: {count: 8, per_token: 2, width: 64, biases: true, router_bias: true}, "
    "blocks: [{mixer: window-attention, mlp: experts}, {mlp: experts}, {mixer: window-attention, mlp: experts}, {mlp: experts}]",
    "Mistral": TINY + "biases: false, window: 64",
    "Qwen2.5": TINY.replace("tied: false", "tied: true") + "biases: [qkv], kv_heads: 2",
    "Qwen3": TINY + "biases: false, kv_heads: 2, head_dim: 32, qk_norm: true",
    "GPT without biases": "kind: transformer, layers: 2, hidden: 64, heads: 8, sequence: 128, vocabulary: 1000, biases: false",
    "GPT": "kind: transformer, layers: 2, hidden: 64, heads: 8, sequence: 128, vocabulary: 1000, qk_norm: true",
}  # fmt: skip
# What Megatron-LM cannot build, and a part of the error.
REFUSED = {
    "embedding_norm: true": "a norm after the embedding",
    "norms: 4": "other than two norms per block",
    "biases: [qkv, output]": "biases of some matrices only",
    "qk_norm: all-heads": "norms of the queries and keys of all heads",
    "predicted_tokens: 1, tied: true": "multi-token prediction with tied embeddings",
    "attention_gate: true, biases: false": "gated attention",
    "biases: true, experts: {count: 8, per_token: 2, width: 32, shared_width: 32, biases: true, router_bias: true}":
        "shared experts without biases",
}  # fmt: skip
# fp8, fp8_recipe or fp4, fp4_recipe of megatron-core: the matmul of a job
MATMULS = {
    None: "precision",
    ("hybrid", "tensorwise"): "fp8",
    ("e4m3", "blockwise"): "fp8-blockwise",
    ("e4m3", "mxfp8"): "mxfp8",
    ("e2m1", "nvfp4"): "nvfp4",
}
GRID = {
    "model": MODELS + [text for name, text in TODAY.items() if not name.startswith("GPT")],
    "cluster": list(exported_plans.CLUSTERS),
    "global_batch": [8, 16, 24, 48],
    "micro_batch": [1, 2, "auto"],
    "precision": ["bf16", "bf16", "fp16", "fp32", "tf32"],
    "optimizer": ["adam-16", "adam-18", "sgd-8", "sgd-12", "host-offload"],
    "recompute": ["none", "selective", "mlp", "full", "auto"],
    "tensor": [1, 2, "auto", "auto", 4],
    "schedule": ["auto", "1f1b", "gpipe", "interleaved"],
    "chunks": [2, 3],
    "overlap": ["true", "false"],
    "sharding": ["none", "zero1", "auto"],
    "sequence_parallel": ["true", "true", "false"],
    "pipeline": ["auto", 2, 3, 4],
    "order": ["stage-major", "pipeline-major"],
}


# ---- the script as a shell and Megatron-LM's parser read it ----
def read_script(text):
    """The arguments in MEGATRON_ARGS=( … ) and the exported variables."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars="()")
    lexer.whitespace_split, lexer.commenters = True, "#"
    words = list(lexer)
    begin = words.index("MEGATRON_ARGS=") + 2
    end = words.index(")", begin)
    exported = dict(word.split("=", 1) for word in words[: begin - 2] if word != "export")
    return words[begin:end], exported


def pattern(text):
    """A number, or a list of which layers have a property (moe_freq_type)."""
    if text is None or "[" not in str(text):
        return int(text or 1)
    if not re.fullmatch(r"[][,0-9()+*]+", text):
        raise ValueError(text)
    return eval(text)


class Flags:
    """The flags of Megatron-LM, from the list of them."""

    def __init__(self):
        self.rows = json.loads(FLAGS.read_text())["flags"]
        self.by_name = {spelling: row for row in self.rows for spelling in row["flag"]}

    def parse(self, arguments):
        """All values, those given, and what is wrong."""
        given, problems, i = {}, [], 0
        while i < len(arguments):
            name, i = arguments[i], i + 1
            row = self.by_name.get(name)
            if row is None or row["dest"] in given:
                problems.append(f"{'unknown' if row is None else 'repeated'} flag {name}")
                continue
            if row["nargs"] == 0:
                given[row["dest"]] = row["type"] != "bool-flag-off"
                continue
            if i == len(arguments) or arguments[i].startswith("--"):
                problems.append(f"{name} has no value")
                continue
            if row["nargs"] == "+":
                count = next((n for n, word in enumerate(arguments[i:]) if word.startswith("--")), len(arguments) - i)
                # core_transformer_config_from_args takes a single cp_comm_type for all layers.
                given[row["dest"]] = arguments[i] if count == 1 and name == "--cp-comm-type" else arguments[i : i + count]
                i += count
                continue
            try:
                value = {"int": int, "float": float}.get(row["type"], str)(arguments[i])
            except ValueError:
                problems.append(f"{name} {arguments[i]} is no {row['type']}")
                value = None
            if row["choices"] is not None and value not in row["choices"]:
                problems.append(f"{name} {value} is not one of {row['choices']}")
            given[row["dest"]] = value
            i += 1
        values = {row["dest"]: row["default"] for row in self.rows}
        return SimpleNamespace(**{**values, **given}), given, problems


def derive(a, exported, world):
    """What validate_args derives (megatron/training/arguments.py)."""
    d = SimpleNamespace(T=a.tensor_model_parallel_size, P=a.pipeline_model_parallel_size, exported=exported, world=world)
    d.C = a.context_parallel_size
    d.D = world / (d.T * d.P * d.C)
    d.layout = a.pipeline_model_parallel_layout.split("|")
    d.V = len(d.layout) / d.P
    d.M = a.global_batch_size / (a.micro_batch_size * d.D)
    d.kv = a.num_query_groups if a.group_query_attention else a.num_attention_heads
    d.experts = a.num_experts or 0
    d.ffn = a.ffn_hidden_size or (int(8 * a.hidden_size / 3 / 64) * 64 if a.swiglu else 4 * a.hidden_size)
    d.sequence_parallel = a.sequence_parallel and d.T > 1
    d.overlap_p2p = a.overlap_p2p_comm and d.V > 1
    return d


def exchange(a):
    """The setting context_exchange."""
    word = a.cp_comm_type if isinstance(a.cp_comm_type, str) else a.cp_comm_type[0]
    return {"p2p": "ring", "all_gather": "all-gather", "a2a": "all-to-all"}[word]


# Name, and whether it holds for the flags a and what is derived from them. VA: validate_args; TC, MPC, OC, DDPC:
# __post_init__ of TransformerConfig, ModelParallelConfig, OptimizerConfig, DistributedDataParallelConfig.
RULES = [
    ("world size is a multiple of T P C (VA)", lambda a, d: d.world % (d.T * d.P * d.C) == 0),
    ("the sequence is a multiple of 2 C (get_batch_on_this_cp_rank)", lambda a, d: d.C == 1 or a.seq_length % (2 * d.C) == 0),
    ("the sequence of a device is a multiple of T with sequence parallelism", lambda a, d: not d.sequence_parallel or a.seq_length // d.C % d.T == 0),
    ("latent attention around a ring (Transformer Engine)", lambda a, d: not a.multi_latent_attention or exchange(a) == "ring"),
    ("heads are a multiple of T C with all-to-alls (Transformer Engine)", lambda a, d: exchange(a) != "all-to-all" or a.num_attention_heads % (d.T * d.C) == d.kv % (d.T * d.C) == 0),
    ("DeepEP with divided experts", lambda a, d: a.moe_token_dispatcher_type != "flex" or a.expert_model_parallel_size > 1 and a.moe_flex_dispatcher_backend == "deepep"),
    ("the precision-aware optimizer is sharded (OC)", lambda a, d: not a.use_precision_aware_optimizer or a.use_distributed_optimizer),
    ("global batch is a multiple of micro-batch D (VA)", lambda a, d: d.M == int(d.M) and d.M > 0),
    ("heads are a multiple of T (TC)", lambda a, d: a.num_attention_heads % d.T == 0),
    ("key-value heads are a multiple or divisor of T (TC)", lambda a, d: d.kv % d.T == 0 or d.T % d.kv == 0),
    ("heads are a multiple of key-value heads", lambda a, d: a.num_attention_heads % d.kv == 0),
    ("MLP width is a multiple of T (ColumnParallelLinear)", lambda a, d: d.ffn % d.T == 0),
    ("hidden is a multiple of heads (VA)", lambda a, d: a.kv_channels or a.hidden_size % a.num_attention_heads == 0),
    ("positions reach the sequence (VA)", lambda a, d: a.max_position_embeddings >= a.seq_length),
    ("CUDA_DEVICE_MAX_CONNECTIONS is 1 with T > 1 (VA)", lambda a, d: d.T == 1 or d.exported.get("CUDA_DEVICE_MAX_CONNECTIONS") == "1"),
    ("sequence parallelism only with T > 1 (MPC)", lambda a, d: not a.sequence_parallel or d.T > 1),
    ("sequence is a multiple of T with sequence parallelism (first step)", lambda a, d: not d.sequence_parallel or a.seq_length % d.T == 0),
    ("stages of the layout are a multiple of P (VA)", lambda a, d: len(d.layout) % d.P == 0),
    ("the layout is E, layers, predictions, L", lambda a, d: re.fullmatch("Et*m*L", "".join(d.layout))),
    ("predictions are in the stage of the loss", lambda a, d: d.layout[-1].count("m") == (a.mtp_num_layers or 0)),
    ("predictions with rotary positions (assumed)", lambda a, d: not a.mtp_num_layers or a.position_embedding_type == "rope"),
    ("experts are divided as all layers, or not by T", lambda a, d: a.expert_tensor_parallel_size == (None if a.expert_model_parallel_size == 1 else 1)),
    ("T D is a multiple of the expert degree (RankGenerator)", lambda a, d: d.T * d.C * d.D % a.expert_model_parallel_size == 0),
    ("other orders of ranks with as many replicas of experts (parallel_state)", lambda a, d: not a.use_tp_pp_dp_mapping or d.P == 1 or a.expert_model_parallel_size in (1, d.T * d.C)),
    ("experts are a multiple of the expert degree (MoELayer)", lambda a, d: d.experts % a.expert_model_parallel_size == 0),
    ("experts with T > 1 have sequence parallelism (MoELayer)", lambda a, d: not d.experts or d.T == 1 or d.sequence_parallel),
    ("widths of experts are multiples of T", lambda a, d: not d.experts or (a.moe_ffn_hidden_size or d.ffn) % (a.expert_tensor_parallel_size or d.T) == (a.moe_shared_expert_intermediate_size or 0) % d.T == 0),
    ("biases of experts with T = 1 (TC)", lambda a, d: not d.experts or not a.add_bias_linear or (a.expert_tensor_parallel_size or d.T) == 1),
    ("no groups of queries with latent attention (assumed)", lambda a, d: not (a.multi_latent_attention and a.group_query_attention)),
    ("FlashAttention-2 without latent attention and sinks (Transformer Engine)", lambda a, d: a.attention_backend != "flash" or not a.multi_latent_attention and a.softmax_type == "vanilla"),
    ("the layout has all layers", lambda a, d: "".join(d.layout).count("t") == a.num_layers),
    ("virtual stages need P > 1 (VA)", lambda a, d: d.V == 1 or d.P > 1),
    ("two interleaved stages need overlapped sends (VA)", lambda a, d: d.V == 1 or d.P > 2 or a.overlap_p2p_comm),
    ("overlapped warm-up needs virtual stages (MPC)", lambda a, d: not a.overlap_p2p_comm_warmup_flush or d.overlap_p2p),
    ("interleaved sends overlap in warm-up and cool-down", lambda a, d: d.V == 1 or a.overlap_p2p_comm_warmup_flush),
    ("P <= group <= M (schedules.py:995)", lambda a, d: d.V == 1 or d.P <= (a.microbatch_group_size_per_vp_stage or d.P) <= d.M),
    ("M mod group is 0 or >= P (schedules.py:1007)", lambda a, d: d.V == 1 or not 0 < d.M % (a.microbatch_group_size_per_vp_stage or d.P) < d.P),
    ("param gather needs zero1 and overlap (VA)", lambda a, d: not a.overlap_param_gather or (a.use_distributed_optimizer and a.overlap_grad_reduce)),
    ("one of fp16 and bf16 (TC)", lambda a, d: not (a.fp16 and a.bf16)),
    ("offload needs the precision-aware optimizer (VA)", lambda a, d: not a.optimizer_cpu_offload or a.use_precision_aware_optimizer),
    ("full recomputation has method and layers (TC)", lambda a, d: a.recompute_granularity != "full" or (a.recompute_method and a.recompute_num_layers)),
    ("selective recomputation has neither (VA, TC)", lambda a, d: a.recompute_granularity != "selective" or not (a.recompute_method or a.recompute_num_layers)),
    ("flash attention in 16 bits (Transformer Engine)", lambda a, d: a.attention_backend != "flash" or a.fp16 or a.bf16),
    ("MLP width is given", lambda a, d: a.ffn_hidden_size),
    ("a learning rate", lambda a, d: a.lr is not None),
    ("a length", lambda a, d: a.train_iters),
    ("data", lambda a, d: a.mock_data),
    ("a tokenizer with a vocabulary", lambda a, d: a.tokenizer_type == "NullTokenizer" and a.vocab_size),
]  # fmt: skip


# ---- megatron-core's objects ----
LATENT_FLAGS = ("q_lora_rank", "kv_lora_rank", "qk_head_dim", "qk_pos_emb_head_dim", "v_head_dim", "rotary_scaling_factor")


def core_objects(a, given, d, **more):
    """TransformerConfig (with its PipelineParallelLayerLayout), OptimizerConfig, DistributedDataParallelConfig. `more`
    are fields of the first."""
    import torch
    from megatron.core.distributed import DistributedDataParallelConfig
    from megatron.core.optimizer import OptimizerConfig, optimizer_config
    from megatron.core.transformer.enums import AttnBackend
    from megatron.core.transformer import transformer_config
    from megatron.core.transformer.transformer_config import MLATransformerConfig, TransformerConfig

    for module in (transformer_config, optimizer_config):
        module.is_te_min_version = lambda *_, **__: True  # Transformer Engine needs a GPU to install

    dtype = torch.float16 if a.fp16 else torch.bfloat16 if a.bf16 else torch.float32

    def make(kind, **derived):
        names = {field.name for field in dataclasses.fields(kind)}
        return kind(**{**{name: value for name, value in given.items() if name in names}, **derived})

    latent = {key: getattr(a, key) for key in LATENT_FLAGS} if a.multi_latent_attention else {}
    transformer = make(
        MLATransformerConfig if a.multi_latent_attention else TransformerConfig, params_dtype=dtype, pipeline_dtype=dtype, bf16=a.bf16, fp16=a.fp16, ffn_hidden_size=d.ffn,
        num_query_groups=d.kv, sequence_parallel=d.sequence_parallel, overlap_p2p_comm=d.overlap_p2p,
        batch_p2p_comm=not d.overlap_p2p, gated_linear_unit=bool(a.swiglu), deallocate_pipeline_outputs=True,
        attention_backend=AttnBackend[a.attention_backend], num_moe_experts=a.num_experts,
        moe_layer_freq=pattern(a.moe_layer_freq),
        window_size=a.window_size and tuple(int(it) for it in a.window_size.strip("()").split(",")),
        window_attn_skip_freq=a.window_attn_skip_freq and pattern(a.window_attn_skip_freq),
        bias_activation_fusion=bool(a.bias_swiglu_fusion if a.swiglu else a.bias_gelu_fusion),
        activation_func=torch.nn.functional.silu if a.swiglu else torch.nn.functional.gelu, **latent,
        apply_rope_fusion=False, **more)  # the fused one requires Transformer Engine  # fmt: skip
    optimizer = make(OptimizerConfig, params_dtype=dtype, bf16=a.bf16, fp16=a.fp16)
    ddp = make(DistributedDataParallelConfig, grad_reduce_in_fp32=bool(a.bf16 and not a.grad_reduce_in_bf16))
    return transformer, optimizer, ddp


def prepare_building():
    """Lets megatron-core build models without GPUs, Transformer Engine and other ranks."""
    import torch
    from megatron.core import parallel_state
    from megatron.core.transformer import multi_latent_attention

    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    parallel_state.initialize_model_parallel()
    torch.cuda.current_device = lambda: "cpu"  # where tables of positions are made
    multi_latent_attention.HAVE_TE = False  # 0.16.1 believes it has Transformer Engine


def built_parameters(a, given, d):
    """Parameters of megatron-core's model in one stage. Its own core attention does not take the two widths of latent
    attention (only that of Transformer Engine does), and has no parameters but sinks."""
    import torch
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec, get_gpt_mtp_block_spec
    from megatron.core.models.gpt.gpt_model import GPTModel
    from megatron.core.transformer.dot_product_attention import DotProductAttention

    class CoreAttention(DotProductAttention):
        def __init__(self, *args, k_channels=None, v_channels=None, **named):
            super().__init__(*args, **named)

    needs_no_gpu = {"moe_grouped_gemm": False, "moe_token_dispatcher_type": "allgather", "use_cpu_initialization": True}
    config, _, _ = core_objects(a, given, d, perform_initialization=False, **needs_no_gpu)
    block = get_gpt_decoder_block_spec(config, use_transformer_engine=False, normalization=config.normalization)
    for layer in block.layer_specs:
        layer.submodules.self_attention.submodules.core_attention = CoreAttention
    for name in ("NVTE_FLASH_ATTN", "NVTE_FUSED_ATTN", "NVTE_UNFUSED_ATTN"):  # of the model before
        os.environ.pop(name, None)
    with torch.device("meta"):
        model = GPTModel(
            config, block, a.vocab_size + 1, a.max_position_embeddings,
            share_embeddings_and_output_weights=not a.untie_embeddings_and_output_weights,
            position_embedding_type=a.position_embedding_type,
            mtp_block_spec=a.mtp_num_layers and get_gpt_mtp_block_spec(config, block, use_transformer_engine=False))  # fmt: skip
    return sum(parameter.numel() for parameter in model.parameters())


def check_models(checks, flags, planner):
    """megatron-core builds models of today with the parameters that plans count; others are refused."""
    prepare_building()
    training, parallelism = {"global_batch": 16, "precision": "bf16"}, {"pipeline": 1, "data": 8, "tensor": 1}
    for name, model in TODAY.items():
        job = exported_plans.job_text(model, training, parallelism)
        status, error, path = planner.plan("host.yaml", job)
        checks.same(name, "planned", (status, error), (0, ""))
        if status:
            continue
        export = planner.export(path, "host.yaml")
        a, given, _ = flags.parse(read_script((export.folder / "megatron.sh").read_text())[0])
        accept(checks, flags, export)
        described = json.loads(planner.run(planner.plan_program, "--describe-model", "--job", "job.yaml", "--format", "json").stdout)
        counted = described["parameters"] + described["prediction_parameters"]
        checks.same(name, "parameters", built_parameters(a, given, derive(a, {}, 8)), counted)
    for keys, text in REFUSED.items():
        model = TINY.replace("tied: false, ", "") if "tied" in keys else TINY
        status, error, _ = planner.plan("host.yaml", exported_plans.job_text(model + keys, training, parallelism))
        checks.holds(keys, f"refused: {error}", status == 3 and f"the model has {text}" in error)


def may_be_pipeline_major(plan):
    """parallel_state.py: with several stages, only if experts have as many data-parallel ranks as other layers."""
    how, stages = plan["execution"], plan["pipelines"][0]["stages"]
    own = len(stages[0]["devices"]) // how.get("stage_data", 1)  # tensor × context
    return how.get("expert", 1) in (1, own) or len(stages) == 1


def check_quantized(checks, flags, planner):
    """Quantized products of dense models and experts; of widths that no kernel supports they are refused."""
    cluster = exported_plans.cluster_text("hosts").replace("H100", "B200")
    (planner.folder / "blackwell.yaml").write_text(cluster)
    models = {name: TODAY[name] for name in ("Mixtral", "Qwen3-MoE", "DeepSeek-V3", "Mistral", "Qwen3")}
    grid = {"name": list(models), "matmul": [it for it in MATMULS.values() if it != "precision"], "tensor": [1, 1, 2],
            "recompute": ["none", "full", "mlp", "moe_act"], "precision": ["bf16", "fp16"], "sharding": ["none", "zero1"]}  # fmt: skip
    exported, formats = 0, set()
    for it in exported_plans.combinations(60, **grid):
        training = {"global_batch": 64, "micro_batch": 2, **{key: it[key] for key in ("precision", "recompute", "matmul")}}
        parallelism = {"optimizer_sharding": it["sharding"], "gradient_sync": "ring", "tensor": it["tensor"]}
        job = exported_plans.job_text(models[it["name"]], training, parallelism)
        status, error, path = planner.plan("blackwell.yaml", job)
        checks.holds(it["name"], f"{it} planned: {error}", status == 0 or "is not a multiple of" in error)
        if status:
            continue
        accept(checks, flags, planner.export(path, "blackwell.yaml"))
        exported, formats = exported + 1, formats | {it["matmul"]}
    checks.holds("quantized", f"exports: {exported} of {formats}", exported >= 40 and len(formats) == 4)
    narrow = exported_plans.job_text(TINY.replace("feed_forward: 96", "feed_forward: 88") + "biases: false",
                                     {"global_batch": 16, "precision": "bf16", "matmul": "fp8"}, {})  # fmt: skip
    status, error, _ = planner.plan("blackwell.yaml", narrow)
    checks.holds("narrow MLP", f"refused: {error}", status == 3 and "feed_forward 88 is not a multiple of 16" in error)


def check_experts(checks, flags, planner):
    """Experts divided among devices, with other degrees, precisions and orders."""
    exported, contexts, degrees, combined = 0, 0, set(), Counter()
    grid = {"model": [it for it in TODAY.values() if "experts" in it], "cluster": ["host", "hosts", "pairs"],
            "expert": [1, 2, 4, 8, "auto"], "tensor": [1, 1, 2], "pipeline": [1, 2, "auto"], "precision": ["bf16", "fp16"],
            "sharding": ["none", "zero1"], "recompute": ["none", "full", "mlp", "moe_act"], "order": ["stage-major", "pipeline-major"],
            "schedule": ["1f1b-blocking", "interleaved"], "context": [1, 1, 2, "auto"],
            "context_exchange": ["ring", "all-gather", "all-to-all"], "expert_dispatch": ["flat", "hierarchical", "auto"],
            "optimizer": ["adam-18", "adam-18", "adam-offload"]}  # fmt: skip
    for it in exported_plans.combinations(260, **grid):
        training = {"global_batch": 64, "micro_batch": 8, **{key: it[key] for key in ("precision", "recompute", "optimizer")}}
        parallelism = {"optimizer_sharding": it["sharding"], "gradient_sync": "ring", "schedule": it["schedule"],
                       "chunks": 2 if it["schedule"] == "interleaved" else None,
                       **{key: it[key] for key in ("expert", "expert_dispatch", "context", "context_exchange", "tensor", "pipeline")}}  # fmt: skip
        status, error, path = planner.plan(f"{it['cluster']}.yaml", exported_plans.job_text(it["model"], training, parallelism))
        if status:
            checks.holds("experts", f"refused: {error}", status in (2, 3) and "internal" not in error)
            path.unlink(missing_ok=True)
            planner.refusals.append(error.strip())
            continue
        order = it["order"]
        if order != "stage-major" and not may_be_pipeline_major(json.loads(path.read_text())):
            refused = planner.run(planner.export_program, path.name, "--to", "megatron", "--topology",
                                  f"{it['cluster']}.yaml", "--order", order, "-o", "refused")  # fmt: skip
            checks.holds("experts", f"refused: {refused.stderr}", "use --order stage-major" in refused.stderr)
            order = "stage-major"
        export = planner.export(path, f"{it['cluster']}.yaml", "--order", order)
        accept(checks, flags, export, order)
        exported += export.setting("expert", 1) > 1
        contexts += export.setting("context", 1) > 1
        degrees.add((export.degrees[0], export.setting("expert", 1)))
        combined["dispatch"] += export.setting("expert", 1) > 1 and export.setting("expert_dispatch", "flat") == "hierarchical"
        combined["offload"] += export.setting("optimizer") == "adam-offload"
        combined[export.setting("context_exchange", "ring")] += export.setting("context", 1) > 1
    for what in ("dispatch", "offload", "ring", "all-gather", "all-to-all"):
        checks.holds("experts", f"at least 3 exports with {what}: {dict(combined)}", combined[what] >= 3)
    checks.holds("experts", f"at least 60 exports with divided experts, not {exported}", exported >= 60)
    checks.holds("experts", f"at least 20 exports with divided sequences, not {contexts}", contexts >= 20)
    checks.holds("experts", f"tensor and expert degrees together: {sorted(degrees)}", any(t > 1 and e > 1 for t, e in degrees))


def check_settings(checks, export, a, objects, order):
    """Every setting of the plan, from megatron-core's objects where they have it."""
    transformer, optimizer, ddp = objects
    where, (tensor, stages, data) = export.folder.name, export.degrees
    plan, model = export.setting, export.model
    world = len(export.ranks)
    checks.same(where, "tensor", transformer.tensor_model_parallel_size, tensor)
    checks.same(where, "pipeline", transformer.pipeline_model_parallel_size, stages)
    context = plan("context", 1)
    checks.same(where, "context", transformer.context_parallel_size, context)
    checks.same(where, "data", world // (tensor * stages * context), data)
    checks.same(where, "batches", (a.global_batch_size, a.micro_batch_size), (plan("global_batch"), plan("micro_batch") // export.groups))
    checks.same(where, "micro-batches", a.global_batch_size // a.micro_batch_size // data, export.plan["pipelines"][0]["micro_batches"])
    checks.same(where, "context_exchange", exchange(a), plan("context_exchange", "ring") if context > 1 else "ring")
    checks.same(where, "expert", transformer.expert_model_parallel_size, plan("expert", 1))
    dispatch = "hierarchical" if transformer.moe_token_dispatcher_type == "flex" else "flat"
    checks.same(where, "expert_dispatch", dispatch, plan("expert_dispatch", "flat") if plan("expert", 1) > 1 else "flat")
    precision = "fp16" if transformer.fp16 else "bf16" if transformer.bf16 else "tf32"
    checks.same(where, "precision", precision, plan("precision"))
    recipe = (transformer.fp8, transformer.fp8_recipe) if transformer.fp8 else (transformer.fp4, transformer.fp4_recipe)
    checks.same(where, "matmul", MATMULS[recipe if recipe[0] else None], plan("matmul", "precision"))
    checks.holds(where, "padding", (a.moe_router_padding_for_quantization or False) == bool(recipe[0] and "experts" in model))
    checks.same(where, "optimizer", optimizer.optimizer, "adam")
    offload = optimizer.optimizer_cpu_offload and optimizer.optimizer_offload_fraction == 1
    checks.same(where, "bytes", plan("optimizer"), "adam-offload" if offload else
                {"fp16": "adam-20", "bf16": "adam-18", "tf32": "adam-16"}[precision])  # fmt: skip
    checks.same(where, "optimizer_sharding", "zero1" if ddp.use_distributed_optimizer else "none", plan("optimizer_sharding", "none"))
    checks.same(where, "sharded optimizer", optimizer.use_distributed_optimizer, ddp.use_distributed_optimizer)
    checks.same(where, "overlap", ddp.overlap_grad_reduce, plan("overlap", False))
    checks.same(where, "gradients in fp32", ddp.grad_reduce_in_fp32, precision == "bf16")
    chunks = transformer.virtual_pipeline_model_parallel_size or 1
    schedule = "1f1b-blocking" if chunks == 1 else "interleaved" if transformer.overlap_p2p_comm else "interleaved-blocking"
    checks.same(where, "schedule", schedule, plan("schedule"))
    checks.same(where, "chunks", chunks if chunks > 1 else None, plan("chunks"))
    checks.same(where, "warm-up sends", transformer.overlap_p2p_comm_warmup_flush, chunks > 1)
    if tensor > 1:
        checks.same(where, "sequence_parallel", transformer.sequence_parallel, plan("sequence_parallel", True))
    recompute = transformer.recompute_granularity or "none"
    if recompute == "selective":
        modules = set(transformer.recompute_modules)
        recompute = {"core_attn": "selective", "moe_act": "moe_act"}.get(" ".join(modules), "mlp")
        kinds = {it.get("mlp", "experts") for it in export.model.get("blocks", [{}])} if "experts" in export.model else {"dense"}
        mlps = {"moe" if kind == "experts" else "mlp" for kind in kinds}
        checks.holds(where, f"recomputed modules {modules}", recompute != "mlp" or modules == mlps)
    checks.same(where, "recompute", recompute, plan("recompute"))
    if recompute == "full":
        layers = plan("recompute_layers")
        checks.same(where, "recomputed layers", (transformer.recompute_method, transformer.recompute_num_layers),
                    ("block", layers) if layers else ("uniform", 1))  # fmt: skip
    tied = model.get("tied", True)
    checks.same(where, "tied", not a.untie_embeddings_and_output_weights, tied)
    checks.same(where, "tied_embedding_sync", plan("tied_embedding_sync", False), tied or "predicted_tokens" in model)
    checks.same(where, "iteration_barrier", plan("iteration_barrier", True), True)
    for key in ("flush", "scatter_gather"):
        checks.same(where, key, plan(key), None)
    shares = plan("gradient_sync") == "hierarchical-ring"
    checks.holds(where, "gradient_sync", plan("gradient_sync") == "ring" or (shares and ddp.use_distributed_optimizer))
    checks.holds(where, "instances", shares or ddp.num_distributed_optimizer_instances == 1)
    checks.same(where, "compression", export.plan["execution"]["compression"], {"activations": 1.0, "gradients": 1.0})
    check_model(checks, where, a, transformer, model)
    check_ranks(checks, where, export, transformer, order)


def built_features(config):
    """What megatron-core builds beyond plain blocks."""
    from megatron.core.transformer.utils import is_layer_window_attention

    layers = range(1, config.num_layers + 1)
    has_experts, freq = config.num_moe_experts is not None, config.moe_layer_freq
    windows = [is_layer_window_attention(config.window_size, config.window_attn_skip_freq, i) for i in layers]
    return {
        "latent attention": config.multi_latent_attention and {key: getattr(config, key) for key in LATENT_FLAGS[:-1]},
        "predicted tokens": config.mtp_num_layers or 0, "sinks": config.softmax_type == "learnable",
        "experts": [has_experts and bool(freq[i - 1] if isinstance(freq, list) else (i - 1) % freq == 0) for i in layers],
        "windows": [config.window_size[0] + 1 if it else 0 for it in windows],
        "sizes of experts": has_experts and (config.num_moe_experts, config.moe_router_topk, config.moe_ffn_hidden_size,
                                             config.moe_shared_expert_intermediate_size or 0, config.moe_shared_expert_gate),
    }  # fmt: skip


def planned_features(model):
    """The same of the plan."""
    experts, latent = model.get("experts"), model.get("latent_attention")
    default = {"mixer": "window-attention" if "window" in model else "attention", "mlp": "experts" if experts else "dense"}
    blocks = [it for it in model.get("blocks", [{**default, "repeat": model["layers"]}]) for _ in range(it.get("repeat", 1))]
    return {
        "latent attention": bool(latent) and dict(zip(LATENT_FLAGS, (
            latent.get("query_rank"), latent["kv_rank"], latent["nope_dim"], latent["rope_dim"], latent["value_dim"]))),
        "predicted tokens": model.get("predicted_tokens", 0), "sinks": model.get("attention_sinks", False),
        "experts": [it["mlp"] == "experts" for it in blocks],
        "windows": [model["window"] if it["mixer"] == "window-attention" else 0 for it in blocks],
        "sizes of experts": bool(experts) and (experts["count"], experts["per_token"], experts["width"],
                                               experts.get("shared_width", 0), experts.get("shared_gate", False)),
    }  # fmt: skip


def check_model(checks, where, a, transformer, model):
    heads, hidden = model["heads"], model["hidden"]
    flash, llama = model.get("attention") == "flash", model.get("norm") == "rms" and model.get("gated", False)
    found = {
        "layers": transformer.num_layers, "hidden": transformer.hidden_size, "heads": transformer.num_attention_heads,
        "kv_heads": transformer.num_query_groups, "head width": transformer.kv_channels,
        "qk_norm": transformer.qk_layernorm, **built_features(transformer),
        "feed_forward": transformer.ffn_hidden_size, "gated": transformer.gated_linear_unit,
        "norm": transformer.normalization, "biases": transformer.add_bias_linear,
        "qkv biases": transformer.add_bias_linear or transformer.add_qkv_bias,
        "attention": transformer.attention_backend.name, "attention dropout": transformer.attention_dropout,
        "hidden dropout": transformer.hidden_dropout, "sequence": a.seq_length, "positions": a.position_embedding_type,
        "vocabulary": a.vocab_size + 1, "rows": a.max_position_embeddings,
    }  # fmt: skip
    learned, latent, biases = model.get("positions") != "rotary", "latent_attention" in model, model.get("biases", True)
    backend = "unfused" if not flash else "auto" if latent or model.get("attention_sinks") else "flash"
    planned = {
        "layers": model["layers"], "hidden": hidden, "heads": heads, "kv_heads": model.get("kv_heads", heads),
        "head width": model.get("head_dim", hidden // heads), "qk_norm": latent or model.get("qk_norm", False),
        "feed_forward": model.get("feed_forward", 4 * hidden),
        "gated": model.get("gated", False), "norm": "RMSNorm" if model.get("norm") == "rms" else "LayerNorm",
        "biases": biases not in (False, ["qkv"]), "qkv biases": biases is not False, "attention": backend,
        **planned_features(model),
        "attention dropout": 0.1 if model.get("attention_dropout", True) and not (flash and llama) else 0.0,
        "hidden dropout": 0.0 if llama else 0.1, "sequence": model["sequence"],
        "positions": "learned_absolute" if learned else "rope", "vocabulary": model["vocabulary"],
        "rows": model.get("positions") if isinstance(model.get("positions"), int) else model["sequence"],
    }  # fmt: skip
    for key, value in planned.items():
        checks.same(where, key, found[key], value)


def check_ranks(checks, where, export, transformer, order):
    """Layers of every rank, from the layout of megatron-core and Megatron-LM's order of ranks."""
    from megatron.core.transformer.enums import LayerType

    tensor, stages, data = export.degrees
    layout = transformer.pipeline_model_parallel_layout.layout  # [stage][chunk]
    counts = [[chunk.count(LayerType.decoder) for chunk in stage] for stage in layout]
    checks.same(where, "stages", len(counts), stages)
    first, begin = {}, 0
    for chunk in range(len(counts[0])):
        for stage in range(stages):
            first[stage, chunk] = begin
            begin += counts[stage][chunk]
    for row in export.ranks:
        group, shard = divmod(row["rank"], tensor)
        group, part = divmod(group, export.setting("context", 1))
        checks.same(where, f"context rank of rank {row['rank']}", row.get("cp", 0), part)
        replica, stage = (group % data, group // data) if order == "stage-major" else (group // stages, group % stages)
        checks.same(where, f"role of rank {row['rank']}", (row["dp"], row["pp"], row["tp"]), (replica, stage, shard))
        ranges = [[first[stage, c], first[stage, c] + n] for c, n in enumerate(counts[stage])]
        checks.same(where, f"layers of rank {row['rank']}", row["layers"], ranges[0] if len(ranges) == 1 else ranges)


def accept(checks, flags, export, order="stage-major"):
    """Returns the flags and the objects."""
    where = export.folder.name
    arguments, exported = read_script((export.folder / "megatron.sh").read_text())
    a, given, problems = flags.parse(arguments)
    checks.same(where, "flags", problems, [])
    d = derive(a, exported, len(export.ranks))
    for name, holds in RULES:
        checks.holds(where, name, holds(a, d))
    checks.same(where, "order", "pipeline-major" if a.use_tp_pp_dp_mapping else "stage-major", order)
    try:
        objects = core_objects(a, given, d)
    except Exception as error:  # noqa: BLE001  whatever megatron-core raises
        checks.same(where, "accepted", f"{type(error).__name__}: {error}", "accepted")
        return a, None
    check_settings(checks, export, a, objects, order)
    return a, objects


def instances_of(arguments, export, rank):
    """The ranks among which megatron-core shards the optimizer of a rank, and those across its instances. In a process of its
    own, with PyTorch's fake groups."""
    receiver, sender = os.pipe()
    if os.fork() == 0:
        import torch
        from megatron.core import parallel_state
        from torch.testing._internal.distributed.fake_pg import FakeStore

        torch.distributed.init_process_group("fake", store=FakeStore(), rank=rank, world_size=len(export.ranks))
        parallel_state.initialize_model_parallel(
            arguments.tensor_model_parallel_size, arguments.pipeline_model_parallel_size,
            context_parallel_size=arguments.context_parallel_size, create_gloo_process_groups=False,
            num_distributed_optimizer_instances=arguments.num_distributed_optimizer_instances,
            order="tp-cp-ep-pp-dp" if arguments.use_tp_pp_dp_mapping else "tp-cp-ep-dp-pp")  # fmt: skip
        groups = (parallel_state.get_data_parallel_group(with_context_parallel=True, partial_data_parallel=True),
                  parallel_state.get_inter_distributed_optimizer_instance_group())  # fmt: skip
        os.write(sender, json.dumps([torch.distributed.get_process_group_ranks(group) for group in groups]).encode())
        os._exit(0)
    os.close(sender)
    with os.fdopen(receiver) as file:
        text = file.read()
    os.wait()
    return json.loads(text)


def check_instances(checks, flags, planner):
    """megatron-core shards the optimizer inside sites, in as many instances as the plan has."""
    training = {"global_batch": 48, "micro_batch": 1, "precision": "bf16"}
    sizes, orders = set(), ("stage-major", "pipeline-major")
    for cluster, (pipeline, tensor, context), order in itertools.product(
            ("three", "pairs", "hosts", "mixed"), ((1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 2)), orders):  # fmt: skip
        job = exported_plans.job_text(GPT, training, {
            "pipeline": pipeline, "tensor": tensor, "context": context, "gradient_sync": "hierarchical-ring", "optimizer_sharding": "zero1"})  # fmt: skip
        status, error, path = planner.plan(f"{cluster}.yaml", job)
        if status:  # a site has no stage of two devices
            checks.holds(cluster, error, status in (2, 3) and "internal" not in error)
            planner.refusals.append(error)
            continue
        export = planner.export(path, f"{cluster}.yaml", "--order", order)
        a, objects = accept(checks, flags, export, order)
        where, count = f"{export.folder.name} on {cluster}", a.num_distributed_optimizer_instances
        checks.same(where, "instances", objects[2].num_distributed_optimizer_instances, count)
        _, _, data = export.degrees
        if count == 1:
            continue
        sites = [row["host"].split("/")[0] for row in export.ranks]
        for rank in range(len(export.ranks)):
            inside, across = instances_of(a, export, rank)
            checks.same(where, "replicas", (len(inside) * len(across), len(across)), (data * context, count))
            checks.same(where, f"sites of the instance of rank {rank}", {sites[it] for it in inside}, {sites[rank]})
            sizes.add(len(inside))
    checks.holds("instances", f"of several sizes: {sizes}", len(sizes) > 2)


def check_findings(checks, flags, planner):
    """What an inspection of exports found, each with its settings."""

    def plan(cluster, model, training, parallelism, *options):
        job = exported_plans.job_text(model, training, parallelism)
        status, error, path = planner.plan(f"{cluster}.yaml", job, *options)
        if status:
            return error, None, None, None
        export = planner.export(path, f"{cluster}.yaml")
        return error, export, *accept(checks, flags, export)

    bf16 = {"global_batch": 32, "precision": "bf16"}
    for overlap in ("true", "false"):  # 1
        _, _, _, objects = plan("four", "preset: gpt3-xl", {**bf16, "micro_batch": 8, "recompute": "full"},
                                {"pipeline": 1, "data": 4, "gradient_sync": "ring", "overlap": overlap})  # fmt: skip
        checks.same("finding 1", "overlap", objects[2].overlap_grad_reduce, overlap == "true")
    for schedule, layers in (("1f1b", 2), ("interleaved", 1), ("1f1b", "auto")):
        _, export, _, objects = plan("four", "preset: gpt3-xl", {**bf16, "recompute": "full", "recompute_layers": layers},
                                     {"pipeline": 2, "schedule": schedule, "chunks": 2 if schedule == "interleaved" else None})  # fmt: skip
        method = "block" if export.setting("recompute_layers") else "uniform"
        checks.same(f"{layers} recomputed layers", "method", objects[0].recompute_method, method)
        checks.holds(f"{layers} recomputed layers", "of the plan", layers in ("auto", export.setting("recompute_layers")))
    for cluster, model in (("three", "preset: llama-3.2-3b"), ("host", "preset: qwen-2.5-7b")):  # 2
        _, export, _, _ = plan(cluster, model, {**bf16, "recompute": "auto"}, {"tensor": "auto"})
        checks.holds("finding 2", f"tensor {export.degrees[0]}", export.degrees[0] in (1, 2, 4, 8))
    error, _, _, _ = plan("host", GPT + ", feed_forward: 3001", bf16, {"tensor": 4})
    checks.holds("finding 2c", error, "feed_forward 3001 is not a multiple of tp=4" in error)
    for optimizer in ("sgd-8", "sgd-12", "host-offload"):  # 3
        _, export, _, _ = plan("host", GPT, {**bf16, "optimizer": optimizer}, {"pipeline": 4})
        checks.same("finding 3", optimizer, export.setting("optimizer"), "adam-18")
    _, _, a, _ = plan("far", GPT, bf16 | {"global_batch": 6}, {"pipeline": 3, "data": 1, "schedule": "interleaved", "chunks": 2})
    checks.same("finding 4", "warm-up", a.overlap_p2p_comm_warmup_flush, True)  # 4
    _, _, path = planner.plan("far.yaml", exported_plans.job_text(
        GPT, bf16 | {"global_batch": 6}, {"pipeline": 3, "data": 1, "schedule": "interleaved", "chunks": 2}))  # fmt: skip
    uneven = json.loads(path.read_text())
    for stage, (begin, end) in ((it, it["layers"]) for it in uneven["pipelines"][0]["stages"]):
        stage["virtual_layers"] = [end - begin, 0]  # the last virtual stage has only the loss
    path.write_text(json.dumps(uneven))
    accept(checks, flags, planner.export(path, "far.yaml"))
    error, export, _, _ = plan("pairs", GPT, bf16, {"pipeline": 2, "schedule": "interleaved", "chunks": 2})  # 5
    checks.holds("finding 5", error, export and export.degrees[1] == 2)
    _, _, a, _ = plan("four", GPT + ", gated: true", bf16, {})  # 6
    checks.same("finding 6", "MLP width", a.ffn_hidden_size, 4 * 768)
    for model, backend, drops in ((GPT, "unfused", 0.1), (GPT + ", attention: flash", "flash", 0.1), (LLAMA, "flash", 0.0),
                                  (GPT + ", attention_dropout: false", "unfused", 0.0)):  # 7  # fmt: skip
        _, _, a, _ = plan("four", model, bf16, {})
        checks.same("finding 7", model, (a.attention_backend, a.attention_dropout), (backend, drops))
    error, _, _, _ = plan("four", LLAMA, {**bf16, "precision": "fp32"}, {})
    checks.holds("finding 7", error, "has it only in 16 bits" in error)
    _, export, _, _ = plan("four", GPT, {**bf16, "precision": "fp32"}, {})  # 8
    checks.same("finding 8", "precision", export.setting("precision"), "tf32")
    error, _, _, _ = plan("four", "preset: bert-base", bf16, {})  # 9
    checks.holds("finding 9", error, "the model is an encoder" in error)
    _, export, a, _ = plan("four", "preset: gpt2", bf16, {})  # 10
    notes = (export.folder / "README.md").read_text()
    checks.same("finding 10", "vocabulary", a.vocab_size + 1, 50257)
    checks.holds("finding 10", "padded vocabulary in the notes", "50257 tokens" in notes and "pads them to 50304" in notes)


def check_report(checks, flags, planner):
    cluster = str(REPORTS / "megatron-overlap-dropped" / "cluster.yaml")
    _, error, path = planner.plan(cluster, (REPORTS / "megatron-overlap-dropped" / "job.yaml").read_text())
    _, objects = accept(checks, flags, planner.export(path, cluster))
    checks.same("overlap dropped", error, objects[2].overlap_grad_reduce, True)


def main():
    warnings.filterwarnings("ignore")  # about Transformer Engine and Apex, which are not installed
    exported_plans.run_in_trainers("megatron.core")
    if not FLAGS.exists():
        print(f"skipped: {FLAGS} is missing")
        sys.exit(exported_plans.SKIPPED)
    folder = tempfile.mkdtemp(prefix="dtfm-megatron-")
    try:
        checks, flags, planner = Checks(), Flags(), Planner(folder, "megatron")
        for it, job in jobs(280, GRID):
            if export := planner.make(it["cluster"], job, "--order", it["order"]):
                accept(checks, flags, export, it["order"])
        check_instances(checks, flags, planner)
        check_models(checks, flags, planner)
        check_experts(checks, flags, planner)
        check_quantized(checks, flags, planner)
        planner.check_coverage(checks, 150, schedule=2, recompute=4, precision=3, overlap=2, optimizer_sharding=2)
        check_findings(checks, flags, planner)
        if REPORTS.exists():
            check_report(checks, flags, planner)
        checks.finish(planner.summary())
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
