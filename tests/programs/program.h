/* What the test programs share: checks that name the line, and the code where a code was expected.

   Everything outside `#ifdef PHANTORA_MODEL` holds for the vendor's libraries too (see run_real.py); inside are the
   simulated GPU's own values, and what the vendor leaves undefined, such as a use after destruction. */
#pragma once

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the plain names mean from CUDA 13 on; CUDA 12 has it under others. */
#if defined(CUDART_VERSION) && CUDART_VERSION < 13000
#undef cudaStreamGetCaptureInfo
#define cudaStreamGetCaptureInfo cudaStreamGetCaptureInfo_v3
#define cudaGraphAddDependencies cudaGraphAddDependencies_v2
#define cudaGraphGetEdges cudaGraphGetEdges_v2
#define cudaGraphNodeGetDependencies cudaGraphNodeGetDependencies_v2
#define cudaGraphNodeGetDependentNodes cudaGraphNodeGetDependentNodes_v2
#define cudaGraphRemoveDependencies cudaGraphRemoveDependencies_v2
#endif
#if defined(CUDA_VERSION) && CUDA_VERSION < 13000
#undef cuCtxCreate
#define cuCtxCreate cuCtxCreate_v4
#undef cuStreamGetCaptureInfo
#define cuStreamGetCaptureInfo cuStreamGetCaptureInfo_v3
#define cuDeviceGetUuid cuDeviceGetUuid_v2
#define cuGraphAddDependencies cuGraphAddDependencies_v2
#endif

#ifdef PHANTORA_MODEL
/* At its end the program says how often it called what (see csrc/shim/calls/process_exit.cc). */
int ph_exit_at_end(void);
__attribute__((constructor)) static void count_calls(void) { (void)ph_exit_at_end(); }
#endif

/* The check that was last begun, in any thread. A program that a signal ends says where it was. */
#define TEXT_OF(line) #line
#define PLACE(line) __FILE__ ":" TEXT_OF(line) ": "
static const char* _Atomic reached = "what comes before the first check";

static void say_place(int number) {
  static const char kEnd[] = " ends the program\n";
  const ssize_t said = write(STDERR_FILENO, reached, strlen(reached)) + write(STDERR_FILENO, kEnd, sizeof kEnd - 1);
  (void)said;
  signal(number, SIG_DFL);
  raise(number);
}

__attribute__((constructor)) static void catch_signals(void) {
  const int caught[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE};
  for (unsigned i = 0; i < sizeof caught / sizeof caught[0]; ++i) signal(caught[i], say_place);
}

/* Codes that were not the expected ones; what `main` returns. */
__attribute__((unused)) static int differences = 0;

__attribute__((unused)) static int is_code(const char* file, int line, const char* call, long code, long expected) {
  if (code != expected) fprintf(stderr, "%s:%d: %s gives %ld, not %ld\n", file, line, call, code, expected);
  return code == expected;
}

/* What follows depends on it. */
#define CHECK(condition)                                                      \
  do {                                                                        \
    reached = PLACE(__LINE__) #condition;                                     \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                \
    }                                                                         \
  } while (0)

#define REQUIRE(call, code)                                                       \
  do {                                                                            \
    reached = PLACE(__LINE__) #call;                                              \
    if (!is_code(__FILE__, __LINE__, #call, (long)(call), (long)(code))) exit(1); \
  } while (0)

/* Nothing that follows depends on it: counted in `differences`. */
#define EXPECT(call, code)                                                                \
  do {                                                                                    \
    reached = PLACE(__LINE__) #call;                                                      \
    if (!is_code(__FILE__, __LINE__, #call, (long)(call), (long)(code))) differences = 1; \
  } while (0)

/* With the vendor's libraries the call ends the process, or may. */
#ifdef PHANTORA_MODEL
#define EXPECT_OF_OURS(call, code) EXPECT(call, code)
#else
#define EXPECT_OF_OURS(call, code) (void)sizeof(call)
#endif

/* What CUDA 13's runtime says of launches; CUDA 12 has codes of its own. */
#if defined(CUDART_VERSION) && CUDART_VERSION < 13000
#define UNKNOWN_KERNEL cudaErrorInvalidDeviceFunction
#define WRONG_SHAPE cudaErrorInvalidConfiguration
#else
#define UNKNOWN_KERNEL cudaErrorInvalidResourceHandle
#define WRONG_SHAPE cudaErrorInvalidValue
#endif
