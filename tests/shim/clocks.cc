// Sleeps and waits of libc under the shim, each for 60 ms: prints name, what the thread's own clock says it took,
// how far the rank's host clock moved, and what it took really, in nanoseconds.
//
// Usage: clocks driver|helper CASE...   Runs the cases on a thread that drives the rank's clock or on another one.
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/time.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <string>
#include <thread>

namespace {

using namespace std::chrono_literals;
constexpr std::int64_t kWaitNs = 60'000'000;

// By handle, so that the answer is libc's own function and not the preloaded one.
std::int64_t real_ns() {
  static const auto read =
      reinterpret_cast<int (*)(clockid_t, timespec*)>(dlsym(dlopen("libc.so.6", RTLD_NOW), "clock_gettime"));
  timespec now{};
  read(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

std::int64_t seen_ns(clockid_t clock = CLOCK_MONOTONIC) {
  timespec now{};
  clock_gettime(clock, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

timespec span(std::int64_t time_ns) { return {time_ns / 1'000'000'000, time_ns % 1'000'000'000}; }
timespec deadline(clockid_t clock) { return span(seen_ns(clock) + kWaitNs); }

template <typename Function>
Function shim(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

std::int64_t host_ns() { return shim<std::int64_t (*)()>("_ZN2ph13host_clock_nsEv")(); }

void wait_on_condition(clockid_t clock) {
  pthread_condattr_t attribute;
  pthread_condattr_init(&attribute);
  pthread_condattr_setclock(&attribute, clock);
  pthread_cond_t condition;
  pthread_cond_init(&condition, &attribute);
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&mutex);
  const timespec until = deadline(clock);
  while (pthread_cond_timedwait(&condition, &mutex, &until) == 0) {
  }
  pthread_mutex_unlock(&mutex);
}

void wait_on_locked_mutex() {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&mutex);
  const timespec until = deadline(CLOCK_REALTIME);
  pthread_mutex_timedlock(&mutex, &until);
}

void wait_on_locked_rwlock() {
  pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
  pthread_rwlock_rdlock(&lock);
  const timespec until = deadline(CLOCK_REALTIME);
  pthread_rwlock_timedwrlock(&lock, &until);
}

void wait_on_semaphore(bool monotonic) {
  sem_t semaphore;
  sem_init(&semaphore, 0, 0);
  const timespec until = deadline(monotonic ? CLOCK_MONOTONIC : CLOCK_REALTIME);
  monotonic ? sem_clockwait(&semaphore, CLOCK_MONOTONIC, &until) : sem_timedwait(&semaphore, &until);
}

void wait_on_pipe(const std::string& how) {
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  if (how == "poll") {
    pollfd descriptor{ends[0], POLLIN, 0};
    poll(&descriptor, 1, kWaitNs / 1'000'000);
  } else if (how == "select") {
    fd_set reads;
    FD_ZERO(&reads);
    FD_SET(ends[0], &reads);
    timeval timeout{0, kWaitNs / 1000};
    select(ends[0] + 1, &reads, nullptr, nullptr, &timeout);
  } else {
    const int set = epoll_create1(0);
    epoll_event event{};
    event.events = EPOLLIN;
    epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event);
    epoll_wait(set, &event, 1, kWaitNs / 1'000'000);
    close(set);
  }
  close(ends[0]);
  close(ends[1]);
}

const std::map<std::string, std::function<void()>> kCases = {
    {"nanosleep",
     [] {
       const timespec t = span(kWaitNs);
       nanosleep(&t, nullptr);
     }},
    {"clock_nanosleep",
     [] {
       const timespec t = span(kWaitNs);
       clock_nanosleep(CLOCK_REALTIME, 0, &t, nullptr);
     }},
    {"clock_nanosleep_abstime",
     [] {
       const timespec t = deadline(CLOCK_MONOTONIC);
       clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, nullptr);
     }},
    {"usleep", [] { usleep(kWaitNs / 1000); }},
    {"sleep_for", [] { std::this_thread::sleep_for(60ms); }},
    {"select_sleep",
     [] {
       timeval t{0, kWaitNs / 1000};
       select(0, nullptr, nullptr, nullptr, &t);
     }},
    {"cond_realtime", [] { wait_on_condition(CLOCK_REALTIME); }},
    {"cond_monotonic", [] { wait_on_condition(CLOCK_MONOTONIC); }},
    {"condition_variable",
     [] {
       std::mutex mutex;
       std::condition_variable condition;
       std::unique_lock lock(mutex);
       condition.wait_for(lock, 60ms, [] { return false; });
     }},
    {"future",
     [] {
       std::promise<int> promise;
       promise.get_future().wait_for(60ms);
     }},
    {"sem_timedwait", [] { wait_on_semaphore(false); }},
    {"sem_clockwait", [] { wait_on_semaphore(true); }},
    {"mutex_timedlock", wait_on_locked_mutex},
    {"rwlock_timedwrlock", wait_on_locked_rwlock},
    {"poll", [] { wait_on_pipe("poll"); }},
    {"select", [] { wait_on_pipe("select"); }},
    {"epoll_wait", [] { wait_on_pipe("epoll_wait"); }},
    {"notified",
     [] {
       std::mutex mutex;
       std::condition_variable condition;
       bool ready = false;
       std::thread notifier([&] {
         std::this_thread::sleep_for(60ms);
         const std::lock_guard lock(mutex);
         ready = true;
         condition.notify_one();
       });
       std::unique_lock lock(mutex);
       condition.wait_for(lock, 1h, [&] { return ready; });
       lock.unlock();
       notifier.join();
     }},
};

void run(const std::string& name) {
  const std::int64_t real = real_ns(), host = host_ns(), seen = seen_ns();
  kCases.at(name)();
  const std::int64_t seen_now = seen_ns(), host_now = host_ns(), real_now = real_ns();
  std::printf("%s %ld %ld %ld\n", name.c_str(), seen_now - seen, host_now - host, real_now - real);
}

}  // namespace

int main(int count, char** arguments) {
  if (shim<int (*)(const char*, unsigned)>("ph_attach")(std::getenv("PHANTORA_RUN_DIR"), 0) != 1) return 1;
  const bool drives = std::string(arguments[1]) == "driver";
  for (int i = 2; i < count; ++i) {
    if (drives) {
      run(arguments[i]);
    } else {
      std::thread(run, std::string(arguments[i])).join();
    }
  }
}
