"""What autograd saves in an offloaded layer waits in host memory, but not its parameters; gradients are the same."""
import ranks

ranks.require_torch()
import torch
from torch import nn

from dtfm_runtime.compute import ChunkCompute, HostMemory, Segment, storage_of
from dtfm_runtime.model import Block, Transformer

WIDTH, SAMPLES = 6, 4


class RecordingMemory(HostMemory):
    def __init__(self):
        super().__init__()
        self.moved, self.storages = [], []

    def _to_host(self, tensor):
        if tensor.numel() > 0:
            self.moved.append((tensor.data_ptr(), tensor.size(), tensor.stride(), tensor.dtype, tensor._version))
            self.storages.append(storage_of(tensor))
        return super()._to_host(tensor)


def gradients(offload, splits_backward):
    torch.manual_seed(3)
    layers = [nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH)) for _ in range(3)]
    chunk = ChunkCompute([Segment(it, number, True, False, number in offload) for number, it in enumerate(layers)],
                         splits_backward)
    memory = chunk._host = RecordingMemory()
    parameters = [it for layer in layers for it in layer.parameters()]
    for it in parameters:
        it.grad = torch.zeros_like(it)
    inputs = [torch.randn(SAMPLES, WIDTH) for _ in range(2)]
    for number, x in enumerate(inputs):  # two micro-batches in flight
        chunk.forward(number, x, (number,))
    sent = []
    for number in range(2):
        sent.append(chunk.backward(number, torch.ones(SAMPLES, WIDTH), lambda layer: None))
        if splits_backward:
            chunk.weight_gradients(number, lambda layer: None)
    assert not set(memory.storages) & {storage_of(it) for it in parameters}
    return [it.grad for it in parameters] + sent, len(memory.moved)


for splits_backward in (False, True):
    kept, none = gradients((), splits_backward)
    assert none == 0
    for offload in ((0,), (0, 1, 2)):
        same, moved = gradients(offload, splits_backward)
        # The input and the output of GELU, of two micro-batches. The input of the layer stays.
        assert moved == 2 * 2 * len(offload), moved
        assert all(torch.equal(a, b) for a, b in zip(kept, same))


def block_gradients(offload):
    """Of a block with experts, whose matrices are parts of one parameter, and the number of bytes moved."""
    torch.manual_seed(4)
    it = Transformer.read({"kind": "transformer", "layers": 1, "hidden": 16, "heads": 4, "kv_heads": 2, "sequence": 8, "vocabulary": 32,
                           "gated": True, "norm": "rms", "positions": "rotary", "biases": False,
                           "experts": {"count": 3, "per_token": 2, "width": 8}})
    block = Block(it)
    chunk = ChunkCompute([Segment(block, 0, True, False, offload)], False)
    memory = chunk._host = RecordingMemory()
    parameters = list(block.parameters())
    storages = {storage_of(it) for it in parameters}
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    x = torch.randn(2, 8, 16)
    chunk.forward(0, x, (0,))
    sent = chunk.backward(0, torch.ones_like(x), lambda layer: None)
    assert not storages & set(memory.storages), "parameters were moved"
    assert len(set(memory.moved)) == len(memory.moved), "a tensor was moved twice"
    return [parameter.grad for parameter in parameters] + [sent], len(memory.moved)


(kept, none), (same, moved) = block_gradients(False), block_gradients(True)
assert none == 0 < moved
assert all(torch.equal(a, b) for a, b in zip(kept, same))
print("offloaded layers have the same gradients")
