// The time-outs of a rank's threads (docs/decisions/clocks.md tells why they end when they should).
//
// 1. A thread that is about to wait tells the server its deadline and then really waits, for as long as it takes. The
//    timekeeper, a thread of ours, is told when deadlines have come and ends those waits. Whoever goes on earlier
//    withdraws his alarm.
// 2. Most waits are ended by a signal, after which the system call fails with EINTR. Its handler does nothing; with
//    SA_RESTART calls that are none of ours do not notice if it comes late. glibc goes on waiting for a condition
//    variable after a signal, but notifying it for no reason is allowed.
// 3. Either comes to nothing if the thread is not yet in its wait. So it is repeated, ever less often, until the thread
//    has said by withdrawing that it has heard.
// 4. Threads of the framework's own (watchdogs, heart beats) set none: they look after things now and then, as often as
//    there is real time for it (virtual_clock.cc).
#include "shim/libc/alarms.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <optional>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/channel/rank.h"
#include "shim/core/failure.h"
#include "shim/core/futex.h"
#include "shim/libc/interpreter.h"

namespace ph {

namespace {

constexpr Nanoseconds kFirstPauseNs = 100'000;
constexpr Nanoseconds kLastPauseNs = 100'000'000;

void ignore_signal(int) noexcept {}

class Lock {
 public:
  explicit Lock(pthread_mutex_t& mutex) noexcept : mutex_(mutex) { pthread_mutex_lock(&mutex_); }
  ~Lock() noexcept { pthread_mutex_unlock(&mutex_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  pthread_mutex_t& mutex_;
};

}  // namespace

class Timekeeper {
 public:
  void add(Alarm& alarm) noexcept;
  void remove(Alarm& alarm) noexcept;

 private:
  void start() noexcept;
  void run() noexcept;
  bool ring(std::optional<Nanoseconds> time_ns) noexcept;
  static void end_wait(Alarm& alarm) noexcept;
  void note_next() noexcept;

  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  Alarm* first_ = nullptr;
  std::uint32_t slot_ = 0;
  bool started_ = false;
};

namespace {
constinit Timekeeper timekeeper;
}

void Timekeeper::add(Alarm& alarm) noexcept {
  const Lock lock(mutex_);
  if (!started_) start();
  alarm.next_ = first_;
  first_ = &alarm;
  note_next();
  tell_alarm(slot_, alarm.deadline_ns_, false);
}

void Timekeeper::remove(Alarm& alarm) noexcept {
  const Lock lock(mutex_);
  Alarm** link = &first_;
  while (*link != &alarm) link = &(*link)->next_;
  *link = alarm.next_;
  note_next();
  if (!alarm.rang()) tell_alarm(slot_, alarm.deadline_ns_, true);
}

void Timekeeper::start() noexcept {
  started_ = true;
  slot_ = claim_alarm_slot();
  struct sigaction action{};
  action.sa_handler = ignore_signal;
  action.sa_flags = SA_RESTART;
  sigaction(alarm_signal(), &action, nullptr);
  // It inherits the mask: no signal of the program is for it.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const auto body = [](void* self) -> void* {
    static_cast<Timekeeper*>(self)->run();
    return nullptr;
  };
  if (pthread_create(&thread, nullptr, body, this) != 0) fail_internal("cannot start the thread that keeps time");
  pthread_setname_np(thread, "ph-timekeeper");
  pthread_detach(thread);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Timekeeper::run() noexcept {
  Nanoseconds pause_ns = 0;
  for (;;) {
    const timespec pause{0, pause_ns};
    const std::optional<Nanoseconds> time_ns = await_alarms(slot_, pause_ns == 0 ? nullptr : &pause);
    if (!ring(time_ns)) {
      pause_ns = 0;
    } else {
      pause_ns = time_ns ? kFirstPauseNs : std::min(2 * pause_ns, kLastPauseNs);
    }
  }
}

// Whether some have to be ended once more. `time_ns`: to where the simulation has come, if that is new.
bool Timekeeper::ring(std::optional<Nanoseconds> time_ns) noexcept {
  const Lock lock(mutex_);
  bool again = false;
  for (Alarm* alarm = first_; alarm != nullptr; alarm = alarm->next_) {
    if (time_ns && alarm->deadline_ns_ <= *time_ns) alarm->rang_.store(1, std::memory_order_release);
    if (!alarm->rang() || alarm->heard_) continue;
    end_wait(*alarm);
    again |= !alarm->heard_;
  }
  note_next();
  return again;
}

void Timekeeper::end_wait(Alarm& alarm) noexcept {
  futex_wake(alarm.rang_, 1);
  if (alarm.condition_ == nullptr) {
    syscall(SYS_tgkill, getpid(), alarm.thread_, alarm_signal());
    return;
  }
  // Whoever waits has given the mutex away; without it the thread may be just before its wait.
  alarm.heard_ = pthread_mutex_trylock(alarm.mutex_) == 0;
  pthread_cond_broadcast(alarm.condition_);
  if (alarm.heard_) pthread_mutex_unlock(alarm.mutex_);
}

void Timekeeper::note_next() noexcept {
  Nanoseconds next_ns = kNever;
  for (const Alarm* alarm = first_; alarm != nullptr; alarm = alarm->next_) {
    if (!alarm->rang()) next_ns = std::min(next_ns, alarm->deadline_ns_);
  }
  set_next_alarm(next_ns);
}

// Assumed to be nobody else's.
int alarm_signal() noexcept { return SIGRTMAX - 4; }

bool sets_alarms() noexcept { return attached() && is_owner() && (is_driver() || is_programs_thread()); }

Alarm::Alarm(Nanoseconds deadline_ns, pthread_cond_t* condition, pthread_mutex_t* mutex) noexcept
    : deadline_ns_(deadline_ns),
      condition_(condition),
      mutex_(mutex),
      thread_(static_cast<pid_t>(syscall(SYS_gettid))) {
  sigset_t ours;
  sigemptyset(&ours);
  sigaddset(&ours, alarm_signal());
  pthread_sigmask(SIG_UNBLOCK, &ours, nullptr);
  timekeeper.add(*this);
}

Alarm::~Alarm() noexcept {
  const int saved = errno;
  timekeeper.remove(*this);
  errno = saved;
}

bool Alarm::sleep() noexcept {
  while (!rang()) {
    // The system call itself is a libc function that sets errno.
    if (syscall(SYS_futex, &rang_, FUTEX_WAIT, 0, nullptr, nullptr, 0) != 0 && errno == EINTR) return rang();
  }
  return true;
}

}  // namespace ph
