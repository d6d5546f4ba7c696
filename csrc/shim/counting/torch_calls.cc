// Counts what PyTorch does, at functions of its libraries that it calls across its own symbol tables: ours come first,
// count, and go on to PyTorch's. Of its types only one word is looked into, the Python object of a tensor, and where that is
// it tells itself (ph_find_object_of_tensor): what comes in registers goes on in registers.
//
// The dispatcher asks for the callbacks of profilers before every operator, and autograd before every node; the answer is
// returned through a pointer. Source: aten/src/ATen/core/dispatch/Dispatcher.h, torch/csrc/autograd/function.h,
// c10/core/TensorImpl.h and torch/csrc/utils/python_arg_parser.h.
#include <atomic>
#include <cstdint>
#include <string>
#include <unordered_set>

#include <dlfcn.h>

#include "shim/core/api.h"
#include "shim/core/failure.h"
#include "shim/host_time/work.h"

namespace {

// RecordScope of ATen/record_function.h.
constexpr int kFunction = 0;
constexpr int kBackwardFunction = 1;

// PyTorch's libraries are not in the global scope, where RTLD_NEXT would look.
void* find_in(const char* library, const char* symbol) noexcept {
  void* const handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
  void* const found = handle == nullptr ? nullptr : dlsym(handle, symbol);
  if (found == nullptr) ph::fail_internal(std::string(library) + " has called " + symbol + " and does not export it");
  return found;
}

template <class Function>
class TorchFunction {
 public:
  constexpr TorchFunction(const char* library, const char* symbol) : library_(library), symbol_(symbol) {}

  Function* operator()() noexcept {
    void* address = address_.load(std::memory_order_relaxed);
    if (address == nullptr) {
      address = find_in(library_, symbol_);
      address_.store(address, std::memory_order_relaxed);
    }
    return reinterpret_cast<Function*>(address);
  }

 private:
  const char* library_;
  const char* symbol_;
  std::atomic<void*> address_{nullptr};
};

constexpr std::size_t kTensorWords = 24;  // of TensorImpl, at least so many
std::atomic<std::size_t> object_word{kTensorWords};  // where it has its Python object; kTensorWords: not known yet

bool has_object(const void* tensor) noexcept {
  const std::size_t word = object_word.load(std::memory_order_relaxed);
  return word < kTensorWords && static_cast<const std::uintptr_t*>(tensor)[word] != 0;
}

// Tensors that got their object because a kernel of ours asked for it: the program gets them as new ones.
thread_local std::unordered_set<const void*> made_for_kernel;

// `wrap` gives it to Python. An undefined tensor becomes None, which takes nothing.
template <class Wrap>
void* count_wrap(void* tensor, Wrap* wrap) {
  const void* const made = *static_cast<void**>(tensor);  // a c10::intrusive_ptr<TensorImpl>
  const bool had_object = has_object(made);
  void* const object = wrap(tensor);
  if (!had_object && !has_object(made)) return object;
  if (ph::thread_work.kernels == 0) ph::count_given(!had_object || made_for_kernel.erase(made) != 0);
  else if (!had_object) made_for_kernel.insert(made);
  return object;
}

}  // namespace

extern "C" {

// Looks in a tensor for its own Python object. Releases before 2.10 mark the pointer in its low bits. 0: not found.
PH_EXPORT int ph_find_object_of_tensor(const void* tensor, std::uintptr_t object) {
  constexpr std::uintptr_t kMarks = 7;
  const auto* const words = static_cast<const std::uintptr_t*>(tensor);
  for (std::size_t word = 0; word < kTensorWords; ++word) {
    if ((words[word] & ~kMarks) != object) continue;
    object_word.store(word, std::memory_order_relaxed);
    return 1;
  }
  return 0;
}

// std::optional<at::StepCallbacks> at::getStepCallbacksUnlessEmpty(at::RecordScope)
PH_EXPORT void* _ZN2at27getStepCallbacksUnlessEmptyENS_11RecordScopeE(void* result, int scope) {
  static constinit TorchFunction<void*(void*, int)> next{"libtorch_cpu.so",
                                                         "_ZN2at27getStepCallbacksUnlessEmptyENS_11RecordScopeE"};
  // What the last operator made has been given.
  if (ph::thread_work.kernels == 0 && !made_for_kernel.empty()) made_for_kernel.clear();
  if (scope == kFunction) ph::count_dispatch();
  else if (scope == kBackwardFunction) ph::count(ph::Work::Node);
  return next()(result, scope);
}

// variable_list torch::autograd::Engine::execute(const edge_list& roots, const variable_list& inputs, bool keep_graph, bool
// create_graph, bool accumulate_grad, const edge_list& outputs)
PH_EXPORT void* _ZN5torch8autograd6Engine7executeERKSt6vectorINS0_4EdgeESaIS3_EERKS2_IN2at6TensorESaIS9_EEbbbS7_(
    void* result, void* engine, void* roots, void* inputs, bool keep, bool create, bool accumulate, void* outputs) {
  static constinit TorchFunction<void*(void*, void*, void*, void*, bool, bool, bool, void*)> next{
      "libtorch_cpu.so",
      "_ZN5torch8autograd6Engine7executeERKSt6vectorINS0_4EdgeESaIS3_EERKS2_IN2at6TensorESaIS9_EEbbbS7_"};
  ph::count(ph::Work::Backward);
  return next()(result, engine, roots, inputs, keep, create, accumulate, outputs);
}

// c10::TensorImpl::TensorImpl(c10::Storage&&, c10::DispatchKeySet, caffe2::TypeMeta)
PH_EXPORT void _ZN3c1010TensorImplC1EONS_7StorageENS_14DispatchKeySetEN6caffe28TypeMetaE(void* self, void* storage,
                                                                                         std::uint64_t keys,
                                                                                         std::uint64_t type) {
  static constinit TorchFunction<void(void*, void*, std::uint64_t, std::uint64_t)> next{
      "libc10.so", "_ZN3c1010TensorImplC1EONS_7StorageENS_14DispatchKeySetEN6caffe28TypeMetaE"};
  ph::count(ph::Work::Tensor);
  next()(self, storage, keys, type);
}

// c10::TensorImpl::TensorImpl(c10::TensorImpl::ImplType, c10::Storage&&, c10::DispatchKeySet, caffe2::TypeMeta): views
PH_EXPORT void _ZN3c1010TensorImplC1ENS0_8ImplTypeEONS_7StorageENS_14DispatchKeySetEN6caffe28TypeMetaE(
    void* self, std::uint64_t kind, void* storage, std::uint64_t keys, std::uint64_t type) {
  static constinit TorchFunction<void(void*, std::uint64_t, void*, std::uint64_t, std::uint64_t)> next{
      "libc10.so", "_ZN3c1010TensorImplC1ENS0_8ImplTypeEONS_7StorageENS_14DispatchKeySetEN6caffe28TypeMetaE"};
  ph::count(ph::Work::View);
  next()(self, kind, storage, keys, type);
}

// torch::PythonArgs torch::PythonArgParser::raw_parse(PyObject* self, PyObject* args, PyObject* kwargs, PyObject** parsed),
// in front of every function of PyTorch that takes arguments from Python.
PH_EXPORT void* _ZN5torch15PythonArgParser9raw_parseEP7_objectS2_S2_PS2_(void* result, void* parser, void* self,
                                                                         void* args, void* kwargs, void* parsed) {
  static constinit TorchFunction<void*(void*, void*, void*, void*, void*, void*)> next{
      "libtorch_python.so", "_ZN5torch15PythonArgParser9raw_parseEP7_objectS2_S2_PS2_"};
  ph::count_python(ph::Work::Binding);
  return next()(result, parser, self, args, kwargs, parsed);
}

// PyObject* THPVariable_Wrap(const at::TensorBase&), and the same of a tensor that is given away.
PH_EXPORT void* _Z16THPVariable_WrapRKN2at10TensorBaseE(void* tensor) {
  static constinit TorchFunction<void*(void*)> next{"libtorch_python.so", "_Z16THPVariable_WrapRKN2at10TensorBaseE"};
  return count_wrap(tensor, next());
}
PH_EXPORT void* _Z16THPVariable_WrapON2at10TensorBaseE(void* tensor) {
  static constinit TorchFunction<void*(void*)> next{"libtorch_python.so", "_Z16THPVariable_WrapON2at10TensorBaseE"};
  return count_wrap(tensor, next());
}
}
