// Congestion control as a rate model: what sim_server/network/settling.py describes.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace ph {

struct Settling {
  double time_s;            // the time constant
  std::vector<bool> links;  // flows that use one of these settle, and so do those that share links with them

  // What a flow has moved since it was `excess` above its fair `rate`. Bytes per second.
  double moved_bytes(double rate, double excess, double seconds) const {
    return rate * seconds - excess * time_s * std::expm1(-seconds / time_s);
  }

  // What is left of a flow's distance from its fair rate.
  double left_of(double excess, double seconds) const { return excess * std::exp(-seconds / time_s); }

  // How long a flow takes for so many bytes, if its fair rate stays. By Newton's method, which comes nearer from one
  // side: the bytes are convex in time below the fair rate and concave above it. It ends when it stands still.
  double seconds_for(double size_bytes, double rate, double excess) const {
    double seconds = std::max((size_bytes - excess * time_s) / rate, 0.0);
    for (int round = 0; round < 100; ++round) {
      const double speed = rate + left_of(excess, seconds);
      const double nearer = seconds - (moved_bytes(rate, excess, seconds) - size_bytes) / speed;
      if (nearer == seconds || (excess < 0) == (nearer > seconds)) break;
      seconds = nearer;
    }
    return seconds;
  }
};

}  // namespace ph
