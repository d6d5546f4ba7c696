// PyTorch's profiler stamps what the host does with the instruction rdtsc, which no library can interpose. So the
// instruction is replaced in the memory of the rank, by one that the processor refuses (ud2), and the handler of that
// signal answers in its place. docs/decisions/profilers.md says why so, and which instructions are meant.
#include "shim/libc/time_stamp_counter.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <string_view>
#include <vector>

#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "shim/core/config.h"
#include "shim/core/failure.h"
#include "shim/libc/real_clock.h"
#include "shim/libc/virtual_clock.h"

namespace ph {

namespace {

using Byte = unsigned char;

constexpr Byte kRead[] = {0x0f, 0x31};                  // rdtsc
constexpr Byte kRefused[] = {0x0f, 0x0b};               // ud2
constexpr Byte kShiftHigh[] = {0x48, 0xc1, 0xe2, 0x20};  // shl $32, %rdx
// Whoever wants all 64 bits shifts the upper half soon. Together they are too long to be part of something else.
constexpr std::size_t kShiftWithin = 20;
constexpr std::size_t kMostSites = 256;

struct Site {
  Byte* instruction;
  bool compares;  // with a clock, to find the counter's rate
};

// Read by the handler, without a lock: those before the count are whole.
std::array<Site, kMostSites> sites;
std::atomic<std::size_t> site_count{0};
struct sigaction next_handler;
std::atomic<bool> is_installed{false};

std::atomic<std::uint64_t> last_ticks{0};
thread_local std::uint64_t reads = 0;

int real_sigaction(int number, const struct sigaction* action, struct sigaction* before) noexcept {
  static constinit Next<int(int, const struct sigaction*, struct sigaction*)> next{"sigaction"};
  return next(number, action, before);
}

const Site* find_site(const Byte* instruction) noexcept {
  const auto last = sites.begin() + site_count.load(std::memory_order_acquire);
  const auto found =
      std::find_if(sites.begin(), last, [&](const Site& site) { return site.instruction == instruction; });
  return found == last ? nullptr : found;
}

// A pair that the profiler compares: counter, clock, counter. It looks for the rate between two such pairs, and takes the
// first as the origin. Any two that lie on the line tell both exactly. So they lie in the past, each later than all
// before, where nothing that is stamped comes before an origin; and at multiples of what the profiler loses as it adds to
// the time since 1970 in floating point.
constexpr Nanoseconds kPairsApartNs = 256;
constexpr Nanoseconds kPairsBehindNs = Nanoseconds{1} << 36;

enum class Pair : std::uint8_t { None, Begun, Clock };
thread_local Pair pair = Pair::None;
thread_local Nanoseconds pair_ns = 0;

Nanoseconds next_pair_ns() noexcept {
  static std::atomic<Nanoseconds> pairs{0};
  const Nanoseconds epoch_ns = config().epoch_realtime_ns;
  const Nanoseconds now_ns = epoch_ns + shown_virtual_ns();
  const Nanoseconds later_ns = kPairsApartNs * pairs.fetch_add(1, std::memory_order_relaxed);
  return now_ns - now_ns % kPairsApartNs - std::max(kPairsBehindNs - later_ns, Nanoseconds{0}) - epoch_ns;
}

std::uint64_t compare_counter() noexcept {
  const bool ends = pair == Pair::Clock;
  if (!ends) pair_ns = next_pair_ns();
  pair = ends ? Pair::None : Pair::Begun;
  return ticks_at(pair_ns);
}

// Every stamp is later than the one before, if by less than a nanosecond: two that are equal have no order.
std::uint64_t read_counter(bool compares) noexcept {
  if (compares) return compare_counter();
  pair = Pair::None;
  const Nanoseconds time_ns = observe_virtual_ns();
  std::uint64_t last = last_ticks.load(std::memory_order_relaxed);
  std::uint64_t ticks = 0;
  do {
    ticks = std::clamp(last + 1, ticks_at(time_ns) + 1, ticks_at(time_ns + 1) - 1);
  } while (!last_ticks.compare_exchange_weak(last, ticks, std::memory_order_relaxed));
  return ticks;
}

// An instruction that nobody may execute, or a signal that somebody has sent: as it would have been without us.
void pass_on(int number, siginfo_t* info, void* context) noexcept {
  const struct sigaction handler = next_handler;
  if ((handler.sa_flags & SA_SIGINFO) != 0) return handler.sa_sigaction(number, info, context);
  if (handler.sa_handler != SIG_DFL && handler.sa_handler != SIG_IGN) return handler.sa_handler(number);
  const bool was_sent = info->si_code <= 0;
  if (was_sent && handler.sa_handler == SIG_IGN) return;
  real_sigaction(number, &handler, nullptr);  // the instruction is executed again, and ends the process
  if (was_sent) raise(number);
}

void answer(int number, siginfo_t* info, void* context) noexcept {
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const Site* const site = find_site(reinterpret_cast<const Byte*>(registers[REG_RIP]));
  if (site == nullptr || info->si_code <= 0) return pass_on(number, info, context);
  const int kept = errno;
  ++reads;
  const std::uint64_t ticks = read_counter(site->compares);
  registers[REG_RAX] = static_cast<greg_t>(ticks & 0xffffffff);
  registers[REG_RDX] = static_cast<greg_t>(ticks >> 32);
  registers[REG_RIP] += sizeof kRead;
  errno = kept;
}

void install() noexcept {
  struct sigaction ours{};
  ours.sa_sigaction = answer;
  ours.sa_flags = SA_SIGINFO | SA_RESTART | SA_NODEFER;
  sigemptyset(&ours.sa_mask);
  if (real_sigaction(SIGILL, &ours, &next_handler) != 0) fail_internal("cannot set a handler for SIGILL");
  is_installed.store(true);
}

// Empty: of a function that the library does not export.
std::string_view function_at(const Byte* instruction) noexcept {
  Dl_info symbol{};
  if (dladdr(instruction, &symbol) == 0 || symbol.dli_sname == nullptr) return {};
  return symbol.dli_sname;
}

std::vector<Site> find_sites(Byte* first, Byte* last) {
  std::vector<Site> found;
  for (Byte* at = first; at < last;) {
    at = static_cast<Byte*>(std::memchr(at, kRead[1], static_cast<std::size_t>(last - at)));
    if (at == nullptr) break;
    Byte* const start = at - 1;
    ++at;
    if (start < first || *start != kRead[0]) continue;
    Byte* const end = std::min(at + kShiftWithin, last);
    if (std::search(at, end, std::begin(kShiftHigh), std::end(kShiftHigh)) == end) continue;
    const std::string_view function = function_at(start);
    // MKL finds the processor's frequency with the counter: it waits for real time to pass.
    if (function.starts_with("mkl_")) continue;
    // Of ApproximateClockToUnixTimeConverter, which PyTorch and Kineto both have.
    found.push_back({start, function.find("11measurePairEv") != function.npos});
  }
  return found;
}

void replace(const Site& site, std::size_t page_bytes) noexcept {
  Byte* const instruction = site.instruction;
  const std::size_t count = site_count.load(std::memory_order_relaxed);
  if (count == kMostSites) fail_internal("too many instructions read the time-stamp counter");
  sites[count] = site;
  site_count.store(count + 1, std::memory_order_release);
  Byte* const page = instruction - reinterpret_cast<std::uintptr_t>(instruction) % page_bytes;
  const std::size_t bytes = static_cast<std::size_t>(instruction + sizeof kRefused - page);
  if (mprotect(page, bytes, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
    fail_usage(
        std::string("the profiler's clock cannot be made virtual, because this machine does not let a program ") +
        "change its code (" + std::strerror(errno) + "): run without torch.profiler");
  instruction[1] = kRefused[1];  // one byte: another thread sees the old or the new instruction
  mprotect(page, bytes, PROT_READ | PROT_EXEC);
}

bool is_of_pytorch(std::string_view path) noexcept {
  path.remove_prefix(path.rfind('/') + 1);
  return path.starts_with("libtorch") || path.starts_with("libc10");
}

struct Segment {
  Byte* first;
  Byte* last;
};

int list_code(dl_phdr_info* info, std::size_t, void* list) noexcept {
  if (!is_of_pytorch(info->dlpi_name)) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD || (header.p_flags & PF_X) == 0) continue;
    auto* const first = reinterpret_cast<Byte*>(info->dlpi_addr + header.p_vaddr);
    static_cast<std::vector<Segment>*>(list)->push_back({first, first + header.p_filesz});
  }
  return 0;
}

}  // namespace

std::uint64_t counter_reads() noexcept { return reads; }

std::optional<Nanoseconds> compared_ns() noexcept {
  if (pair != Pair::Begun) return std::nullopt;
  pair = Pair::Clock;
  return pair_ns;
}

void make_counter_virtual() noexcept {
  static std::mutex mutex;
  static auto& seen = *new std::vector<Byte*>;
  const std::lock_guard lock(mutex);
  std::vector<Segment> segments;
  dl_iterate_phdr(list_code, &segments);
  const auto page_bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  for (const auto& [first, last] : segments) {
    if (std::find(seen.begin(), seen.end(), first) != seen.end()) continue;
    seen.push_back(first);
    const std::vector<Site> found = find_sites(first, last);
    if (!found.empty() && !is_installed.load()) install();
    for (const Site& site : found) replace(site, page_bytes);
  }
}

bool keep_illegal_handler(const struct sigaction* action, struct sigaction* before) noexcept {
  if (!is_installed.load()) return false;
  const struct sigaction kept = next_handler;
  if (action != nullptr) next_handler = *action;
  if (before != nullptr) *before = kept;
  return true;
}

}  // namespace ph
