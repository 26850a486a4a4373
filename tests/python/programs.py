"""Random programs for tests, with orders of operations transcribed from core/schedule/schedule."""
import random

from collectives import HALVES, add_collectives

SCHEDULES = ("gpipe", "1f1b", "1f1b-blocking", "interleaved", "interleaved-blocking", "zb-h1", "zb-greedy",
             "eager-1f1b")
SYNCS = ("ring", "tree", "sharded-ps", "central-ps", "hierarchical", "hierarchical-ring")


def gpipe(devices, device, chunks, count):
    return [("F", i, 0) for i in range(count)] + [("B", i, 0) for i in range(count)]


def alternate(count, warm_up, forward, backward):
    ahead = min(warm_up, count)
    order = [forward(i) for i in range(ahead)]
    for i in range(ahead, count):
        order += [forward(i), backward(i - ahead)]
    return order + [backward(i) for i in range(count - ahead, count)]


def one_f_one_b(devices, device, chunks, count):
    return alternate(count, devices - device - 1, lambda i: ("F", i, 0), lambda i: ("B", i, 0))


def eager_one_f_one_b(devices, device, chunks, count):
    return alternate(count, 2 * (devices - device - 1), lambda i: ("F", i, 0), lambda i: ("B", i, 0))


def interleaved(devices, device, chunks, count):
    assert count % devices == 0

    def operation(kind, i):
        chunk = i % (devices * chunks) // devices
        return kind, i // (devices * chunks) * devices + i % devices, chunk if kind == "F" else chunks - 1 - chunk

    return alternate(count * chunks, 2 * (devices - device - 1) + (chunks - 1) * devices,
                     lambda i: operation("F", i), lambda i: operation("B", i))


def zero_bubble_h1(devices, device, chunks, count):
    ahead = min(devices - device - 1, count)
    order, weight_gradients = [("F", i, 0) for i in range(ahead)], 0
    for i in range(count):
        is_cool_down = i + ahead >= count
        if not is_cool_down:
            order.append(("F", i + ahead, 0))
        order.append(("B", i, 0))
        if is_cool_down or i >= device:
            order.append(("W", weight_gradients, 0))
            weight_gradients += 1
    return order + [("W", i, 0) for i in range(weight_gradients, count)]


def zero_bubble_greedy(devices, device, chunks, count):
    """Where the plan gives no order."""
    ahead = min(devices - device - 1, count)
    order = [("F", i, 0) for i in range(ahead)]
    for i in range(count):
        order += [("F", i + ahead, 0)] * (i + ahead < count) + [("B", i, 0), ("W", i, 0)]
    return order


ORDERS = {"gpipe": gpipe, "1f1b": one_f_one_b, "1f1b-blocking": one_f_one_b, "interleaved": interleaved,
          "interleaved-blocking": interleaved, "zb-h1": zero_bubble_h1, "zb-greedy": zero_bubble_greedy,
          "eager-1f1b": eager_one_f_one_b}


def order_text(schedule, devices, device, chunks, count, flush):
    words = []
    for done in range(0, count, flush or count):
        for kind, micro_batch, chunk in ORDERS[schedule](devices, device, chunks, min(flush or count, count - done)):
            words.append(f"{kind}{micro_batch + done}" + (f"/{chunk}" if chunks > 1 else ""))
    return " ".join(words)


def cuts(random_, layers, parts):
    inner = sorted(random_.sample(range(1, layers), parts - 1))
    return list(zip([0] + inner, inner + [layers]))


def make_program(model, pipelines, schedule="1f1b", gradient_sync="ring", micro_batch=1, chunks=1, flush=0, overlap=False,
                 zero1=False, blocking=False, recompute="none", optimizer="adam-16", precision="fp32", sites=None, compress=None,
                 shuffle=None):
    """`pipelines`: per pipeline the number of micro-batches and the layer ranges of its virtual stages; with chunks,
    stage s is on device s % devices. `compress`: "8-bit" for all messages. `shuffle`: changes the order of groups' ranks."""
    orders, ranks, rows, first = [], [], [], 0
    holders = {}  # (pipeline, layer): rank
    for number, (count, stages) in enumerate(pipelines):
        devices = len(stages) // chunks
        base = len(ranks)
        for device in range(devices):
            text = order_text(schedule, devices, device, chunks, count, flush)
            if text not in orders:
                orders.append(text)
            of_rank = []
            for stage in range(device, len(stages), devices):
                before = base + (stage - 1) % devices if stage > 0 else None
                after = base + (stage + 1) % devices if stage + 1 < len(stages) else None
                of_rank.append({"layers": list(stages[stage]), "input_from": before, "output_to": after,
                                "compress_input": compress if before is not None else None,
                                "compress_output": compress if after is not None else None})
                if recompute in LAYERS_BY_STAGE:
                    of_rank[-1][LAYERS_BY_STAGE[recompute]] = layers_by_stage(number, device, stages[stage][1] - stages[stage][0])
                for layer in range(*stages[stage]):
                    holders[number, layer] = base + device
            ranks.append({"device": f"here:{len(ranks)}", "host": f"10.0.0.{len(ranks)}", "pipeline": number, "stage": device,
                          "order": orders.index(text), "chunks": of_rank})
        rows.append({"micro_batches": count, "first_micro_batch": first})
        first += count
    groups = sync_groups(model["layers"], holders, len(pipelines), overlap, compress, shuffle)
    last = model["layers"] - 1
    tied = [[holders[p, 0], holders[p, last]] for p in range(len(pipelines)) if holders[p, 0] != holders[p, last]]
    if zero1 and tied and model.get("tied", True):  # 8-bit sums of the two copies of the matrix would differ
        for group in groups:
            if group["layers"][0] == 0 or group["layers"][1] == model["layers"]:
                group["compress"] = None
    execution = {"schedule": schedule, "gradient_sync": gradient_sync, "optimizer_sharding": "zero1" if zero1 else "none",
                 "overlap": overlap, "tied_embedding_sync": bool(tied), "blocking_sends": blocking}
    if flush:
        execution["flush"] = flush
    program = {"schema": "dtfm-program/2", "version": "0.1.0", "topology": {"name": "test", "fingerprint": "0"}, "model": model,
               "training": {"global_batch": first * micro_batch, "micro_batch": micro_batch, "precision": precision,
                            "optimizer": optimizer, "recompute": recompute},
               "execution": execution, "orders": orders, "pipelines": rows, "ranks": ranks, "sync_groups": groups,
               "tied_groups": tied if model.get("tied", True) else []}
    add_collectives(program, gradient_sync, sites or ["here"] * len(ranks), zero1)
    return program


LAYERS_BY_STAGE = {"as-needed": "recompute_layers", "offload": "offload_layers"}


def layers_by_stage(pipeline, device, layers):
    """Of `layers` layers; different ones in different stages."""
    return min((device + pipeline + 1) % 3, layers)


def sync_groups(layers, holders, pipelines, overlap, compress, shuffle):
    groups = []
    for layer in range(layers):
        of_layer = [holders[p, layer] for p in range(pipelines)]
        if groups and groups[-1]["ranks"] == of_layer and not overlap:
            groups[-1]["layers"][1] = layer + 1
        else:
            groups.append({"layers": [layer, layer + 1], "ranks": of_layer, "compress": compress if pipelines > 1 else None})
    groups = [group for group in reversed(groups) if len(group["ranks"]) > 1]
    if shuffle:
        for group in groups:
            shuffle.shuffle(group["ranks"])
    return groups


def random_model(random_, layers):
    model = {"kind": "transformer", "layers": layers, "hidden": 16, "heads": 4, "sequence": 8, "vocabulary": 32}
    options = {"tied": False, "biases": False, "norm": "rms", "positions": "rotary", "kv_heads": 2, "gated": True, "feed_forward": 24}
    for key, value in options.items():
        if random_.random() < 0.35:
            model[key] = value
    return model


def random_program(seed, schedule, gradient_sync, **fixed):
    """A heterogeneous program of 2 to 8 ranks in one to four pipelines."""
    random_ = random.Random(f"{seed} {schedule} {gradient_sync}")
    usual = (2, 4, 4, 5) if gradient_sync.startswith("hierarchical") else (2, 2, 2, 3, 3, 4, 5)
    count = random_.choice(usual) if "pipelines" not in fixed else fixed.pop("pipelines")
    depths = [1] * count
    for _ in range(random_.randint(0, 8 - count)):
        depths[random_.randrange(count)] += 1
    if sum(depths) < 2:
        depths[0] = 2
    chunks = random_.choice((1, 2, 2, 3)) if schedule.startswith("interleaved") else 1
    layers = random_.randint(max(2, max(depths) * chunks), max(depths) * chunks + 3)
    flush = 0
    if random_.random() < 0.4:
        flush = random_.choice((2, 3, 4))
        if schedule.startswith("interleaved"):
            flush = 0 if any(flush % depth for depth in depths) else flush
    pipelines = []
    for depth in depths:
        micro_batches = random_.randint(1, 6)
        if schedule.startswith("interleaved"):
            micro_batches = depth * random_.randint(1, 3)
        pipelines.append((micro_batches, cuts(random_, layers, depth * chunks)))
    names = random_.choice(("a", "ab", "abc"))
    by_pipeline = random_.random() < 0.5  # pipelines of two sites in turn, so that both have several replicas
    sites = [names[p % len(names)] if by_pipeline else random_.choice(names) for p, depth in enumerate(depths) for _ in range(depth)]
    options = {"micro_batch": random_.choice((1, 2)), "flush": flush, "overlap": random_.random() < 0.4,
               "zero1": gradient_sync in HALVES and random_.random() < 0.5,
               "blocking": random_.random() < 0.2, "recompute": random_.choice(("none", "full", "as-needed", "offload")),
               "optimizer": random_.choice(("adam-16", "sgd-8")),
               "sites": sites, "shuffle": random_, **fixed}
    return make_program(random_model(random_, layers), pipelines, schedule, gradient_sync, chunks=chunks, **options)
