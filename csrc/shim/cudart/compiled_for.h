// For which GPUs a kernel was compiled: what cudaFuncGetAttributes tells of its code.
#pragma once

namespace ph::cudart {

// As in cudaFuncAttributes: ten times the major and one time the minor number.
struct CodeVersions {
  int ptx;
  int binary;
};

// Of the code that a GPU of this compute capability runs. `wrapper`: what __cudaRegisterFatBinary got. Where there is no
// code for it, or none that can be found, as if it had been compiled for this GPU.
CodeVersions compiled_for(const void* wrapper, int capability) noexcept;

}  // namespace ph::cudart
