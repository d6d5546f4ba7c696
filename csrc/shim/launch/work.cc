#include "shim/launch/work.h"

#include "shim/channel/rank.h"
#include "shim/core/device.h"
#include "shim/host_time/host_time.h"
#include "shim/values/values.h"

namespace ph {

void emit_kernel(StreamRef stream, std::uint32_t signature) noexcept {
  charge_launch(signature);
  enter_queue(stream);
  Record record{};
  record.kind = RecordKind::Kernel;
  record.device = stream.device;
  record.stream = stream.id;
  record.id = signature;
  emit(record);
}

void launch_host_function(StreamRef stream, std::function<void()> function) noexcept {
  enter_queue(stream);
  Record record{};
  record.kind = RecordKind::HostFunction;
  record.device = stream.device;
  record.stream = stream.id;
  emit(record);
  enqueue_value(std::move(function), {});
}

}  // namespace ph
