// Many threads of one rank use the channel, memory, events, streams and values at once, while an agent polls and
// answers: what the thread sanitizer is to look at. Driven by test_stress.py. Arguments: threads, rounds.
//
// The agent is a thread of this process, so that it is in the sanitizer's sight; it maps the same files a second time,
// by other addresses, so what the two sides write to the channel is not. The futex words and the ring between processes
// stay out of any such tool's sight.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "bindings/channel_set.h"
#include "shim/channel/rank.h"
#include "shim/core/device.h"
#include "shim/python/python_frame.h"
#include "shim/streams/copies.h"
#include "shim/values/values.h"
#include "shim/waiting/host_waits.h"

namespace {

using ph::RecordKind;

#define CHECK(condition)                                                       \
  do {                                                                         \
    if (!(condition)) {                                                        \
      std::fprintf(stderr, "%s:%d: not %s\n", __FILE__, __LINE__, #condition); \
      std::_Exit(1);                                                           \
    }                                                                          \
  } while (false)

// Answers every wait, one nanosecond after the clock that it saw, and counts what arrives.
class Agent {
 public:
  explicit Agent(const std::string& run_dir) : channels_(run_dir, {0}), thread_([this] { serve(); }) {}

  // Until the rank's exit record was read.
  void join() { thread_.join(); }

  std::vector<std::uint64_t> instances;  // of the event records, in their order
  std::uint64_t asides = 0;

 private:
  void serve() {
    for (std::uint64_t turn = 0; !ended_; ++turn) {
      channels_.sleep(1);
      for (const auto& poll : channels_.collect()) read(poll);
      if (turn % 8 == 0 && channels_.set_aside(0)) ++asides;
    }
  }

  void read(const ph::ChannelSet::Poll& poll) {
    const std::string_view cells = poll.cells;
    for (std::size_t at = 0; at < cells.size(); at += ph::kCellBytes) {
      ph::Record record;
      std::memcpy(&record, cells.data() + at, sizeof record);
      if (has_payload(record.kind)) at += ph::payload_cells(record.arg[ph::PayloadArg::Bytes]) * ph::kCellBytes;
      if (record.kind == RecordKind::EventRecord) instances.push_back(record.arg[ph::EventRecordArg::Instance]);
      if (record.kind == RecordKind::Exit) ended_ = true;
      if (record.kind == RecordKind::Wait) answer(record, poll.host_clock_ns);
    }
  }

  void answer(const ph::Record& record, ph::Nanoseconds clock_ns) {
    const ph::EventNews news{0, 0, 0, 0, 0};
    const std::string_view payload(reinterpret_cast<const char*>(&news), sizeof news);
    channels_.answer(0, static_cast<std::uint32_t>(record.arg[ph::WaitArg::Slot]), ph::ReplyStatus::Done, clock_ns + 1,
                     0, payload);
  }

  ph::ChannelSet channels_;
  bool ended_ = false;
  std::thread thread_;
};

// Two events that all threads record and ask for.
void* shared_events[2];

void use_memory(std::size_t round) {
  const std::size_t bytes = 64 + round % 7 * 512;
  void* memory = ph::allocate_device(0, bytes);
  CHECK(memory != nullptr);
  std::vector<unsigned char> sent(64, static_cast<unsigned char>(round));
  std::vector<unsigned char> received(64);
  ph::copy_sync(memory, sent.data(), sent.size(), ph::resolve_stream(nullptr));
  ph::copy_sync(received.data(), memory, received.size(), ph::resolve_stream(nullptr));
  CHECK(sent == received);
  CHECK(ph::free_device(memory));
}

void use_events(std::size_t round) {
  void* event = ph::create_event(true);
  void* stream = ph::create_stream(0, round % 2 == 0, 0);
  CHECK(ph::record_event(event, ph::resolve_stream(stream)));
  CHECK(ph::record_event(shared_events[round % 2], ph::resolve_stream(stream)));
  ph::stream_wait_event(ph::resolve_stream(stream), ph::resolve_event(shared_events[(round + 1) % 2]));
  ph::query_event(ph::resolve_event(shared_events[round % 2]));
  ph::wait_event(ph::resolve_event(event));
  CHECK(ph::destroy_stream(stream));
  CHECK(ph::destroy_event(event));
}

void use_clock(std::size_t round) {
  timespec before{};
  timespec after{};
  clock_gettime(CLOCK_MONOTONIC, &before);
  ph::advance_host_clock(round % 5);
  usleep(1);
  clock_gettime(CLOCK_MONOTONIC, &after);
  CHECK(after.tv_sec > before.tv_sec || after.tv_nsec >= before.tv_nsec);
}

// A child sees the clock and drives nothing, whatever the parent's threads were doing when it was forked.
void fork_child() {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    const bool detached = !ph::attached() && ph::clock_virtual() && ph::host_clock_ns() > 0;
    ph::Record record{};
    ph::emit(record);
    ph::wait(ph::Record{});
    _exit(detached ? 0 : 1);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

void work(std::size_t thread, std::size_t rounds) {
  if (thread % 4 != 3) ph::become_driver();
  for (std::size_t round = 0; round < rounds; ++round) {
    const std::string name =
        "{\"thread\": " + std::to_string(thread) + ", \"round\": " + std::to_string(round % 9) + "}";
    CHECK(ph::intern_signature(name) != 0);
    use_memory(round);
    use_events(round);
    use_clock(round);
    if (round % 16 == thread % 16) fork_child();
  }
}

}  // namespace

extern "C" void ph_exit(std::int64_t status) noexcept;

int main(int, char** arguments) {
  const std::string run_dir = std::getenv("PHANTORA_RUN_DIR");
  const auto threads = static_cast<std::size_t>(std::atoi(arguments[1]));
  const auto rounds = static_cast<std::size_t>(std::atoi(arguments[2]));
  Agent agent(run_dir);
  CHECK(ph::attach(run_dir.c_str(), 0));
  for (void*& event : shared_events) event = ph::create_event(false);

  std::vector<std::thread> workers;
  for (std::size_t thread = 0; thread < threads; ++thread) workers.emplace_back(work, thread, rounds);
  for (std::thread& worker : workers) worker.join();
  ph_exit(0);
  agent.join();

  for (std::size_t i = 0; i < agent.instances.size(); ++i) CHECK(agent.instances[i] == i + 1);
  // Two of the program's and two copies in every round; the queue of launches marks every 256 pieces of work.
  const std::size_t pieces = 2 * threads * rounds;
  CHECK(agent.instances.size() == pieces + (pieces - 1) / 256);
  std::printf("ok %d\n", agent.asides > 0);
}
