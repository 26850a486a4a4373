#!/usr/bin/env python3
"""dtfm-plan --describe-model counts the parameters and operations of small random models as transformers does.

usage: model_counts.py DTFM_PLAN DTFM_EXPORT SOURCE [FAMILY …]

For each family of configs/model-families.yaml that transformers knows: the defaults are those of transformers, and models
with random sizes, switches and kinds of layers are built by transformers, whose parameters are counted and whose
operations torch.utils.flop_counter counts. Their config.json is given to dtfm-plan with all keys, and with those only that
differ from the defaults.
"""

import dataclasses
import json
import math
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

from exported_plans import Checks, run_in_trainers

CASES = 4  # models per family
FLOPS_TOLERANCE = 0.005
# Keys with which the table says what classes of transformers compute for missing lists of layers, or accepts old files.
NOT_OF_TRANSFORMERS = {
    "attn_layer_indices", "ff_factor", "first_k_dense_replace", "full_attention_interval", "global_attn_every_n_layers",
    "head_dim", "intermediate_size", "n_positions", "num_nextn_predict_layers", "sliding_window_pattern",
    "tie_word_embeddings"}  # fmt: skip
CLASSES = {
    "bert": ["BertForMaskedLM"], "roberta": ["RobertaForMaskedLM"], "xlm-roberta": ["XLMRobertaForMaskedLM"],
    "camembert": ["CamembertForMaskedLM"], "distilbert": ["DistilBertForMaskedLM"], "vit": ["ViTForImageClassification"],
    "t5": ["T5ForConditionalGeneration"], "mt5": ["MT5ForConditionalGeneration"],
    "umt5": ["UMT5ForConditionalGeneration"]}  # fmt: skip
# Sizes that a class checks, or of which it has defaults for large models; without effect on the counts.
FIXED = {
    "dbrx": {"attn_config.rope_theta": 10000.0, "attn_config.clip_qkv": 8.0},
    "gptj": {"rotary_dim": 4},
    "internlm3": {"attention_bias": False, "mlp_bias": False},
    "codegen": {"rotary_dim": 4, "n_head": 4, "n_embd": 64},
    "llama4_text": {"attention_chunk_size": 16},
}
# Keys whose default is null, but without which transformers does not build the model.
REQUIRED = {
    ("deepseek_v2", "num_experts_per_tok"), ("dots1", "n_routed_experts"), ("dots1", "n_shared_experts"),
    ("dots1", "num_experts_per_tok"), ("hunyuan_v1_dense", "head_dim"), ("hunyuan_v1_moe", "head_dim"),
    ("ministral", "head_dim"), ("nemotron", "num_key_value_heads")}  # fmt: skip
ALL_EXPERTS_RUN = {"llama4_text"}  # whatever the number that a token is routed to
HIDDEN_IS_ALL_HEADS = {"helium"}  # hidden must be heads · head_dim
HAVE_QUERY_RANK = {"minicpm3"}
LINEAR_TOKENS = 64  # whole chunks of linear attention and Mamba-2
GROUPS = {"n_group": 1, "topk_group": 1}  # of experts


class Family:
    """A row of the table, with the targets of its keys."""

    def __init__(self, row, keys):
        self.row, self.name, self.defaults = row, row["types"][0], row["defaults"]
        self.when, own = row.get("when", {}), row.get("keys", {})
        self.targets = {}
        for key in self.defaults.keys() | own.keys():
            names = own.get(key, keys.get(key, []))
            self.targets[key] = names if isinstance(names, list) else [names]

    def key_of(self, target):
        return next((key for key in self.defaults if target in self.targets[key]), None)


def supported_words(when):
    """By key, values of the cases that are supported; `other` is the default."""
    words = {}
    for key, cases in when.items():
        if key != "architectures":
            words.setdefault(key, []).extend(word for word, effect in cases.items() if effect != "unsupported")
        for effect in cases.values():
            if isinstance(effect, dict):
                for inner, more in supported_words(effect.get("when", {})).items():
                    words.setdefault(inner, []).extend(more)
    return words


class Sampler:
    """Random values of the keys of a family."""

    def __init__(self, family, raw, config, seed):
        self.family, self.raw, self.config, self.random = family, raw, config, random.Random(seed)
        pick = self.random.choice
        heads, width = pick((2, 4, 6)), pick((8, 16))
        latent = family.key_of("latent.rope_dim") is not None
        has_width = family.key_of("head_dim") and not latent and family.name not in HIDDEN_IS_ALL_HEADS
        experts, mamba_heads, key_heads = pick((4, 6, 8)), pick((2, 4)), pick((1, 2))
        hidden = heads * (pick((8, 16, 24)) if has_width else width)
        expansion = family.defaults.get(family.key_of("mamba.expansion")) or 2
        self.sizes = {
            "hidden": hidden,
            "layers": self.random.randint(2, 5),
            "heads": heads,
            "kv_heads": heads if latent else pick([n for n in range(1, heads + 1) if heads % n == 0]),
            "head_dim": 8 if latent else width,
            "feed_forward": 8 * self.random.randint(3, 12),
            "vocabulary": self.random.randint(60, 200),
            "positions": self.random.randint(40, 70),
            "window": self.random.randint(3, 9),
            "embedding_width": pick((hidden, hidden // 2)),
            "token_types": self.random.randint(1, 3),
            "experts.count": experts,
            "experts.per_token": experts if family.name in ALL_EXPERTS_RUN else self.random.randint(1, experts - 1),
            "experts.width": 8 * self.random.randint(1, 6),
            "experts.shared_width": 8 * self.random.randint(1, 6),
            "shared_experts": self.random.randint(1, 3),
            "latent.kv_rank": 4 * self.random.randint(2, 6),
            "latent.query_rank": pick((12, 20) if family.name in HAVE_QUERY_RANK else (None, 12, 20)),
            "latent.nope_dim": 8 * self.random.randint(1, 3),
            "latent.rope_dim": 8,
            "latent.value_dim": 4 * self.random.randint(1, 4),
            "mamba.heads": mamba_heads,
            "mamba.head_dim": expansion * hidden // mamba_heads,
            "mamba.groups": pick((1, 2)),
            "mamba.state": 8 * self.random.randint(1, 2),
            "mamba.convolution": pick((2, 4)),
            "mamba.chunk": pick((16, 32)),
            "delta_net.key_heads": key_heads,
            "delta_net.key_dim": pick((8, 16)),
            "delta_net.value_heads": key_heads * pick((1, 2)),
            "delta_net.value_dim": pick((8, 16)),
            "delta_net.convolution": pick((2, 4)),
            "t5.decoder_layers": self.random.randint(1, 4),
            "t5.buckets": pick((8, 16)),
            "vit.image": 24,
            "vit.patch": pick((4, 8)),
            "vit.channels": pick((1, 3)),
        }

    def values(self):
        chosen, fixed = {}, self.family.when.keys() | FIXED.get(self.family.name, {}).keys()
        for key in self.family.defaults:
            if (key in self.config or key == "head_dim") and key not in fixed:
                self.choose(key, chosen)
        if "id2label" in self.family.targets:
            chosen["id2label"] = {i: f"class {i}" for i in range(self.random.randint(2, 9))}
        for key, words in supported_words(self.family.when).items():
            if key in self.config:
                words = [None if word in (None, "null") else word for word in words if word != "other"]
                chosen[key] = self.random.choice(words + [self.family.defaults.get(key)])
        layers = self.layers(chosen)
        self.choose_kinds(layers, chosen)
        chosen |= {key: value for key, value in GROUPS.items() if key in self.config}
        if "pad_token_id" in self.config:
            chosen["pad_token_id"] = 1
        return chosen | FIXED.get(self.family.name, {})

    def layers(self, chosen):
        key = self.family.key_of("layers")
        return chosen[key] if key else self.sizes["layers"]

    def choose(self, key, chosen):
        targets = self.family.targets[key]
        size = next((self.sizes[name] for name in targets if name in self.sizes), None)
        if any(name in self.sizes for name in targets):
            can_be_null = self.family.defaults[key] is None and (self.family.name, key) not in REQUIRED
            chosen[key] = None if can_be_null and self.random.random() < 0.3 else size
            if chosen[key] is None and key not in self.config:
                del chosen[key]
        elif targets and isinstance(self.family.defaults[key], bool):
            chosen[key] = self.random.random() < 0.5

    def choose_kinds(self, layers, chosen):
        """Lists and numbers that say which layers have which modules."""
        for key in ("layer_types", "layers_block_type", "mlp_layer_types"):
            if isinstance(self.config.get(key), list) and (self.random.random() < 0.6 or key == "layers_block_type"):
                words = sorted(set(self.config[key]))
                if words == ["full_attention"]:
                    continue
                if words == ["linear_attention"]:  # Mamba-2 without attention, by default
                    words.append("full_attention")
                chosen[key] = [self.random.choice(words) for _ in range(layers)]
        if isinstance(self.config.get("moe_layers"), list):
            chosen["interleave_moe_layer_step"] = self.random.randint(1, 2)
        for key, value in {
            "first_k_dense_replace": self.random.randint(0, layers),
            "decoder_sparse_step": self.random.randint(1, 2),
            "mlp_only_layers": self.random.sample(range(layers), self.random.randint(0, 1)),
            "max_window_layers": self.random.randint(0, layers),
            "use_sliding_window": self.random.random() < 0.5,
            "moe_layer_start_index": self.random.randint(0, layers - 1),
            "moe_layer_end_index": layers - 1,
            "moe_layer_interval": self.random.randint(1, 2),
            "sliding_window_pattern": self.random.randint(2, 4),
            "attn_layer_indices": sorted(self.random.sample(range(layers), self.random.randint(0, 2))),
        }.items():
            if (key in self.config or key == "head_dim") and key not in self.family.when and key not in chosen:
                chosen[key] = value
        if "attention_types" in self.config:
            chosen["attention_types"] = [[["global", "local"], layers // 2], [["global"], layers % 2]]


def raw_default(config_class, key, value):
    """What the class declares, before it computes what is missing; otherwise `value`."""
    field = getattr(config_class, "__dataclass_fields__", {}).get(key)
    return value if field is None or field.default is dataclasses.MISSING else field.default


def plain(config):
    """A configuration as JSON has it."""
    def clean(value):
        if isinstance(value, dict):
            return {str(key): clean(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [clean(item) for item in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return clean({key: value for key, value in config.to_dict().items() if not callable(value)})


def model_class(name, config):
    import transformers

    if name in CLASSES:
        return getattr(transformers, CLASSES[name][0])
    return transformers.AutoModelForCausalLM._model_mapping.get(type(config), None)


def count(config, name, tokens, expert_share):
    """Parameters, active parameters and operations of one forward pass, of a model that transformers builds."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    config._attn_implementation, config._experts_implementation = "eager", "batched_mm"
    model = model_class(name, config)._from_config(config).eval()
    parameters = active = 0
    for key, parameter in model.named_parameters():
        if parameter.requires_grad:
            parameters += parameter.numel()
            active += parameter.numel() * (expert_share if ".experts." in key else 1)
    model.requires_grad_(False)
    ids = torch.randint(3, 40, (1, tokens))
    inputs = {"input_ids": ids}
    if name == "vit":
        inputs = {"pixel_values": torch.rand(1, config.num_channels, config.image_size, config.image_size)}
    elif config.is_encoder_decoder:
        inputs["decoder_input_ids"] = ids
    if name not in CLASSES or config.is_encoder_decoder:
        inputs["use_cache"] = False
    with torch.no_grad(), FlopCounterMode(display=False) as flops:
        model(**inputs)
    return parameters, active, flops.get_total_flops()


class Describer:
    def __init__(self, folder):
        self.program, self.folder = sys.argv[1], folder

    def __call__(self, config, *options):
        """The document, or the text of the error."""
        path = Path(self.folder) / f"config-{os.getpid()}.json"
        path.write_text(json.dumps(config))
        done = subprocess.run(
            [self.program, "--describe-model", "--model", path, "--format", "json", *options],
            capture_output=True, text=True, timeout=60)  # fmt: skip
        return json.loads(done.stdout) if done.returncode == 0 else done.stderr


def table(source):
    import yaml

    return yaml.safe_load((Path(source) / "configs" / "model-families.yaml").read_text())


def flat(config, family):
    """With the keys of nested parts as the table writes them."""
    parts = {key.split(".")[0] for key in family.defaults if "." in key}
    config = dict(config)
    for part in parts & config.keys():
        config |= {f"{part}.{key}": value for key, value in config.pop(part).items()}
    return config


def nested(config):
    result = {}
    for key, value in config.items():
        part, dot, inner = key.partition(".")
        if dot:
            result.setdefault(part, {})[inner] = value
        else:
            result[key] = value
    return result


def check_defaults(checks, family, config_class, config):
    for key, value in family.defaults.items():
        if key in NOT_OF_TRANSFORMERS and key not in config:
            continue
        raw = raw_default(config_class, key, config.get(key, "missing"))
        if value not in (raw, config.get(key)) and not (raw is None and key in NOT_OF_TRANSFORMERS):
            checks.same(family.name, f"default of {key}", value, raw)
        checks.count += 1


def check_case(checks, describe, family, config_class, defaults, case):
    sampler = Sampler(family, config_class, flat(defaults, family), f"{family.name} {case}")
    values = sampler.values()
    shown = json.dumps(values)
    where = f"{family.name} {case} {shown}"
    try:
        config = config_class(**nested(values))
        if family.name in CLASSES:
            config.architectures = CLASSES[family.name]
        chosen = {target: values.get(key) for key, targets in family.targets.items() for target in targets}
        experts, per_token = chosen.get("experts.count"), chosen.get("experts.per_token")
        is_linear = any("mamba" in target or "delta_net" in target for target in chosen)
        tokens = LINEAR_TOKENS if is_linear else sampler.random.randint(8, 24)
        parameters, active, flops = count(config, family.name, tokens, per_token / experts if experts else 1)
    except Exception as error:  # noqa: BLE001  whatever transformers raises
        checks.same(where, "transformers", f"{type(error).__name__}: {str(error)[:300]}", "a model")
        return
    full = plain(config)
    few = {key: value for key, value in values.items() if value != flat(defaults, family).get(key)}
    few = nested(few) | {"model_type": family.name}
    if family.name in CLASSES:
        few["architectures"] = CLASSES[family.name]
    for kind, document in (("all keys", full), ("few keys", json.loads(json.dumps(few)))):
        found = describe(document, *([] if family.name == "vit" else ["--sequence", str(tokens)]))
        if isinstance(found, str):
            checks.same(where, f"{kind}: error", found.strip(), "a model")
            continue
        checks.same(where, f"{kind}: parameters", found["parameters"], parameters)
        checks.same(where, f"{kind}: active_parameters", found["active_parameters"], round(active))
        difference = found["forward_flops_per_sequence"] / flops - 1
        if abs(difference) > FLOPS_TOLERANCE:
            checks.same(where, f"{kind}: FLOPs of {tokens} tokens", found["forward_flops_per_sequence"], flops)
        checks.count += 1


def check_family(arguments):
    """Failures and the number of checks of one family."""
    warnings.simplefilter("ignore")
    import torch
    import transformers

    row, keys, folder = arguments
    torch.manual_seed(0)
    torch.set_num_threads(1)
    transformers.logging.set_verbosity(60)
    checks, describe, family = Checks(), Describer(folder), Family(row, keys)
    config_class = type(transformers.AutoConfig.for_model(family.name))
    defaults = plain(config_class())
    check_defaults(checks, family, config_class, flat(defaults, family))
    for case in range(CASES if model_class(family.name, config_class()) else 0):
        check_case(checks, describe, family, config_class, defaults, case)
    return checks.failures, checks.count


def check_errors(checks, describe):
    llama = {"model_type": "llama", "architectures": ["LlamaForCausalLM"]}
    for config, reason in (
        ({}, "missing key `model_type`"),
        ({"model_type": "lama"}, "unknown model_type `lama`; did you mean `llama`"),
        (llama | {"architectures": ["LlamaForSequenceClassification"]},
         "class `LlamaForSequenceClassification` is not supported"),
        (llama | {"num_mystery_layers": 3}, "/num_mystery_layers: unknown key of model_type llama"),
        (llama | {"num_local_experts": 8}, "/num_local_experts: models of model_type llama do not have this key"),
        (llama | {"hidden_size": "large"}, "/hidden_size"),
        ({"model_type": "gemma2", "layer_types": ["full_attention"]}, "/layer_types: has 1 types, but the model has 26 layers"),
        ({"model_type": "qwen3", "num_hidden_layers": 1, "layer_types": ["strange"]},
         "/layer_types/0: unknown type of layer `strange`"),
        ({"model_type": "deepseek_v2", "mlp_bias": True},
         "/mlp_bias: mlp_bias `true` of model_type deepseek_v2 is not supported"),
        ({"model_type": "bert", "architectures": ["BertForQuestionAnswering"]},
         "class `BertForQuestionAnswering` is not supported"),
    ):
        found = describe(config)
        checks.holds(json.dumps(config), f"an error with {reason!r}, not {found!r}", isinstance(found, str) and reason in found)
    checks.holds("llama", "all keys missing", not isinstance(describe(llama), str))
    checks.holds("llama", "null and false are no sizes",
                 not isinstance(describe(llama | {"num_mystery_layers": None, "mystery": False}), str))


def main():
    run_in_trainers("torch", "transformers", "yaml")
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    tables, chosen = table(sys.argv[3]), sys.argv[4:]
    rows = [row for row in tables["families"] if row["types"][0] in CONFIG_MAPPING_NAMES]
    rows = [row for row in rows if not chosen or row["types"][0] in chosen]
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="dtfm-models-") as folder:
        check_errors(checks, Describer(folder))
        with multiprocessing.get_context("fork").Pool(os.cpu_count()) as pool:
            for failures, number in pool.imap(check_family, [(row, tables["keys"], folder) for row in rows]):
                checks.failures += failures
                checks.count += number
    checks.finish(f"{len(rows)} of {len(tables['families'])} families")


if __name__ == "__main__":
    main()
