#include "shim/python/python_layout.h"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include <dlfcn.h>
#include <sched.h>
#include <sys/uio.h>
#include <unistd.h>

namespace ph::python {

namespace {

using Object = void;  // PyObject; the shim includes no Python header

// Offsets in bytes. Source: offsetof() compiled with the headers of CPython 3.10.13, 3.11.7, 3.12.1 and 3.13.0 for
// x86-64 (PyThreadState, _PyCFrame, PyFrameObject or _PyInterpreterFrame, PyCodeObject, PyASCIIObject and
// PyCompactUnicodeObject); fixed within a minor version.
struct Layout {
  const char* version;             // of Py_GetVersion()
  std::size_t thread_frames;       // in the thread state: its innermost frame, or
  int cframe_current;              // ... a structure that has it here; -1: the frame itself
  std::size_t frame_code;
  std::size_t frame_previous;
  std::size_t frame_instruction;   // a pointer; in 3.10 the number of a 2-byte instruction
  int frame_owner;                 // -1: none
  std::size_t frame_locals;
  int code_instructions;           // -1: frame_instruction is a number
  std::size_t code_file;
  std::size_t code_name;
  std::size_t code_first_line;
  std::size_t code_line_table;
  std::size_t text_ascii;          // where the characters of a str begin that is ASCII
  std::size_t text_wide;           // ... that is not
};

constexpr Layout kLayouts[] = {
    {"3.10.", 24, -1, 32, 24, 96, -1, 352, -1, 104, 112, 40, 120, 48, 72},
    {"3.11.", 56, 8, 32, 48, 56, -1, 72, 184, 112, 120, 72, 136, 48, 72},
    {"3.12.", 56, 0, 0, 8, 56, 70, 72, 192, 112, 120, 68, 136, 40, 56},
    {"3.13.", 72, -1, 0, 8, 56, 70, 72, 200, 112, 120, 68, 136, 40, 56},
};
constexpr std::size_t kObjectType = 8;
constexpr std::size_t kBytesLength = 16;  // PyBytesObject, alike in all of them
constexpr std::size_t kBytes = 32;
constexpr char kOwnedByCStack = 3;  // FRAME_OWNED_BY_CSTACK: the entry of an evaluation loop, no frame of the program
constexpr std::size_t kDeepest = 4096;  // assumed; a walk that long is lost

struct Api {
  int (*is_initialized)();
  Object* (*thread_state)();
  int (*holds_gil)();
  int (*line_of_offset)(Object* code, int offset);
  std::int64_t (*text_length)(Object* text);
  std::uint32_t (*text_character)(Object* text, std::int64_t index);
  Object* (*frame)();  // borrowed
  Object* (*frame_code)(Object*);  // new reference
  Object* (*frame_previous)(Object*);  // new reference
  int (*frame_line)(Object*);
  Object* (*attribute)(Object*, const char*);  // new reference
  void (*retain)(Object*);
  void (*release)(Object*);
  const void* code_type;
  const Layout* layout;  // nullptr: no Python in this process, or not one that we know
};

const Layout* find_layout(const char* version) {
  for (const Layout& layout : kLayouts) {
    if (std::strncmp(version, layout.version, std::strlen(layout.version)) == 0) return &layout;
  }
  return nullptr;
}

template <typename Function>
bool find(Function& function, const char* name) {
  void* address = dlsym(RTLD_DEFAULT, name);
  std::memcpy(&function, &address, sizeof address);
  return address != nullptr;
}

Api load_api() {
  Api api{};
  const char* (*version)() = nullptr;
  const bool complete =
      find(version, "Py_GetVersion") && find(api.is_initialized, "Py_IsInitialized") &&
      find(api.thread_state, "PyGILState_GetThisThreadState") && find(api.holds_gil, "PyGILState_Check") &&
      find(api.line_of_offset, "PyCode_Addr2Line") && find(api.text_length, "PyUnicode_GetLength") &&
      find(api.text_character, "PyUnicode_ReadChar") && find(api.frame, "PyEval_GetFrame") &&
      find(api.frame_code, "PyFrame_GetCode") && find(api.frame_previous, "PyFrame_GetBack") &&
      find(api.frame_line, "PyFrame_GetLineNumber") && find(api.attribute, "PyObject_GetAttrString") &&
      find(api.retain, "Py_IncRef") && find(api.release, "Py_DecRef") && find(api.code_type, "PyCode_Type");
  if (complete) api.layout = find_layout(version());
  return api;
}

const Api& api() {
  static const Api loaded = load_api();
  return loaded;
}

// How memory is read: at once, or through the kernel, which answers an error where a wrong layout would crash.
struct Direct {
  static bool read(const void* address, void* out, std::size_t bytes) noexcept {
    std::memcpy(out, address, bytes);
    return true;
  }
};

struct Checked {
  static bool read(const void* address, void* out, std::size_t bytes) noexcept {
    const iovec to{out, bytes};
    const iovec from{const_cast<void*>(address), bytes};
    return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == static_cast<ssize_t>(bytes);
  }
};

template <typename Reader, typename Value>
bool read(const void* base, std::size_t offset, Value& out) noexcept {
  return base != nullptr && Reader::read(static_cast<const char*>(base) + offset, &out, sizeof out);
}

template <typename Reader>
const void* innermost_frame() noexcept {
  const Layout& layout = *api().layout;
  const void* frame = nullptr;
  if (!read<Reader>(api().thread_state(), layout.thread_frames, frame)) return nullptr;
  if (layout.cframe_current < 0) return frame;
  const void* cframe = frame;
  return read<Reader>(cframe, static_cast<std::size_t>(layout.cframe_current), frame) ? frame : nullptr;
}

template <typename Reader>
bool read_offset(const void* frame, const void* code, std::ptrdiff_t& offset) noexcept {
  const Layout& layout = *api().layout;
  if (layout.code_instructions < 0) {
    int number = 0;
    if (!read<Reader>(frame, layout.frame_instruction, number)) return false;
    offset = std::ptrdiff_t{number} * 2;
    return true;
  }
  const char* instruction = nullptr;
  if (!read<Reader>(frame, layout.frame_instruction, instruction)) return false;
  offset = instruction - (static_cast<const char*>(code) + layout.code_instructions);
  return true;
}

// Moves `frame` to the next frame of the program and describes it. False at the end of the chain.
template <typename Reader>
bool next_frame(const void*& frame, Frame& out) noexcept {
  const Layout& layout = *api().layout;
  for (std::size_t depth = 0; frame != nullptr && depth < kDeepest; ++depth) {
    const void* const here = out.place = frame;
    if (!read<Reader>(here, layout.frame_previous, frame)) return false;
    char owner = 0;
    if (layout.frame_owner >= 0 && !read<Reader>(here, static_cast<std::size_t>(layout.frame_owner), owner)) {
      return false;
    }
    const void* type = nullptr;
    if (!read<Reader>(here, layout.frame_code, out.code) || !read<Reader>(out.code, kObjectType, type)) return false;
    if (owner == kOwnedByCStack || type != api().code_type) continue;
    return read<Reader>(out.code, layout.code_file, out.file) && read_offset<Reader>(here, out.code, out.offset);
  }
  return false;
}

const void* member(const Frame& frame, std::size_t offset) noexcept {
  const void* object = nullptr;
  std::memcpy(&object, static_cast<const char*>(frame.code) + offset, sizeof object);
  return object;
}

const void* function_name(const Frame& frame) noexcept { return member(frame, api().layout->code_name); }
const void* line_table(const Frame& frame) noexcept { return member(frame, api().layout->code_line_table); }

// Whether attribute `name` of a code object is the object at `expected`.
bool is_attribute(Object* code, const char* name, const void* expected) {
  Object* const value = api().attribute(code, name);
  if (value == nullptr) return false;
  api().release(value);
  return value == expected;
}

// Compares the layout's account of this thread's frames with the interpreter's own. Needs the GIL.
bool layout_holds() {
  const void* place = innermost_frame<Checked>();
  Object* frame = api().frame();
  api().retain(frame);
  bool same = true;
  while (same && frame != nullptr) {
    Frame ours{};
    Object* const code = api().frame_code(frame);
    same = next_frame<Checked>(place, ours) && ours.code == code && line_of(ours) == api().frame_line(frame) &&
           is_attribute(code, "co_filename", ours.file) && is_attribute(code, "co_name", function_name(ours)) &&
           is_attribute(code, "co_linetable", line_table(ours));
    api().release(code);
    Object* const previous = api().frame_previous(frame);
    api().release(frame);
    frame = previous;
  }
  if (frame != nullptr) api().release(frame);
  Frame beyond{};
  return same && !next_frame<Checked>(place, beyond);
}

enum class Trust : int { Unchecked, Trusted, Refused };

bool is_trusted() {
  static std::atomic<Trust> trust{Trust::Unchecked};
  Trust now = trust.load(std::memory_order_relaxed);
  if (now == Trust::Unchecked && api().holds_gil() != 0 && api().frame() != nullptr) {
    now = layout_holds() ? Trust::Trusted : Trust::Refused;
    trust.store(now, std::memory_order_relaxed);
  }
  return now == Trust::Trusted;
}

// A thread state may be gone once the interpreter has ended.
bool has_thread_state() noexcept {
  return api().layout != nullptr && api().is_initialized() != 0 && api().thread_state() != nullptr;
}

bool on_main_thread() noexcept {
  static thread_local const bool answer = gettid() == getpid();
  return answer;
}

// As an interpreter ends, it frees the states and frames of threads other than the main one, which may be here.
std::atomic<int> other_walks{0};
std::atomic<bool> walks_are_over{false};

// UTF-8 of a str, through functions that only read it.
std::string text_of(const void* object) {
  Object* const text = const_cast<void*>(object);
  std::string utf8;
  const std::int64_t length = api().text_length(text);
  for (std::int64_t index = 0; index < length; ++index) {
    const std::uint32_t c = api().text_character(text, index);
    const auto continuation = [c](int shift) { return static_cast<char>(0x80 | ((c >> shift) & 0x3f)); };
    if (c < 0x80) {
      utf8 += static_cast<char>(c);
    } else if (c < 0x800) {
      utf8 += {static_cast<char>(0xc0 | (c >> 6)), continuation(0)};
    } else if (c < 0x10000) {
      utf8 += {static_cast<char>(0xe0 | (c >> 12)), continuation(6), continuation(0)};
    } else {
      utf8 += {static_cast<char>(0xf0 | (c >> 18)), continuation(12), continuation(6), continuation(0)};
    }
  }
  return utf8;
}

}  // namespace

std::string stack_description() {
  if (!on_main_thread() || !has_thread_state() || !is_trusted()) return "";
  const Layout& layout = *api().layout;
  std::string json = "{";
  const auto add = [&json](const char* name, auto value) {
    if (json.size() > 1) json += ", ";
    json += std::string("\"") + name + "\": " + std::to_string(value);
  };
  add("thread", reinterpret_cast<std::uintptr_t>(api().thread_state()));
  add("code_type", reinterpret_cast<std::uintptr_t>(api().code_type));
  add("thread_frames", layout.thread_frames);
  add("cframe_current", layout.cframe_current);
  add("frame_code", layout.frame_code);
  add("frame_previous", layout.frame_previous);
  add("frame_instruction", layout.frame_instruction);
  add("frame_owner", layout.frame_owner);
  add("code_instructions", layout.code_instructions);
  add("code_file", layout.code_file);
  add("code_name", layout.code_name);
  add("code_first_line", layout.code_first_line);
  add("code_line_table", layout.code_line_table);
  add("text_ascii", layout.text_ascii);
  add("text_wide", layout.text_wide);
  return json + "}";
}

void end_other_walks() noexcept {
  walks_are_over.store(true);
  while (other_walks.load() != 0) sched_yield();
}

Walk::Walk() noexcept : frame_(nullptr), counted_(!on_main_thread()) {
  if (counted_) {
    other_walks.fetch_add(1);
    if (walks_are_over.load()) return;
  }
  if (has_thread_state() && is_trusted()) frame_ = innermost_frame<Direct>();
}

Walk::~Walk() noexcept {
  if (counted_) other_walks.fetch_sub(1);
}

const Frame* Walk::next() noexcept {
  return frame_ != nullptr && next_frame<Direct>(frame_, current_) ? &current_ : nullptr;
}

std::ptrdiff_t code_in_frame() noexcept {
  return api().layout == nullptr ? -1 : static_cast<std::ptrdiff_t>(api().layout->frame_code);
}

const void* first_local(const Frame& frame) noexcept {
  const void* local = nullptr;
  std::memcpy(&local, static_cast<const char*>(frame.place) + api().layout->frame_locals, sizeof local);
  return local;
}

std::uint64_t fingerprint_of(const Frame& frame) noexcept {
  const auto* const table = static_cast<const char*>(line_table(frame));
  int first_line = 0;
  std::memcpy(&first_line, static_cast<const char*>(frame.code) + api().layout->code_first_line, sizeof first_line);
  std::uint64_t length = 0, begin = 0, end = 0;
  std::memcpy(&length, table + kBytesLength, sizeof length);
  if (length >= sizeof begin) {
    std::memcpy(&begin, table + kBytes, sizeof begin);
    std::memcpy(&end, table + kBytes + length - sizeof end, sizeof end);
  } else {
    std::memcpy(&begin, table + kBytes, length);
  }
  std::uint64_t mixed = reinterpret_cast<std::uintptr_t>(function_name(frame));
  for (const std::uint64_t one : {static_cast<std::uint64_t>(first_line), length, begin, end})
    mixed = (mixed ^ one) * 0x9e3779b97f4a7c15;  // any odd number
  return mixed;
}

std::string file_of(const Frame& frame) { return text_of(frame.file); }

std::string function_of(const Frame& frame) { return text_of(function_name(frame)); }

int line_of(const Frame& frame) noexcept {
  return api().line_of_offset(const_cast<void*>(frame.code), static_cast<int>(frame.offset));
}

}  // namespace ph::python
