#include "bindings/mapping.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace ph {

namespace {

// The kernel sends SIGBUS to whoever touches a page that the file has not got. We put a page of zeros there and go on:
// who reads it learns from lost_pages() that it means nothing.
struct Guard {
  std::atomic<std::uintptr_t> begin{0};  // 0: free
  std::atomic<std::uintptr_t> end{0};
  std::atomic<bool> lost_pages{false};
};

constexpr std::size_t kMostMappings = 1u << 14;
std::array<Guard, kMostMappings> guards;
std::mutex mutex;  // of those who take guards and give them back; the handler does without
struct sigaction before;

void on_bus_error(int signal, siginfo_t* info, void* context) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (Guard& guard : guards) {
    const std::uintptr_t begin = guard.begin.load();
    if (begin == 0 || address < begin || address >= guard.end.load()) continue;
    const auto page_bytes = static_cast<std::uintptr_t>(::getpagesize());
    void* page = reinterpret_cast<void*>(address / page_bytes * page_bytes);
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    if (::mmap(page, page_bytes, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED) break;
    guard.lost_pages.store(true);
    return;
  }
  if (before.sa_flags & SA_SIGINFO) return before.sa_sigaction(signal, info, context);
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) return before.sa_handler(signal);
  ::signal(SIGBUS, SIG_DFL);  // it comes again at once, and ends the process
}

// Called with the lock held.
void handle_bus_errors() {
  struct sigaction now{};
  ::sigaction(SIGBUS, nullptr, &now);
  if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_bus_error) return;
  struct sigaction ours{};
  ours.sa_sigaction = on_bus_error;
  ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK | SA_RESTART;
  before = now;
  ::sigaction(SIGBUS, &ours, nullptr);
}

std::size_t guard_range(void* data, std::size_t size_bytes) {
  const std::lock_guard lock(mutex);
  handle_bus_errors();
  for (std::size_t i = 0; i < guards.size(); ++i) {
    if (guards[i].begin.load() != 0) continue;
    guards[i].lost_pages.store(false);
    guards[i].end.store(reinterpret_cast<std::uintptr_t>(data) + size_bytes);
    guards[i].begin.store(reinterpret_cast<std::uintptr_t>(data));
    return i;
  }
  throw std::length_error("too many channels are mapped at once");
}

void give_guard_back(std::size_t guard) {
  const std::lock_guard lock(mutex);
  guards[guard].begin.store(0);
}

[[noreturn]] void fail(const std::string& path) { throw std::system_error(errno, std::generic_category(), path); }

}  // namespace

Mapping::Mapping(const std::string& path, std::size_t size_bytes, Open open) : size_bytes_(size_bytes) {
  const int flags = O_RDWR | O_CLOEXEC | (open == Open::Existing ? 0 : O_CREAT | O_EXCL);
  const int fd = ::open(path.c_str(), flags, 0600);
  if (fd < 0) fail(path);
  // A new file is a hole: pages exist once touched.
  bool sized = open == Open::Existing || ::ftruncate(fd, static_cast<off_t>(size_bytes)) == 0;
  if (open == Open::Reserve && sized) {
    errno = ::posix_fallocate(fd, 0, static_cast<off_t>(size_bytes));
    sized = errno == 0;
  }
  data_ = sized ? ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
  const int error = errno;
  ::close(fd);
  errno = error;
  if (data_ == MAP_FAILED) fail(path);
  guard_ = guard_range(data_, size_bytes);
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_bytes_(other.size_bytes_), guard_(other.guard_) {}

Mapping::~Mapping() {
  if (!data_) return;
  give_guard_back(guard_);
  ::munmap(data_, size_bytes_);
}

bool Mapping::lost_pages() const { return guards[guard_].lost_pages.load(); }

}  // namespace ph
