// The command `phantora`: executes the Python script `phantora-python` that lies beside it, with the signals that ask
// for an end held back until that can heed them (phantora_py/__main__.py). An interpreter that gets one while it starts
// ends with a traceback and exit code 1.
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <initializer_list>

#include <unistd.h>

namespace {

constexpr char kScript[] = "phantora-python";

void hold_ends_back() {
  sigset_t ends;
  sigemptyset(&ends);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&ends, number);
  sigprocmask(SIG_BLOCK, &ends, nullptr);
}

}  // namespace

int main(int, char** argv) {
  hold_ends_back();
  char path[PATH_MAX + sizeof kScript] = {};
  const ssize_t length = readlink("/proc/self/exe", path, PATH_MAX);
  char* const slash = length > 0 ? std::strrchr(path, '/') : nullptr;
  if (slash != nullptr) {
    std::memcpy(slash + 1, kScript, sizeof kScript);
    execv(path, argv);  // the installer has written it, with the interpreter in its first line
  }
  std::fprintf(stderr, "phantora: internal error: %s cannot be executed: %s. Install it again: pip install .\n", path,
               std::strerror(errno));
  return 70;
}
