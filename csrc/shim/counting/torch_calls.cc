// Counts what PyTorch does, at functions of its libraries that it calls across its own symbol tables: ours come first,
// count, and go on to PyTorch's. None of its types is looked into: what comes in registers goes on in registers.
//
// The dispatcher asks for the callbacks of profilers before every operator, and autograd before every node; the answer is
// returned through a pointer. Source: aten/src/ATen/core/dispatch/Dispatcher.h, torch/csrc/autograd/function.h,
// c10/core/TensorImpl.h and torch/csrc/utils/python_arg_parser.h.
#include <atomic>
#include <cstdint>
#include <string>

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

}  // namespace

extern "C" {

// std::optional<at::StepCallbacks> at::getStepCallbacksUnlessEmpty(at::RecordScope)
PH_EXPORT void* _ZN2at27getStepCallbacksUnlessEmptyENS_11RecordScopeE(void* result, int scope) {
  static constinit TorchFunction<void*(void*, int)> next{"libtorch_cpu.so",
                                                         "_ZN2at27getStepCallbacksUnlessEmptyENS_11RecordScopeE"};
  if (scope == kFunction) ph::count_dispatch();
  else if (scope == kBackwardFunction) ph::count(ph::Work::Node);
  return next()(result, scope);
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
  ph::count_wrap();
  return next()(tensor);
}
PH_EXPORT void* _Z16THPVariable_WrapON2at10TensorBaseE(void* tensor) {
  static constinit TorchFunction<void*(void*)> next{"libtorch_python.so", "_Z16THPVariable_WrapON2at10TensorBaseE"};
  ph::count_wrap();
  return next()(tensor);
}
}
