#include "shim/calls/call.h"

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include "protocol/payloads.h"
#include "shim/channel/rank.h"
#include "shim/core/config.h"
#include "shim/core/failure.h"
#include "shim/core/json.h"
#include "shim/core/run_environment.h"
#include "shim/core/visible_devices.h"
#include "shim/graph/capture.h"
#include "shim/host_time/host_time.h"
#include "shim/memory/first_use.h"
#include "shim/python/whereabouts.h"

extern "C" int ph_exit_at_end() noexcept;

namespace ph {

namespace {

std::atomic<bool> has_runtime{false};

bool python_runs() noexcept {
  int (*is_initialized)() = nullptr;
  void* const address = dlsym(RTLD_DEFAULT, "Py_IsInitialized");
  std::memcpy(&is_initialized, &address, sizeof address);
  return is_initialized != nullptr && is_initialized() != 0;
}

// A Python that does not find our sitecustomize: the rank's work is simulated, and what its modules would tell is not.
void tell_missing_runtime() noexcept {
  if (has_runtime.load(std::memory_order_relaxed) || !python_runs()) return;
  const std::string text =
      "phantora: the Python of rank " + std::to_string(global_rank()) +
      " was started so that it does not read PYTHONPATH (-I, -E or -S): nobody tells optimizer steps, and values of "
      "small tensors are not known, so that iterations may be other ones and the program may decide otherwise. Start "
      "it without these options\n";
  (void)!write(STDERR_FILENO, text.data(), text.size());
  emit_statistics(payload_text(payloads::Caveat{.what = "hooks", .count = 1}));
}

bool attach_now(const char* run_dir, std::uint32_t rank) noexcept {
  if (!attach(run_dir, rank)) return false;
  tell_missing_runtime();
  write_whereabouts();
  ph_exit_at_end();  // a program without Python has nobody else who asks for it
  return true;
}

void attach_if_asked() noexcept {
  static const bool tried = [] {
    const char* run_dir = run_variable(RunVariable::RunDir);
    const char* rank = run_variable(RunVariable::Rank);
    if (run_dir == nullptr || rank == nullptr || attached() || clock_virtual()) return false;
    return attach_now(run_dir, static_cast<std::uint32_t>(std::strtoul(rank, nullptr, 10)));
  }();
  (void)tried;
}

// The rank of a process that a program has started itself: what a launcher of its own says, else the device.
std::uint32_t rank_of_use(int device) noexcept {
  const char* local_rank = std::getenv("LOCAL_RANK");
  if (local_rank == nullptr || *local_rank < '0' || *local_rank > '9') return node_gpu(device);
  return static_cast<std::uint32_t>(std::strtoul(local_rank, nullptr, 10));
}

// For the report: phantora_py/launch/unsimulated.py reads it.
void note_unsimulated(const char* run_dir, int device) noexcept {
  const std::string path = std::string(run_dir) + "/unsimulated";
  const std::string line = std::to_string(global_rank()) + " " + std::to_string(device) + "\n";
  const int fd = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  const bool written = fd >= 0 && write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  if (fd >= 0) close(fd);
  if (!written) fail_internal("cannot write " + path + ": " + std::strerror(errno));
}

void tell_unaccounted_use(const char* run_dir, int device) noexcept {
  static std::atomic<bool> told{false};
  if (told.exchange(true)) return;
  note_unsimulated(run_dir, device);
  const std::string text = "phantora: process " + std::to_string(getpid()) + ", which rank " +
                           std::to_string(global_rank()) + " has started, uses GPU " + std::to_string(device) +
                           ": its work there is not simulated and takes no time. " +
                           (run_variable(RunVariable::OwnRanks) != nullptr
                                ? "One process per GPU is simulated: have it choose a GPU that no other one uses\n"
                                : "A program that starts its own workers runs with phantora run --gpus N instead of "
                                  "--ranks N\n");
  (void)!write(STDERR_FILENO, text.data(), text.size());
}

void attach_by_use(const char* run_dir, int device) noexcept {
  const std::uint32_t rank = rank_of_use(device);
  if (rank >= config().ranks) {
    fail_usage("a process has LOCAL_RANK " + std::to_string(rank) + ", and phantora run --gpus " +
               std::to_string(config().ranks) + " has no GPU for it");
  }
  if (!attach_now(run_dir, rank)) {
    // Started with an environment that lacks what tells a rank's helpers apart, such as os.environ, which does not see
    // what we add.
    if (descends_from_owner()) {
      setenv("PHANTORA_RANK", std::to_string(rank).c_str(), 1);
      return tell_unaccounted_use(run_dir, device);
    }
    fail_usage("process " + std::to_string(getpid()) + " uses GPU " + std::to_string(rank) +
               ", which another process of the program uses; one process per GPU is simulated. Have each choose its "
               "GPU (torch.cuda.set_device, LOCAL_RANK) before it uses one");
  }
  // What it starts are its helpers.
  setenv("PHANTORA_RANK", std::to_string(rank).c_str(), 1);
}

}  // namespace

Call::Call(ApiTable& table, std::size_t row, HostCost cost) noexcept {
  table.counts[row].fetch_add(1, std::memory_order_relaxed);
  if (!own_.outermost()) return;  // a body that calls another one is charged once
  name_call(table.rows[row].name);
  begin_uncaptured_call();
  if (!attached()) attach_if_asked();
  if (profiling::gathers_any() && attached()) activity_.begin(table.library, table.rows[row].name);
  if (is_driver()) charge_call(table, row, cost);
}

void note_runtime() noexcept {
  has_runtime.store(true, std::memory_order_relaxed);
  keep_run_environment();  // a fork of the starter was given its own
}

bool becomes_rank_by_use() noexcept {
  return run_variable(RunVariable::RunDir) != nullptr && run_variable(RunVariable::OwnRanks) != nullptr &&
         !clock_virtual();
}

void begin_use(int device) noexcept {
  const char* run_dir = run_variable(RunVariable::RunDir);
  if (run_dir == nullptr) return;
  if (clock_virtual()) {
    tell_unaccounted_use(run_dir, device);
  } else if (becomes_rank_by_use()) {
    attach_by_use(run_dir, device);
  }
}

void count_ignored(ApiTable& table, std::size_t row) noexcept {
  table.counts[row].fetch_add(1, std::memory_order_relaxed);
}

}  // namespace ph
