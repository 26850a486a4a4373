#!/usr/bin/env python3
"""Weights, gradients and optimizer state of Mixtral 8x7B and DeepSeek-V3 on meshes of 64 to 2,048 GPUs.

usage: expert_memory.py DTFM-PLAN MODELS    (77: no MODELS)

Every stage must have the bytes per device of a calculation by hand: parameters counted from the config.json, those
outside of experts divided by the tensor degree, experts by the expert degree; 2 bytes of weights in bf16 and 4 of
gradients, and 12 of Adam's state, with zero1 divided among the devices that have the same parameters.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

GPUS = 8  # per host
# model: [(stages, pipelines, tensor, stage_data, expert, zero1)]
MESHES = {
    "mixtral-8x7b": [(4, 2, 1, 8, 8, True), (8, 2, 2, 2, 4, False), (2, 8, 4, 2, 8, True)],
    "deepseek-v3": [(16, 2, 1, 8, 8, True), (16, 1, 2, 32, 64, True), (8, 4, 1, 64, 32, False)],
}


def mixtral(it):
    """Parameters outside of experts and in them, by layer."""
    h, kv = it["hidden_size"], it["hidden_size"] // it["num_attention_heads"] * it["num_key_value_heads"]
    experts = it["num_local_experts"] * 3 * h * it["intermediate_size"]
    dense = 2 * h * h + 2 * h * kv + 2 * h + h * it["num_local_experts"]  # attention, norms, router
    layers = [[dense, experts] for _ in range(it["num_hidden_layers"])]
    layers[0][0] += it["vocab_size"] * h
    layers[-1][0] += h + it["vocab_size"] * h  # norm and head
    return layers


def deepseek(it):
    h, heads = it["hidden_size"], it["num_attention_heads"]
    nope, rope, value = it["qk_nope_head_dim"], it["qk_rope_head_dim"], it["v_head_dim"]
    query, latent = it["q_lora_rank"], it["kv_lora_rank"]
    attention = h * query + query + query * heads * (nope + rope)
    attention += h * (latent + rope) + latent + latent * heads * (nope + value) + heads * value * h
    expert = 3 * h * it["moe_intermediate_size"]
    sparse = [attention + 2 * h + h * it["n_routed_experts"] + it["n_shared_experts"] * expert,
              it["n_routed_experts"] * expert]
    dense = [attention + 2 * h + 3 * h * it["intermediate_size"], 0]
    layers = [list(dense if i < it["first_k_dense_replace"] else sparse) for i in range(it["num_hidden_layers"])]
    layers[0][0] += it["vocab_size"] * h
    layers[-1][0] += h + it["vocab_size"] * h
    # Multi-token prediction: two norms, a projection of 2 h to h, a block, and a norm. It shares the head, and in another
    # stage than the embedding has a copy of that.
    for _ in range(it["num_nextn_predict_layers"]):
        layers[-1][0] += 2 * h + 2 * h * h + sparse[0] + h + it["vocab_size"] * h
        layers[-1][1] += sparse[1]
    return layers


def state(layers, stages, pipelines, tensor, data, expert, zero1):
    """Bytes per device, by stage."""
    result = []
    for stage in range(stages):
        own = layers[len(layers) * stage // stages:len(layers) * (stage + 1) // stages]
        bytes_ = 0
        for parameters, shards in ((sum(it[0] for it in own), tensor), (sum(it[1] for it in own), expert)):
            copies = pipelines * tensor * data // shards if zero1 else 1
            bytes_ += parameters / shards * (2 + 4 + 12 / copies)
        result.append(bytes_)
    return result


def main(program, models):
    if not Path(models).exists():
        print(f"skipped: {models} is missing")
        return 77
    faults, checks = [], 0
    for name, meshes in MESHES.items():
        config = json.loads(Path(models, f"{name}.json").read_text())
        layers = (mixtral if name.startswith("mixtral") else deepseek)(config)
        for mesh in meshes:
            stages, pipelines, tensor, data, expert, zero1 = mesh
            size = tensor * data
            devices = [f"a/{i // GPUS}:{i % GPUS}" for i in range(stages * pipelines * size)]
            cuts = [len(layers) * s // stages for s in range(stages + 1)]
            plan = {"schema": "dtfm-plan/1", "pipelines": []}
            for _ in range(pipelines):
                plan["pipelines"].append({"micro_batches": 1, "stages": [
                    {"layers": [cuts[s], cuts[s + 1]], "devices": [devices.pop(0) for _ in range(size)]}
                    for s in range(stages)]})  # fmt: skip
            with tempfile.TemporaryDirectory() as folder:
                hosts = stages * pipelines * size // GPUS
                Path(folder, "topology.yaml").write_text(
                    f"version: 1\ndevices: [{{site: a, hosts: {hosts}, host: dgx-h100}}]\n")
                Path(folder, "job.yaml").write_text(
                    f"version: 1\nname: experts\nmodel: {{hf: config.json}}\ntraining: {{global_batch: {pipelines * data}, "
                    f"micro_batch: {data}, precision: bf16, optimizer: adam-18, recompute: full}}\n"
                    f"parallelism: {{tensor: {tensor}, stage_data: {data}, expert: {expert}, schedule: 1f1b, "
                    f"gradient_sync: ring, optimizer_sharding: {'zero1' if zero1 else 'none'}}}\n")
                Path(folder, "config.json").write_text(json.dumps(config))
                Path(folder, "plan.json").write_text(json.dumps(plan))
                run = subprocess.run([program, "topology.yaml", "--job", "job.yaml", "--score", "plan.json", "--quiet", "-o",
                                      "scored.json"], cwd=folder, capture_output=True, text=True, check=False)  # fmt: skip
                if run.returncode not in (0, 3):  # 3: it exceeds memory
                    raise SystemExit(f"{name} {mesh}: {run.stderr}")
                memory = json.loads(Path(folder, "scored.json").read_text())["estimate"]["memory"]
            found = {it["device"]: it["state_bytes"] for it in memory}
            expected = state(layers, *mesh)
            for pipeline in plan["pipelines"]:
                for stage, own in zip(pipeline["stages"], expected):
                    for device in stage["devices"]:
                        checks += 1
                        if abs(found[device] - own) > 1e-9 * own:
                            faults.append(f"{name} {mesh}: {device} has {found[device]:.0f} bytes, expected {own:.0f}")
            print(f"{name}, {len(found)} GPUs: {max(expected) / 1e9:.1f} GB at most")
    print(f"{checks} devices")
    print(*faults[:10], sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
