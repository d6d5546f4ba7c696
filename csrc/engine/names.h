// Names of the enumerations of records.h, for messages.
#pragma once

#include <string>

#include "protocol/records.h"

namespace ph {

bool is_record_kind(RecordKind kind);
std::string name(RecordKind kind);
std::string name(WaitKind kind);
std::string name(NcclOpKind kind);
std::string data_type_name(std::uint64_t type);        // ncclDataType_t
std::string reduction_name(std::uint64_t reduction);   // ncclRedOp_t, or kPremulSum

}  // namespace ph
