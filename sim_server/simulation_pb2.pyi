from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class FromAgent(_message.Message):
    __slots__ = ("hello", "batch", "ranks_aside", "rank_exited", "finish", "parcels")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    RANKS_ASIDE_FIELD_NUMBER: _ClassVar[int]
    RANK_EXITED_FIELD_NUMBER: _ClassVar[int]
    FINISH_FIELD_NUMBER: _ClassVar[int]
    PARCELS_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    batch: Batch
    ranks_aside: RanksAside
    rank_exited: RankExited
    finish: Finish
    parcels: Parcels
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., batch: _Optional[_Union[Batch, _Mapping]] = ..., ranks_aside: _Optional[_Union[RanksAside, _Mapping]] = ..., rank_exited: _Optional[_Union[RankExited, _Mapping]] = ..., finish: _Optional[_Union[Finish, _Mapping]] = ..., parcels: _Optional[_Union[Parcels, _Mapping]] = ...) -> None: ...

class ToAgent(_message.Message):
    __slots__ = ("welcome", "answers", "stalled", "progress", "failure", "data_chunk", "parcels")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    STALLED_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    DATA_CHUNK_FIELD_NUMBER: _ClassVar[int]
    PARCELS_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    answers: Answers
    stalled: Stalled
    progress: Progress
    failure: Failure
    data_chunk: DataChunk
    parcels: Parcels
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., answers: _Optional[_Union[Answers, _Mapping]] = ..., stalled: _Optional[_Union[Stalled, _Mapping]] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ..., data_chunk: _Optional[_Union[DataChunk, _Mapping]] = ..., parcels: _Optional[_Union[Parcels, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("protocol_version", "records_version", "local_ranks", "wanted", "host")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    RECORDS_VERSION_FIELD_NUMBER: _ClassVar[int]
    LOCAL_RANKS_FIELD_NUMBER: _ClassVar[int]
    WANTED_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    records_version: int
    local_ranks: _containers.RepeatedScalarFieldContainer[int]
    wanted: Wanted
    host: str
    def __init__(self, protocol_version: _Optional[int] = ..., records_version: _Optional[int] = ..., local_ranks: _Optional[_Iterable[int]] = ..., wanted: _Optional[_Union[Wanted, _Mapping]] = ..., host: _Optional[str] = ...) -> None: ...

class Wanted(_message.Message):
    __slots__ = ("ranks", "nodes", "gpus_per_node", "cluster", "simulated", "nccl_environment", "nccl_version", "cuda", "libraries", "until_steady", "iteration", "fold")
    class NcclEnvironmentEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    RANKS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    GPUS_PER_NODE_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    SIMULATED_FIELD_NUMBER: _ClassVar[int]
    NCCL_ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    NCCL_VERSION_FIELD_NUMBER: _ClassVar[int]
    CUDA_FIELD_NUMBER: _ClassVar[int]
    LIBRARIES_FIELD_NUMBER: _ClassVar[int]
    UNTIL_STEADY_FIELD_NUMBER: _ClassVar[int]
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    FOLD_FIELD_NUMBER: _ClassVar[int]
    ranks: int
    nodes: int
    gpus_per_node: int
    cluster: str
    simulated: bytes
    nccl_environment: _containers.ScalarMap[str, str]
    nccl_version: int
    cuda: str
    libraries: str
    until_steady: bool
    iteration: str
    fold: Fold
    def __init__(self, ranks: _Optional[int] = ..., nodes: _Optional[int] = ..., gpus_per_node: _Optional[int] = ..., cluster: _Optional[str] = ..., simulated: _Optional[bytes] = ..., nccl_environment: _Optional[_Mapping[str, str]] = ..., nccl_version: _Optional[int] = ..., cuda: _Optional[str] = ..., libraries: _Optional[str] = ..., until_steady: bool = ..., iteration: _Optional[str] = ..., fold: _Optional[_Union[Fold, _Mapping]] = ...) -> None: ...

class Fold(_message.Message):
    __slots__ = ("mesh", "witnesses", "apart", "searches")
    MESH_FIELD_NUMBER: _ClassVar[int]
    WITNESSES_FIELD_NUMBER: _ClassVar[int]
    APART_FIELD_NUMBER: _ClassVar[int]
    SEARCHES_FIELD_NUMBER: _ClassVar[int]
    mesh: _containers.RepeatedCompositeFieldContainer[Dimension]
    witnesses: _containers.RepeatedScalarFieldContainer[int]
    apart: _containers.RepeatedScalarFieldContainer[str]
    searches: bool
    def __init__(self, mesh: _Optional[_Iterable[_Union[Dimension, _Mapping]]] = ..., witnesses: _Optional[_Iterable[int]] = ..., apart: _Optional[_Iterable[str]] = ..., searches: bool = ...) -> None: ...

class Dimension(_message.Message):
    __slots__ = ("name", "size", "folded")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    FOLDED_FIELD_NUMBER: _ClassVar[int]
    name: str
    size: int
    folded: bool
    def __init__(self, name: _Optional[str] = ..., size: _Optional[int] = ..., folded: bool = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("protocol_version",)
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    def __init__(self, protocol_version: _Optional[int] = ...) -> None: ...

class Batch(_message.Message):
    __slots__ = ("ranks",)
    RANKS_FIELD_NUMBER: _ClassVar[int]
    ranks: _containers.RepeatedCompositeFieldContainer[RankRecords]
    def __init__(self, ranks: _Optional[_Iterable[_Union[RankRecords, _Mapping]]] = ...) -> None: ...

class RankRecords(_message.Message):
    __slots__ = ("rank", "host_clock_ns", "cells")
    RANK_FIELD_NUMBER: _ClassVar[int]
    HOST_CLOCK_NS_FIELD_NUMBER: _ClassVar[int]
    CELLS_FIELD_NUMBER: _ClassVar[int]
    rank: int
    host_clock_ns: int
    cells: bytes
    def __init__(self, rank: _Optional[int] = ..., host_clock_ns: _Optional[int] = ..., cells: _Optional[bytes] = ...) -> None: ...

class RanksAside(_message.Message):
    __slots__ = ("ranks", "wakeups", "proven", "is_quiet", "delivered", "await_values")
    RANKS_FIELD_NUMBER: _ClassVar[int]
    WAKEUPS_FIELD_NUMBER: _ClassVar[int]
    PROVEN_FIELD_NUMBER: _ClassVar[int]
    IS_QUIET_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_FIELD_NUMBER: _ClassVar[int]
    AWAIT_VALUES_FIELD_NUMBER: _ClassVar[int]
    ranks: _containers.RepeatedScalarFieldContainer[int]
    wakeups: int
    proven: _containers.RepeatedScalarFieldContainer[int]
    is_quiet: bool
    delivered: int
    await_values: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, ranks: _Optional[_Iterable[int]] = ..., wakeups: _Optional[int] = ..., proven: _Optional[_Iterable[int]] = ..., is_quiet: bool = ..., delivered: _Optional[int] = ..., await_values: _Optional[_Iterable[int]] = ...) -> None: ...

class Parcels(_message.Message):
    __slots__ = ("parcels",)
    PARCELS_FIELD_NUMBER: _ClassVar[int]
    parcels: _containers.RepeatedCompositeFieldContainer[Parcel]
    def __init__(self, parcels: _Optional[_Iterable[_Union[Parcel, _Mapping]]] = ...) -> None: ...

class Parcel(_message.Message):
    __slots__ = ("rank", "packet", "values", "printed", "note", "kept", "memory_bytes")
    RANK_FIELD_NUMBER: _ClassVar[int]
    PACKET_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    PRINTED_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    rank: int
    packet: bytes
    values: bytes
    printed: Printed
    note: str
    kept: KeptFile
    memory_bytes: int
    def __init__(self, rank: _Optional[int] = ..., packet: _Optional[bytes] = ..., values: _Optional[bytes] = ..., printed: _Optional[_Union[Printed, _Mapping]] = ..., note: _Optional[str] = ..., kept: _Optional[_Union[KeptFile, _Mapping]] = ..., memory_bytes: _Optional[int] = ...) -> None: ...

class Printed(_message.Message):
    __slots__ = ("stream", "text")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    stream: str
    text: bytes
    def __init__(self, stream: _Optional[str] = ..., text: _Optional[bytes] = ...) -> None: ...

class KeptFile(_message.Message):
    __slots__ = ("name", "content")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    name: str
    content: bytes
    def __init__(self, name: _Optional[str] = ..., content: _Optional[bytes] = ...) -> None: ...

class RankExited(_message.Message):
    __slots__ = ("rank", "status")
    RANK_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    rank: int
    status: int
    def __init__(self, rank: _Optional[int] = ..., status: _Optional[int] = ...) -> None: ...

class Finish(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Answers(_message.Message):
    __slots__ = ("answers",)
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    answers: _containers.RepeatedCompositeFieldContainer[Answer]
    def __init__(self, answers: _Optional[_Iterable[_Union[Answer, _Mapping]]] = ...) -> None: ...

class Answer(_message.Message):
    __slots__ = ("rank", "slot", "status", "time_ns", "value", "payload")
    RANK_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    TIME_NS_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    rank: int
    slot: int
    status: int
    time_ns: int
    value: int
    payload: bytes
    def __init__(self, rank: _Optional[int] = ..., slot: _Optional[int] = ..., status: _Optional[int] = ..., time_ns: _Optional[int] = ..., value: _Optional[int] = ..., payload: _Optional[bytes] = ...) -> None: ...

class Stalled(_message.Message):
    __slots__ = ("held_up_by", "wakeups", "alarmed", "helpers_run", "taken")
    HELD_UP_BY_FIELD_NUMBER: _ClassVar[int]
    WAKEUPS_FIELD_NUMBER: _ClassVar[int]
    ALARMED_FIELD_NUMBER: _ClassVar[int]
    HELPERS_RUN_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    held_up_by: _containers.RepeatedScalarFieldContainer[int]
    wakeups: int
    alarmed: _containers.RepeatedScalarFieldContainer[int]
    helpers_run: _containers.RepeatedScalarFieldContainer[int]
    taken: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, held_up_by: _Optional[_Iterable[int]] = ..., wakeups: _Optional[int] = ..., alarmed: _Optional[_Iterable[int]] = ..., helpers_run: _Optional[_Iterable[int]] = ..., taken: _Optional[_Iterable[int]] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("iterations", "virtual_time_ns", "steady", "measuring")
    ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    VIRTUAL_TIME_NS_FIELD_NUMBER: _ClassVar[int]
    STEADY_FIELD_NUMBER: _ClassVar[int]
    MEASURING_FIELD_NUMBER: _ClassVar[int]
    iterations: int
    virtual_time_ns: int
    steady: Steady
    measuring: int
    def __init__(self, iterations: _Optional[int] = ..., virtual_time_ns: _Optional[int] = ..., steady: _Optional[_Union[Steady, _Mapping]] = ..., measuring: _Optional[int] = ...) -> None: ...

class Steady(_message.Message):
    __slots__ = ("iterations", "time_ns", "median_ns")
    ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    TIME_NS_FIELD_NUMBER: _ClassVar[int]
    MEDIAN_NS_FIELD_NUMBER: _ClassVar[int]
    iterations: int
    time_ns: int
    median_ns: int
    def __init__(self, iterations: _Optional[int] = ..., time_ns: _Optional[int] = ..., median_ns: _Optional[int] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ("exit_code", "message", "tables", "detail", "rank", "status")
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    exit_code: int
    message: str
    tables: str
    detail: str
    rank: int
    status: int
    def __init__(self, exit_code: _Optional[int] = ..., message: _Optional[str] = ..., tables: _Optional[str] = ..., detail: _Optional[str] = ..., rank: _Optional[int] = ..., status: _Optional[int] = ...) -> None: ...

class DataChunk(_message.Message):
    __slots__ = ("name", "content", "last")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    name: str
    content: bytes
    last: bool
    def __init__(self, name: _Optional[str] = ..., content: _Optional[bytes] = ..., last: bool = ...) -> None: ...
