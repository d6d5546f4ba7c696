"""Waits of the framework's threads until deadlines from before their clock went back."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from fake_run import FakeRun

# A thread's clock gets ahead of its rank's by twenty waits of 100 ms, in which the rank's stands
# still; then it computes one more deadline, and waits for it when the rank's clock has moved.
# libstdc++ looks at one clock or two, by whether libc had pthread_cond_clockwait when it was built.
PROGRAM = """
#define _GNU_SOURCE
#include <pthread.h>
#include <time.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static volatile int stage;
static long long now(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}
static void wait_until(long long deadline) {
  while (now(CLOCK_MONOTONIC) < deadline) {
#if CLOCKS == 1
    struct timespec time = {deadline / 1000000000LL, deadline % 1000000000LL};
    pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &time);
#else
    long long there = now(CLOCK_REALTIME) + deadline - now(CLOCK_MONOTONIC);
    struct timespec time = {there / 1000000000LL, there % 1000000000LL};
    pthread_cond_timedwait(&condition, &mutex, &time);
    if (now(CLOCK_REALTIME) < there) continue;
#endif
  }
}
static void *work(void *unused) {
  pthread_mutex_lock(&mutex);
  for (int i = 0; i < 20; ++i) wait_until(now(CLOCK_MONOTONIC) + 100000000LL);
  long long deadline = now(CLOCK_MONOTONIC) + 100000000LL;
  stage = 1;
  while (stage == 1) {}
  wait_until(deadline);
  stage = 3;
  return unused;
}
void start(void) {
  pthread_t thread;
  pthread_create(&thread, 0, work, 0);
  pthread_detach(thread);
}
int at(void) { return stage; }
void go_on(void) { stage = 2; }
"""
CODE = """
library = ctypes.CDLL({library!r})
library.start()
while library.at() != 1: pass
time.sleep(0.01)
begin_s = real_s()
library.go_on()
while library.at() != 3: pass
print(real_s() - begin_s)
"""


@pytest.mark.parametrize("clocks", [1, 2])
def test_a_clock_that_goes_back_makes_no_wait_longer(tmp_path: Path, clocks: int) -> None:
    """It took two seconds, as the deadline was so far from the rank's clock; up to a minute in a
    rank that had started for so long, and no watchdog looked meanwhile.
    """
    source, library = tmp_path / "waits.c", tmp_path / "libtorch_of_the_test.so"
    source.write_text(PROGRAM)
    compiler = os.environ.get("CC", "cc")
    options = ["-shared", "-fPIC", f"-DCLOCKS={clocks}", "-o", str(library)]
    subprocess.run([compiler, *options, source], check=True)
    took_s = float(FakeRun(tmp_path).python(CODE.format(library=str(library))))
    assert 0.05 < took_s < 1.5
