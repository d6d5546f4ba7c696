"""Passes over recurrent networks, as PyTorch's layers have cuDNN do them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from phantora_py.profile.calls.common import Call, Remainder, filled, number

CELLS = ("lstm", "gru", "rnn_tanh", "rnn_relu")
# Which share is dropped is not in the signature, and no matter of time.
_DROPPED = 0.1


def recurrent(torch: Any, signature: Mapping[str, Any]) -> Call | Remainder:
    """Forward, or one of the two passes backward. PyTorch chooses the algorithm as it did in the
    program, by the sizes; cuDNN's networks have biases, also those of layers without.
    """
    operation = str(signature["operation"])
    cell = next(cell for cell in CELLS if operation.startswith(f"{cell}_"))
    network = _Network(torch, signature, cell)
    if operation == f"{cell}_forward":
        return network.forward
    data, both = network.backward(weights=False), network.backward(weights=True)
    if operation == f"{cell}_backward_data":
        return data
    # What the gradients of the weights are added to is zeroed by a kernel of its own.
    return Remainder(both, lambda: (data(), torch.zeros_like(network.buffer)))


class _Network:
    """A network in training, and a batch for it."""

    def __init__(self, torch: Any, signature: Mapping[str, Any], cell: str) -> None:
        self._torch = torch
        kind = number(torch, signature["type"])
        torch.backends.cudnn.allow_tf32 = bool(signature["tensor_cores"])
        inputs, hidden, projection = (signature[key] for key in ("input", "hidden", "projection"))
        layers, directions, batch = (signature[key] for key in ("layers", "directions", "batch"))
        network = torch.nn.RNNBase(
            *(cell.upper(), inputs, hidden, layers),
            bidirectional=directions == 2,
            proj_size=projection,
            device="cuda",
            dtype=kind,
        ).requires_grad_(False)
        weights = network._flat_weights
        stride = len(weights) // (layers * directions)
        mode = torch.backends.cudnn.rnn.get_cudnn_mode(cell.upper())
        shape = (mode, hidden, projection, layers, False)  # the batch is not the first dimension
        self.buffer = torch._cudnn_rnn_flatten_weight(
            weights, stride, inputs, *shape, directions == 2
        )
        batch_sizes = _batch_sizes(signature)
        rows = [signature["tokens"]] if batch_sizes else [signature["seqlen"], batch]
        states = [filled(torch, [layers * directions, batch, projection or hidden], kind), None]
        if cell == "lstm":
            states[1] = filled(torch, [layers * directions, batch, hidden], kind)
        self._states = tuple(states)
        dropout, dropout_state = 0.0, None
        if signature["dropout"]:
            dropout, seed = _DROPPED, 0
            dropout_state = torch._cudnn_init_dropout_state(
                dropout, True, seed, dtype=torch.uint8, device="cuda"
            )
        x = filled(torch, [*rows, inputs], kind)
        self._operands = (x, weights, stride, self.buffer, *self._states)
        self._rest = (*shape, dropout, True, directions == 2, batch_sizes, dropout_state)

    def forward(self) -> Any:
        """Output, states at the end, and what a pass backward needs beside."""
        return self._torch.ops.aten._cudnn_rnn(*self._operands, *self._rest)

    def backward(self, *, weights: bool) -> Call:
        """The gradients of the input and the states; those of the weights, too."""
        output, _, _, reserve, _ = self.forward()
        gradients = (self._torch.randn_like(output), *self._states)
        wanted = [True, True, self._states[1] is not None, weights]
        operands = (*self._operands, output, *gradients, *self._rest, reserve, wanted)
        return lambda: self._torch.ops.aten._cudnn_rnn_backward(*operands)


def _batch_sizes(signature: Mapping[str, Any]) -> list[int]:
    """Of packed sequences, how many there are at each step: one has all steps, and the others are
    as equally long as can be. Empty: all have all, and are not packed.
    """
    steps, batch, tokens = (signature[key] for key in ("seqlen", "batch", "tokens"))
    if tokens == steps * batch:
        return []
    whole, more = divmod(tokens - steps, batch - 1)
    return [batch] * whole + [1 + more] + [1] * (steps - whole - 1)
