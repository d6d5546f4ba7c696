/* covers: cudnnCreateSpatialTransformerDescriptor cudnnDestroySpatialTransformerDescriptor
   cudnnSetSpatialTransformerNdDescriptor cudnnSpatialTfSamplerForward cudnnSpatialTfSamplerBackward */
#include "program.h"
#include "shim/cudnn/cudnn_types.h"

typedef cudnnTensorDescriptor_t Tensor;
typedef cudnnSpatialTransformerDescriptor_t Sampler;

cudnnStatus_t cudnnCreate(cudnnHandle_t*);
cudnnStatus_t cudnnCreateTensorDescriptor(Tensor*);
cudnnStatus_t cudnnSetTensorNdDescriptor(Tensor, cudnnDataType_t, int, const int*, const int*);
cudnnStatus_t cudnnCreateSpatialTransformerDescriptor(Sampler*);
cudnnStatus_t cudnnDestroySpatialTransformerDescriptor(Sampler);
cudnnStatus_t cudnnSetSpatialTransformerNdDescriptor(Sampler, cudnnSamplerType_t, cudnnDataType_t, int, const int*);
cudnnStatus_t cudnnSpatialTfSamplerForward(cudnnHandle_t, Sampler, const void*, Tensor, const void*, const void*,
                                           const void*, Tensor, void*);
cudnnStatus_t cudnnSpatialTfSamplerBackward(cudnnHandle_t, Sampler, const void*, Tensor, const void*, const void*,
                                            Tensor, void*, const void*, Tensor, const void*, const void*, const void*,
                                            void*);

#define OK(call) REQUIRE(call, CUDNN_STATUS_SUCCESS)

enum { kBatch = 2, kChannels = 3, kImage = 8, kSide = 4 };

static Tensor make_tensor(int side) {
  const int sizes[4] = {kBatch, kChannels, side, side}, strides[4] = {kChannels * side * side, side * side, side, 1};
  Tensor tensor;
  OK(cudnnCreateTensorDescriptor(&tensor));
  OK(cudnnSetTensorNdDescriptor(tensor, CUDNN_DATA_FLOAT, 4, sizes, strides));
  return tensor;
}

static void* make_data(size_t elements) {
  void* data;
  CHECK(cudaMalloc(&data, elements * sizeof(float)) == cudaSuccess);
  CHECK(cudaMemset(data, 0, elements * sizeof(float)) == cudaSuccess);
  return data;
}

int main(void) {
  const int sizes[4] = {kBatch, kChannels, kSide, kSide};
  const float one = 1, zero = 0;
  cudnnHandle_t handle;
  Sampler sampler;
  OK(cudnnCreate(&handle));
  OK(cudnnCreateSpatialTransformerDescriptor(&sampler));
  OK(cudnnSetSpatialTransformerNdDescriptor(sampler, CUDNN_SAMPLER_BILINEAR, CUDNN_DATA_FLOAT, 4, sizes));
  Tensor x = make_tensor(kImage), y = make_tensor(kSide);
  void *images = make_data(kBatch * kChannels * kImage * kImage), *grid = make_data(kBatch * kSide * kSide * 2);
  void *samples = make_data(kBatch * kChannels * kSide * kSide), *of_grid = make_data(kBatch * kSide * kSide * 2);
  void* of_images = make_data(kBatch * kChannels * kImage * kImage);
  OK(cudnnSpatialTfSamplerForward(handle, sampler, &one, x, images, grid, &zero, y, samples));
  OK(cudnnSpatialTfSamplerBackward(handle, sampler, &one, x, images, &zero, x, of_images, &one, y, samples, grid, &zero,
                                   of_grid));
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
#ifdef PHANTORA_MODEL
  EXPECT(cudnnSpatialTfSamplerForward(handle, sampler, &one, x, images, grid, &zero, x, samples),
         CUDNN_STATUS_BAD_PARAM);
  EXPECT(cudnnSpatialTfSamplerForward(handle, sampler, &one, x, NULL, grid, &zero, y, samples), CUDNN_STATUS_BAD_PARAM);
  EXPECT(cudnnSpatialTfSamplerBackward(handle, sampler, &one, x, images, &zero, y, of_images, &one, y, samples, grid,
                                       &zero, of_grid),
         CUDNN_STATUS_BAD_PARAM);
#endif
  OK(cudnnDestroySpatialTransformerDescriptor(sampler));
  return differences;
}
