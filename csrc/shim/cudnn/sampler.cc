// Bilinear samples of images at the points of a grid, and the gradients of images and grid in one call.
#include "shim/calls/library.h"
#include "shim/cudnn/context.h"
#include "shim/launch/work.h"
#include "shim/values/values.h"

using namespace ph;
using namespace ph::cudnn;

namespace {

constexpr int kRank = 4;         // batch, channels, height, width
constexpr int kCoordinates = 2;  // of a point

// What the samples are like.
struct Sampler {
  int data_type = -1;
  Sizes sizes;
};

constinit HandleTable<Sampler> samplers(HandleTag::Sampler);

struct SamplingCall {
  cudnnHandle_t context;
  cudnnSpatialTransformerDescriptor_t sampler;
  cudnnTensorDescriptor_t images, samples;  // or gradients of these
};

cudnnStatus_t check(const SamplingCall& call) noexcept {
  if (!contexts.get(call.context)) return CUDNN_STATUS_NOT_INITIALIZED;
  const Sampler* sampler = samplers.get(call.sampler);
  const Tensor *images = tensors.get(call.images), *samples = tensors.get(call.samples);
  if (!sampler || !images || !samples || !images->has_rank(kRank)) return CUDNN_STATUS_BAD_PARAM;
  if (samples->sizes != sampler->sizes || samples->data_type != sampler->data_type) return CUDNN_STATUS_BAD_PARAM;
  const bool alike = images->sizes[0] == samples->sizes[0] && images->sizes[1] == samples->sizes[1];
  return alike && images->data_type == samples->data_type ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t record(const char* operation, const SamplingCall& call, std::int64_t images_moved,
                     std::int64_t grids_moved, std::initializer_list<const void*> written) {
  const StreamRef stream = resolve_stream(contexts.get(call.context)->stream);
  if (!stream.valid) return CUDNN_STATUS_EXECUTION_FAILED;
  const Tensor &images = *tensors.get(call.images), &samples = *tensors.get(call.samples);
  const std::int64_t points = product_of(samples.sizes, 2), batch = samples.sizes[0];
  const std::int64_t grid_bytes = batch * points * kCoordinates * type_bytes(samples.data_type);
  emit_kernel(stream, payloads::Sampling{
                          .operation = operation,
                          .type = type_name(samples.data_type),
                          .batch = batch,
                          .channels = samples.sizes[1],
                          .pixels = product_of(images.sizes, 2),
                          .points = points,
                          .bytes = images_moved * images.bytes() + samples.bytes() + grids_moved * grid_bytes,
                      });
  forget_reached(written);
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

PH_EXPORT cudnnStatus_t cudnnCreateSpatialTransformerDescriptor(cudnnSpatialTransformerDescriptor_t* sampler) noexcept {
  PH_CALL(cudnnCreateSpatialTransformerDescriptor);
  if (!sampler) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  *sampler = static_cast<cudnnSpatialTransformerDescriptor_t>(samplers.create());
  return *sampler ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
}

PH_EXPORT cudnnStatus_t cudnnDestroySpatialTransformerDescriptor(cudnnSpatialTransformerDescriptor_t sampler) noexcept {
  PH_CALL(cudnnDestroySpatialTransformerDescriptor);
  return samplers.destroy(sampler) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

PH_EXPORT cudnnStatus_t cudnnSetSpatialTransformerNdDescriptor(cudnnSpatialTransformerDescriptor_t handle,
                                                               cudnnSamplerType_t kind, cudnnDataType_t type,
                                                               const int dimensions, const int sizes[]) noexcept {
  PH_CALL(cudnnSetSpatialTransformerNdDescriptor);
  Sampler* sampler = samplers.get(handle);
  if (!sampler || !sizes || kind != CUDNN_SAMPLER_BILINEAR) return CUDNN_STATUS_BAD_PARAM;
  if (dimensions != kRank) return CUDNN_STATUS_NOT_SUPPORTED;
  *sampler = {type, Sizes(sizes, sizes + dimensions)};
  return CUDNN_STATUS_SUCCESS;
}

PH_EXPORT cudnnStatus_t cudnnSpatialTfSamplerForward(cudnnHandle_t handle, cudnnSpatialTransformerDescriptor_t sampler,
                                                     const void* alpha, const cudnnTensorDescriptor_t x,
                                                     const void* x_data, const void* grid, const void* beta,
                                                     cudnnTensorDescriptor_t y, void* y_data) noexcept {
  PH_CALL(cudnnSpatialTfSamplerForward, HostCost::Library);
  const SamplingCall call = {handle, sampler, x, y};
  const cudnnStatus_t status = check(call);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (!alpha || !beta || !x_data || !grid || !y_data) return CUDNN_STATUS_BAD_PARAM;
  return record("sampling_forward", call, 1, 1, {y_data});
}

PH_EXPORT cudnnStatus_t cudnnSpatialTfSamplerBackward(cudnnHandle_t handle, cudnnSpatialTransformerDescriptor_t sampler,
                                                      const void* alpha, const cudnnTensorDescriptor_t x,
                                                      const void* x_data, const void* beta,
                                                      const cudnnTensorDescriptor_t dx, void* dx_data,
                                                      const void* alpha_of_grid, const cudnnTensorDescriptor_t dy,
                                                      const void* dy_data, const void* grid, const void* beta_of_grid,
                                                      void* dgrid_data) noexcept {
  PH_CALL(cudnnSpatialTfSamplerBackward, HostCost::Library);
  const SamplingCall call = {handle, sampler, x, dy};
  const cudnnStatus_t status = check(call);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  const Tensor* gradients = tensors.get(dx);
  if (!gradients || gradients->sizes != tensors.get(x)->sizes) return CUDNN_STATUS_BAD_PARAM;
  if (!alpha || !beta || !alpha_of_grid || !beta_of_grid) return CUDNN_STATUS_BAD_PARAM;
  if (!x_data || !dx_data || !dy_data || !grid || !dgrid_data) return CUDNN_STATUS_BAD_PARAM;
  return record("sampling_backward", call, 2, 2, {dx_data, dgrid_data});
}

}  // extern "C"
