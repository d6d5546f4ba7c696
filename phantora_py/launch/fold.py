"""Which ranks of a run are started, from `--fold`, `--mesh` and `--witness`."""

from __future__ import annotations

from dataclasses import fields, replace

from phantora_py.launch.layout import RunLayout
from phantora_py.launch.options import RunOptions
from phantora_py.launchers.launch import Launch
from sim_server.cluster import Cluster
from sim_server.cluster.description import NodeType
from sim_server.errors import UsageError
from sim_server.fold import Apart, Dimension, Fold

DEFAULT_WITNESSES = 2
PIPELINES = ("pp", "pipe", "stage")
"""What names of dimensions begin with whose ranks send to each other."""


def choose_fold(
    options: RunOptions, cluster: Cluster, layout: RunLayout, launch: Launch | None
) -> Fold | None:
    """None: all ranks run. Raises: UsageError for what is no fold, or does not go with it."""
    if options.fold is None:
        for name, given in (
            *(("--mesh", options.mesh), ("--witness", options.witnesses)),
            ("--apart", options.apart),
        ):
            if given is not None:
                raise UsageError(f"{name} is about ranks that are not run; give --fold too.")
        return None
    _check_rest(options, launch)
    fold = Fold(_mesh(options.fold, options.mesh, layout.ranks))
    if fold.replicas == 1:
        raise UsageError(f"--fold {options.fold} leaves no rank out: remove the option.")
    apart = _apart(fold, options.apart)
    fold = replace(fold, apart=apart, searches=options.fold_searches)
    _check_nodes(fold, cluster, layout)
    wanted = DEFAULT_WITNESSES if options.witnesses is None else options.witnesses
    chosen = _witnesses(fold, wanted)
    return replace(fold, witnesses=tuple(sorted(_with_stages(fold, chosen))))


def _check_nodes(fold: Fold, cluster: Cluster, layout: RunLayout) -> None:
    """Raises: UsageError if a rank stands for others on nodes of another type."""
    if not cluster.node_groups:
        return
    names = [one.name for one in fields(NodeType)]
    types = [
        tuple(getattr(cluster.node(node), name) for name in names) for node in range(layout.nodes)
    ]
    for rank in range(layout.ranks):
        other = fold.representative(rank)
        if types[layout.node(rank)] != types[layout.node(other)]:
            raise UsageError(
                f"--fold has rank {other} stand for rank {rank}, whose "
                f"node is of another type (--cluster {cluster.name}), so that it takes other "
                "times: fold so that each class is on nodes of one type, or run without --fold."
            )


def _check_rest(options: RunOptions, launch: Launch | None) -> None:
    """Raises: UsageError for what makes ranks differ, or cannot be told to absent ones."""
    if launch is not None and launch.own_ranks:
        raise UsageError(
            "--gpus is for a program that starts its own ranks, and --fold has phantora start only "
            "some of them: start the program with torchrun, or with --ranks, to fold it."
        )
    if options.expert_load != "uniform":
        raise UsageError(
            f"--expert-load {options.expert_load} gives ranks different numbers of tokens, and "
            "--fold is for ranks that do the same. Run without --fold, or with --expert-load "
            "uniform."
        )
    if options.host_time in ("measured", "recorded"):
        raise UsageError(
            f"--host-time {options.host_time} gives each rank times of its own, and --fold is for "
            "ranks that do the same. Run without --fold, or with --host-time counted or fixed."
        )


def _mesh(fold: str, mesh: str | None, ranks: int) -> tuple[Dimension, ...]:
    if mesh is None:
        if not fold.isdecimal():
            raise UsageError(
                f"--fold {fold} names dimensions of a mesh: say which there are with --mesh, "
                "outermost first, as in --mesh dp=4,tp=8; or give the number of ranks to run."
            )
        run = int(fold)
        if run < 1 or ranks % run:
            raise UsageError(f"--fold {fold}: {ranks} ranks are no multiple of it.")
        return (Dimension("replicas", ranks // run, folded=True), Dimension("ranks", run, False))
    sizes = mesh_sizes(mesh)
    folded = fold.split(",")
    if unknown := [name for name in folded if name not in sizes]:
        raise UsageError(
            f"--fold {fold}: {unknown[0]!r} is no dimension of --mesh {mesh}; it has "
            f"{', '.join(sizes)}."
        )
    made = tuple(Dimension(name, size, name in folded) for name, size in sizes.items())
    if Fold(made).ranks != ranks:
        product = " x ".join(map(str, sizes.values()))
        raise UsageError(
            f"--mesh {mesh} has {product} = {Fold(made).ranks} ranks, and the run has {ranks}."
        )
    return made


def _with_stages(fold: Fold, witnesses: set[int]) -> set[int]:
    """With the other stages of their pipelines: they send to each other."""
    stride, found = fold.ranks, set(witnesses)
    for dimension in fold.mesh:
        stride //= dimension.size
        if not dimension.folded and dimension.name.startswith(PIPELINES):
            found = {one + at * stride for one in found for at in range(dimension.size)}
    return found


def mesh_sizes(mesh: str, option: str = "--mesh") -> dict[str, int]:
    """The dimensions that a text names, in its order. Raises: UsageError."""
    sizes: dict[str, int] = {}
    for part in mesh.split(","):
        name, equals, size = part.strip().partition("=")
        if not (name.isidentifier() and equals and size.isdecimal() and int(size) > 0):
            raise UsageError(
                f"{option} {mesh}: {part!r} is no dimension; write NAME=SIZE, outermost first, as "
                f"in {option} pp=4,dp=128,tp=8."
            )
        if name in sizes:
            raise UsageError(f"{option} {mesh} has two dimensions of the name {name!r}.")
        sizes[name] = int(size)
    return sizes


def _apart(fold: Fold, given: str | None) -> tuple[Apart, ...]:
    """`given`: ranges of ranks, or of the coordinates of a dimension. Raises: UsageError."""
    if given is None:
        return ()
    sizes = {one.name: one.size for one in fold.mesh if one.folded} | {"": fold.ranks}
    found = []
    for text in given.split(","):
        try:
            one = Apart.parse(text.strip())
        except ValueError:
            one = Apart(0, -1)
        if not 0 <= one.first <= one.last < sizes.get(one.dimension, 0):
            raise UsageError(
                f"--apart {given}: {text!r} is neither a rank, a range of ranks as in 1000-1023, "
                "nor coordinates of a folded dimension as in dp=0."
            )
        if not one.dimension:
            one = Apart(fold.replica(one.first), fold.replica(one.last))
        if one.last < one.first:
            raise UsageError(f"--apart {given}: {text!r} is no range of the ranks of one class.")
        found.append(one)
    return tuple(found)


def _witnesses(fold: Fold, wanted: int) -> set[int]:
    """The last of each class that is apart and the one before it, the last of each folded
    dimension, then one from the middle, then others; each is the first rank of every group of its
    own, so that others need not be there to found it.
    """
    if wanted < 0:
        raise UsageError(f"--witness {wanted}: it is a number of ranks.")
    stride = fold.ranks
    lines = []
    for dimension in fold.mesh:
        stride //= dimension.size
        if dimension.folded and dimension.size > 1:
            last = dimension.size - 1
            edges = [
                place
                for one in fold.apart
                if one.dimension in ("", dimension.name)
                for place in (one.last, one.first - 1)
                if 0 < place <= last
            ]
            order = [*edges, last, dimension.size // 2, *range(1, last)]
            line = [at * stride for at in dict.fromkeys(order)]
            lines.append([one for one in line if fold.representative(one) != one])
    chosen: dict[int, None] = {}
    for turn in range(max(map(len, lines))):
        chosen.update(dict.fromkeys(line[turn] for line in lines if turn < len(line)))
    return set(list(chosen)[:wanted])
