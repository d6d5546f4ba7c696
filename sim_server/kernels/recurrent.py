"""Recurrent networks as cuDNN runs them.

A layer is one product of its whole input and then a chain of steps, each a product with the hidden
state of the step before and a kernel for the gates; the two directions of a layer run beside each
other, its layers one after the other. Source of the order of work: arXiv:1604.01946. Persistent
kernels (Diamos et al., Persistent RNNs, ICML 2016) keep the recurrent weights on the chip and take
all steps of a layer in one launch. Persistent ones are assumed; what the others take beside the
plain models is from an H100 (docs/accuracy-operators.md), by eye.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from sim_server.gpu import GpuProfile
from sim_server.kernels.gemm import HOPPER, Product, number_bytes, product_ns
from sim_server.kernels.timing import Tier, Timing
from sim_server.kernels.work import Work
from sim_server.records.payloads import Recurrent

_GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
# Of every gate, read and written: forward both products and the gate that is kept, backward what
# was kept and its gradient; beside them states, and their gradients.
_FORWARD_GATE_OPERANDS, _FORWARD_STATE_OPERANDS = 3, 3
_BACKWARD_GATE_OPERANDS, _BACKWARD_STATE_OPERANDS = 2, 5
_GATE_THREADS = 256  # assumed: of a block
# Each kernel of a step waits for the one before, and none is launched ahead of it.
_CHAIN_NS = 900
# On Hopper cuDNN takes products of earlier GPUs for what does not begin where vectors of 16 bytes
# do, whose arithmetic takes so many times as long, and for TF32. By direction what both
# take as a whole beside that: most where a step sums over the gates.
_MISALIGNED_ARITHMETIC = 4.5
_MISALIGNED_SLOWDOWN = {"forward": 1.2, "backward_data": 1.7, "backward_weights": 1.0}
_TF32_SLOWDOWN = {"forward": 1.25, "backward_data": 2.1, "backward_weights": 1.0}
_VECTOR_BYTES = 16
# Assumed: all multiprocessors meet, and the hidden state goes through the L2 cache.
_PERSISTENT_STEP_NS = 1_000
_PERSISTENT_EFFICIENCY = 0.5  # assumed: of the peak


def is_recurrent(operation: str) -> bool:
    """Whether this is a pass over a recurrent network."""
    return operation.startswith(tuple(f"{cell}_" for cell in _GATES))


def time_recurrent(signature: Recurrent, gpu: GpuProfile) -> Timing:
    """The timing of a pass over a recurrent network, a payload of library cudnn."""
    network = _Network.from_signature(signature, gpu)
    layers_ns = {
        "forward": network.forward_ns,
        "backward_data": network.backward_data_ns,
        "backward_weights": network.backward_weights_ns,
    }[network.direction]
    operation, hidden = signature["operation"], f"h{network.hidden}"
    return Timing(
        duration_ns=ceil(sum(layers_ns())),
        tier=Tier.ASSUMED,
        kernel_class="recurrent",
        name=f"cudnn {operation} {signature['type']} {hidden} x{network.layers}",
        sm_demand=1.0,
    )


def recurrent_products(signature: Recurrent) -> tuple[int, str]:
    """FLOPs of the products of a pass, and the type that is multiplied. All three passes do the
    same: each weight of a layer with each of its tokens.
    """
    operation = str(signature["operation"])
    gates = next(count for cell, count in _GATES.items() if operation.startswith(f"{cell}_"))
    directions, hidden = signature["directions"], signature["hidden"]
    output = signature["projection"] or hidden
    weights = 0
    for layer in range(signature["layers"]):
        width = directions * output if layer else signature["input"]
        weights += directions * gates * hidden * (width + output)
        weights += directions * signature["projection"] * hidden
    return 2 * signature["tokens"] * weights, _multiplied_type(signature)


def _multiplied_type(signature: Recurrent) -> str:
    number = str(signature["type"])
    if number == "f32" and signature["tensor_cores"]:
        return "tf32"
    return number if signature["tensor_cores"] or number == "f64" else "f32"


@dataclass(frozen=True)
class _Network:
    """The sizes of a pass. `rows` are those of one step, all sequences together."""

    gpu: GpuProfile
    direction: str
    gates: int
    layers: int
    directions: int
    steps: int
    tokens: int
    input: int
    hidden: int
    projection: int
    persistent: bool
    number: str
    element_bytes: int

    @classmethod
    def from_signature(cls, signature: Recurrent, gpu: GpuProfile) -> _Network:
        operation, number = str(signature["operation"]), str(signature["type"])
        cell = next(cell for cell in _GATES if operation.startswith(f"{cell}_"))
        return cls(
            gpu=gpu,
            direction=operation.removeprefix(f"{cell}_"),
            gates=_GATES[cell],
            layers=signature["layers"],
            directions=signature["directions"],
            steps=signature["seqlen"],
            tokens=signature["tokens"],
            input=signature["input"],
            hidden=signature["hidden"],
            projection=signature["projection"],
            persistent=bool(signature["persistent"]),
            number=_multiplied_type(signature),
            element_bytes=number_bytes(number),
        )

    @property
    def rows(self) -> int:
        return ceil(self.tokens / self.steps)

    @property
    def output(self) -> int:
        return self.projection or self.hidden

    def inputs(self) -> Iterator[int]:
        """The width of each layer's input."""
        for layer in range(self.layers):
            yield self.directions * self.output if layer else self.input

    def forward_ns(self) -> Iterator[float]:
        """Of each layer."""
        gates = self.gates * self.hidden
        operands = self.gates * _FORWARD_GATE_OPERANDS + _FORWARD_STATE_OPERANDS
        for width in self.inputs():
            products_ns = self._product_ns(self.tokens, gates, width, self.directions)
            yield products_ns + self._steps_ns(gates, self.output, operands)

    def backward_data_ns(self) -> Iterator[float]:
        """Of each layer: the steps give the gates' gradients, those the gradient of its input."""
        gates = self.gates * self.hidden
        operands = self.gates * _BACKWARD_GATE_OPERANDS + _BACKWARD_STATE_OPERANDS
        for width in self.inputs():
            products_ns = self._product_ns(self.tokens, width, self.directions * gates)
            yield products_ns + self._steps_ns(self.output, gates, operands)

    def backward_weights_ns(self) -> Iterator[float]:
        """Of each layer: one product a matrix, over all steps, and the sums of the biases."""
        gates = self.gates * self.hidden
        for width in self.inputs():
            products_ns = self._product_ns(gates, width, self.tokens, self.directions)
            products_ns += self._product_ns(gates, self.output, self.tokens, self.directions)
            if self.projection:
                products_ns += self._product_ns(
                    self.projection, self.hidden, self.tokens, self.directions
                )
            yield products_ns + self._streaming_ns(self.directions * self.tokens * gates)

    def _steps_ns(self, columns: int, depth: int, operands: int) -> float:
        """All steps of a layer: a product of so many columns and such depth, and the gates."""
        if self.persistent:
            flops = 2 * self.rows * columns * depth * self.directions
            rate = _PERSISTENT_EFFICIENCY * self.gpu.peak_flops_per_ns(self.number)
            floor_ns = self.gpu.execution["kernel_floor_ns"]
            return float(floor_ns + self.steps * (_PERSISTENT_STEP_NS + flops / rate))
        step_ns = self._product_ns(self.rows, columns, depth, self.directions)
        if self.projection:
            step_ns += self._product_ns(self.rows, self.projection, self.hidden, self.directions)
        step_ns += self._streaming_ns(self.rows * self.directions * self.hidden * operands)
        return self.steps * (step_ns + (3 if self.projection else 2) * _CHAIN_NS)

    def _product_ns(self, m: int, n: int, k: int, batch: int = 1) -> float:
        traffic_bytes = self.element_bytes * batch * (m * k + k * n + m * n)
        arithmetic = self.gpu.peak_flops_per_ns("bf16") / self.gpu.peak_flops_per_ns(self.number)
        # As of a call of cuBLAS: the panels that a step reads bound it as its arithmetic does.
        slowdown = max(arithmetic, self.element_bytes / number_bytes("bf16"))
        is_hopper = self.gpu.compute_capability[0] == HOPPER
        is_misaligned = is_hopper and self.hidden * self.element_bytes % _VECTOR_BYTES != 0
        if is_misaligned:
            slowdown *= _MISALIGNED_ARITHMETIC
        product = Product(m, n, k, batch, traffic_bytes, slowdown)
        duration_ns = product_ns(product, self.gpu.gemm, self.gpu.sm_count)[0]
        if is_misaligned:
            return _MISALIGNED_SLOWDOWN[self.direction] * duration_ns
        if is_hopper and self.number == "tf32":
            return _TF32_SLOWDOWN[self.direction] * duration_ns
        return duration_ns

    def _streaming_ns(self, elements: int) -> float:
        """A kernel that reads or writes so many elements."""
        work = Work(bytes=self.element_bytes * elements, cold=True)
        return work.duration_ns(self.gpu, ceil(elements / _GATE_THREADS))
