// Subscribers, and the names of calls. A program's functions are not called when it calls CUDA: whoever wants that is
// told so. What is let pass is the making and ending of contexts, of which a process has one that outlives the profiler.
#include <string>
#include <unordered_map>

#include "shim/cupti/cupti.h"

using namespace ph;

namespace {

struct Callback {
  profiling::Kind domain;
  std::string_view call;  // as the API exports it
  CUpti_CallbackId id;
  const char* name;
};

#define CALLBACK(domain, call, id, name) {profiling::Kind::domain, #call, id, #name},
constexpr Callback kCallbacks[] = {
#include "shim/cupti/callback_ids.def"
};
#undef CALLBACK

// Inside of the runtime of CUDA 13, where `<<<>>>` calls cudaLaunchKernel by another name.
constexpr std::string_view kInnerLaunch = "__cudaLaunchKernel";

CUpti_SubscriberHandle const kSubscriber = reinterpret_cast<CUpti_SubscriberHandle>(0x1);
bool is_subscribed = false;

CUptiResult enable(const char* call, bool on, CUpti_CallbackDomain domain) noexcept {
  if (!on || domain == CUPTI_CB_DOMAIN_RESOURCE) return CUPTI_SUCCESS;
  const std::string detail = "callbacks of domain " + std::to_string(domain) + " when the program calls CUDA";
  return static_cast<CUptiResult>(library::unsupported(call, detail.c_str()));
}

}  // namespace

namespace ph::cupti {

CUpti_CallbackId callback_id(profiling::Kind domain, std::string_view call) noexcept {
  using Ids = std::unordered_map<std::string_view, CUpti_CallbackId>;
  static const Ids* const ids = [] {
    auto* made = new Ids[2];
    for (const Callback& one : kCallbacks) made[one.domain == profiling::Kind::Driver].emplace(one.call, one.id);
    return made;
  }();
  const Ids& of_domain = ids[domain == profiling::Kind::Driver];
  const auto found = of_domain.find(call == kInnerLaunch ? "cudaLaunchKernel" : call);
  return found == of_domain.end() ? 0 : found->second;
}

}  // namespace ph::cupti

extern "C" {

PH_EXPORT CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback, void*) noexcept {
  PH_CALL(cuptiSubscribe, HostCost::None);
  if (subscriber == nullptr || callback == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  if (is_subscribed) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  is_subscribed = true;
  *subscriber = kSubscriber;
  return CUPTI_SUCCESS;
}

PH_EXPORT CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle subscriber) noexcept {
  PH_CALL(cuptiUnsubscribe, HostCost::None);
  if (subscriber != kSubscriber) return CUPTI_ERROR_INVALID_PARAMETER;
  is_subscribed = false;  // once more is no error
  return CUPTI_SUCCESS;
}

PH_EXPORT CUptiResult cuptiEnableCallback(std::uint32_t on, CUpti_SubscriberHandle subscriber,
                                          CUpti_CallbackDomain domain, CUpti_CallbackId) noexcept {
  PH_CALL(cuptiEnableCallback, HostCost::None);
  if (!is_subscribed || subscriber != kSubscriber) return CUPTI_ERROR_INVALID_PARAMETER;
  return enable("cuptiEnableCallback", on != 0, domain);
}

PH_EXPORT CUptiResult cuptiEnableDomain(std::uint32_t on, CUpti_SubscriberHandle subscriber,
                                        CUpti_CallbackDomain domain) noexcept {
  PH_CALL(cuptiEnableDomain, HostCost::None);
  if (!is_subscribed || subscriber != kSubscriber) return CUPTI_ERROR_INVALID_PARAMETER;
  return enable("cuptiEnableDomain", on != 0, domain);
}

PH_EXPORT CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, CUpti_CallbackId id,
                                           const char** name) noexcept {
  PH_CALL(cuptiGetCallbackName, HostCost::None);
  if (name == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  if (domain != CUPTI_CB_DOMAIN_RUNTIME_API && domain != CUPTI_CB_DOMAIN_DRIVER_API)
    return CUPTI_ERROR_INVALID_PARAMETER;
  const auto kind = domain == CUPTI_CB_DOMAIN_DRIVER_API ? profiling::Kind::Driver : profiling::Kind::Runtime;
  for (const Callback& one : kCallbacks) {
    if (one.domain != kind || one.id != id) continue;
    *name = one.name;
    return CUPTI_SUCCESS;
  }
  return CUPTI_ERROR_INVALID_PARAMETER;
}

PH_EXPORT CUptiResult cuptiGetResultString(CUptiResult result, const char** text) noexcept {
  PH_CALL(cuptiGetResultString, HostCost::None);
  if (text == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  switch (result) {
#define RESULT(name) \
  case name: *text = #name; return CUPTI_SUCCESS
    RESULT(CUPTI_SUCCESS);
    RESULT(CUPTI_ERROR_INVALID_PARAMETER);
    RESULT(CUPTI_ERROR_INVALID_CONTEXT);
    RESULT(CUPTI_ERROR_INVALID_OPERATION);
    RESULT(CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT);
    RESULT(CUPTI_ERROR_MAX_LIMIT_REACHED);
    RESULT(CUPTI_ERROR_QUEUE_EMPTY);
    RESULT(CUPTI_ERROR_INVALID_KIND);
    RESULT(CUPTI_ERROR_NOT_SUPPORTED);
    RESULT(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
    RESULT(CUPTI_ERROR_UNKNOWN);
#undef RESULT
    default: return CUPTI_ERROR_INVALID_PARAMETER;
  }
}

// CUPTI_API_VERSION of CUDA 12.8 and of 13.2, from which our declarations are.
PH_EXPORT CUptiResult cuptiGetVersion(std::uint32_t* version) noexcept {
  PH_CALL(cuptiGetVersion, HostCost::None);
  if (version == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *version = std::string_view(PH_SONAME).ends_with(".12") ? 26 : 130202;
  return CUPTI_SUCCESS;
}

}  // extern "C"
