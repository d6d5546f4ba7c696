"""Convolutions in f32 outside the tensor cores: by the product that they are, or by Winograd's.

Winograd's algorithm F(4x4, 3x3) makes tiles of 6 x 6 of the input, and 36 products of them and of
the filters, of a quarter of the multiply-adds; inputs, filters and outputs are transformed by
kernels of their own. cuDNN takes what is fastest; so does the model.

The constants are fitted to half of 2,478 convolutions of sitar-lab/NeuSight@6945927 (MIT; windows
of 3 x 3, PyTorch 2.1, cuDNN 8.9, A100 PCIe 80 GB), beside 30 us of the collector. The other half is
within 18 % (median) and 49 % (90th percentile). FFT is not modelled.
"""

from __future__ import annotations

from math import ceil, prod
from typing import NamedTuple

from sim_server.gpu import GpuProfile
from sim_server.kernels.gemm import Product, product_ns
from sim_server.records.payloads import Convolution

_TILE, _POINTS = 4, 36  # pixels of an output tile along an edge; products
_BYTES = 4
# How many times as long as a plain product of the same sizes, or as its bytes at streaming rate.
_DIRECT, _PRODUCTS, _DATA, _FILTERS = 1.29, 1.16, 2.02, 3.59
# Every block walks all channels, one after the other.
_CHANNEL_NS = 355


class _Plane(NamedTuple):
    """A convolution of images that gives as many pixels as it reads, or its gradient."""

    images: int
    channels: int
    filters: int
    read_pixels: int
    pixels: tuple[int, int]


def single_ns(
    signature: Convolution, product: Product, gpu: GpuProfile
) -> tuple[float, int] | None:
    """Duration and blocks of a convolution in f32; `product` is what it is equivalent to. None
    where the profile has no rates of such products."""
    rates = gpu.gemm_f32
    if rates is None:
        return None
    direct_ns, blocks = product_ns(product, rates, gpu.sm_count)
    direct_ns *= _DIRECT
    plane = _plane(signature)
    if plane is None:
        return direct_ns, blocks
    serial_ns = _CHANNEL_NS * plane.channels
    tiles = plane.images * prod(ceil(edge / _TILE) for edge in plane.pixels)
    m, n, k = tiles, plane.filters, plane.channels
    traffic_bytes = _BYTES * _POINTS * (m * k + k * n + m * n)
    products_ns, product_blocks = product_ns(
        Product(m, n, k, _POINTS, traffic_bytes, 1.0), rates, gpu.sm_count
    )
    pixels = plane.images * (k * plane.read_pixels + n * prod(plane.pixels))
    data = pixels + _POINTS * m * (k + n)
    filters = (9 + _POINTS) * k * n
    moved_ns = _BYTES * (_DATA * data + _FILTERS * filters) / gpu.bandwidth_bytes_per_ns
    winograd_ns = _PRODUCTS * products_ns + moved_ns
    if winograd_ns < direct_ns:
        return winograd_ns + serial_ns, product_blocks
    return direct_ns + serial_ns, blocks


def _plane(signature: Convolution) -> _Plane | None:
    """What Winograd's algorithm is for: windows of 3 x 3, a step of one pixel, one group."""
    operation = signature["operation"]
    (images, channels, *read), (_, filters, *written) = signature["x"], signature["y"]
    is_square = signature["w"][2:] == [3, 3] and signature["groups"] == 1
    if operation == "convolution_wgrad" or not is_square:
        return None
    # With a step of two there are a quarter of the pixels; no padding leaves two fewer of an edge.
    if any(not 0 <= before - after <= 2 for before, after in zip(read, written, strict=True)):
        return None
    if operation == "convolution_dgrad":
        channels, filters, read, written = filters, channels, written, read
    return _Plane(images, channels, filters, prod(read), (written[0], written[1]))
