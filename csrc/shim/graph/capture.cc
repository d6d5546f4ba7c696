#include "shim/graph/capture.h"

#include <algorithm>
#include <list>
#include <mutex>
#include <thread>
#include <utility>

#include "shim/graph/graph_nodes.h"

namespace ph {

namespace detail {
std::atomic<int> open_captures{0};
}

namespace {

struct Capture {
  std::uint64_t id;
  CaptureMode mode;
  std::thread::id thread;
  bool is_valid = true;
  void* handle = nullptr;
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  // By branch: how much work of every branch comes before its next (of its own, all), and the nodes right before.
  std::vector<std::vector<std::uint32_t>> seen{};
  std::vector<GraphNodes> last{};

  std::size_t branch_of(StreamRef stream) const noexcept {
    const auto& branches = graph->branches;
    const auto found =
        std::find_if(branches.begin(), branches.end(), [&](StreamRef branch) { return branch.id == stream.id; });
    return static_cast<std::size_t>(found - branches.begin());
  }
  bool holds(StreamRef stream) const noexcept { return branch_of(stream) != graph->branches.size(); }

  std::size_t add_branch(StreamRef stream) {
    graph->branches.push_back(stream);
    for (auto& counts : seen) counts.resize(graph->branches.size());
    seen.emplace_back(graph->branches.size());
    last.emplace_back();
    return graph->branches.size() - 1;
  }
  void add(std::size_t branch, GraphStep what) { graph->add(branch, std::move(what)); }
  void add_node(std::size_t branch, NodeKind kind, GraphStep what) {
    add(branch, std::move(what));
    ++seen[branch][branch];
    void* node = create_graph_node({.kind = kind, .dependencies = std::move(last[branch]), .graph = handle});
    graph->nodes.push_back(node);
    last[branch] = {node};
  }
  bool is_joined() const noexcept {
    for (std::size_t branch = 1; branch < seen.size(); ++branch) {
      if (seen[0][branch] < seen[branch][branch]) return false;
    }
    return true;
  }
  bool has_blocking_stream(std::uint16_t device) const noexcept {
    const auto& branches = graph->branches;
    return std::any_of(branches.begin(), branches.end(),
                       [&](StreamRef branch) { return branch.device == device && !branch.non_blocking; });
  }
};

std::mutex mutex;
auto& captures = *new std::list<Capture>;  // under way; guarded by the mutex
std::uint64_t capture_count = 0;
thread_local CaptureMode mode_of_thread = CaptureMode::Global;
// Where the records of this thread's API call went: the capture and the stream.
thread_local std::uint64_t capture_of_call = 0;
thread_local StreamRef stream_of_call{};

// These are called with the mutex held.
Capture* find(StreamRef stream) noexcept {
  const auto found = std::find_if(captures.begin(), captures.end(), [&](const Capture& c) { return c.holds(stream); });
  return found == captures.end() ? nullptr : &*found;
}

Capture* find_by_id(std::uint64_t id) noexcept {
  const auto found = std::find_if(captures.begin(), captures.end(), [&](const Capture& c) { return c.id == id; });
  return found == captures.end() ? nullptr : &*found;
}

bool forbids_unsafe_calls(const Capture& capture) noexcept {
  if (capture.thread == std::this_thread::get_id()) {
    return mode_of_thread != CaptureMode::Relaxed && capture.mode != CaptureMode::Relaxed;
  }
  return mode_of_thread == CaptureMode::Global && capture.mode == CaptureMode::Global;
}

NodeKind kind_of(RecordKind kind) noexcept {
  switch (kind) {
    case RecordKind::Copy: return NodeKind::Copy;
    case RecordKind::Fill: return NodeKind::Fill;
    case RecordKind::HostFunction: return NodeKind::Host;
    default: return NodeKind::Kernel;
  }
}

// The event belongs to `capture`; the stream becomes part of it if it is not.
CaptureError join(Capture& capture, StreamRef stream, const CapturedEvent& event) noexcept {
  if (!capture.is_valid) return CaptureError::Invalidated;
  if (Capture* other = find(stream); other != nullptr && other != &capture) {
    capture.is_valid = other->is_valid = false;
    return CaptureError::Merge;
  }
  if (stream.id == 0) {
    capture.is_valid = false;
    return CaptureError::Implicit;
  }
  const bool is_new = !capture.holds(stream);
  const std::size_t branch = is_new ? capture.add_branch(stream) : capture.branch_of(stream);
  auto& seen = capture.seen[branch];
  bool tells_news = is_new;
  for (std::size_t i = 0; i < event.seen.size(); ++i) {
    tells_news = tells_news || event.seen[i] > seen[i];
    seen[i] = std::max(seen[i], event.seen[i]);
  }
  if (tells_news) capture.add(branch, GraphWait{event.mark});
  for (void* node : event.nodes) {
    auto& last = capture.last[branch];
    if (std::find(last.begin(), last.end(), node) == last.end()) last.push_back(node);
  }
  return CaptureError::None;
}

}  // namespace

CaptureError begin_capture(StreamRef stream, CaptureMode mode) noexcept {
  if (stream.id == 0) return CaptureError::Unsupported;  // the legacy stream
  const std::lock_guard lock(mutex);
  if (find(stream) != nullptr) return CaptureError::IllegalState;
  Capture& capture = captures.emplace_back(Capture{++capture_count, mode, std::this_thread::get_id()});
  capture.handle = create_graph(capture.graph);
  capture.add_branch(stream);
  detail::open_captures.fetch_add(1);
  return CaptureError::None;
}

CaptureError end_capture(StreamRef stream, void** graph) noexcept {
  *graph = nullptr;
  std::shared_ptr<Graph> last_reference;  // what the graph keeps is let go without the lock
  const std::lock_guard lock(mutex);
  Capture* capture = find(stream);
  if (capture == nullptr) return CaptureError::IllegalState;
  if (capture->branch_of(stream) != 0) {
    capture->is_valid = false;  // as measured on an H100 (CUDA 13.0)
    return CaptureError::Unmatched;
  }
  CaptureError error = CaptureError::None;
  if (capture->mode != CaptureMode::Relaxed && capture->thread != std::this_thread::get_id()) {
    error = CaptureError::WrongThread;
  } else if (!capture->is_valid) error = CaptureError::Invalidated;
  else if (!capture->is_joined()) error = CaptureError::Unjoined;
  last_reference = capture->graph;
  if (error == CaptureError::None) *graph = capture->handle;
  else destroy_graph(capture->handle);
  captures.remove_if([capture](const Capture& one) { return &one == capture; });
  detail::open_captures.fetch_sub(1);
  return error;
}

GraphWork capture_apart(const std::function<void(StreamRef)>& issue) {
  static std::atomic<std::uint32_t> last_id{0};  // streams of the program count upwards
  const StreamRef stream{
      .id = --last_id, .device = static_cast<std::uint16_t>(current_device()), .valid = true, .non_blocking = true};
  void* handle = nullptr;
  begin_capture(stream, CaptureMode::Relaxed);
  issue(stream);
  end_capture(stream, &handle);
  GraphWork work = find_graph(handle);
  destroy_graph(handle);
  return work;
}

CaptureInfo capture_info(StreamRef stream) noexcept {
  if (!any_capture()) return {};
  const std::lock_guard lock(mutex);
  const Capture* capture = find(stream);
  if (capture == nullptr) return {};
  return {capture->is_valid ? CaptureStatus::Active : CaptureStatus::Invalidated, capture->id, capture->handle,
          &capture->last[capture->branch_of(stream)]};
}

CaptureMode exchange_capture_mode(CaptureMode mode) noexcept { return std::exchange(mode_of_thread, mode); }

CaptureError check_work(StreamRef stream) noexcept {
  if (!any_capture()) return CaptureError::None;
  const std::lock_guard lock(mutex);
  if (const Capture* capture = find(stream); capture != nullptr) {
    return capture->is_valid ? CaptureError::None : CaptureError::Invalidated;
  }
  CaptureError error = CaptureError::None;
  if (stream.id != 0) return error;
  // The legacy stream would wait for every blocking stream.
  for (Capture& capture : captures) {
    if (!capture.has_blocking_stream(stream.device)) continue;
    capture.is_valid = false;
    error = CaptureError::Implicit;
  }
  return error;
}

CaptureError check_unsafe_call() noexcept {
  if (!any_capture()) return CaptureError::None;
  const std::lock_guard lock(mutex);
  CaptureError error = CaptureError::None;
  for (Capture& capture : captures) {
    if (!forbids_unsafe_calls(capture)) continue;
    capture.is_valid = false;
    error = CaptureError::Unsupported;
  }
  return error;
}

CaptureError check_stream_wait(StreamRef stream) noexcept {
  if (!any_capture()) return CaptureError::None;
  {
    const std::lock_guard lock(mutex);
    if (Capture* capture = find(stream); capture != nullptr) {
      capture->is_valid = false;
      return CaptureError::Unsupported;  // of a capture that was invalid before, too
    }
  }
  const CaptureError error = check_work(stream);
  return error == CaptureError::None ? check_unsafe_call() : error;
}

CaptureError check_event_wait(const EventRef& event) noexcept {
  if (event.captured == nullptr) return check_unsafe_call();
  const std::lock_guard lock(mutex);
  Capture* capture = find_by_id(event.captured->capture);
  if (capture == nullptr) return CaptureError::InvalidValue;  // its capture has ended
  capture->is_valid = false;
  return CaptureError::CapturedEvent;
}

CaptureError check_external_wait(StreamRef stream, const EventRef& event) noexcept {
  const std::lock_guard lock(mutex);
  Capture* capture = find(stream);
  if (capture == nullptr) return CaptureError::IllegalState;
  if (event.captured == nullptr) return CaptureError::None;
  capture->is_valid = false;
  return CaptureError::InvalidValue;
}

std::shared_ptr<const CapturedEvent> capture_mark(StreamRef stream) noexcept {
  if (!any_capture()) return nullptr;
  const std::lock_guard lock(mutex);
  Capture* capture = find(stream);
  if (capture == nullptr) return nullptr;
  const std::size_t branch = capture->branch_of(stream);
  const std::uint32_t mark = capture->graph->marks++;
  capture->add(branch, GraphMark{mark});
  return std::make_shared<CapturedEvent>(
      CapturedEvent{capture->id, mark, capture->seen[branch], capture->last[branch]});
}

CaptureError capture_wait(StreamRef stream, const EventRef& event, bool& concerned) noexcept {
  concerned = false;
  if (event.captured == nullptr && !any_capture()) return CaptureError::None;
  const std::lock_guard lock(mutex);
  Capture* capture = find(stream);
  concerned = capture != nullptr || event.captured != nullptr;
  if (!concerned) return CaptureError::None;
  if (event.captured != nullptr) {
    Capture* source = find_by_id(event.captured->capture);
    return source != nullptr ? join(*source, stream, *event.captured) : CaptureError::InvalidValue;
  }
  if (!capture->is_valid) return CaptureError::Invalidated;
  if (event.instance == 0) return CaptureError::None;  // never recorded
  capture->is_valid = false;
  return CaptureError::Isolation;
}

bool capture_record(const Record& record) noexcept {
  if (!any_capture()) return false;
  if (record.kind < RecordKind::Kernel || record.kind > RecordKind::HostFunction || record.stream == 0) return false;
  const std::lock_guard lock(mutex);
  const StreamRef stream{.id = record.stream, .device = record.device, .valid = true};
  Capture* capture = find(stream);
  if (capture == nullptr) return false;
  capture->add_node(capture->branch_of(stream), kind_of(record.kind), record);
  capture_of_call = capture->id;
  stream_of_call = stream;
  return true;
}

namespace detail {

bool add_effect(StreamRef stream, NodeKind kind, std::function<void(StreamRef)> effect) noexcept {
  const std::lock_guard lock(mutex);
  Capture* capture = find(stream);
  if (capture == nullptr) return false;
  capture->add_node(capture->branch_of(stream), kind, GraphEffect{std::move(effect)});
  return true;
}

}  // namespace detail

bool capture_beside(std::function<void()> effect) noexcept {
  if (!any_capture()) return false;
  const std::lock_guard lock(mutex);
  const auto own = std::find_if(captures.begin(), captures.end(),
                                [](const Capture& c) { return c.thread == std::this_thread::get_id(); });
  if (own == captures.end()) return false;
  own->add(0, GraphEffect{[effect = std::move(effect)](StreamRef) { effect(); }});
  return true;
}

bool call_is_captured() noexcept { return capture_of_call != 0; }

void begin_uncaptured_call() noexcept { capture_of_call = 0; }

void capture_values(std::function<void()> effect) noexcept {
  const std::lock_guard lock(mutex);
  Capture* capture = find_by_id(capture_of_call);
  if (capture == nullptr || !capture->holds(stream_of_call)) return;  // it has ended meanwhile: nothing will run
  capture->add(capture->branch_of(stream_of_call), GraphEffect{[effect = std::move(effect)](StreamRef) { effect(); }});
}

}  // namespace ph
