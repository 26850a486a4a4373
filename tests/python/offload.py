"""What autograd saves in an offloaded layer waits in host memory, but not its parameters; gradients are the same."""
import ranks

ranks.require_torch()
import torch
from torch import nn

from dtfm_runtime.compute import ChunkCompute, HostMemory, Segment

WIDTH, SAMPLES = 6, 4


class RecordingMemory(HostMemory):
    def __init__(self):
        super().__init__()
        self.moved = []

    def _to_host(self, tensor):
        self.moved.append(tensor.data_ptr())
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
    assert not set(memory.moved) & {it.data_ptr() for it in parameters}
    return [it.grad for it in parameters] + sent, len(memory.moved)


for splits_backward in (False, True):
    kept, none = gradients((), splits_backward)
    assert none == 0
    for offload in ((0,), (0, 1, 2)):
        same, moved = gradients(offload, splits_backward)
        # At least the inputs of two products and of GELU, of two micro-batches.
        assert moved >= 2 * 3 * len(offload), moved
        assert all(torch.equal(a, b) for a, b in zip(kept, same))
print("offloaded layers have the same gradients")
