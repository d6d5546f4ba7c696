/* covers: cudnnCreateDropoutDescriptor cudnnSetDropoutDescriptor cudnnRestoreDropoutDescriptor
   cudnnDestroyDropoutDescriptor cudnnDropoutGetStatesSize cudnnCreateRNNDescriptor cudnnSetRNNDescriptor_v8
   cudnnDestroyRNNDescriptor cudnnCreateRNNDataDescriptor cudnnSetRNNDataDescriptor cudnnDestroyRNNDataDescriptor
   cudnnGetRNNTempSpaceSizes cudnnGetRNNWeightSpaceSize cudnnGetRNNWeightParams cudnnRNNForward
   cudnnRNNBackwardData_v8 cudnnRNNBackwardWeights_v8 */
#include "program.h"
#include "shim/cudnn/cudnn_types.h"

typedef cudnnTensorDescriptor_t Tensor;
typedef cudnnDropoutDescriptor_t Dropout;
typedef cudnnRNNDescriptor_t Network;
typedef cudnnRNNDataDescriptor_t Data;

cudnnStatus_t cudnnCreate(cudnnHandle_t*);
cudnnStatus_t cudnnCreateTensorDescriptor(Tensor*);
cudnnStatus_t cudnnSetTensorNdDescriptor(Tensor, cudnnDataType_t, int, const int*, const int*);
cudnnStatus_t cudnnGetTensorNdDescriptor(Tensor, int, cudnnDataType_t*, int*, int*, int*);
cudnnStatus_t cudnnCreateDropoutDescriptor(Dropout*);
cudnnStatus_t cudnnDestroyDropoutDescriptor(Dropout);
cudnnStatus_t cudnnDropoutGetStatesSize(cudnnHandle_t, size_t*);
cudnnStatus_t cudnnSetDropoutDescriptor(Dropout, cudnnHandle_t, float, void*, size_t, unsigned long long);
cudnnStatus_t cudnnRestoreDropoutDescriptor(Dropout, cudnnHandle_t, float, void*, size_t, unsigned long long);
cudnnStatus_t cudnnCreateRNNDescriptor(Network*);
cudnnStatus_t cudnnDestroyRNNDescriptor(Network);
cudnnStatus_t cudnnSetRNNDescriptor_v8(Network, cudnnRNNAlgo_t, cudnnRNNMode_t, cudnnRNNBiasMode_t,
                                       cudnnDirectionMode_t, cudnnRNNInputMode_t, cudnnDataType_t, cudnnDataType_t,
                                       cudnnMathType_t, int32_t, int32_t, int32_t, int32_t, Dropout, uint32_t);
cudnnStatus_t cudnnCreateRNNDataDescriptor(Data*);
cudnnStatus_t cudnnDestroyRNNDataDescriptor(Data);
cudnnStatus_t cudnnSetRNNDataDescriptor(Data, cudnnDataType_t, cudnnRNNDataLayout_t, int, int, int, const int*, void*);
cudnnStatus_t cudnnGetRNNTempSpaceSizes(cudnnHandle_t, Network, cudnnForwardMode_t, Data, size_t*, size_t*);
cudnnStatus_t cudnnGetRNNWeightSpaceSize(cudnnHandle_t, Network, size_t*);
cudnnStatus_t cudnnGetRNNWeightParams(cudnnHandle_t, Network, int32_t, size_t, const void*, int32_t, Tensor, void**,
                                      Tensor, void**);
cudnnStatus_t cudnnRNNForward(cudnnHandle_t, Network, cudnnForwardMode_t, const int32_t*, Data, const void*, Data,
                              void*, Tensor, const void*, void*, Tensor, const void*, void*, size_t, const void*,
                              size_t, void*, size_t, void*);
cudnnStatus_t cudnnRNNBackwardData_v8(cudnnHandle_t, Network, const int32_t*, Data, const void*, const void*, Data,
                                      void*, Tensor, const void*, const void*, void*, Tensor, const void*, const void*,
                                      void*, size_t, const void*, size_t, void*, size_t, void*);
cudnnStatus_t cudnnRNNBackwardWeights_v8(cudnnHandle_t, Network, cudnnWgradMode_t, const int32_t*, Data, const void*,
                                         Tensor, const void*, Data, const void*, size_t, void*, size_t, void*, size_t,
                                         void*);

#define OK(call) REQUIRE(call, CUDNN_STATUS_SUCCESS)

/* Two layers in both directions; an LSTM has eight matrices a layer and direction. */
enum { kLayers = 2, kDirections = 2, kLength = 6, kBatch = 4, kInput = 32, kHidden = 64, kMatrices = 8 };
enum { kPaddedIo = 1 };

static cudnnHandle_t handle;

static void* allocate(size_t bytes) {
  void* data;
  CHECK(cudaMalloc(&data, bytes) == cudaSuccess);
  return data;
}

static Dropout make_dropout(void) {
  Dropout dropout, restored;
  size_t bytes = 0;
  OK(cudnnDropoutGetStatesSize(handle, &bytes));
  CHECK(bytes > 0);
  void* states = allocate(bytes);
  OK(cudnnCreateDropoutDescriptor(&dropout));
  OK(cudnnCreateDropoutDescriptor(&restored));
  EXPECT(cudnnSetDropoutDescriptor(dropout, handle, 1.5f, states, bytes, 1), CUDNN_STATUS_SUCCESS);
  EXPECT(cudnnSetDropoutDescriptor(dropout, handle, 0.1f, states, bytes / 2, 1), CUDNN_STATUS_BAD_PARAM);
  OK(cudnnSetDropoutDescriptor(dropout, handle, 0.1f, states, bytes, 1));
  OK(cudnnRestoreDropoutDescriptor(restored, handle, 0.1f, states, bytes, 1));
  OK(cudnnDestroyDropoutDescriptor(dropout));
#ifdef PHANTORA_MODEL
  EXPECT(cudnnDestroyDropoutDescriptor(dropout), CUDNN_STATUS_BAD_PARAM);
#endif
  return restored;
}

static cudnnStatus_t set_network(Network network, cudnnRNNMode_t cell, int hidden, int projection, Dropout dropout) {
  return cudnnSetRNNDescriptor_v8(network, CUDNN_RNN_ALGO_STANDARD, cell, CUDNN_RNN_DOUBLE_BIAS, CUDNN_BIDIRECTIONAL,
                                  CUDNN_LINEAR_INPUT, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, CUDNN_FMA_MATH, kInput,
                                  hidden, projection, kLayers, dropout, kPaddedIo);
}

static Data make_data(int width) {
  const int lengths[kBatch] = {kLength, kLength, kLength, kLength}, longer[kBatch] = {kLength + 1, 1, 1, 1};
  const cudnnRNNDataLayout_t layout = CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED;
  Data data;
  OK(cudnnCreateRNNDataDescriptor(&data));
  EXPECT(cudnnSetRNNDataDescriptor(data, CUDNN_DATA_FLOAT, layout, kLength, kBatch, width, longer, NULL),
         CUDNN_STATUS_BAD_PARAM);
  EXPECT(cudnnSetRNNDataDescriptor(data, CUDNN_DATA_FLOAT, layout, kLength, kBatch, 0, lengths, NULL),
         CUDNN_STATUS_BAD_PARAM);
  OK(cudnnSetRNNDataDescriptor(data, CUDNN_DATA_FLOAT, layout, kLength, kBatch, width, lengths, NULL));
  return data;
}

static Tensor make_states(void) {
  const int sizes[3] = {kLayers * kDirections, kBatch, kHidden}, strides[3] = {kBatch * kHidden, kHidden, 1};
  Tensor tensor;
  OK(cudnnCreateTensorDescriptor(&tensor));
  OK(cudnnSetTensorNdDescriptor(tensor, CUDNN_DATA_FLOAT, 3, sizes, strides));
  return tensor;
}

static int elements_of(Tensor tensor) {
  cudnnDataType_t type;
  int rank = 0, sizes[3] = {0}, strides[3] = {0};
  OK(cudnnGetTensorNdDescriptor(tensor, 3, &type, &rank, sizes, strides));
  CHECK(rank == 3 && type == CUDNN_DATA_FLOAT);
  return sizes[0] * sizes[1] * sizes[2];
}

/* All parameters lie in the weight space; those of one kind of a layer and direction follow each other. */
static void check_parameters(Network network, size_t bytes, const char* weights) {
  const int inputs[kLayers] = {kInput, kDirections * kHidden};
  const char* follows[2] = {NULL, NULL};
  Tensor matrix, bias;
  OK(cudnnCreateTensorDescriptor(&matrix));
  OK(cudnnCreateTensorDescriptor(&bias));
  for (int layer = 0; layer < kLayers * kDirections; ++layer) {
    for (int linear = 0; linear < kMatrices; ++linear) {
      const int columns = linear < kMatrices / 2 ? inputs[layer / kDirections] : kHidden;
      void* at[2] = {NULL, NULL};
      OK(cudnnGetRNNWeightParams(handle, network, layer, bytes, weights, linear, matrix, &at[0], bias, &at[1]));
      const int elements[2] = {elements_of(matrix), elements_of(bias)};
      CHECK(elements[0] == kHidden * columns && elements[1] == kHidden);
      for (int kind = 0; kind < 2; ++kind) {
        const char* begin = at[kind];
        if (linear % (kMatrices / 2) != 0) CHECK(begin == follows[kind]);
        follows[kind] = begin + sizeof(float) * (size_t)elements[kind];
        CHECK(begin >= weights && follows[kind] <= weights + bytes);
      }
    }
  }
  EXPECT(cudnnGetRNNWeightParams(handle, network, kLayers * kDirections, bytes, weights, 0, matrix, NULL, bias, NULL),
         CUDNN_STATUS_BAD_PARAM);
  EXPECT(cudnnGetRNNWeightParams(handle, network, 0, bytes, weights, -1, matrix, NULL, bias, NULL),
         CUDNN_STATUS_BAD_PARAM);
}

int main(void) {
  size_t weight_bytes = 0, work_bytes = 0, reserve_bytes = 0, inference_bytes = 1;
  Network network;
  OK(cudnnCreate(&handle));
  Dropout dropout = make_dropout();
  OK(cudnnCreateRNNDescriptor(&network));
  EXPECT(set_network(network, CUDNN_LSTM, 0, kHidden, dropout), CUDNN_STATUS_BAD_PARAM);
  EXPECT(set_network(network, CUDNN_GRU, kHidden, kHidden / 2, dropout), CUDNN_STATUS_NOT_SUPPORTED);
  OK(set_network(network, CUDNN_LSTM, kHidden, kHidden, dropout));
  Data x = make_data(kInput), y = make_data(kDirections * kHidden);
  Tensor states = make_states();
  OK(cudnnGetRNNWeightSpaceSize(handle, network, &weight_bytes));
  OK(cudnnGetRNNTempSpaceSizes(handle, network, CUDNN_FWD_MODE_TRAINING, x, &work_bytes, &reserve_bytes));
  OK(cudnnGetRNNTempSpaceSizes(handle, network, CUDNN_FWD_MODE_INFERENCE, x, NULL, &inference_bytes));
  CHECK(reserve_bytes > 0 && inference_bytes == 0);
  char* weights = allocate(weight_bytes);
  check_parameters(network, weight_bytes, weights);

  const size_t token_bytes = sizeof(float) * kLength * kBatch;
  const size_t state_bytes = sizeof(float) * kLayers * kDirections * kBatch * kHidden;
  void *input = allocate(token_bytes * kInput), *dinput = allocate(token_bytes * kInput);
  void *output = allocate(token_bytes * kDirections * kHidden),
       *doutput = allocate(token_bytes * kDirections * kHidden);
  void *hx = allocate(state_bytes), *hy = allocate(state_bytes), *cx = allocate(state_bytes),
       *cy = allocate(state_bytes);
  void *work = allocate(work_bytes), *reserve = allocate(reserve_bytes), *dweights = allocate(weight_bytes);
  const cudnnForwardMode_t mode = CUDNN_FWD_MODE_TRAINING;
  EXPECT(cudnnRNNForward(handle, network, mode, NULL, x, input, x, output, states, hx, hy, states, cx, cy, weight_bytes,
                         weights, work_bytes, work, reserve_bytes, reserve),
         CUDNN_STATUS_BAD_PARAM);
  EXPECT(cudnnRNNForward(handle, network, mode, NULL, x, input, y, output, states, hx, hy, states, cx, cy,
                         weight_bytes - 1, weights, work_bytes, work, reserve_bytes, reserve),
         CUDNN_STATUS_BAD_PARAM);
  EXPECT(cudnnRNNForward(handle, network, mode, NULL, x, input, y, output, states, hx, hy, states, cx, cy, weight_bytes,
                         weights, work_bytes, work, reserve_bytes - 1, reserve),
         CUDNN_STATUS_BAD_PARAM);
  OK(cudnnRNNForward(handle, network, mode, NULL, x, input, y, output, states, hx, hy, states, cx, cy, weight_bytes,
                     weights, work_bytes, work, reserve_bytes, reserve));
  OK(cudnnRNNBackwardData_v8(handle, network, NULL, y, output, doutput, x, dinput, states, hx, NULL, hy, states, cx,
                             NULL, cy, weight_bytes, weights, work_bytes, work, reserve_bytes, reserve));
  OK(cudnnRNNBackwardWeights_v8(handle, network, CUDNN_WGRAD_MODE_ADD, NULL, x, input, states, hx, y, output,
                                weight_bytes, dweights, work_bytes, work, reserve_bytes, reserve));
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  OK(cudnnDestroyRNNDataDescriptor(y));
  OK(cudnnDestroyRNNDescriptor(network));
#ifdef PHANTORA_MODEL
  EXPECT(cudnnDestroyRNNDataDescriptor(y), CUDNN_STATUS_BAD_PARAM);
  EXPECT(cudnnDestroyRNNDescriptor(network), CUDNN_STATUS_BAD_PARAM);
#endif
  return differences;
}
