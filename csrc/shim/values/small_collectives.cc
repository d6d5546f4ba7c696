#include "shim/values/small_collectives.h"

#include <algorithm>
#include <utility>

#include "shim/channel/rank.h"
#include "shim/core/config.h"
#include "shim/values/large_uploads.h"
#include "shim/values/part.h"
#include "shim/values/value_queue.h"
#include "shim/values/values.h"

namespace ph {

namespace {

// Where every rank needs what every other has, the first member collects and sends the result: 2(n-1) messages in
// place of n(n-1), and one rank reduces for all.
std::uint32_t hub_of(const SmallCollective& op) noexcept { return op.stand_ins ? (*op.stand_ins)[0] : 0; }

std::size_t chunk_bytes(const SmallCollective& op) noexcept { return op.count * element_bytes(op.type); }

std::size_t ranks_of(const SmallCollective& op) noexcept { return op.members->size(); }

std::size_t send_bytes(const SmallCollective& op) noexcept {
  const bool per_rank = op.kind == NcclOpKind::ReduceScatter || op.kind == NcclOpKind::AllToAll;
  return chunk_bytes(op) * (per_rank ? ranks_of(op) : 1);
}

// By what all its ranks agree on. Integers and bytes are what objects, indices and counts are sent as, gradients are
// neither; the limit keeps a rank's memory in bounds.
bool is_small(const SmallCollective& op) noexcept {
  constexpr std::size_t kMostIntegerBytes = 256u << 20;
  return send_bytes(op) <= (is_integral(op.type) ? kMostIntegerBytes : config().value_bytes);
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

// One operation on the value thread: it sends what peers need of it, and ends when what it needs of them has come.
class Run {
 public:
  explicit Run(SmallCollective op) noexcept
      : op_(std::move(op)), chunk_(chunk_bytes(op_)), ranks_(ranks_of(op_)), hub_(hub_of(op_)) {}

  void begin() const {
    time_ns_ = value_time_ns();
    switch (op_.kind) {
      case NcclOpKind::Send: return send(op_.root, MessageKind::PointToPoint, read_part(op_.send, chunk_));
      case NcclOpKind::Broadcast: return is_root() ? share(read_part(op_.send, chunk_)) : void();
      case NcclOpKind::Scatter: return is_root() ? scatter() : void();
      case NcclOpKind::AllToAll: return send_chunks(MessageKind::Contribution);
      case NcclOpKind::Reduce:
      case NcclOpKind::Gather: return contribute(op_.root);
      case NcclOpKind::AllReduce:
      case NcclOpKind::ReduceScatter:
      case NcclOpKind::AllGather: return contribute(hub_);
      case NcclOpKind::Recv: return;
    }
  }

  // Whether all messages have come that `finish` takes.
  bool ready() const {
    switch (op_.kind) {
      case NcclOpKind::Send: return true;
      case NcclOpKind::Recv: return is_absent(op_.root) || has(op_.root, MessageKind::PointToPoint);
      case NcclOpKind::Broadcast:
      case NcclOpKind::Scatter: return is_root() || is_absent(op_.root) || has(op_.root, MessageKind::Result);
      case NcclOpKind::AllToAll: return has_contributions();
      case NcclOpKind::Reduce:
      case NcclOpKind::Gather: return !is_root() || has_contributions();
      case NcclOpKind::AllReduce:
      case NcclOpKind::ReduceScatter:
      case NcclOpKind::AllGather: return op_.rank == hub_ ? has_contributions() : has(hub_, MessageKind::Result);
    }
    return true;
  }

  void finish() const {
    take_values();
    value_time_ns() = std::max(value_time_ns(), time_ns_);
  }

 private:
  using Parts = std::vector<Part>;

  void take_values() const {
    switch (op_.kind) {
      case NcclOpKind::Send: return;
      case NcclOpKind::Recv:
        return write(0, is_absent(op_.root) ? Part{} : fitting(receive(op_.root, MessageKind::PointToPoint)));
      case NcclOpKind::Broadcast:
      case NcclOpKind::Scatter:
        if (is_absent(op_.root)) return write(0, {});  // nobody knows what it sends
        return is_root() ? void() : write(0, receive(op_.root, MessageKind::Result));
      case NcclOpKind::AllToAll: return gather_chunks();
      case NcclOpKind::Reduce: return is_root() ? write(0, reduced(contributions())) : void();
      case NcclOpKind::Gather: return is_root() ? write_all(contributions()) : void();
      case NcclOpKind::AllReduce: return all_reduce();
      case NcclOpKind::ReduceScatter: return reduce_scatter();
      case NcclOpKind::AllGather: return all_gather();
    }
  }

  bool is_root() const noexcept { return op_.rank == op_.root; }
  std::uint32_t stand_in(std::uint32_t place) const noexcept { return op_.stand_ins ? (*op_.stand_ins)[place] : place; }
  bool is_absent(std::uint32_t place) const noexcept { return stand_in(place) != place; }

  MessageKey key(MessageKind kind, std::uint32_t from, std::uint32_t to) const noexcept {
    return {op_.communicator, op_.sequence, kind, from, to};
  }
  bool has(std::uint32_t from, MessageKind kind) const noexcept { return has_message(key(kind, from, op_.rank)); }
  bool has_contributions() const noexcept {
    for (std::uint32_t from = 0; from < ranks_; ++from) {
      if (from != op_.rank && !is_absent(from) && !has(from, MessageKind::Contribution)) return false;
    }
    return true;
  }
  void send(std::uint32_t to, MessageKind kind, const Part& part) const {
    if (is_absent(to)) return;
    Message message{{}, time_ns_};
    pack(part, message.bytes);
    send_message((*op_.members)[to], key(kind, op_.rank, to), message);
  }
  void send_to_others(Bytes bytes) const {
    const Message message{std::move(bytes), time_ns_};
    for (std::uint32_t to = 0; to < ranks_; ++to) {
      if (to != op_.rank && !is_absent(to))
        send_message((*op_.members)[to], key(MessageKind::Result, op_.rank, to), message);
    }
  }
  void send_chunks(MessageKind kind) const {
    for (std::uint32_t to = 0; to < ranks_; ++to) {
      if (to != op_.rank) send(to, kind, chunk_to_send(to));
    }
  }
  // Unknown if the communicator was abandoned.
  Part receive(std::uint32_t from, MessageKind kind) const {
    Parts parts = take(from, kind);
    return parts.empty() ? Part{} : std::move(parts.front());
  }

  // Where more is sent than is taken, NCCL leaves open what comes; the server says that the two ends do not match.
  Part fitting(Part part) const { return part.end() <= chunk_ ? std::move(part) : Part{}; }

  Parts take(std::uint32_t from, MessageKind kind) const {
    const Message message = take_message(key(kind, from, op_.rank));
    time_ns_ = std::max(time_ns_, message.sent_ns);
    return unpack(message.bytes);
  }

  Part chunk_to_send(std::size_t index) const {
    return read_part(static_cast<const unsigned char*>(op_.send) + index * chunk_, chunk_);
  }
  // Writes the `index`-th chunk of the result.
  void write(std::size_t index, const Part& part) const {
    write_part(static_cast<unsigned char*>(op_.receive) + index * chunk_, chunk_, part);
  }
  void write_all(const Parts& parts) const {
    for (std::size_t from = 0; from < parts.size(); ++from) write(from, parts[from]);
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

  void contribute(std::uint32_t collector) const {
    if (op_.rank != collector) send(collector, MessageKind::Contribution, contribution());
  }
  // All contributions, at their collector.
  Parts contributions() const {
    return collected([this] { return contribution(); });
  }

  // What everybody sends here, and as `own` what we do.
  template <typename Own>
  Parts collected(const Own& own) const {
    Parts parts(ranks_);
    for (std::uint32_t from = 0; from < ranks_; ++from) {
      if (!is_absent(from)) parts[from] = from == op_.rank ? own() : receive(from, MessageKind::Contribution);
    }
    for (std::uint32_t from = 0; from < ranks_; ++from) {
      if (is_absent(from)) parts[from] = parts[stand_in(from)];
    }
    return parts;
  }

  Part reduced(const Parts& parts) const {
    Part result;
    result.known = known_in_all(parts, element_bytes(op_.type));
    if (result.empty()) return {};
    std::vector<Bytes> values;
    for (const Part& part : parts) values.push_back(part.bytes);
    result.bytes = reduce(op_.reduction.kind, op_.type, values);
    return result;
  }

  // The collector's end of an operation whose result all ranks get.
  void share(const Part& result) const {
    Bytes message;
    pack(result, message);
    send_to_others(std::move(message));
    write(0, result);
  }

  void scatter() const {
    const Part own = chunk_to_send(op_.rank);
    send_chunks(MessageKind::Result);
    write(0, own);
  }

  void gather_chunks() const {
    write_all(collected([this] { return chunk_to_send(op_.rank); }));
  }

  void all_reduce() const {
    if (op_.rank != hub_) return write(0, receive(hub_, MessageKind::Result));
    share(reduced(contributions()));
  }

  void reduce_scatter() const {
    if (op_.rank != hub_) return write(0, receive(hub_, MessageKind::Result));
    const Part result = reduced(contributions());
    for (std::uint32_t to = 0; to < ranks_; ++to) {
      if (to != hub_) send(to, MessageKind::Result, slice(result, to * chunk_, chunk_));
    }
    write(0, slice(result, hub_, chunk_));
  }

  void all_gather() const {
    Parts parts;
    if (op_.rank == hub_) {
      parts = contributions();
      Bytes message;
      for (const Part& part : parts) pack(part, message);
      send_to_others(std::move(message));
    } else {
      parts = take(hub_, MessageKind::Result);
      parts.resize(ranks_);
    }
    write_all(parts);
  }

  SmallCollective op_;
  std::size_t chunk_;
  std::size_t ranks_;
  std::uint32_t hub_;
  mutable Nanoseconds time_ns_ = 0;  // when it was issued, and all that it has taken was sent
};

// What an absent member sends us is what its stand-in does, in the same group.
struct Copy {
  const void* from;
  void* to;
  std::size_t bytes;
};

// The operations of a group run at once: all send before any waits. One may wait for another of them, of another GPU.
class Group {
 public:
  explicit Group(std::vector<Copy> copies) noexcept : copies_(std::move(copies)) {
    for (const Copy& copy : copies_) touches.push_back({copy.from, copy.bytes, false});
  }
  void add(SmallCollective op) {
    touches.push_back({op.send, send_bytes(op), false});
    touches.push_back({op.receive, receive_bytes(op), true});
    if (op.reduction.factor_on_device != nullptr) {
      touches.push_back({op.reduction.factor_on_device, element_bytes(op.type), false});
    }
    runs_.emplace_back(std::move(op));
  }
  bool empty() const noexcept { return runs_.empty(); }

  // False: it waits for messages.
  bool run() {
    if (!begun_) {
      for (const Run& run : runs_) run.begin();
      begun_ = true;
    }
    std::erase_if(runs_, [](const Run& run) {
      const bool is_ready = run.ready();
      if (is_ready) run.finish();
      return is_ready;
    });
    if (!runs_.empty()) return false;
    for (const Copy& copy : copies_) write_part(copy.to, copy.bytes, read_part(copy.from, copy.bytes));
    return true;
  }

  Touches touches;

 private:
  std::vector<Run> runs_;
  std::vector<Copy> copies_;
  bool begun_ = false;
};

// What an absent root broadcasts is what its stand-in would: what that one broadcasts in the same group, where a gathering
// consists of broadcasts, or else what it has in its buffer.
void replace_absent_roots(std::vector<SmallCollective>& operations) {
  const SmallCollective* own = nullptr;
  for (const SmallCollective& op : operations) {
    if (op.kind == NcclOpKind::Broadcast && op.root == op.rank) own = &op;
  }
  for (SmallCollective& op : operations) {
    if (op.kind != NcclOpKind::Broadcast || !op.stand_ins || (*op.stand_ins)[op.root] == op.root) continue;
    op.root = (*op.stand_ins)[op.root];
    const bool sends = op.root == op.rank && own != nullptr;
    if (sends && own->communicator == op.communicator && own->count == op.count) op.send = own->send;
  }
}

thread_local const void* own_part = nullptr;  // see set_own_part

// What members that are absent send to us in a gather. Our own part nobody sends.
std::vector<Copy> copies_for_absent(const std::vector<SmallCollective>& operations) {
  std::vector<Copy> copies;
  for (const SmallCollective& op : operations) {
    if (op.kind != NcclOpKind::Recv || !op.stand_ins || !carries_values(op)) continue;
    const std::uint32_t stand_in = (*op.stand_ins)[op.root];
    if (stand_in == op.root) continue;
    const void* from = stand_in == op.rank ? own_part : nullptr;
    for (const SmallCollective& other : operations) {
      const bool is_same = other.communicator == op.communicator && other.count == op.count && other.type == op.type;
      if (is_same && other.kind == NcclOpKind::Recv && other.root == stand_in) from = other.receive;
    }
    if (from != nullptr) copies.push_back({from, op.receive, chunk_bytes(op)});
  }
  return copies;
}

}  // namespace

bool carries_values(const SmallCollective& op) noexcept { return op.count != 0 && is_small(op); }

void set_own_part(const void* part) noexcept { own_part = part; }

void issue_collectives(std::vector<SmallCollective> operations) noexcept {
  if (!attached()) return;
  replace_absent_roots(operations);
  const auto small = std::make_shared<Group>(copies_for_absent(operations));
  for (SmallCollective& op : operations) {
    if (op.send != nullptr) note_large_use(op.send, send_bytes(op));
    if (!is_small(op)) {
      mark_unknown(op.receive, receive_bytes(op));
    } else if (carries_values(op)) {
      expect_known(op.receive, receive_bytes(op));
      small->add(std::move(op));
    }
  }
  if (small->empty()) return;
  enqueue_exchange([small] { return small->run(); }, small->touches);
}

}  // namespace ph
