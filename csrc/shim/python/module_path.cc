// A program that sets PYTHONPATH anew for a Python that it starts, as `PYTHONPATH=.. python train.py` in a shell, means to
// add its own modules, not to leave out the rank's runtime: that comes first again before the interpreter looks.
#include <cstdlib>
#include <string>
#include <string_view>

namespace ph {

namespace {

__attribute__((constructor)) void add_runtime() {
  const char* const site = std::getenv("PHANTORA_SITE");
  const char* const path = std::getenv("PYTHONPATH");
  if (site == nullptr) return;
  const std::string_view set = path != nullptr ? path : "";
  if (set.starts_with(site)) return;
  const std::string whole = set.empty() ? site : std::string(site) + ':' + std::string(set);
  setenv("PYTHONPATH", whole.c_str(), 1);
}

}  // namespace

}  // namespace ph
