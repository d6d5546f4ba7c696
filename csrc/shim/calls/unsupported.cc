#include "shim/calls/unsupported.h"

#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include <fcntl.h>
#include <unistd.h>

#include "shim/channel/rank.h"
#include "shim/core/config.h"
#include "shim/core/json.h"
#include "shim/core/own_code.h"
#include "shim/core/run_environment.h"
#include "shim/python/python_frame.h"

namespace ph {

namespace {

// Library, symbol, detail, site.
using Place = std::tuple<std::string, std::string, std::string, std::uint32_t>;

struct Answered {
  bool is_success;
  std::uint64_t count;
};

std::mutex mutex;
// Never destroyed: threads still call while the process ends.
auto& answered = *new std::map<Place, Answered>;

void tell(const UnsupportedCall& call, std::uint32_t site, const char* answer) {
  Record record{};
  record.kind = RecordKind::Unsupported;
  record.site = site;
  const payloads::UnsupportedCall told{
      .library = call.library, .symbol = call.symbol, .detail = call.detail, .answer = answer};
  emit(record, payload_text(told));
}

void say(const UnsupportedCall& call, const char* what) {
  std::string message = std::string("phantora: ") + call.symbol + " of " + call.library + " is not ";
  message += *call.detail != '\0' ? std::string("modelled ") + call.detail : "modelled";
  message += std::string(what) + "\n";
  // Nobody can be told if that fails.
  [[maybe_unused]] const auto written = write(STDERR_FILENO, message.data(), message.size());
}

// True: the first call of its kind from that line.
bool count(const UnsupportedCall& call, std::uint32_t site, bool is_success) {
  const std::lock_guard lock(mutex);
  const auto [entry, is_new] = answered.try_emplace({call.library, call.symbol, call.detail, site}, is_success, 0);
  ++entry->second.count;
  return is_new;
}

// A process below a rank has no records. It leaves word of the first such call for the agent, who learns of its end only by
// what its parent makes of that (phantora_py/runs/stopped_calls.py).
void leave_word(const UnsupportedCall& call) {
  const char* directory = run_variable(RunVariable::RunDir);
  if (directory == nullptr) return;
  const std::string path = std::string(directory) + "/stopped-call";
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0) return;  // not the first
  const std::string text = std::string(call.symbol) + " of " + call.library;
  [[maybe_unused]] const auto written = write(file, text.data(), text.size());
  close(file);
}

// `answer`: "stop" as the user chose, "none" where no other would do.
[[noreturn]] void stop(const UnsupportedCall& call, const char* answer) noexcept {
  if (attached()) {
    tell(call, current_site(), answer);
    // Nothing is lost: the agent drains the ring after the rank has ended.
  } else {
    say(call, "");
    leave_word(call);
  }
  _exit(3);
}

}  // namespace

int answer_unsupported(const UnsupportedCall& call) noexcept {
  if (!attached() || config().unsupported == Unsupported::Stop) stop(call, "stop");
  const bool is_success = call.is_harmless && config().unsupported == Unsupported::Warn;
  const OwnCode own;
  const std::uint32_t site = current_site();
  if (count(call, site, is_success)) {
    tell(call, site, is_success ? "success" : "error");
    say(call, is_success ? "; it does nothing and succeeds" : "; it fails as not supported");
  }
  return is_success ? 0 : not_supported_code(call.library);
}

void stop_unsupported(const char* library, const char* symbol, const char* detail) noexcept {
  stop({library, symbol, detail, false}, "none");
}

void emit_unsupported_counts() {
  const std::lock_guard lock(mutex);
  if (answered.empty()) return;
  payloads::UnsupportedCalls told;
  for (const auto& [place, answer] : answered) {
    const auto& [library, symbol, detail, site] = place;
    told.calls.emplace_back(library, symbol, detail, site, answer.count);
  }
  emit_statistics(payload_text(told));
}

}  // namespace ph
