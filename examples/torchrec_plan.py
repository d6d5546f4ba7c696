"""A plan of `phantora plan` as TorchRec's ShardingPlan, for DistributedModelParallel(plan=...).

from torchrec_plan import read_plan
model = DistributedModelParallel(model, device=device, plan=read_plan("plan.json"))
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torch.distributed._shard.metadata import ShardMetadata
from torch.distributed._shard.sharding_spec import EnumerableShardingSpec
from torchrec.distributed.types import (
    CacheParams,
    EmbeddingModuleShardingPlan,
    ParameterSharding,
    ShardingPlan,
)


def read_plan(path: str) -> ShardingPlan:
    """The plan of all modules in the file."""
    modules = json.loads(Path(path).read_text(encoding="utf-8"))["plan"]
    return ShardingPlan(
        {
            module: EmbeddingModuleShardingPlan(
                {table: _parameter(fields) for table, fields in tables.items()}
            )
            for module, tables in modules.items()
        }
    )


def _parameter(fields: dict[str, Any]) -> ParameterSharding:
    spec = fields["sharding_spec"]
    shards = spec and EnumerableShardingSpec([ShardMetadata(**one) for one in spec["shards"]])
    cache = fields.get("cache_params")
    return ParameterSharding(
        fields["sharding_type"],
        fields["compute_kernel"],
        fields["ranks"],
        shards,
        cache_params=cache and CacheParams(**cache),
    )
