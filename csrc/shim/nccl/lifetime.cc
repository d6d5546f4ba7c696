// NCCL's communicators: how they come and go, and what they tell about themselves.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include <unistd.h>

#include "shim/calls/library.h"
#include "shim/channel/rank.h"
#include "shim/core/device.h"
#include "shim/core/visible_devices.h"
#include "shim/nccl/communicator.h"
#include "shim/nccl/failure_text.h"
#include "shim/nccl/group.h"

using ph::HostCost;
using ph::nccl::Communicator;
using ph::nccl::failed;

namespace {

// Unique per process and call, and the same in every run: where a rank's process is the rank's only one.
struct UniqueId {
  std::uint64_t magic;
  std::uint32_t rank;
  std::uint32_t process;  // 0 in the process that drives the rank's GPU
  std::uint64_t call;
};
static_assert(sizeof(UniqueId) <= NCCL_UNIQUE_ID_BYTES);
constexpr std::uint64_t kUniqueIdMagic = 0x4449'4c43'434e'4850;  // "PHNCCLID"

constexpr unsigned kFirstWithBlocks = 21700;

// What a configuration says. Older ones are shorter; before NCCL 2.17 they ended with `blocking`, and padding.
ncclConfig_t settings_of(const ncclConfig_t& config) noexcept {
  ncclConfig_t settings{};
  settings.blocking = settings.cgaClusterSize = settings.minCTAs = settings.maxCTAs = settings.splitShare =
      NCCL_CONFIG_UNDEF_INT;
  const bool is_short = config.version < kFirstWithBlocks;
  const std::size_t known = is_short ? offsetof(ncclConfig_t, cgaClusterSize) : sizeof settings;
  std::memcpy(&settings, &config, std::min(config.size, known));
  return settings;
}

bool is_flag(int value) noexcept { return value == NCCL_CONFIG_UNDEF_INT || value == 0 || value == 1; }

// A name and a value that it cannot have; empty: there is none. Source: NCCL, src/init.cc, parseCommConfig.
std::string wrong_setting(const ncclConfig_t& of) noexcept {
  const auto is_below = [](int value, int least) { return value != NCCL_CONFIG_UNDEF_INT && value < least; };
  if (!is_flag(of.blocking)) return "blocking " + std::to_string(of.blocking);
  if (is_below(of.cgaClusterSize, 0)) return "cgaClusterSize " + std::to_string(of.cgaClusterSize);
  if (is_below(of.minCTAs, 1) || is_below(of.maxCTAs, 1) || of.minCTAs > of.maxCTAs) {
    return "minCTAs/maxCTAs " + std::to_string(of.minCTAs) + "/" + std::to_string(of.maxCTAs);
  }
  return is_flag(of.splitShare) ? "" : "splitShare " + std::to_string(of.splitShare);
}

ncclResult_t check_config(const char* function, const ncclConfig_t* config) noexcept {
  if (!config) return ncclSuccess;
  if (config->magic != NCCL_API_MAGIC) {
    return failed(ncclInvalidArgument,
                  std::string(function) + " : ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER");
  }
  const std::string wrong = wrong_setting(settings_of(*config));
  return wrong.empty() ? ncclSuccess
                       : failed(ncclInvalidArgument, std::string(function) + " : invalid configuration: " + wrong);
}

ncclResult_t init(const char* function, ncclComm_t* comm, int nranks, const ncclUniqueId* ids, int id_count, int rank,
                  const ncclConfig_t* config) noexcept {
  const auto invalid = [function](const std::string& what) {
    return failed(ncclInvalidArgument, std::string(function) + " : " + what);
  };
  if (!comm) return invalid("comm is null");
  *comm = nullptr;
  if (!ids || id_count < 1) return invalid("no unique id");
  if (nranks < 1 || rank < 0 || rank >= nranks) {
    return invalid("invalid rank requested : " + std::to_string(rank) + "/" + std::to_string(nranks));
  }
  const ncclResult_t result = check_config(function, config);
  if (result != ncclSuccess) return result;
  const std::uint64_t key = ph::nccl::hash(ids, sizeof *ids * static_cast<std::size_t>(id_count));
  const ph::nccl::Membership membership = ph::nccl::membership(comm, key, nranks, rank);
  ph::nccl::tell_group(membership, config);
  return ph::nccl::submit(membership);
}

// Those of ncclCommInitAll, each once.
ncclResult_t check_devices(const std::vector<int>& devices) noexcept {
  std::vector<bool> seen(static_cast<std::size_t>(ph::visible_devices()));
  for (const int device : devices) {
    if (device < 0 || static_cast<std::size_t>(device) >= seen.size()) {
      return failed(ncclInvalidArgument, "ncclCommInitAll : Invalid device " + std::to_string(device));
    }
    if (seen[device]) {
      return failed(ncclInvalidUsage, "ncclCommInitAll : device " + std::to_string(device) + " is named twice");
    }
    seen[device] = true;
  }
  return ncclSuccess;
}

ncclResult_t no_communicator(const char* function) noexcept {
  return failed(ncclInvalidArgument, std::string(function) + " : the communicator is null or was destroyed before");
}

ncclResult_t null_result(const char* function) noexcept {
  return failed(ncclInvalidArgument, std::string(function) + " : a result pointer is null");
}

}  // namespace

extern "C" {

PH_EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId* uniqueId) noexcept {
  PH_CALL(ncclGetUniqueId);
  if (!uniqueId) return null_result("ncclGetUniqueId");
  static std::atomic<std::uint64_t> calls{0};
  const bool drives = ph::attached();
  const UniqueId id{kUniqueIdMagic, drives ? ph::global_rank() : ~0u, drives ? 0 : static_cast<std::uint32_t>(getpid()),
                    calls++};
  std::memset(uniqueId, 0, sizeof *uniqueId);
  std::memcpy(uniqueId, &id, sizeof id);
  return ncclSuccess;
}

PH_EXPORT ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank) noexcept {
  PH_CALL(ncclCommInitRank, HostCost::Setup);
  return init("ncclCommInitRank", comm, nranks, &commId, 1, rank, nullptr);
}

PH_EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank,
                                              ncclConfig_t* config) noexcept {
  PH_CALL(ncclCommInitRankConfig, HostCost::Setup);
  return init("ncclCommInitRankConfig", comm, nranks, &commId, 1, rank, config);
}

PH_EXPORT ncclResult_t ncclCommInitRankScalable(ncclComm_t* newcomm, int nranks, int myrank, int nId,
                                                ncclUniqueId* commIds, ncclConfig_t* config) noexcept {
  PH_CALL(ncclCommInitRankScalable, HostCost::Setup);
  return init("ncclCommInitRankScalable", newcomm, nranks, commIds, nId, myrank, config);
}

PH_EXPORT ncclResult_t ncclCommInitAll(ncclComm_t* comm, int ndev, const int* devlist) noexcept {
  PH_CALL(ncclCommInitAll, HostCost::Setup);
  if (!comm) return null_result("ncclCommInitAll");
  if (ndev < 1) return failed(ncclInvalidArgument, "ncclCommInitAll : no devices");
  std::vector<int> devices(static_cast<std::size_t>(ndev));
  for (int i = 0; i < ndev; ++i) devices[i] = devlist ? devlist[i] : i;
  if (const ncclResult_t result = check_devices(devices); result != ncclSuccess) return result;
  const int before = ph::current_device();
  ncclUniqueId id{};
  ncclGetUniqueId(&id);
  ph::nccl::start_group();
  for (int i = 0; i < ndev; ++i) {
    ph::set_current_device(devices[i]);
    init("ncclCommInitAll", &comm[i], ndev, &id, 1, i, nullptr);
  }
  ph::set_current_device(before);
  return ph::nccl::end_group();
}

PH_EXPORT ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
                                     ncclConfig_t* config) noexcept {
  PH_CALL(ncclCommSplit, HostCost::Setup);
  Communicator* parent = ph::nccl::find(comm);
  if (!parent) return no_communicator("ncclCommSplit");
  if (!newcomm) return null_result("ncclCommSplit");
  *newcomm = nullptr;
  const ncclResult_t result = check_config("ncclCommSplit", config);
  if (result != ncclSuccess) return result;
  const ph::nccl::Membership membership = ph::nccl::membership_of_part(*parent, color, key, newcomm);
  ph::nccl::tell_group(membership, config);
  return ph::nccl::submit(membership);
}

PH_EXPORT ncclResult_t ncclCommShrink(ncclComm_t comm, int* excludeRanksList, int excludeRanksCount,
                                      ncclComm_t* newcomm, ncclConfig_t* config, int) noexcept {
  PH_CALL(ncclCommShrink, HostCost::Setup);
  Communicator* parent = ph::nccl::find(comm);
  if (!parent) return no_communicator("ncclCommShrink");
  if (!newcomm) return null_result("ncclCommShrink");
  *newcomm = nullptr;
  std::vector<bool> excluded(static_cast<std::size_t>(parent->size()));
  for (int i = 0; i < excludeRanksCount; ++i) {
    const int rank = excludeRanksList ? excludeRanksList[i] : -1;
    if (rank < 0 || rank >= parent->size() || rank == parent->rank || excluded[rank]) {
      return failed(ncclInvalidArgument, "ncclCommShrink : the list of excluded ranks is wrong");
    }
    excluded[rank] = true;
  }
  if (excludeRanksCount < 1) return failed(ncclInvalidArgument, "ncclCommShrink : no rank is excluded");
  const ncclResult_t result = check_config("ncclCommShrink", config);
  if (result != ncclSuccess) return result;
  // Only the ranks that stay call: they meet under a key that they alone share, as at an initialisation.
  std::vector<std::uint64_t> shared{parent->id, parent->shrinks++};
  int rank = 0;
  for (int other = 0; other < parent->size(); ++other) {
    shared.push_back(excluded[other]);
    rank += other < parent->rank && !excluded[other];
  }
  const std::uint64_t key = ph::nccl::hash(shared.data(), shared.size() * sizeof shared[0]);
  return ph::nccl::submit(ph::nccl::membership(newcomm, key, parent->size() - excludeRanksCount, rank));
}

PH_EXPORT ncclResult_t ncclCommFinalize(ncclComm_t comm) noexcept {
  PH_CALL(ncclCommFinalize, HostCost::Setup);
  return ph::nccl::find(comm) ? ncclSuccess : no_communicator("ncclCommFinalize");
}

PH_EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm) noexcept {
  PH_CALL(ncclCommDestroy, HostCost::Setup);
  return comm ? ph::nccl::destroy(comm, false) : ncclSuccess;
}

PH_EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm) noexcept {
  PH_CALL(ncclCommAbort, HostCost::Setup);
  return comm ? ph::nccl::destroy(comm, true) : ncclSuccess;
}

PH_EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError) noexcept {
  PH_CALL(ncclCommGetAsyncError);
  if (!asyncError) return null_result("ncclCommGetAsyncError");
  if (!ph::nccl::find(comm)) return no_communicator("ncclCommGetAsyncError");
  *asyncError = ncclSuccess;
  return ncclSuccess;
}

PH_EXPORT ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) noexcept {
  PH_CALL(ncclCommCount);
  const Communicator* found = ph::nccl::find(comm);
  if (!found) return no_communicator("ncclCommCount");
  if (!count) return null_result("ncclCommCount");
  *count = found->size();
  return ncclSuccess;
}

PH_EXPORT ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) noexcept {
  PH_CALL(ncclCommCuDevice);
  const Communicator* found = ph::nccl::find(comm);
  if (!found) return no_communicator("ncclCommCuDevice");
  if (!device) return null_result("ncclCommCuDevice");
  *device = found->device;
  return ncclSuccess;
}

PH_EXPORT ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) noexcept {
  PH_CALL(ncclCommUserRank);
  const Communicator* found = ph::nccl::find(comm);
  if (!found) return no_communicator("ncclCommUserRank");
  if (!rank) return null_result("ncclCommUserRank");
  *rank = found->rank;
  return ncclSuccess;
}

}  // extern "C"
