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

void emit_kernel(StreamRef stream, std::string_view signature_json) noexcept {
  if (!attached()) return;  // a signature met here would never be announced
  emit_kernel(stream, intern_signature(signature_json));
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

std::string library_signature(const char* library, const char* operation, const char* type,
                              std::initializer_list<NamedSize> sizes) {
  std::string json = std::string("{\"kind\": \"library\", \"library\": \"") + library + "\", \"operation\": \"" +
                     operation + "\", \"type\": \"" + type + '"';
  for (const auto& [name, size] : sizes) json += std::string(", \"") + name + "\": " + std::to_string(size);
  return json + '}';
}

}  // namespace ph
