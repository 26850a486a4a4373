"""Which hosts train Qwen3-30B-A3B at the lowest cost per token?

Plans for one to four hosts of several kinds in configs/hosts.yaml, and prints throughput and cost per token.
"""

import argparse

import dtfm

KINDS = ["p4d.24xlarge", "p4de.24xlarge", "p5.48xlarge", "p5en.48xlarge", "p6-b200.48xlarge", "g6e.48xlarge"]
# config.json of Qwen/Qwen3-30B-A3B, as published.
QWEN3_30B_A3B = {
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "vocab_size": 151936,
    "tie_word_embeddings": False,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sequence", type=int, default=4096, help="tokens [4096]")
    parser.add_argument("--batch", type=int, default=256, help="sequences [256]")
    parser.add_argument("--evaluations", type=int, default=2000, help="per search [2000]")
    arguments = parser.parse_args()

    job = {"model": QWEN3_30B_A3B, "sequence": arguments.sequence, "batch": arguments.batch}
    rows = []
    for kind in KINDS:
        for hosts in (1, 2, 4):
            plan = dtfm.plan(gpus=f"{hosts}x{kind}@cloud", evaluations=arguments.evaluations, **job)
            cost = plan.estimate.get("cost_per_million_tokens")
            if plan.is_feasible and cost is not None:
                rows.append((cost, plan.estimate["tokens_per_s"], f"{hosts} × {kind}"))
    for cost, tokens_per_s, what in sorted(rows):
        print(f"{cost:8.4f} USD per million tokens  {tokens_per_s:10,.0f} tokens/s  {what}")


if __name__ == "__main__":
    main()
