"""PyTorch's random operators on small CUDA tensors.

docs/decisions/random-numbers.md has the rule. Owns the CUDA kernels of these operators: each starts
PyTorch's own, which takes the time and moves the generator on, and then gives what it writes the
values that the GPU would draw (random_numbers.py).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .operators import Kernel
from .random_choices import choices
from .random_numbers import BLOCK, Distributions, Draws
from .tensor_values import Inputs, TensorValues, UnknownValueError

# Between the choices that are made up for rows: an odd prime, larger than vocabularies are.
_ROW_STEP = 1_000_003


class RandomOperations:
    """The kernels of one process."""

    def __init__(self, torch: ModuleType, values: TensorValues) -> None:
        self._torch = torch
        self._values = values
        first, second = torch.__version__.split(".")[:2]
        self._of = Distributions(torch, (int(first), int(second)))
        self._made_up = 1

    def attach(self) -> None:
        """Before the process uses a GPU."""
        self._draw = ctypes.PyDLL(None).ph_random_numbers
        self._draw.restype = None

    def kernels(self) -> dict[str, Callable[[Kernel], Kernel]]:
        """By operator."""
        of = self._of
        fills: dict[str, Callable[..., Any]] = {
            "random_": of.all_integers,
            "random_.from": of.integers,
            "random_.to": lambda draws, tensor, high: of.integers(draws, tensor, 0, high),
            "uniform_": lambda draws, tensor, low=0.0, high=1.0: of.uniform(
                draws, tensor, low, high
            ),
            "bernoulli_.float": lambda draws, tensor, chance=0.5: of.flags(draws, tensor, chance),
            "bernoulli_.Tensor": lambda draws, tensor, chances: of.flags_by_element(
                draws, tensor, self._host_values(chances)
            ),
        }
        return {
            **{name: self._filling(numbers) for name, numbers in fills.items()},
            "native_dropout": self._dropout,
            "randperm.generator_out": self._permutation,
            "multinomial": self._choices,
            "multinomial.out": self._choices,
        }

    # The operators

    def _filling(self, numbers: Callable[..., Any]) -> Callable[[Kernel], Kernel]:
        def make(usual: Kernel) -> Kernel:
            def fill(keys: Any, tensor: Any, *arguments: Any, generator: Any = None) -> Any:
                draws = self._draws(tensor, generator)
                options = {"generator": generator}
                if draws is None:
                    return usual(keys, tensor, *arguments, **options)
                result = self._launch(usual, (keys, tensor, *arguments), options)
                with self._values.own_code():
                    self._write(
                        [tensor], draws, generator, lambda: [numbers(draws, tensor, *arguments)]
                    )
                return result

            return fill

        return make

    def _dropout(self, usual: Kernel) -> Kernel:
        def dropout(keys: Any, tensor: Any, chance: float, train: bool | None) -> Any:
            is_known = self._values.first_look((tensor,)) is Inputs.PERHAPS_KNOWN
            draws = None
            if is_known and chance < 1 and train is not False:
                draws = self._draws(tensor)
            if draws is None:
                return usual(keys, tensor, chance, train)
            with self._values.own_code():
                values = self._known(tensor)
            results = self._launch(usual, (keys, tensor, chance, train), {})
            with self._values.own_code():
                self._write(
                    results,
                    draws,
                    None,
                    lambda: self._of.dropout(draws, tensor, chance, self._needed(values)),
                )
            return results

        return dropout

    def _permutation(self, usual: Kernel) -> Kernel:
        def permutation(keys: Any, count: int, *, generator: Any = None, out: Any) -> Any:
            draws = self._draws(out, generator, count) if count else None
            result = usual(keys, count, generator=generator, out=out)
            if draws is not None and self._values.is_small(out):
                with self._values.own_code():
                    self._write(
                        [out], draws, generator, lambda: [self._of.permutation(draws, count)]
                    )
            return result

        return permutation

    def _choices(self, usual: Kernel) -> Kernel:
        def multinomial(
            keys: Any,
            chances: Any,
            count: int,
            replaces: bool = False,
            *,
            generator: Any = None,
            **options: Any,
        ) -> Any:
            draws = self._draws(chances, generator)
            with self._values.own_code():
                values = self._known(chances)
            result = usual(keys, chances, count, replaces, generator=generator, **options)
            if values is None:
                self._make_up(result, chances.shape[-1])
            elif draws is not None:
                with self._values.own_code():
                    self._write(
                        [result],
                        draws,
                        generator,
                        lambda: [choices(self._torch, draws, values, count, replaces)],
                    )
            return result

        return multinomial

    def _make_up(self, result: Any, choices: int) -> None:
        """For unknown probabilities, most likely those of a text's next token: the text should be
        neither empty nor endless. The choices differ within a row, and from call to call.
        """
        is_capturing = self._torch.cuda.is_current_stream_capturing
        if is_capturing() or not result.numel() or not self._values.is_small(result):
            return
        with self._values.own_code():
            arange = self._torch.arange
            rows = arange(result[..., 0].numel(), device="cpu") + self._made_up
            places = rows.mul(_ROW_STEP).unsqueeze(-1) + arange(result.shape[-1], device="cpu")
            self._made_up += len(rows)
            self._values.write(result, places.remainder(choices).reshape(result.shape))
        self._values.note_made_up(result.nbytes)

    # What they have in common

    def _draws(self, tensor: Any, generator: Any = None, count: int | None = None) -> Draws | None:
        """None: nothing can be told of the numbers, or of their places in `tensor`, or of tensors
        of this size. `count`: of elements, if `tensor` gets its size only then.
        """
        values, device = self._values, tensor.device.index
        if not tensor.is_cuda or not values.is_plain(tensor):
            return None
        if count is None and not (
            tensor.numel() and tensor.is_contiguous() and values.is_small(tensor)
        ):
            return None
        cuda = self._torch.cuda
        if cuda.is_current_stream_capturing():
            return None  # The graph reads seed and offset when it is launched.
        generator = generator or cuda.default_generators[device]
        if generator.device.type != "cuda":
            return None  # PyTorch refuses it.
        seed = generator.initial_seed()
        properties = cuda.get_device_properties(device)
        blocks = properties.max_threads_per_multi_processor // BLOCK
        most_blocks = properties.multi_processor_count * blocks
        return Draws(self._torch, self._draw, seed, generator.get_offset(), most_blocks)

    def _launch(self, usual: Kernel, arguments: tuple[Any, ...], options: Any) -> Any:
        """We say what is known of all that the kernel writes."""
        before = self._values.state_writes(1)
        try:
            return usual(*arguments, **options)
        finally:
            self._values.state_writes(before)

    def _write(self, results: Any, draws: Draws, generator: Any, find: Callable[[], Any]) -> None:
        """`find` raises UnknownValueError. What PyTorch's own generator has moved on by is what we
        know of it, or something else is as we think too.
        """
        device = results[0].device.index
        generator = generator or self._torch.cuda.default_generators[device]
        try:
            found = find()
            if generator.get_offset() != draws.offset:
                raise UnknownValueError
        except UnknownValueError:
            for result in results:
                self._values.forget(result)
        else:
            for result, numbers in zip(results, found, strict=True):
                self._values.write(result, numbers.to(result.dtype).reshape(result.shape))

    def _known(self, tensor: Any) -> Any:
        try:
            return self._values.read(tensor)
        except UnknownValueError:
            return None

    def _needed(self, values: Any) -> Any:
        if values is None:
            raise UnknownValueError
        return values

    def _host_values(self, tensor: Any) -> Any:
        return self._values.read(tensor) if tensor.is_cuda else tensor
