// Reads the calling thread's Python frames without the interpreter's help.
//
// Most calls of the GPU's libraries come from code that has released the GIL. The official functions count
// references and allocate, so they need it; taking it here could deadlock, for the caller may hold a lock (the
// caching allocator's) that the holder of the GIL waits for. But a thread's own chain of frames stands still while
// the thread is inside our C function, and the code objects in it are kept alive by it. So the chain is read as
// memory, by the layout of the interpreter's version.
//
// A layout is trusted only after it has been compared, once per process and under the GIL, with what the official
// functions say about the same frames. An interpreter whose layout is unknown or refused gives no call sites.
#include "shim/python/python_frame.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>

#include <sys/prctl.h>

#include "shim/channel/rank.h"
#include "shim/channel/succession.h"
#include "shim/python/python_layout.h"

namespace ph {

namespace {

using python::Frame;

// Program text given by option or standard input, the only code of the user's without a file.
bool is_program_text(std::string_view file) { return file == "<string>" || file == "<stdin>"; }

enum class Origin : unsigned char { Users, ProgramText, Starter, Installed, Ours };

Origin origin_of(std::string_view file) {
  static constexpr std::string_view kStarters[] = {"/multiprocessing/", "/runpy.py", "<frozen runpy>"};
  static constexpr std::string_view kInstalled[] = {"/site-packages/", "/dist-packages/", "/lib/python3"};
  const auto is_in = [file](std::string_view part) { return file.find(part) != std::string_view::npos; };
  if (is_in("/phantora_py/rank/")) return Origin::Ours;
  const bool is_text = is_program_text(file);
  if (is_text || (!file.starts_with('<') && std::ranges::none_of(kInstalled, is_in)))
    return is_text ? Origin::ProgramText : Origin::Users;
  return std::ranges::any_of(kStarters, is_in) ? Origin::Starter : Origin::Installed;
}

// Names a place once. The map is never destroyed: threads still record while the process ends.
std::uint32_t intern_site(const std::string& place) {
  static std::mutex mutex;
  static auto& ids = *new std::unordered_map<std::string, std::uint32_t>;
  const std::lock_guard lock(mutex);
  const auto [entry, is_new] = ids.try_emplace(place, 0);
  if (is_new) {
    entry->second = static_cast<std::uint32_t>(next_number(Numbering::Site));
    Record record{};
    record.kind = RecordKind::Site;
    record.id = entry->second;
    emit(record, place);
  }
  return entry->second;
}

std::string place_of(const Frame& frame) {
  return python::file_of(frame) + ":" + std::to_string(python::line_of(frame)) + " " + python::function_of(frame);
}

// Per-thread caches, keyed by the code object and its file name, and lines by its fingerprint, since addresses are used
// again.
constexpr std::size_t kCacheEntries = 128;

std::size_t slot_of(const void* code, std::ptrdiff_t offset) noexcept {
  return ((reinterpret_cast<std::uintptr_t>(code) >> 4) ^ static_cast<std::size_t>(offset)) % kCacheEntries;
}

struct KnownCode {
  const void* code;
  const void* file;
  Origin origin;
};

struct KnownSite {
  const void* code;
  const void* file;
  std::uint64_t fingerprint;
  std::ptrdiff_t offset;
  std::uint32_t site;
};

thread_local std::array<KnownCode, kCacheEntries> known_codes;
thread_local std::array<KnownSite, kCacheEntries> known_sites;

Origin origin_of(const Frame& frame) {
  KnownCode& known = known_codes[slot_of(frame.code, 0)];
  if (known.code != frame.code || known.file != frame.file) {
    known = {frame.code, frame.file, origin_of(python::file_of(frame))};
  }
  return known.origin;
}

// `called`: the origin of what the frame has called. The text with which multiprocessing or runpy starts a program is
// nobody's.
bool is_users(Origin origin, Origin called) {
  return origin == Origin::Users || (origin == Origin::ProgramText && called != Origin::Starter);
}

std::uint32_t cached_site_of(const Frame& frame) {
  KnownSite& known = known_sites[slot_of(frame.code, frame.offset)];
  const std::uint64_t fingerprint = python::fingerprint_of(frame);
  if (known.code != frame.code || known.file != frame.file || known.offset != frame.offset ||
      known.fingerprint != fingerprint) {
    known = {frame.code, frame.file, fingerprint, frame.offset, intern_site(place_of(frame))};
  }
  return known.site;
}

struct Found {
  Frame frame;
  bool is_users;
};

// The innermost frame of the user's code; if there is none, the innermost that is not ours, or one without code.
Found find_frame() noexcept {
  Frame innermost{};
  Origin called = Origin::Installed;
  for (python::Walk walk; const Frame* frame = walk.next();) {
    const Origin origin = origin_of(*frame);
    if (is_users(origin, called)) return {*frame, true};
    called = origin;
    if (innermost.code == nullptr && origin != Origin::Ours) innermost = *frame;
  }
  return {innermost, false};
}

}  // namespace

bool on_autograd_thread() noexcept {
  static thread_local const bool answer = [] {
    char name[16] = {};  // the kernel's limit, prctl(2)
    prctl(PR_GET_NAME, name);
    return std::string_view(name).starts_with("pt_autograd");
  }();
  return answer;
}

std::uint32_t current_site() noexcept {
  if (!attached()) return 0;
  const auto [frame, is_users] = find_frame();
  if (!is_users && on_autograd_thread()) {
    static const std::uint32_t backward = intern_site("backward (autograd engine)");
    return backward;
  }
  return frame.code != nullptr ? cached_site_of(frame) : 0;
}

std::uint32_t users_own_site() noexcept {
  if (!attached()) return 0;
  python::Walk walk;
  const Frame* frame = walk.next();
  return frame != nullptr && is_users(origin_of(*frame), Origin::Installed) ? cached_site_of(*frame) : 0;
}

}  // namespace ph

// For phantora_py/rank/groups.py.
extern "C" PH_EXPORT std::uint32_t ph_current_site() noexcept { return ph::current_site(); }

// For phantora_py/rank/host_tensors.py: a process of --gpus has no sites until it uses a GPU, but places. This one's text
// is valid until the thread's next call.
extern "C" PH_EXPORT const char* ph_current_place() noexcept {
  thread_local std::string place;
  const ph::Frame frame = ph::find_frame().frame;
  place = frame.code != nullptr ? ph::place_of(frame) : "";
  return place.c_str();
}

extern "C" PH_EXPORT std::uint32_t ph_site_of(const char* place) noexcept {
  return ph::attached() && *place != '\0' ? ph::intern_site(place) : 0;
}
