// How far the host may be ahead of the GPU; see docs/decisions/launch-queue.md.
#include <array>
#include <mutex>
#include <unordered_map>

#include "shim/channel/rank.h"
#include "shim/core/device.h"
#include "shim/graph/capture.h"
#include "shim/waiting/event_progress.h"

namespace ph {

namespace {

// After about 1,000 launches that the GPU has not come to, one more takes as long as the kernels do, and every stream
// holds as many. Source: https://stackoverflow.com/q/53970187. That all work counts alike is assumed.
constexpr std::uint32_t kQueued = 1024;
// Looked at once in a batch: a wait is a message to the server and back.
constexpr std::size_t kBatches = 4;
constexpr std::uint32_t kBatch = kQueued / kBatches;

struct Queue {
  std::uint32_t in_batch = 0;
  std::size_t batch = 0;
  std::array<std::uint64_t, kBatches> ends{};  // event instances after the last batches, 0: none yet
};

std::mutex mutex;
auto& queues = *new std::unordered_map<std::uint64_t, Queue>;  // by device and stream; threads still launch at the end

// What has to be done before the stream takes a new batch; 0: nothing.
std::uint64_t begin_batch(Queue& queue, StreamRef stream) noexcept {
  queue.in_batch = 1;
  queue.ends[queue.batch++ % kBatches] = record_instance(stream);
  return queue.ends[queue.batch % kBatches];
}

std::uint64_t count_work(StreamRef stream) noexcept {
  const std::lock_guard lock(mutex);
  Queue& queue = queues[std::uint64_t{stream.device} << 32 | stream.id];
  return ++queue.in_batch > kBatch ? begin_batch(queue, stream) : 0;
}

}  // namespace

void enter_queue(StreamRef stream) noexcept {
  if (!attached()) ensure_context(stream.device);
  become_driver();
  if (!attached() || (any_capture() && capture_info(stream).status != CaptureStatus::None)) return;
  const std::uint64_t done_before = count_work(stream);
  if (done_before == 0) return;
  Record record{};
  record.id = static_cast<std::uint32_t>(WaitKind::LaunchQueue);
  record.device = stream.device;
  record.arg[LaunchQueueWaitArg::Instance] = done_before;
  Reply reply;
  wait(record, reply);
  learn_events({reply.payload, reply.payload_bytes});
}

}  // namespace ph
