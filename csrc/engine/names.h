// Names of the enumerations of records.h, for messages.
#pragma once

#include <string>

#include "protocol/records.h"

namespace ph {

bool is_record_kind(RecordKind kind);
std::string name(RecordKind kind);
std::string name(WaitKind kind);
std::string name(NcclOpKind kind);

}  // namespace ph
