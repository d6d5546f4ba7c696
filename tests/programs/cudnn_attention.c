/* covers: cudnnBackendCreateDescriptor cudnnBackendSetAttribute cudnnBackendGetAttribute cudnnBackendFinalize
   cudnnBackendExecute cudnnGetLastErrorString cudnnGraphVersionCheck */
/* not for the vendor: graphs are described as far as our library reads them */
#include <string.h>

#include "cudnn_graph.h"

enum { Q, K, V, O, P, MASKED, ROWS, COLUMNS, MASK, BATCH = 2, HEADS = 8, KV_HEADS = 2, LENGTH = 128, HEAD = 64 };

static cudnnBackendDescriptor_t make_scores(int64_t uid) {
  return make_tensor(uid, BATCH, HEADS, LENGTH, LENGTH, true);
}

static cudnnBackendDescriptor_t make_operand(int64_t uid, int64_t heads) {
  return make_tensor(uid, BATCH, heads, LENGTH, HEAD, false);
}

static cudnnBackendDescriptor_t make_product(cudnnBackendDescriptor_t a, cudnnBackendDescriptor_t b,
                                             cudnnBackendDescriptor_t c) {
  cudnnBackendDescriptor_t product = make(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  set_child(product, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
  set_child(product, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
  set_child(product, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
  OK(cudnnBackendFinalize(product));
  return product;
}

static cudnnBackendDescriptor_t make_step(int32_t mode, cudnnBackendDescriptor_t b, cudnnBackendDescriptor_t y) {
  cudnnBackendDescriptor_t kind = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  set(kind, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_INT32, 1, &mode);
  OK(cudnnBackendFinalize(kind));
  cudnnBackendDescriptor_t step = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  set_child(step, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind);
  if (b) set_child(step, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
  set_child(step, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  OK(cudnnBackendFinalize(step));
  return step;
}

/* Two products with a causal mask between them. */
static cudnnBackendDescriptor_t make_composite(void) {
  cudnnBackendDescriptor_t rows = make_scores(ROWS), columns = make_scores(COLUMNS), masked = make_scores(MASKED);
  cudnnBackendDescriptor_t scores = make_scores(P);
  cudnnBackendDescriptor_t operations[] = {
      make_product(make_operand(Q, HEADS), make_tensor(K, BATCH, KV_HEADS, HEAD, LENGTH, false), scores),
      make_step(CUDNN_POINTWISE_GEN_INDEX, NULL, rows),
      make_step(CUDNN_POINTWISE_GEN_INDEX, NULL, columns),
      make_step(CUDNN_POINTWISE_CMP_GE, columns, masked),
      make_product(masked, make_operand(V, KV_HEADS), make_operand(O, HEADS)),
  };
  return make_graph(5, operations);
}

/* One operation, whose mask is in a graph inside it. */
static cudnnBackendDescriptor_t make_unified(void) {
  const int32_t comparison = CUDNN_POINTWISE_CMP_GE;
  cudnnBackendDescriptor_t mask = make(CUDNN_BACKEND_OPERATION_DIAGONAL_BAND_MASK_DESCRIPTOR);
  set(mask, CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_COMPARISON_MODE, CUDNN_TYPE_INT32, 1, &comparison);
  OK(cudnnBackendFinalize(mask));
  cudnnBackendDescriptor_t attention = make(CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR);
  set_child(attention, CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, make_operand(Q, HEADS));
  set_child(attention, CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC, make_operand(K, KV_HEADS));
  set_child(attention, CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, make_operand(V, KV_HEADS));
  set_child(attention, CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC, make_operand(O, HEADS));
  set_child(attention, CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH, make_graph(1, &mask));
  OK(cudnnBackendFinalize(attention));
  return make_graph(1, &attention);
}

static cudnnBackendDescriptor_t make_pack(void* q, void* o) {
  const int64_t uids[] = {O, Q};
  void* pointers[] = {o, q};
  cudnnBackendDescriptor_t pack = make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 2, uids);
  set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 2, pointers);
  OK(cudnnBackendFinalize(pack));
  return pack;
}

int main(void) {
  cudnnHandle_t handle;
  int32_t *q, *o, read = 0;
  const int32_t known = 7;
  char message[8] = "unset";
  OK(cudnnGraphVersionCheck());
  OK(cudnnCreate(&handle));
  CHECK(cudaMalloc((void**)&q, 1 << 20) == cudaSuccess && cudaMalloc((void**)&o, 1 << 20) == cudaSuccess);
  CHECK(cudaMemcpy(q, &known, sizeof known, cudaMemcpyHostToDevice) == cudaSuccess);
  CHECK(cudaMemcpy(o, &known, sizeof known, cudaMemcpyHostToDevice) == cudaSuccess);

  cudnnBackendDescriptor_t pack = make_pack(q, o);
  OK(cudnnBackendExecute(handle, make_plan(make_composite()), pack));
  cudnnBackendDescriptor_t plan = make_plan(make_unified());
  OK(cudnnBackendExecute(handle, plan, pack));
  OK(cudnnBackendExecute(handle, plan, pack));

  /* What it wrote is not known any more; what it read is. */
  CHECK(cudaMemcpy(&read, q, sizeof read, cudaMemcpyDeviceToHost) == cudaSuccess && read == known);
  CHECK(cudaMemcpy(&read, o, sizeof read, cudaMemcpyDeviceToHost) == cudaSuccess && read == 0);
  cudnnGetLastErrorString(message, sizeof message);
  CHECK(message[0] == '\0');
  CHECK(cudnnBackendSetAttribute(plan, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_INT32, 1, &known) ==
        CUDNN_STATUS_BAD_PARAM); /* finalized */
  CHECK(cudnnBackendFinalize(make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)) == CUDNN_STATUS_BAD_PARAM);
  return 0;
}
