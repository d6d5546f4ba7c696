// Tensors that PyTorch makes in memory that is not its own: from_blob, __cuda_array_interface__, DLPack.
#include "shim/core/api.h"
#include "shim/core/device.h"
#include "shim/core/failure.h"
#include "shim/values/pytorch.h"

namespace ph {

constexpr const char* kMakeTensor = "_ZN2at11TensorMaker11make_tensorEv";

// at::Tensor: one pointer, which is returned in memory because it has a destructor. Nothing of it is destroyed here.
struct Tensor {
  ~Tensor() {}
  void* implementation;
};

// at::TensorMaker begins with the address of the memory. Source: aten/src/ATen/templates/Functions.h, the same from 2.5 to
// 2.15.
struct Maker {
  void* memory;
};

using MakeTensor = Tensor (*)(Maker*);

static MakeTensor make_tensor() noexcept {
  static const auto function = reinterpret_cast<MakeTensor>(pytorch_function("libtorch_cpu.so", kMakeTensor));
  return function;
}

bool hears_of_tensors() noexcept { return make_tensor() != nullptr; }

}  // namespace ph

// at::TensorMaker::make_tensor(): all of PyTorch's libraries and extensions call it through their symbol tables. It throws.
extern "C" PH_EXPORT ph::Tensor _ZN2at11TensorMaker11make_tensorEv(ph::Maker* maker) {
  const auto make = ph::make_tensor();
  if (make == nullptr) ph::fail_internal("at::TensorMaker::make_tensor is called, but not in libtorch_cpu.so");
  ph::show_to_device(maker->memory);
  return make(maker);
}
