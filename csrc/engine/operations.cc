#include "engine/operations.h"

#include <algorithm>
#include <tuple>

#include "engine/names.h"

namespace ph {

namespace {

bool is_pair(NcclOpKind kind) { return kind == NcclOpKind::Send || kind == NcclOpKind::Recv; }

bool has_reduction(NcclOpKind kind) {
  return kind == NcclOpKind::AllReduce || kind == NcclOpKind::Reduce || kind == NcclOpKind::ReduceScatter;
}

bool has_root(NcclOpKind kind) {
  return kind == NcclOpKind::Broadcast || kind == NcclOpKind::Reduce || kind == NcclOpKind::Gather ||
         kind == NcclOpKind::Scatter;
}

std::string describe(NcclOpKind kind, std::uint64_t count, std::uint64_t dtype, std::uint64_t reduction,
                     std::uint64_t root) {
  std::string text = name(kind) + "(" + std::to_string(count) + " x " + data_type_name(dtype);
  if (has_reduction(kind)) text += ", " + reduction_name(reduction);
  if (has_root(kind)) text += ", root " + std::to_string(root);
  return text + ")";
}

bool agrees(const Operation& operation, const Arrival& arrival) {
  if (operation.count != arrival.args[NcclOpArg::Count] || operation.dtype != arrival.args[NcclOpArg::Dtype])
    return false;
  if (is_pair(arrival.kind)) return true;  // the key already holds the rest
  return operation.kind == arrival.kind &&
         (!has_reduction(arrival.kind) || operation.reduction == arrival.args[NcclOpArg::Reduction]) &&
         (!has_root(arrival.kind) || operation.root == arrival.args[NcclOpArg::Root]);
}

constexpr std::uint64_t kAnyDevice = 0xffff;

std::uint64_t place(std::uint64_t rank, std::uint64_t device) { return rank << 16 | device; }

}  // namespace

void Operations::define(std::uint32_t comm, std::vector<Member> members) {
  if (members.empty() || communicators_.contains(comm))
    throw std::invalid_argument("communicator " + std::to_string(comm) + " is empty or was defined before");
  std::unordered_map<std::uint32_t, std::uint32_t> devices_of;  // by rank
  for (const Member& member : members) ++devices_of[member.rank];
  Communicator made;
  for (std::uint32_t position = 0; position < members.size(); ++position) {
    const Member& member = members[position];
    const std::uint64_t device = devices_of[member.rank] == 1 ? kAnyDevice : member.device;
    if (!made.position.emplace(place(member.rank, device), position).second)
      throw std::invalid_argument("communicator " + std::to_string(comm) + " has rank " + std::to_string(member.rank) +
                                  " twice");
  }
  made.members = std::move(members);
  communicators_.emplace(comm, std::move(made));
}

const Operations::Communicator& Operations::communicator(const Arrival& arrival) const {
  const auto found = communicators_.find(arrival.comm);
  if (found == communicators_.end() || position(found->second, arrival) == kNone)
    throw MalformedInput("rank " + std::to_string(arrival.rank) + " is not in communicator " +
                         std::to_string(arrival.comm));
  return found->second;
}

// A rank with one member is that, whatever device it names.
std::uint32_t Operations::position(const Communicator& comm, const Arrival& arrival) {
  auto found = comm.position.find(place(arrival.rank, kAnyDevice));
  if (found == comm.position.end()) found = comm.position.find(place(arrival.rank, arrival.device));
  return found == comm.position.end() ? kNone : found->second;
}

void Operations::arrive(const Arrival& arrival, Nanoseconds now_ns, Stop& stop) {
  const Communicator& comm = communicator(arrival);
  const std::uint64_t size = comm.members.size();
  const std::uint32_t self = position(comm, arrival);
  const bool pair = is_pair(arrival.kind);
  const std::uint64_t peer = arrival.args[NcclOpArg::Root];
  if ((pair || has_root(arrival.kind)) && peer >= size)
    throw MalformedInput("rank " + std::to_string(arrival.rank) + " names rank " + std::to_string(peer) +
                         " of communicator " + std::to_string(arrival.comm) + ", which has " + std::to_string(size));
  const bool sends = arrival.kind == NcclOpKind::Send;
  const std::uint64_t channel = !pair ? 0 : 1 + (sends ? self * size + peer : peer * size + self);
  const Key key{arrival.comm, channel, arrival.args[NcclOpArg::Sequence]};

  auto found = open_.find(key);
  if (found == open_.end()) {
    Operation made{pair ? NcclOpKind::Send : arrival.kind,
                   arrival.comm,
                   arrival.args[NcclOpArg::Count],
                   arrival.args[NcclOpArg::Dtype],
                   arrival.args[NcclOpArg::Reduction],
                   pair ? 0 : arrival.args[NcclOpArg::Root],
                   arrival.args[NcclOpArg::Sequence],
                   {},
                   0};
    const auto add = [&](const Member& member) {
      made.participants.push_back({member.rank, member.gpu, member.present});
    };
    if (pair) {
      add(comm.members[sends ? self : peer]);
      add(comm.members[sends ? peer : self]);
    } else {
      for (const Member& member : comm.members) add(member);
    }
    made.missing = static_cast<std::uint32_t>(std::ranges::count_if(made.participants, &Participant::present));
    found = open_.emplace(key, std::move(made)).first;
  } else if (!agrees(found->second, arrival)) {
    stop.mismatch = mismatch(found->second, arrival);
    return;
  }

  Operation& operation = found->second;
  Participant& part = operation.participants[!pair ? self : sends ? 0 : 1];
  if (part.arrived)
    throw MalformedInput("rank " + std::to_string(arrival.rank) + " issued operation " +
                         std::to_string(arrival.args[NcclOpArg::Sequence]) + " of communicator " +
                         std::to_string(arrival.comm) + " twice");
  part.arrived = true;
  part.launch = arrival.launch;
  part.kind = arrival.kind;
  part.arrival_ns = now_ns;
  part.site = arrival.site;
  if (--operation.missing > 0) return;
  stop.ready.push_back(ready(operation, arrival.launch_id, now_ns));
  ready_.emplace(stop.ready.back().operation, std::move(operation));
  open_.erase(found);
}

std::string Operations::mismatch(const Operation& operation, const Arrival& arrival) const {
  const auto& first = *std::find_if(operation.participants.begin(), operation.participants.end(),
                                    [](const Participant& other) { return other.arrived; });
  return "Mismatched operation " + std::to_string(operation.sequence) + " of communicator " +
         std::to_string(operation.comm) + ": rank " + std::to_string(first.rank) + " issued " +
         describe(first.kind, operation.count, operation.dtype, operation.reduction, operation.root) + " at " +
         sites_.text(first.rank, first.site) + "; rank " + std::to_string(arrival.rank) + " issued " +
         describe(arrival.kind, arrival.args[NcclOpArg::Count], arrival.args[NcclOpArg::Dtype],
                  arrival.args[NcclOpArg::Reduction], arrival.args[NcclOpArg::Root]) +
         " at " + sites_.text(arrival.rank, arrival.site);
}

Ready Operations::ready(const Operation& operation, std::uint64_t launch_id, Nanoseconds now_ns) {
  const auto& parts = operation.participants;
  const bool pair = operation.kind == NcclOpKind::Send;
  const Participant& first = *std::ranges::find_if(parts, &Participant::present);
  Ready made{next_operation_++,
             now_ns,
             operation.kind,
             operation.comm,
             operation.count,
             operation.dtype,
             operation.reduction,
             operation.root,
             pair ? std::int64_t{parts[0].gpu} : -1,
             pair ? std::int64_t{parts[1].gpu} : -1,
             launch_id,
             first.rank,
             first.site,
             {}};
  for (const Participant& part : parts) made.arrivals_ns.push_back(pair && !part.present ? now_ns : part.arrival_ns);
  return made;
}

const Operation* Operations::find_ready(std::uint64_t operation) const {
  const auto found = ready_.find(operation);
  return found == ready_.end() ? nullptr : &found->second;
}

Operation Operations::take(std::uint64_t operation) {
  auto node = ready_.extract(operation);
  require(!node.empty(), "an operation that is not ready was taken");
  return std::move(node.mapped());
}

std::vector<Pending> Operations::pending() const {
  std::vector<Pending> all;
  for (const auto& [key, operation] : open_) {
    Pending made{operation.comm, operation.kind, operation.count, operation.dtype, operation.sequence, {}, {}, -1, -1};
    if (operation.kind == NcclOpKind::Send) {
      made.source = operation.participants[0].gpu;
      made.destination = operation.participants[1].gpu;
    }
    for (const Participant& part : operation.participants) {
      if (part.arrived) {
        made.kind = operation.kind == NcclOpKind::Send ? part.kind : operation.kind;
        made.arrived.emplace_back(part.rank, part.gpu, part.site, part.arrival_ns);
      } else if (part.present) {
        made.missing.emplace_back(part.rank, part.gpu);
      }
    }
    all.push_back(std::move(made));
  }
  std::sort(all.begin(), all.end(), [](const Pending& a, const Pending& b) {
    return std::tie(a.comm, a.sequence, a.arrived, a.missing) < std::tie(b.comm, b.sequence, b.arrived, b.missing);
  });
  return all;
}

}  // namespace ph
