// Counts calls of Python functions, by the interpreter's own hook for them (PEP 523): 13 ns a call, where a profile
// function takes 80 and doubles the time of the bytecode between calls. No Python header is included: of a frame only the
// place of its code object is known, by version (python/python_layout.cc).
//
// Not every function counts, by the rules below: our own, and what need not be the same at every run.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include <dlfcn.h>

#include "shim/core/api.h"
#include "shim/core/failure.h"
#include "shim/host_time/work.h"
#include "shim/python/python_layout.h"

namespace ph {

namespace {

using Object = void;  // PyObject
using Evaluate = Object*(void* thread, void* frame, int throws);

enum class Rule : std::uint8_t {
  Counted,
  NotItself,  // what it calls counts
  Kernel,  // ours in the place of one of PyTorch's: what that does counts, but not that Python calls it
  LeftOut,  // nothing that it calls counts either
};

// Where a function is; nullptr: any of the file's.
struct RuleOf {
  std::string_view file;  // a part of its path
  const char* function;
  Rule rule;
};

// A dictionary compares keys whose hashes collide, which depends on addresses and on the hash seed. An abstract class asks
// all its subclasses, of which there are more when more is imported. What dies with the last reference to it dies on
// whatever thread had that. Imports differ from run to run by what is compiled already and what the forked parent has
// imported; messages and stack traces by where and how the rank was started; work with files, by what was there before;
// with the environment, which is a mapping, by how many variables it has; compilers, by what is in their caches; waits, by
// how far others are.
// docs/decisions/host-time.md says what that leaves out.
constexpr RuleOf kRules[] = {
    {"", "__eq__", Rule::LeftOut},
    {"<frozen abc>", "__subclasscheck__", Rule::LeftOut},
    {"/abc.py", "__subclasscheck__", Rule::LeftOut},
    {"", "__del__", Rule::LeftOut},
    {"/_weakrefset.py", "_remove", Rule::LeftOut},
    {"/weakref.py", nullptr, Rule::LeftOut},
    {"/phantora_py/calibrate/", nullptr, Rule::Counted},  // a program
    {"/phantora_py/rank/operators.py", "in_its_place", Rule::Kernel},
    {"/phantora_py/", nullptr, Rule::NotItself},
    {"<frozen importlib", nullptr, Rule::LeftOut},
    {"<frozen zipimport", nullptr, Rule::LeftOut},
    {"/importlib/", nullptr, Rule::LeftOut},
    {"<frozen _collections_abc>", nullptr, Rule::NotItself},
    {"/_collections_abc.py", nullptr, Rule::NotItself},
    {"<frozen os>", nullptr, Rule::LeftOut},
    {"/os.py", nullptr, Rule::LeftOut},
    {"posixpath", nullptr, Rule::LeftOut},
    {"genericpath", nullptr, Rule::LeftOut},
    {"/pathlib", nullptr, Rule::LeftOut},
    {"/glob.py", nullptr, Rule::LeftOut},
    {"/shutil.py", nullptr, Rule::LeftOut},
    {"/tempfile.py", nullptr, Rule::LeftOut},
    {"/linecache.py", nullptr, Rule::LeftOut},
    {"/logging/", nullptr, Rule::LeftOut},
    {"/torch/_logging/", nullptr, Rule::LeftOut},
    {"/traceback.py", nullptr, Rule::LeftOut},
    {"/inspect.py", "getmodule", Rule::LeftOut},  // looks through all that is imported
    {"/inspect.py", "getouterframes", Rule::LeftOut},  // a stack trace
    {"/warnings.py", nullptr, Rule::LeftOut},
    {"/re/__init__.py", "compile", Rule::LeftOut},  // its cache has what others have compiled
    {"/re/__init__.py", "_compile", Rule::LeftOut},
    {"/re.py", "compile", Rule::LeftOut},  // up to 3.10
    {"/re.py", "_compile", Rule::LeftOut},
    {"/random.py", "getrandbits", Rule::LeftOut},  // of SystemRandom, until the machine gives a number that will do
    {"/signal.py", nullptr, Rule::LeftOut},
    {"/multiprocessing/", nullptr, Rule::LeftOut},
    {"/queue.py", nullptr, Rule::LeftOut},
    {"/asyncio/", nullptr, Rule::NotItself},  // how often its loop turns
    {"/concurrent/futures/", "wait", Rule::LeftOut},
    {"/concurrent/futures/", "as_completed", Rule::LeftOut},
    {"/concurrent/futures/", "_adjust_thread_count", Rule::LeftOut},  // if a thread of the pool has nothing to do
    {"/psutil/", nullptr, Rule::LeftOut},  // what else the machine does
    {"/selectors.py", nullptr, Rule::LeftOut},
    {"/socket.py", nullptr, Rule::LeftOut},
    {"/subprocess.py", nullptr, Rule::LeftOut},
    {"/threading.py", "wait", Rule::LeftOut},
    {"/threading.py", "wait_for", Rule::LeftOut},
    {"/threading.py", "acquire", Rule::LeftOut},
    {"/threading.py", "join", Rule::LeftOut},
    {"/torch/utils/data/dataloader.py", "_get_data", Rule::LeftOut},
    {"/torch/utils/data/dataloader.py", "_try_get_data", Rule::LeftOut},
    {"/torch/utils/data/dataloader.py", "_create_warning_msg", Rule::LeftOut},  // of a machine with few processors
    {"/torch/_dynamo/trace_rules.py", "clear_lru_cache", Rule::LeftOut},  // if that is imported
    {"/torch/_compile.py", "inner", Rule::NotItself},  // around torch.manual_seed, if Dynamo is imported
    {"/torch/_dynamo/decorators.py", nullptr, Rule::LeftOut},
    {"/torch/_dynamo/eval_frame.py", nullptr, Rule::NotItself},
    {"/torch/compiler/__init__.py", "is_exporting", Rule::LeftOut},
    {"/torch/compiler/__init__.py", "is_compiling", Rule::LeftOut},  // our hooks ask
    {"/torch/_dynamo/convert_frame.py", nullptr, Rule::LeftOut},
    {"/torch/_inductor/async_compile.py", nullptr, Rule::LeftOut},
    {"/torch/_inductor/codecache.py", nullptr, Rule::LeftOut},
    {"/triton/compiler/", nullptr, Rule::LeftOut},
    {"/triton/runtime/cache.py", nullptr, Rule::LeftOut},
};

Rule rule_of(std::string_view file, std::string_view function) {
  for (const RuleOf& one : kRules) {
    if (file.find(one.file) == std::string_view::npos) continue;
    if (one.function == nullptr || function == one.function) return one.rule;
  }
  return Rule::Counted;
}

struct Code : CountedFunction {
  Rule rule = Rule::Counted;
  std::uint32_t instructions = 0;
  bool is_module = false;
};

struct Api {
  void* (*interpreter)();
  Evaluate* (*get_evaluate)(void* interpreter);
  void (*set_evaluate)(void* interpreter, Evaluate*);
  std::ptrdiff_t (*request_index)(void (*free)(void*));
  int (*get_extra)(Object* code, std::ptrdiff_t index, void** extra);
  int (*set_extra)(Object* code, std::ptrdiff_t index, void* extra);
  Object* (*attribute)(Object*, const char*);  // new reference
  const char* (*text)(Object*);  // its own memory
  std::ptrdiff_t (*text_length)(Object*);
  long (*number)(Object*);
  int (*bytes)(Object*, char**, std::ptrdiff_t*);
  void (*release)(Object*);
  void (*clear_error)();
};

Api api;
Evaluate* next_evaluate;
std::ptrdiff_t extra_index;
std::size_t code_offset;

template <typename Function>
void find(Function& function, const char* name, const char* name_since_3_12 = nullptr) {
  void* address = dlsym(RTLD_DEFAULT, name);
  if (address == nullptr && name_since_3_12 != nullptr) address = dlsym(RTLD_DEFAULT, name_since_3_12);
  if (address == nullptr) fail_internal(std::string("this Python has no ") + name);
  std::memcpy(&function, &address, sizeof address);
}

void find_api() {
  find(api.interpreter, "PyInterpreterState_Get");
  find(api.get_evaluate, "_PyInterpreterState_GetEvalFrameFunc");
  find(api.set_evaluate, "_PyInterpreterState_SetEvalFrameFunc");
  find(api.request_index, "_PyEval_RequestCodeExtraIndex", "PyUnstable_Eval_RequestCodeExtraIndex");
  find(api.get_extra, "_PyCode_GetExtra", "PyUnstable_Code_GetExtra");
  find(api.set_extra, "_PyCode_SetExtra", "PyUnstable_Code_SetExtra");
  find(api.attribute, "PyObject_GetAttrString");
  find(api.text, "PyUnicode_AsUTF8");
  find(api.text_length, "PyUnicode_GetLength");
  find(api.number, "PyLong_AsLong");
  find(api.bytes, "PyBytes_AsStringAndSize");
  find(api.release, "Py_DecRef");
  find(api.clear_error, "PyErr_Clear");
}

class Attribute {
 public:
  Attribute(Object* of, const char* name) : object_(api.attribute(of, name)) {
    if (object_ == nullptr) fail_internal(std::string("a code object has no ") + name);
  }
  ~Attribute() { api.release(object_); }
  Attribute(const Attribute&) = delete;
  Attribute& operator=(const Attribute&) = delete;

  std::string text() const {
    const char* const utf8 = api.text(object_);
    if (utf8 == nullptr) api.clear_error();  // lone surrogates
    return utf8 == nullptr ? "?" : utf8;
  }
  long number() const { return api.number(object_); }
  Object* object() const { return object_; }

 private:
  Object* object_;
};

// Two bytes each; from 3.11 on those whose first is 0 are room for the interpreter's caches.
std::uint32_t count_instructions(Object* code) {
  const Attribute bytecode(code, "co_code");
  char* bytes = nullptr;
  std::ptrdiff_t size = 0;
  if (api.bytes(bytecode.object(), &bytes, &size) != 0) fail_internal("co_code is not bytes");
  std::uint32_t instructions = 0;
  for (std::ptrdiff_t at = 0; at < size; at += 2) instructions += bytes[at] != 0 ? 1 : 0;
  return instructions;
}

Code* describe(Object* code) {
  const std::string file = Attribute(code, "co_filename").text();
  const std::string name = Attribute(code, "co_name").text();
  auto* made = new Code;
  // That of a module, not of a class: it imports at first use.
  const bool may_import = name == "__getattr__" && Attribute(code, "co_argcount").number() == 1;
  made->rule = may_import ? Rule::LeftOut : rule_of(file, name);
  if (made->rule == Rule::Counted) {
    made->instructions = count_instructions(code);
    made->is_module = name == "<module>";
    made->name = file + ":" + std::to_string(Attribute(code, "co_firstlineno").number()) + " " + name;
    add_function(made);
  }
  api.set_extra(code, extra_index, made);
  return made;
}

Code* code_of(void* frame) {
  Object* code = nullptr;
  std::memcpy(&code, static_cast<const char*>(frame) + code_offset, sizeof code);
  void* extra = nullptr;
  api.get_extra(code, extra_index, &extra);
  return extra != nullptr ? static_cast<Code*>(extra) : describe(code);
}

// The first module whose code runs, but for those that are imported, is the program. How its rank was started ends there.
void begin_with(const Code& code) {
  static std::atomic<bool> begun{false};
  if (code.is_module && thread_work.left_out == 0 && !begun.exchange(true)) begin_work();
}

Object* evaluate(void* thread, void* frame, int throws) {
  Code* const code = code_of(frame);
  const bool is_for_kernel = code->rule == Rule::Counted && thread_work.kernels != 0;
  if (code->rule == Rule::NotItself || is_for_kernel) return next_evaluate(thread, frame, throws);
  if (code->rule == Rule::Kernel) {
    begin_kernel();
    Object* const result = next_evaluate(thread, frame, throws);
    end_kernel();
    return result;
  }
  if (code->rule == Rule::LeftOut) {
    begin_left_out();
    Object* const result = next_evaluate(thread, frame, throws);
    end_left_out();
    return result;
  }
  if (code->is_module) begin_with(*code);
  count(Work::Frame);
  count(Work::Instruction, code->instructions);
  OpenCall call{.function = code, .caller = thread_work.call};
  thread_work.call = &call;
  Object* const result = next_evaluate(thread, frame, throws);
  thread_work.call = call.caller;
  return result;
}

}  // namespace

}  // namespace ph

// For phantora_py/rank/counting.py, with the GIL held.
extern "C" {

// Calls of Python functions count from now on, on all threads. 0: not in this version of Python.
PH_EXPORT int ph_count_frames() {
  const std::ptrdiff_t offset = ph::python::code_in_frame();
  if (offset < 0) return 0;
  ph::code_offset = static_cast<std::size_t>(offset);
  ph::find_api();
  ph::extra_index = ph::api.request_index(nullptr);
  if (ph::extra_index < 0) return 0;
  void* const interpreter = ph::api.interpreter();
  ph::next_evaluate = ph::api.get_evaluate(interpreter);
  ph::api.set_evaluate(interpreter, ph::evaluate);
  return 1;
}

// Garbage collection, whose callbacks Python calls with "start" and "stop": when it comes depends on all threads.
PH_EXPORT void ph_collect_garbage(void* phase, void*) {
  if (ph::api.text_length(phase) == 5) ph::begin_left_out();
  else ph::end_left_out();
}
}
