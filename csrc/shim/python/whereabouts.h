// Tells the agent where in this process it can read what the main thread does.
#pragma once

namespace ph {

// Writes `rank-<rank>.whereabouts` in the run directory, for phantora_py/agent/whereabouts.py. A rank with Python
// writes it once more when its interpreter can be described: with the GIL held, on the main thread.
void write_whereabouts() noexcept;

}  // namespace ph
