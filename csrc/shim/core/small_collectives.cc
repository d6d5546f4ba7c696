#include "shim/core/small_collectives.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "shim/core/config.h"
#include "shim/core/rank.h"
#include "shim/core/value_queue.h"
#include "shim/core/values.h"

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
      case NcclOpKind::Send: return send(op_.root, MessageKind::PointToPoint, read(op_.send, chunk_));
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
  using Parts = std::vector<Bytes>;

  MessageKey key(MessageKind kind, std::uint32_t from) const noexcept {
    return {op_.communicator, op_.sequence, kind, (*op_.members)[from]};
  }
  void send(std::uint32_t to, MessageKind kind, const Bytes& bytes) const {
    send_message((*op_.members)[to], key(kind, op_.rank), bytes);
  }
  Bytes receive(std::uint32_t from, MessageKind kind) const { return receive_message(key(kind, from)); }

  static Bytes read(const void* pointer, std::size_t bytes) {
    if (!known_now().covers(pointer, bytes)) return {};
    const auto* begin = static_cast<const unsigned char*>(pointer);
    return {begin, begin + bytes};
  }
  Bytes read_part(std::size_t index) const {
    return read(static_cast<const unsigned char*>(op_.send) + index * chunk_, chunk_);
  }
  // Writes the `index`-th chunk of the result.
  void write(std::size_t index, const Bytes& bytes) const {
    unsigned char* to = static_cast<unsigned char*>(op_.receive) + index * chunk_;
    if (bytes.size() != chunk_) {
      known_now().remove(to, chunk_);
      return;
    }
    std::memcpy(to, bytes.data(), chunk_);
    known_now().add(to, chunk_);
  }

  Bytes contribution() const {
    Bytes bytes = read(op_.send, send_bytes(op_));
    if (op_.reduction.kind != ReductionKind::PremulSum || bytes.empty()) return bytes;
    if (op_.reduction.factor_on_device == nullptr) {
      scale(op_.type, bytes, op_.reduction.factor.data());
      return bytes;
    }
    const Bytes factor = read(op_.reduction.factor_on_device, element_bytes(op_.type));
    if (factor.empty()) return {};
    scale(op_.type, bytes, factor.data());
    return bytes;
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

  // Empty: some contribution is unknown.
  Bytes reduced(const Parts& parts) const {
    if (std::any_of(parts.begin(), parts.end(), [this](const Bytes& part) { return part.size() != send_bytes(op_); })) {
      return {};
    }
    return reduce(op_.reduction.kind, op_.type, parts);
  }

  void broadcast() const {
    if (op_.rank != op_.root) return write(0, receive(op_.root, MessageKind::Result));
    const Bytes bytes = read(op_.send, chunk_);
    send_to_others(bytes);
    write(0, bytes);
  }

  void send_to_others(const Bytes& bytes) const {
    for (std::uint32_t to = 0; to < ranks_; ++to) {
      if (to != op_.rank) send(to, MessageKind::Result, bytes);
    }
  }

  void scatter() const {
    if (op_.rank != op_.root) return write(0, receive(op_.root, MessageKind::Result));
    const Bytes own = read_part(op_.rank);
    for (std::uint32_t to = 0; to < ranks_; ++to) {
      if (to != op_.rank) send(to, MessageKind::Result, read_part(to));
    }
    write(0, own);
  }

  void all_to_all() const {
    const Bytes own = read_part(op_.rank);
    for (std::uint32_t to = 0; to < ranks_; ++to) {
      if (to != op_.rank) send(to, MessageKind::Contribution, read_part(to));
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
    const Bytes result = reduced(parts);
    send_to_others(result);
    write(0, result);
  }

  void reduce_scatter() const {
    const Parts parts = collect(kHub);
    if (op_.rank != kHub) return write(0, receive(kHub, MessageKind::Result));
    const Bytes result = reduced(parts);
    for (std::uint32_t to = 1; to < ranks_; ++to) send(to, MessageKind::Result, slice(result, to));
    write(0, slice(result, kHub));
  }

  Bytes slice(const Bytes& whole, std::size_t index) const {
    if (whole.empty()) return {};
    const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(index * chunk_);
    return {begin, begin + static_cast<std::ptrdiff_t>(chunk_)};
  }

  // The result message: a byte per rank, 1 where its chunk is known, then the known chunks.
  void all_gather() const {
    const Parts parts = collect(kHub);
    if (op_.rank != kHub) return unpack(receive(kHub, MessageKind::Result));
    Bytes packed(ranks_);
    for (std::size_t from = 0; from < ranks_; ++from) {
      packed[from] = parts[from].size() == chunk_;
      if (packed[from]) packed.insert(packed.end(), parts[from].begin(), parts[from].end());
    }
    send_to_others(packed);
    unpack(packed);
  }

  void unpack(const Bytes& packed) const {
    std::size_t known = 0;
    for (std::size_t from = 0; from < ranks_; ++from) {
      const bool is_known = from < packed.size() && packed[from] != 0;
      const auto begin = packed.begin() + static_cast<std::ptrdiff_t>(is_known ? ranks_ + chunk_ * known++ : 0);
      write(from, is_known ? Bytes(begin, begin + static_cast<std::ptrdiff_t>(chunk_)) : Bytes{});
    }
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
