"""What PyTorch leaves to the vendor's other libraries: transforms, factorisations, snippets."""

from __future__ import annotations

import sys

import torch

STEPS = 3


def fourier() -> None:
    """A convolution by way of the frequencies, with gradients."""
    signal = torch.randn(64, 4096, device="cuda", requires_grad=True)
    kernel = torch.fft.rfft(torch.randn(64, 4096, device="cuda"))
    filtered = torch.fft.irfft(torch.fft.rfft(signal) * kernel, n=4096)
    filtered.square().sum().backward()
    torch.fft.fft2(torch.randn(8, 256, 256, device="cuda", dtype=torch.complex64))


def factors() -> None:
    """What second-order and orthogonalising optimizers take from their matrices."""
    matrix = torch.randn(256, 256, device="cuda")
    gram = matrix @ matrix.T + torch.eye(256, device="cuda")
    torch.linalg.cholesky(gram)
    torch.linalg.eigh(gram)
    torch.linalg.eigh(gram.expand(4, 256, 256))
    torch.linalg.qr(matrix)
    torch.linalg.svd(matrix)
    torch.linalg.inv(matrix)
    torch.linalg.solve(gram, matrix)
    torch.cholesky_solve(matrix, gram)
    torch.linalg.eig(matrix)
    torch.linalg.eigvals(matrix)


def symmetric() -> None:
    """Factors of matrices that need not be positive, and many small problems at once."""
    for dtype in (torch.float32, torch.complex64):
        matrix = torch.randn(96, 96, device="cuda", dtype=dtype)
        factors, pivots = torch.linalg.ldl_factor(matrix + matrix.mT)
        torch.linalg.ldl_solve(factors, pivots, matrix)
        torch.linalg.eigh(torch.randn(8, 24, 24, device="cuda", dtype=dtype))


def complex_factors() -> None:
    """The same of complex matrices."""
    matrix = torch.randn(128, 128, device="cuda", dtype=torch.complex64)
    gram = matrix @ matrix.mH + torch.eye(128, device="cuda")
    torch.linalg.cholesky(gram)
    torch.linalg.eigh(gram)
    torch.linalg.qr(matrix)
    torch.linalg.svd(matrix)
    torch.linalg.solve(gram, matrix)


def sparse() -> None:
    """Layers of a graph network: what neighbours have, by rows and by coordinates."""
    nodes, neighbours, width = 1024, 8, 64
    rows = torch.arange(nodes).repeat_interleave(neighbours)
    columns = (rows * 7 + torch.arange(nodes * neighbours) % neighbours) % nodes
    weights = torch.ones(nodes * neighbours)
    graph = torch.sparse_coo_tensor(torch.stack((rows, columns)), weights, (nodes, nodes))
    graph = graph.coalesce()
    layer = torch.nn.Linear(width, width, device="cuda")
    features = torch.randn(nodes, width, device="cuda")
    hidden = torch.sparse.mm(graph.cuda(), layer(features))
    by_rows = graph.to_sparse_csr().cuda()
    (by_rows @ hidden).square().sum().backward()
    torch.addmm(features, by_rows, hidden)
    torch.mv(by_rows, features[:, 0].contiguous())
    torch.sparse.sampled_addmm(by_rows, features, features.T)


def sparse_pairs() -> None:
    """Sparse matrices with one another, solved for, and made of blocks."""
    nodes, size = 256, 16
    unit = torch.eye(nodes).to_sparse_csr().cuda()
    right = torch.randn(nodes, 32, device="cuda")
    unit @ unit
    coordinates = unit.to_sparse_coo()
    torch.sparse.mm(coordinates, coordinates)
    unit + torch.eye(nodes).roll(1, 0).to_sparse_csr().cuda()
    torch.triangular_solve(right, unit, upper=False)
    torch.triangular_solve(right[:, :1], unit, upper=False)
    blocks = torch.block_diag(*[torch.ones(size, size)] * (nodes // size))
    blocked = blocks.to_sparse_bsr((size, size)).cuda()
    blocked @ right
    torch.mv(blocked, right[:, 0].contiguous())
    torch.triangular_solve(right, blocked, upper=False)
    torch.triangular_solve(right[:, :1], blocked, upper=False)


def snippet() -> None:
    """One element a thread."""
    swish = torch.cuda.jiterator._create_jit_fn(
        "template <typename T> T swish(T x) { return x / (T(1) + exp(-x)); }"
    )
    swish(torch.randn(1 << 20, device="cuda"))


PARTS = {
    "fourier": fourier,
    "factors": factors,
    "symmetric": symmetric,
    "complex": complex_factors,
    "sparse": sparse,
    "pairs": sparse_pairs,
    "snippet": snippet,
}


def main() -> None:
    for name in sys.argv[1:]:
        for _ in range(STEPS):
            PARTS[name]()
        torch.cuda.synchronize()
        print(f"{name} done", flush=True)


if __name__ == "__main__":
    main()
