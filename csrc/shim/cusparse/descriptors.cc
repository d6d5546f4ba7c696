// Descriptors of sparse and dense matrices: what cuSPARSE's operations are told of their operands.
#include "shim/calls/library.h"
#include "shim/core/handles.h"
#include "shim/cusparse/context.h"

using namespace ph;
using namespace ph::cusparse;

namespace {

constinit HandleTable<Sparse> sparse_matrices(HandleTag::SparseMatrix);
constinit HandleTable<Dense> dense_matrices(HandleTag::DenseMatrix);
constinit HandleTable<Dense> dense_vectors(HandleTag::DenseVector);

std::int64_t size_bytes(cusparseIndexType_t type) noexcept {
  return type == CUSPARSE_INDEX_64I ? 8 : type == CUSPARSE_INDEX_32I ? 4 : 2;
}

template <class Table, class Value, class Handle>
cusparseStatus_t create(Table& table, const Value& value, Handle* handle) noexcept {
  if (!handle || value.rows < 0 || value.columns < 0) return CUSPARSE_STATUS_INVALID_VALUE;
  *handle = static_cast<Handle>(table.create(value));
  return *handle ? CUSPARSE_STATUS_SUCCESS : CUSPARSE_STATUS_ALLOC_FAILED;
}

template <class Table>
cusparseStatus_t destroy(Table& table, const void* handle) noexcept {
  return table.destroy(handle) ? CUSPARSE_STATUS_SUCCESS : CUSPARSE_STATUS_INVALID_VALUE;
}

template <class Value>
cusparseStatus_t set_batch(Value* matrix, int batch) noexcept {
  if (!matrix || batch < 1) return CUSPARSE_STATUS_INVALID_VALUE;
  matrix->batch = batch;
  return CUSPARSE_STATUS_SUCCESS;
}

}  // namespace

namespace ph::cusparse {

Sparse* find_result(cusparseSpMatDescr_t descriptor) noexcept { return sparse_matrices.get(descriptor); }
const Sparse* find(cusparseConstSpMatDescr_t descriptor) noexcept { return sparse_matrices.get(descriptor); }
const Dense* find(cusparseConstDnMatDescr_t descriptor) noexcept { return dense_matrices.get(descriptor); }
const Dense* find(cusparseConstDnVecDescr_t descriptor) noexcept { return dense_vectors.get(descriptor); }

}  // namespace ph::cusparse

extern "C" {

PH_EXPORT cusparseStatus_t cusparseCreateCsr(cusparseSpMatDescr_t* matrix, int64_t rows, int64_t columns,
                                             int64_t nonzeros, void* offsets, void* indices, void* values,
                                             cusparseIndexType_t, cusparseIndexType_t index, cusparseIndexBase_t,
                                             cudaDataType type) noexcept {
  PH_CALL(cusparseCreateCsr);
  if (nonzeros < 0) return CUSPARSE_STATUS_INVALID_VALUE;
  return create(sparse_matrices, Sparse{rows, columns, nonzeros, 1, size_bytes(index), type, values, offsets, indices},
                matrix);
}

PH_EXPORT cusparseStatus_t cusparseCreateCoo(cusparseSpMatDescr_t* matrix, int64_t rows, int64_t columns,
                                             int64_t nonzeros, void*, void*, void* values, cusparseIndexType_t index,
                                             cusparseIndexBase_t, cudaDataType type) noexcept {
  PH_CALL(cusparseCreateCoo);
  if (nonzeros < 0) return CUSPARSE_STATUS_INVALID_VALUE;
  return create(sparse_matrices, Sparse{rows, columns, nonzeros, 1, size_bytes(index), type, values}, matrix);
}

PH_EXPORT cusparseStatus_t cusparseDestroySpMat(cusparseConstSpMatDescr_t matrix) noexcept {
  PH_CALL(cusparseDestroySpMat);
  return destroy(sparse_matrices, matrix);
}

PH_EXPORT cusparseStatus_t cusparseSpMatGetSize(cusparseConstSpMatDescr_t matrix, int64_t* rows, int64_t* columns,
                                                int64_t* nonzeros) noexcept {
  PH_CALL(cusparseSpMatGetSize);
  const Sparse* found = find(matrix);
  if (!found || !rows || !columns || !nonzeros) return CUSPARSE_STATUS_INVALID_VALUE;
  *rows = found->rows;
  *columns = found->columns;
  *nonzeros = found->nonzeros;
  return CUSPARSE_STATUS_SUCCESS;
}

PH_EXPORT cusparseStatus_t cusparseCsrSetPointers(cusparseSpMatDescr_t matrix, void* offsets, void* indices,
                                                  void* values) noexcept {
  PH_CALL(cusparseCsrSetPointers);
  Sparse* found = sparse_matrices.get(matrix);
  if (!found || !offsets || !indices || !values) return CUSPARSE_STATUS_INVALID_VALUE;
  found->values = values;
  found->offsets = offsets;
  found->indices = indices;
  return CUSPARSE_STATUS_SUCCESS;
}

// Which part of a matrix is solved for makes no difference to what is counted.
PH_EXPORT cusparseStatus_t cusparseSpMatSetAttribute(cusparseSpMatDescr_t matrix, cusparseSpMatAttribute_t attribute,
                                                     void* data, size_t bytes) noexcept {
  PH_CALL(cusparseSpMatSetAttribute);
  const bool is_known = attribute == CUSPARSE_SPMAT_FILL_MODE || attribute == CUSPARSE_SPMAT_DIAG_TYPE;
  return find(matrix) && data && is_known && bytes == sizeof(cusparseFillMode_t) ? CUSPARSE_STATUS_SUCCESS
                                                                                 : CUSPARSE_STATUS_INVALID_VALUE;
}

PH_EXPORT cusparseStatus_t cusparseCsrSetStridedBatch(cusparseSpMatDescr_t matrix, int batch, int64_t,
                                                      int64_t) noexcept {
  PH_CALL(cusparseCsrSetStridedBatch);
  return set_batch(sparse_matrices.get(matrix), batch);
}

PH_EXPORT cusparseStatus_t cusparseCreateDnMat(cusparseDnMatDescr_t* matrix, int64_t rows, int64_t columns, int64_t,
                                               void* values, cudaDataType type, cusparseOrder_t) noexcept {
  PH_CALL(cusparseCreateDnMat);
  return create(dense_matrices, Dense{rows, columns, 1, type, values}, matrix);
}

PH_EXPORT cusparseStatus_t cusparseDestroyDnMat(cusparseConstDnMatDescr_t matrix) noexcept {
  PH_CALL(cusparseDestroyDnMat);
  return destroy(dense_matrices, matrix);
}

PH_EXPORT cusparseStatus_t cusparseDnMatSetStridedBatch(cusparseDnMatDescr_t matrix, int batch, int64_t) noexcept {
  PH_CALL(cusparseDnMatSetStridedBatch);
  return set_batch(dense_matrices.get(matrix), batch);
}

PH_EXPORT cusparseStatus_t cusparseCreateDnVec(cusparseDnVecDescr_t* vector, int64_t size, void* values,
                                               cudaDataType type) noexcept {
  PH_CALL(cusparseCreateDnVec);
  return create(dense_vectors, Dense{size, 1, 1, type, values}, vector);
}

PH_EXPORT cusparseStatus_t cusparseDestroyDnVec(cusparseConstDnVecDescr_t vector) noexcept {
  PH_CALL(cusparseDestroyDnVec);
  return destroy(dense_vectors, vector);
}

}  // extern "C"
