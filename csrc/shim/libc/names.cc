// Lookups of names and addresses. The C library asks a name server by calls that are none of ours, and sleeps until it
// has answered: a process that is no rank. While a lookup is under way its rank is not asleep
// (docs/decisions/outside-waits.md). It takes no virtual time.
#include <netdb.h>

#include "shim/channel/rank.h"
#include "shim/libc/real_clock.h"

namespace {

class Lookup {
 public:
  Lookup() noexcept {
    if (counts_) ph::begin_lookup();
  }
  ~Lookup() noexcept {
    if (counts_) ph::end_lookup();
  }
  Lookup(const Lookup&) = delete;
  Lookup& operator=(const Lookup&) = delete;

 private:
  const bool counts_ = ph::attached() && ph::is_owner();
};

// `next`: the C library's function, which `arguments` are for.
template <typename Look, typename... Arguments>
auto look_up(ph::Next<Look>& next, Arguments... arguments) {
  const Lookup lookup;
  return next(arguments...);
}

}  // namespace

extern "C" {

PH_EXPORT int getaddrinfo(const char* __restrict name, const char* __restrict service, const addrinfo* __restrict hints,
                          addrinfo** __restrict result) {
  static constinit ph::Next<int(const char*, const char*, const addrinfo*, addrinfo**)> next{"getaddrinfo"};
  return look_up(next, name, service, hints, result);
}

PH_EXPORT int getnameinfo(const sockaddr* __restrict address, socklen_t size, char* __restrict host,
                          socklen_t host_size, char* __restrict service, socklen_t service_size, int flags) {
  static constinit ph::Next<int(const sockaddr*, socklen_t, char*, socklen_t, char*, socklen_t, int)> next{
      "getnameinfo"};
  return look_up(next, address, size, host, host_size, service, service_size, flags);
}

PH_EXPORT hostent* gethostbyname(const char* name) {
  static constinit ph::Next<hostent*(const char*)> next{"gethostbyname"};
  return look_up(next, name);
}

PH_EXPORT hostent* gethostbyname2(const char* name, int family) {
  static constinit ph::Next<hostent*(const char*, int)> next{"gethostbyname2"};
  return look_up(next, name, family);
}

PH_EXPORT hostent* gethostbyaddr(const void* address, socklen_t size, int family) {
  static constinit ph::Next<hostent*(const void*, socklen_t, int)> next{"gethostbyaddr"};
  return look_up(next, address, size, family);
}

PH_EXPORT int gethostbyname_r(const char* __restrict name, hostent* __restrict host, char* __restrict buffer,
                              std::size_t size, hostent** __restrict result, int* __restrict error) {
  static constinit ph::Next<int(const char*, hostent*, char*, std::size_t, hostent**, int*)> next{"gethostbyname_r"};
  return look_up(next, name, host, buffer, size, result, error);
}

PH_EXPORT int gethostbyname2_r(const char* __restrict name, int family, hostent* __restrict host,
                               char* __restrict buffer, std::size_t size, hostent** __restrict result,
                               int* __restrict error) {
  static constinit ph::Next<int(const char*, int, hostent*, char*, std::size_t, hostent**, int*)> next{
      "gethostbyname2_r"};
  return look_up(next, name, family, host, buffer, size, result, error);
}

PH_EXPORT int gethostbyaddr_r(const void* __restrict address, socklen_t length, int family, hostent* __restrict host,
                              char* __restrict buffer, std::size_t size, hostent** __restrict result,
                              int* __restrict error) {
  static constinit ph::Next<int(const void*, socklen_t, int, hostent*, char*, std::size_t, hostent**, int*)> next{
      "gethostbyaddr_r"};
  return look_up(next, address, length, family, host, buffer, size, result, error);
}

}  // extern "C"
