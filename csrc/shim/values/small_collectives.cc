#include "shim/values/small_collectives.h"

#include <algorithm>
#include <utility>

#include "shim/core/config.h"
#include "shim/values/part.h"
#include "shim/core/rank.h"
#include "shim/values/value_queue.h"
#include "shim/values/values.h"

namespace ph {

namespace {

// Where every rank needs what every other has, the first member collects and sends the result: 2(n-1) messages in
// place of n(n-1), and one rank reduces for all.
constexpr std::uint32_t kHub = 0;

std::size_t chunk_bytes(const SmallCollective& op) noexcept { return op.count * element_bytes(op.type); }

std::size_t ranks_of(const SmallCollective& op) noexcept { return op.members->size(); }

std::size_t send_bytes(const SmallCollective& op) noexcept {
  const bool per_rank = op.kind == NcclOpKind::ReduceScatter || op.kind == NcclOpKind::AllToAll;
  return chunk_bytes(op) * (per_rank ? ranks_of(op) : 1);
}

// What this rank receives; 0: nothing.
std::size_t receive_bytes(const SmallCollective& op) noexcept {
  const bool is_root = op.rank == op.root;
  switch (op.kind) {
    case NcclOpKind::Send: return 0;
    case NcclOpKind::Reduce: return is_root ? chunk_bytes(op) : 0;
    case NcclOpKind::Gather: return is_root ? chunk_bytes(op) * ranks_of(op) : 0;
    case NcclOpKind::AllGather:
    case NcclOpKind::AllToAll: return chunk_bytes(op) * ranks_of(op);
    default: return chunk_bytes(op);
  }
}

// Runs one operation on the value thread.
class Run {
 public:
  explicit Run(const SmallCollective& op) noexcept : op_(op), chunk_(chunk_bytes(op)), ranks_(ranks_of(op)) {}

  void operator()() const {
    switch (op_.kind) {
      case NcclOpKind::Send: return send(op_.root, MessageKind::PointToPoint, read_part(op_.send, chunk_));
      case NcclOpKind::Recv: return write(0, receive(op_.root, MessageKind::PointToPoint));
      case NcclOpKind::Broadcast: return broadcast();
      case NcclOpKind::Scatter: return scatter();
      case NcclOpKind::AllToAll: return all_to_all();
      case NcclOpKind::Reduce: return reduce_to_root();
      case NcclOpKind::Gather: return gather();
      case NcclOpKind::AllReduce: return all_reduce();
      case NcclOpKind::ReduceScatter: return reduce_scatter();
      case NcclOpKind::AllGather: return all_gather();
    }
  }

 private:
  using Parts = std::vector<Part>;

  MessageKey key(MessageKind kind, std::uint32_t from) const noexcept {
    return {op_.communicator, op_.sequence, kind, (*op_.members)[from]};
  }
  void send(std::uint32_t to, MessageKind kind, const Part& part) const {
    Bytes message;
    pack(part, message);
    send_message((*op_.members)[to], key(kind, op_.rank), message);
  }
  void send_to_others(const Bytes& message) const {
    for (std::uint32_t to = 0; to < ranks_; ++to) {
      if (to != op_.rank) send_message((*op_.members)[to], key(MessageKind::Result, op_.rank), message);
    }
  }
  // Unknown if the communicator was abandoned.
  Part receive(std::uint32_t from, MessageKind kind) const {
    Parts parts = unpack(receive_message(key(kind, from)));
    return parts.empty() ? Part{} : std::move(parts.front());
  }

  Part chunk_to_send(std::size_t index) const {
    return read_part(static_cast<const unsigned char*>(op_.send) + index * chunk_, chunk_);
  }
  // Writes the `index`-th chunk of the result.
  void write(std::size_t index, const Part& part) const {
    write_part(static_cast<unsigned char*>(op_.receive) + index * chunk_, chunk_, part);
  }

  Part contribution() const {
    Part part = read_part(op_.send, send_bytes(op_));
    if (op_.reduction.kind != ReductionKind::PremulSum || part.empty()) return part;
    if (op_.reduction.factor_on_device == nullptr) {
      scale(op_.type, part.bytes, op_.reduction.factor.data());
      return part;
    }
    const std::size_t factor_bytes = element_bytes(op_.type);
    if (!known_now().covers(op_.reduction.factor_on_device, factor_bytes)) return {};
    scale(op_.type, part.bytes, static_cast<const unsigned char*>(op_.reduction.factor_on_device));
    return part;
  }

  // All contributions, at `collector`; elsewhere sends ours and gives nothing.
  Parts collect(std::uint32_t collector) const {
    if (op_.rank != collector) {
      send(collector, MessageKind::Contribution, contribution());
      return {};
    }
    Parts parts(ranks_);
    for (std::uint32_t from = 0; from < ranks_; ++from) {
      parts[from] = from == op_.rank ? contribution() : receive(from, MessageKind::Contribution);
    }
    return parts;
  }

  Part reduced(const Parts& parts) const {
    Part result;
    result.known = known_in_all(parts, element_bytes(op_.type));
    if (result.empty()) return {};
    std::vector<Bytes> contributions;
    for (const Part& part : parts) contributions.push_back(part.bytes);
    result.bytes = reduce(op_.reduction.kind, op_.type, contributions);
    return result;
  }

  void broadcast() const {
    if (op_.rank != op_.root) return write(0, receive(op_.root, MessageKind::Result));
    share(read_part(op_.send, chunk_));
  }

  // The collector's end of an operation whose result all ranks get.
  void share(const Part& result) const {
    Bytes message;
    pack(result, message);
    send_to_others(message);
    write(0, result);
  }

  void scatter() const {
    if (op_.rank != op_.root) return write(0, receive(op_.root, MessageKind::Result));
    const Part own = chunk_to_send(op_.rank);
    for (std::uint32_t to = 0; to < ranks_; ++to) {
      if (to != op_.rank) send(to, MessageKind::Result, chunk_to_send(to));
    }
    write(0, own);
  }

  void all_to_all() const {
    const Part own = chunk_to_send(op_.rank);
    for (std::uint32_t to = 0; to < ranks_; ++to) {
      if (to != op_.rank) send(to, MessageKind::Contribution, chunk_to_send(to));
    }
    for (std::uint32_t from = 0; from < ranks_; ++from) {
      write(from, from == op_.rank ? own : receive(from, MessageKind::Contribution));
    }
  }

  void reduce_to_root() const {
    const Parts parts = collect(op_.root);
    if (op_.rank == op_.root) write(0, reduced(parts));
  }

  void gather() const {
    const Parts parts = collect(op_.root);
    for (std::size_t from = 0; from < parts.size(); ++from) write(from, parts[from]);
  }

  void all_reduce() const {
    const Parts parts = collect(kHub);
    if (op_.rank != kHub) return write(0, receive(kHub, MessageKind::Result));
    share(reduced(parts));
  }

  void reduce_scatter() const {
    const Parts parts = collect(kHub);
    if (op_.rank != kHub) return write(0, receive(kHub, MessageKind::Result));
    const Part result = reduced(parts);
    for (std::uint32_t to = 1; to < ranks_; ++to) send(to, MessageKind::Result, slice(result, to * chunk_, chunk_));
    write(0, slice(result, kHub, chunk_));
  }

  void all_gather() const {
    Parts parts = collect(kHub);
    if (op_.rank == kHub) {
      Bytes message;
      for (const Part& part : parts) pack(part, message);
      send_to_others(message);
    } else {
      parts = unpack(receive_message(key(MessageKind::Result, kHub)));
      parts.resize(ranks_);
    }
    for (std::size_t from = 0; from < ranks_; ++from) write(from, parts[from]);
  }

  const SmallCollective& op_;
  std::size_t chunk_;
  std::size_t ranks_;
};

}  // namespace

void issue_collectives(std::vector<SmallCollective> operations) noexcept {
  if (!attached()) return;
  std::vector<SmallCollective> small;
  for (SmallCollective& op : operations) {
    if (send_bytes(op) > config().value_bytes) {
      mark_unknown(op.receive, receive_bytes(op));
    } else if (op.count != 0) {
      expect_known(op.receive, receive_bytes(op));
      small.push_back(std::move(op));
    }
  }
  if (small.empty()) return;
  // The operations of a group run at once: a send must not stand behind a receive that waits for the peer's send.
  std::stable_partition(small.begin(), small.end(),
                        [](const SmallCollective& op) { return op.kind == NcclOpKind::Send; });
  enqueue_exchange([small = std::move(small)] {
    for (const SmallCollective& op : small) Run{op}();
  });
}

}  // namespace ph
