// The agent says of a rank without progress where it is (phantora_py/agent/stall.py). A signal handler that looks
// would have to trust frames that are being made or freed just then, and interrupts the program. So the rank only
// leaves the addresses behind, and the agent reads this process's memory through the kernel: an address that is wrong by
// then gives an error there and nothing here.
#include "shim/python/whereabouts.h"

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

#include <unistd.h>

#include "shim/channel/rank.h"
#include "shim/core/api.h"
#include "shim/core/config.h"
#include "shim/core/failure.h"
#include "shim/core/own_code.h"
#include "shim/python/python_layout.h"

namespace ph {

void write_whereabouts() noexcept {
  if (gettid() != getpid()) return;  // another thread was the first to call: where the main one is, is not known
  const std::string path = config().run_dir + "/rank-" + std::to_string(global_rank()) + ".whereabouts";
  const std::string python = python::stack_description();
  {
    std::ofstream file(path + ".new");
    // The process's id in its own namespace, by which the agent knows it among those that the rank started.
    file << "{\"pid\": " << getpid() << ", \"call\": " << reinterpret_cast<std::uintptr_t>(current_call());
    if (!python.empty()) file << ", \"python\": " << python;
    file << "}\n";
    if (!file.flush()) fail_internal("cannot write " + path);
  }
  // The agent may be reading.
  std::rename((path + ".new").c_str(), path.c_str());
}

}  // namespace ph

// For phantora_py/rank/runtime.py, which calls both on the main thread, the first with the GIL held.
extern "C" PH_EXPORT void ph_write_whereabouts() noexcept { ph::write_whereabouts(); }
// With the GIL held: the layout is checked, for a process whose first call will come without it.
extern "C" PH_EXPORT void ph_check_frames() noexcept { (void)ph::python::stack_description(); }
extern "C" PH_EXPORT void ph_end_other_walks() noexcept { ph::python::end_other_walks(); }
