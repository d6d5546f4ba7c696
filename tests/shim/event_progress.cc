// Driven by test_event_progress.py. Commands on standard input, numbers throughout:
//   clock NS | driver 0/1 | learn STREAM DONE PENDING NOT_BEFORE_NS | ask STREAM INSTANCE (prints the answer)
#include "shim/waiting/event_progress.h"

#include <iostream>
#include <string>

#include "shim/core/visible_devices.h"

namespace {
ph::Nanoseconds clock_ns = 0;
bool driver = true;
}  // namespace

namespace ph {
Nanoseconds host_clock_ns() noexcept { return clock_ns; }
bool is_driver() noexcept { return driver; }
std::array<std::uint16_t, kMaxDevices> gpu_of_device{};
}  // namespace ph

int main() {
  for (std::string command; std::cin >> command;) {
    if (command == "clock") std::cin >> clock_ns;
    if (command == "driver") std::cin >> driver;
    if (command == "learn") {
      ph::EventNews news{};
      std::cin >> news.stream >> news.done >> news.pending >> news.not_before_ns;
      ph::learn_events({reinterpret_cast<const unsigned char*>(&news), sizeof news});
    }
    if (command == "ask") {
      constexpr const char* kNames[] = {"unknown", "done", "pending"};
      ph::StreamRef stream{};
      std::uint64_t instance = 0;
      std::cin >> stream.id >> instance;
      std::cout << kNames[static_cast<int>(ph::event_progress(stream, instance))] << '\n';
    }
  }
}
