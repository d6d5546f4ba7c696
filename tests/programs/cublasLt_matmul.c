/* covers: cublasLtCreate cublasLtDestroy cublasLtGetVersion cublasLtGetProperty cublasLtMatmulDescCreate
   cublasLtMatmulDescDestroy cublasLtMatmulDescSetAttribute cublasLtMatmulDescGetAttribute
   cublasLtMatmulDescInit_internal cublasLtMatrixLayoutCreate cublasLtMatrixLayoutDestroy
   cublasLtMatrixLayoutSetAttribute cublasLtMatrixLayoutGetAttribute cublasLtMatrixLayoutInit_internal
   cublasLtMatmulPreferenceCreate cublasLtMatmulPreferenceDestroy cublasLtMatmulPreferenceSetAttribute
   cublasLtMatmulPreferenceGetAttribute cublasLtMatmulAlgoGetHeuristic cublasLtMatmulAlgoInit
   cublasLtMatmulAlgoCheck cublasLtMatmulAlgoConfigSetAttribute cublasLtMatmulAlgoConfigGetAttribute
   cublasLtMatmul cublasLtGetCudartVersion cublasLtMatmulAlgoGetIds cublasLtMatmulPreferenceInit_internal */
#include "program.h"
#include "shim/cublasLt/cublasLt_types.h"

cublasStatus_t cublasLtCreate(cublasLtHandle_t*);
cublasStatus_t cublasLtDestroy(cublasLtHandle_t);
size_t cublasLtGetVersion(void);
cublasStatus_t cublasLtGetProperty(libraryPropertyType, int*);
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t*, cublasComputeType_t, cudaDataType_t);
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t);
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t, const void*,
                                              size_t);
cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t, void*, size_t,
                                              size_t*);
cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t, size_t, cublasComputeType_t, cudaDataType_t);
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t*, cudaDataType, uint64_t, uint64_t, int64_t);
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t);
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t, cublasLtMatrixLayoutAttribute_t, const void*,
                                                size_t);
cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t, cublasLtMatrixLayoutAttribute_t, void*, size_t,
                                                size_t*);
cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t, size_t, cudaDataType, uint64_t, uint64_t,
                                                 int64_t);
size_t cublasLtGetCudartVersion(void);
cublasStatus_t cublasLtMatmulAlgoGetIds(cublasLtHandle_t, cublasComputeType_t, cudaDataType_t, cudaDataType_t,
                                        cudaDataType_t, cudaDataType_t, cudaDataType_t, int, int[], int*);
cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t, size_t);
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t*);
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t);
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
                                                    const void*, size_t);
cublasStatus_t cublasLtMatmulPreferenceGetAttribute(cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
                                                    void*, size_t, size_t*);
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t, int, cublasLtMatmulHeuristicResult_t[], int*);
cublasStatus_t cublasLtMatmulAlgoInit(cublasLtHandle_t, cublasComputeType_t, cudaDataType_t, cudaDataType_t,
                                      cudaDataType_t, cudaDataType_t, cudaDataType_t, int, cublasLtMatmulAlgo_t*);
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                       const cublasLtMatmulAlgo_t*, cublasLtMatmulHeuristicResult_t*);
cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t*, cublasLtMatmulAlgoConfigAttributes_t,
                                                    const void*, size_t);
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t*, cublasLtMatmulAlgoConfigAttributes_t,
                                                    void*, size_t, size_t*);
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t, const void*, const void*, cublasLtMatrixLayout_t,
                              const void*, cublasLtMatrixLayout_t, const void*, const void*, cublasLtMatrixLayout_t,
                              void*, cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t*, void*, size_t, cudaStream_t);

#define OK(call) REQUIRE(call, CUBLAS_STATUS_SUCCESS)

typedef struct {
  cublasLtMatmulDesc_t matmul;
  cublasLtMatrixLayout_t a, b, d;
} Problem;

/* D (256 x 64) = A^T (256 x 128) B (128 x 64), with bias and GELU */
static Problem make_problem(void* bias) {
  Problem of;
  OK(cublasLtMatmulDescCreate(&of.matmul, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  const cublasOperation_t transposed = CUBLAS_OP_T;
  const uint32_t epilogue = CUBLASLT_EPILOGUE_GELU | CUBLASLT_EPILOGUE_BIAS;
  OK(cublasLtMatmulDescSetAttribute(of.matmul, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed));
  OK(cublasLtMatmulDescSetAttribute(of.matmul, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
  OK(cublasLtMatmulDescSetAttribute(of.matmul, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias));
  OK(cublasLtMatrixLayoutCreate(&of.a, CUDA_R_16BF, 128, 256, 128));
  OK(cublasLtMatrixLayoutCreate(&of.b, CUDA_R_16BF, 128, 64, 128));
  OK(cublasLtMatrixLayoutCreate(&of.d, CUDA_R_16BF, 256, 64, 256));
  return of;
}

static void check_attributes(Problem of) {
  uint32_t epilogue = 0, narrow = 0;
  size_t written = 0;
  OK(cublasLtMatmulDescGetAttribute(of.matmul, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue, &written));
  CHECK(epilogue == (CUBLASLT_EPILOGUE_GELU | CUBLASLT_EPILOGUE_BIAS) && written == sizeof epilogue);
  EXPECT(cublasLtMatrixLayoutGetAttribute(of.a, CUBLASLT_MATRIX_LAYOUT_ROWS, &narrow, sizeof narrow, &written),
         CUBLAS_STATUS_INVALID_VALUE); /* rows are 64-bit */
  const int32_t batch = 1;
  OK(cublasLtMatrixLayoutSetAttribute(of.a, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch));

  cublasLtMatmulDescOpaque_t matmul;
  cublasLtMatrixLayoutOpaque_t layout;
  uint64_t columns = 0;
  OK(cublasLtMatmulDescInit_internal(&matmul, sizeof matmul, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  OK(cublasLtMatrixLayoutInit_internal(&layout, sizeof layout, CUDA_R_32F, 3, 5, 3));
  cublasLtMatmulPreferenceOpaque_t preference;
  OK(cublasLtMatmulPreferenceInit_internal(&preference, sizeof preference));
  OK(cublasLtMatrixLayoutGetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_COLS, &columns, sizeof columns, &written));
  CHECK(columns == 5);
}

static cublasLtMatmulHeuristicResult_t choose(cublasLtHandle_t handle, Problem of) {
  cublasLtMatmulPreference_t preference;
  OK(cublasLtMatmulPreferenceCreate(&preference));
  const size_t workspace = 1 << 20;
  size_t seen = 0, written = 0;
  OK(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                          sizeof workspace));
  OK(cublasLtMatmulPreferenceGetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &seen, sizeof seen,
                                          &written));
  CHECK(seen == workspace);
  cublasLtMatmulHeuristicResult_t result;
  int count = 0;
  OK(cublasLtMatmulAlgoGetHeuristic(handle, of.matmul, of.a, of.b, of.d, of.d, preference, 1, &result, &count));
  CHECK(count == 1 && result.state == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= workspace);
  OK(cublasLtMatmulPreferenceDestroy(preference));
  return result;
}

static void check_algorithm(cublasLtHandle_t handle, Problem of) {
  int id = -1, count = 0;
  cublasLtMatmulAlgo_t algorithm;
  cublasLtMatmulHeuristicResult_t result;
  const uint32_t splits = 3;
  uint32_t seen = 0;
  size_t written = 0;
  OK(cublasLtMatmulAlgoGetIds(handle, CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16BF, CUDA_R_16BF, CUDA_R_16BF,
                              CUDA_R_16BF, 1, &id, &count));
  CHECK(count == 1);
  OK(cublasLtMatmulAlgoInit(handle, CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16BF, CUDA_R_16BF, CUDA_R_16BF, CUDA_R_16BF,
                            id, &algorithm));
  OK(cublasLtMatmulAlgoConfigSetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &splits, sizeof splits));
  OK(cublasLtMatmulAlgoConfigGetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &seen, sizeof seen, &written));
  CHECK(seen == splits);
#ifdef PHANTORA_MODEL
  OK(cublasLtMatmulAlgoCheck(handle, of.matmul, of.a, of.b, of.d, of.d, &algorithm, &result));
#else /* which settings an algorithm has is the vendor's matter */
  (void)cublasLtMatmulAlgoCheck(handle, of.matmul, of.a, of.b, of.d, of.d, &algorithm, &result);
#endif
}

int main(void) {
  cublasLtHandle_t handle;
  int major = 0;
  OK(cublasLtCreate(&handle));
  OK(cublasLtGetProperty(MAJOR_VERSION, &major));
  CHECK(cublasLtGetVersion() / 10000 == (size_t)major && cublasLtGetCudartVersion() / 1000 == 13);
  void* memory;
  REQUIRE(cudaMalloc(&memory, 2 << 20), cudaSuccess);
  void* const workspace = (char*)memory + (1 << 20);
  const Problem of = make_problem(memory);
  check_attributes(of);
  const cublasLtMatmulHeuristicResult_t chosen = choose(handle, of);
  check_algorithm(handle, of);
  const float one = 1, zero = 0;
  OK(cublasLtMatmul(handle, of.matmul, &one, memory, of.a, memory, of.b, &zero, memory, of.d, memory, of.d,
                    &chosen.algo, workspace, 1 << 20, NULL));
  EXPECT(cublasLtMatmul(handle, of.matmul, &one, memory, of.a, memory, of.d, &zero, memory, of.d, memory, of.d,
                        &chosen.algo, workspace, 1 << 20, NULL),
         CUBLAS_STATUS_INVALID_VALUE); /* inner sizes differ */
  OK(cublasLtMatrixLayoutDestroy(of.a));
  OK(cublasLtMatrixLayoutDestroy(of.b));
  OK(cublasLtMatrixLayoutDestroy(of.d));
  OK(cublasLtMatmulDescDestroy(of.matmul));
  OK(cublasLtDestroy(handle));
  return differences;
}
