// Names of enumerations, for messages and documents.
#pragma once

#include <string>

#include "engine/liveness.h"
#include "protocol/records.h"

namespace ph {

bool is_record_kind(RecordKind kind);
std::string name(RecordKind kind);
std::string name(WaitKind kind);
std::string name(NcclOpKind kind);
std::string name(Liveness::State state);
std::string name(Liveness::Cause cause);
std::string data_type_name(std::uint64_t type);        // ncclDataType_t
std::string reduction_name(std::uint64_t reduction);   // ncclRedOp_t, or kPremulSum

}  // namespace ph
