// Driven by test_kernel_arguments.py: `plan` prints the plan of each mangled name on standard input; `sizes` builds
// structures with the layouts that PyTorch's kernels take by value and prints the signature that results; `time`
// prints the nanoseconds of one read.
#include "shim/kernels/kernel_arguments.h"

#include <chrono>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <limits>
#include <string>
#include <vector>

#include "shim/core/json.h"
#include "shim/kernels/kernel_compiled.h"

namespace {

bool large_lists = true;

void print_plan(const std::string& name) {
  const ph::ArgumentPlan plan = ph::plan_arguments(name, large_lists);
  std::printf("%d %d |", plan.understood ? 1 : 0, plan.parameters);
  for (const auto& integer : plan.integers)
    std::printf(" %d:%c%d", integer.parameter, integer.is_signed ? 'i' : 'u', 8 * integer.bytes);
  std::printf(" |");
  for (const auto& reader : plan.readers) std::printf(" %d:%d", reader.parameter, static_cast<int>(reader.kind));
  std::printf("\n");
}

void print_signature(const std::string& name, const ph::LaunchShape& shape, std::vector<void*> args) {
  const ph::ArgumentPlan plan = ph::plan_arguments(name, large_lists);
  std::int64_t values[32];
  const std::size_t count = ph::read_scalars(plan, shape, args.data(), values, 32);
  std::printf("%s\n", ph::payload_text(ph::describe_launch("k", shape, plan, {values, count})).c_str());
}

// A functor of one byte and an identity of four, then ReduceConfig.
void reduction(const std::string& name, bool valid) {
  alignas(8) unsigned char operation[512] = {};
  const std::int32_t config[14] = {2, 4096, 512, 1, 1, 1, 0, 0, 0, 0, 0, 32, 16, valid ? 512 : 7};
  std::memcpy(operation + 8, config, sizeof config);
  print_signature(name, {{512, 1, 1}, {32, 16, 1}, 0}, {operation});
}

std::string compiled_signature(const ph::CompiledKernel& kernel, std::vector<void*> args) {
  const ph::ArgumentPlan plan = ph::plan_compiled(kernel);
  std::int64_t values[32];
  const std::size_t count = ph::read_scalars(plan, {{512, 1, 1}, {32, 16, 1}, 0}, args.data(), values, 32);
  return ph::payload_text(ph::describe_launch("k", {{512, 1, 1}, {32, 16, 1}, 0}, plan, {values, count}));
}

// ReduceJitOp: an identity of four bytes, then ReduceConfig for single precision.
void compiled_reduction(const std::string& name, std::uint32_t narrowest_store_bytes) {
  alignas(8) unsigned char operation[1040] = {};
  const std::int32_t config[14] = {4, 4096, 512, 1, 1, 1, 0, 0, 0, 0, 0, 32, 16, 512};
  std::memcpy(operation + 4, config, sizeof config);
  const std::uint16_t bytes[] = {1040};
  std::printf("%s\n", compiled_signature({name, bytes, 36, narrowest_store_bytes}, {operation}).c_str());
}

// Of two inputs, in eight elements a thread: with types of their own, or without.
void compiled_pointwise(const std::string& name) {
  int count = 1000;
  unsigned char other[504] = {};
  struct {
    std::int8_t types[4] = {3, 4};
    std::uint32_t sizes[2] = {4, 8};
  } load;
  struct {
    std::int8_t types[4] = {4};
    std::uint32_t sizes[1] = {8};
  } store;
  const std::uint16_t casts[] = {4, 24, 504, 404, 12, 8, 8}, plain[] = {4, 24, 504, 404, 1, 1, 4},
                      short_[] = {4, 24, 4};
  const ph::CompiledKernel casting{name, casts, 1576, 1};
  std::printf("%s\n", compiled_signature(casting, {&count, other, other, other, &load, &store, other}).c_str());
  for (const ph::CompiledKernel& kernel : {casting, ph::CompiledKernel{name, plain, 32, 4}, {name, short_, 64, 4}})
    std::printf("%u\n", ph::pointwise_thread_bytes(kernel));
}

// 64 rows of 8,192 that are sorted: where they begin and end is told alike.
void segments(const std::string& name) {
  const void* none = nullptr;
  struct {
    int distance = 8192, first;
  } begins{.first = 0}, ends{.first = 1};
  int number = 0;
  print_signature(name, {{64, 1, 1}, {384, 1, 1}, 0},
                  {&none, &none, &none, &none, &begins, &ends, &number, &number, &number});
}

template <std::size_t tensors, std::size_t blocks, typename Owner>
struct TensorList {
  const void* addresses[1][tensors];
  std::int64_t numel[tensors];
  Owner owner[blocks];
  std::int32_t chunk[blocks];
  std::int32_t start;
};
using LargeList = TensorList<770, 2240, std::uint16_t>;
using SmallList = TensorList<110, 320, std::uint8_t>;

// Two tensors of 65,536 + 10 and 7 elements: three blocks.
template <typename List>
void tensor_list(const std::string& name, bool pointers) {
  List list{};
  list.addresses[0][0] = reinterpret_cast<const void*>(0x1000);
  list.addresses[0][1] = reinterpret_cast<const void*>(0x9000);
  list.numel[0] = 65546;
  list.numel[1] = 7;
  list.owner[2] = 1;
  list.chunk[1] = 1;
  const ph::LaunchShape shape{{3, 1, 1}, {512, 1, 1}, 0};
  if (pointers) {
    const ph::ArgumentPlan plan = ph::plan_arguments(name, large_lists);
    for (const void* tensor : ph::listed_tensors(plan.readers.at(0), shape, &list)) std::printf("%p\n", tensor);
    return;
  }
  unsigned char functor[16] = {};
  print_signature(name, shape, {&list, functor, functor, functor});
}

// The same twice in each of three lists: the second and the third are one.
void repeated_list(const std::string& name) {
  struct {
    const void* addresses[3][336];
    std::int64_t numel[336];
    std::uint16_t owner[2240];
    std::int32_t chunk[2240];
    std::int32_t start;
  } list{};
  const std::uintptr_t begins[3] = {0x1000, 0x100000, 0x100000};
  for (int depth = 0; depth < 3; ++depth) {
    list.addresses[depth][0] = reinterpret_cast<const void*>(begins[depth]);
    list.addresses[depth][1] = reinterpret_cast<const void*>(begins[depth] + 0x80000);
  }
  list.numel[0] = 65546;
  list.numel[1] = 7;
  list.owner[2] = 1;
  list.chunk[1] = 1;
  unsigned char functor[16] = {};
  print_signature(name, {{3, 1, 1}, {512, 1, 1}, 0}, {&list, functor, functor, functor});
}

// An output and the inputs of a function of so many: all different, one given twice, the output among the inputs.
void operands(const std::string& name) {
  char tensors[4];
  char* const lists[][4] = {{tensors, tensors + 1, tensors + 2, tensors + 3},
                            {tensors, tensors + 1, tensors + 2, tensors + 1},
                            {tensors, tensors, tensors, tensors}};
  int elements = 64;
  unsigned char functor[16] = {};
  for (const auto& list : lists)
    print_signature(name, {{1, 1, 1}, {128, 1, 1}, 0}, {&elements, functor, const_cast<char**>(list)});
}

// 64 rows of 32 elements: a tensor, a row of it and a column.
void strided() {
  constexpr std::uint32_t kTensors = 4;
  struct {
    std::int32_t dimensions = 2;
    std::uint32_t dividers[25][3] = {{32}, {64}};
    std::uint32_t strides[25][kTensors] = {{4, 4, 4, 0}, {128, 128, 0, 4}};
  } closure;
  ph::ArgumentPlan plan;
  plan.readers.push_back(ph::plan_strided(kTensors).value());
  int count = 64 * 32;
  void* args[2] = {&count, &closure};
  for (const std::uint32_t blocks : {4u, 1u}) {
    const ph::LaunchShape shape{{blocks, 1, 1}, {128, 1, 1}, 0};
    std::int64_t values[4];
    const std::size_t read = ph::read_scalars(plan, shape, args, values, 4);
    std::printf("%s\n", ph::payload_text(ph::describe_launch("k", shape, plan, {values, read})).c_str());
    closure.dividers[1][0] = 1000;  // more than one block has threads for
  }
}

void flash(const std::string& name, std::int32_t queries_in_all) {
  alignas(8) unsigned char params[1024] = {};
  const void* ends = params;
  const std::int32_t heads[3] = {32, 8, 4};
  const std::int32_t dims[9] = {2, 4000, 4096, 0, 96, 4096, 4096, 96, 0};
  std::memcpy(params + 96, heads, sizeof heads);
  std::memcpy(params + 176, dims, sizeof dims);
  std::memcpy(params + 212, &queries_in_all, sizeof queries_in_all);
  if (queries_in_all != 0) std::memcpy(params + 224, &ends, sizeof ends);
  print_signature(name, {{32, 2, 32}, {128, 1, 1}, 81920}, {params});
}

void cast(const std::string& name) {
  int count = 1000;
  unsigned char functor[16] = {};
  void* data[3] = {functor, functor + 1, functor + 2};
  struct {
    std::int8_t types[2] = {15, 6};
    std::uint32_t sizes[2] = {2, 4};
  } load;
  struct {
    std::int8_t types[1] = {6};
    std::uint32_t sizes[1] = {4};
  } store;
  print_signature(name, {{2, 1, 1}, {128, 1, 1}, 0}, {&count, functor, data, functor, functor, &load, &store});
}

template <typename Index, std::size_t dimensions>
struct Accessor {
  void* data = nullptr;
  Index sizes[dimensions];
  Index strides[dimensions] = {};
};

// 4 tables of 100 rows of 64 elements, 16 samples, 150 lookups.
Accessor<std::int64_t, 1> weights{.sizes = {4 * 100 * 64}};
Accessor<std::int64_t, 2> results{.sizes = {16, 4 * 64}};
Accessor<std::int32_t, 1> indices{.sizes = {150}};

// split_embedding_codegen_forward_unweighted_kernel of fbgemm_gpu 1.3.
void forward_lookups(const std::string& name) {
  Accessor<std::int64_t, 2> cache{.sizes = {0, 0}};
  Accessor<std::int32_t, 1> tables{.sizes = {4}}, columns{.sizes = {5}}, offsets{.sizes = {4 * 16 + 1}};
  std::uint32_t divisor[4] = {};
  std::int64_t pooling = 0;
  const void* missing = nullptr;
  print_signature(name, {{2, 1, 1}, {16, 32, 1}, 0},
                  {&weights, &weights, &cache, &tables, &tables, &columns, divisor, &indices, &offsets, &pooling,
                   &tables, &missing, &results});
}

// split_embedding_backward_codegen_dense_unweighted_kernel_warp_per_row_1.
void backward_lookups(const std::string& name) {
  Accessor<std::int32_t, 1> tables{.sizes = {4}}, columns{.sizes = {5}}, runs{.sizes = {151}};
  int number = 1;
  float factor = 0;
  print_signature(name, {{5, 1, 1}, {16, 32, 1}, 0},
                  {&results, &weights, &tables, &columns, &columns, &indices, &runs, &indices, &columns, &number,
                   &weights, &number, &number, &number, &number, &factor});
}

// upsample_bilinear2d_out_frame: f32, to twice the height and width.
void accessors(const std::string& name) {
  Accessor<std::int64_t, 4> input{.sizes = {2, 3, 8, 16}}, output{.sizes = {2, 3, 16, 32}};
  int count = 16 * 32;
  float ratio = 0.5;
  bool aligned = false;
  print_signature(name, {{1, 1, 1}, {512, 1, 1}, 0}, {&count, &ratio, &ratio, &aligned, &input, &output});
}

// grid_sampler_2d_kernel: f32, with 32-bit indexes.
void tensor_infos(const std::string& name) {
  struct Info {
    void* data = nullptr;
    std::int32_t sizes[25] = {};
    std::int32_t strides[25] = {};
    int dimensions = 4;
  };
  Info input{.sizes = {2, 3, 8, 16}}, places{.sizes = {2, 4, 4, 2}}, output{.sizes = {2, 3, 4, 4}};
  int count = 2 * 4 * 4, mode = 0;
  print_signature(name, {{1, 1, 1}, {256, 1, 1}, 0}, {&count, &input, &places, &output, &mode, &mode, &mode});
}

// Structures with numbers whose product, or sum, begins again at zero.
void garbled_accessors(const std::string& name) {
  constexpr std::int64_t kMany = std::int64_t{1} << 32;
  Accessor<std::int64_t, 4> input{.sizes = {kMany, kMany, 8, 16}}, output = input;
  int count = 16 * 32;
  float ratio = 0.5;
  bool aligned = false;
  print_signature(name, {{1, 1, 1}, {512, 1, 1}, 0}, {&count, &ratio, &ratio, &aligned, &input, &output});
}

void garbled_strided() {
  struct {
    std::int32_t dimensions = 4;
    std::uint32_t dividers[25][3] = {{1 << 16}, {1 << 16}, {1 << 16}, {1 << 16}};
    std::uint32_t strides[25][2] = {{4, 4}, {8, 8}, {16, 16}, {32, 32}};
  } closure;
  ph::ArgumentPlan plan;
  plan.readers.push_back(ph::plan_strided(2).value());
  int count = 0;
  void* args[2] = {&count, &closure};
  const ph::LaunchShape shape{{1, 1, 1}, {128, 1, 1}, 0};
  std::int64_t values[2];
  const std::size_t read = ph::read_scalars(plan, shape, args, values, 2);
  std::printf("%s\n", ph::payload_text(ph::describe_launch("k", shape, plan, {values, read})).c_str());
}

void garbled_concatenation(const std::string& name) {
  struct {
    const void* inputs[4] = {};
    std::int64_t offsets[4] = {}, sizes[4] = {};
    std::int64_t elements[4] = {1LL << 62, 1LL << 62, 1LL << 62, (1LL << 62) + 100};
  } list;
  const void* output = nullptr;
  std::int64_t shape[8] = {}, stride = 1;
  int dimension = 0;
  print_signature(name, {{1, 4, 1}, {128, 1, 1}, 0}, {&output, &list, shape, &dimension, &stride});
}

// As tensor_list, with a first tensor of fewer elements than none.
void garbled_list(const std::string& name) {
  LargeList list{};
  list.numel[0] = std::numeric_limits<std::int64_t>::min() + 10;
  list.chunk[0] = 1;
  unsigned char functor[16] = {};
  print_signature(name, {{1, 1, 1}, {512, 1, 1}, 0}, {&list, functor, functor, functor});
}

void time_read(const std::string& name) {
  const ph::ArgumentPlan plan = ph::plan_arguments(name, large_lists);
  int count = 1000;
  unsigned char functor[16] = {};
  void* data[3] = {};
  void* args[3] = {&count, functor, data};
  const ph::LaunchShape shape{{1, 1, 1}, {128, 1, 1}, 0};
  constexpr int kRounds = 1000000;
  std::int64_t sum = 0;
  const auto start = std::chrono::steady_clock::now();
  for (int round = 0; round < kRounds; ++round) {
    count = round;
    std::int64_t values[32];
    ph::read_scalars(plan, shape, args, values, 32);
    sum += values[0];
  }
  const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
  std::printf("%.1f %lld\n", spent.count() / kRounds, static_cast<long long>(sum));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  for (std::string name; std::getline(std::cin, name);) {
    if (mode == "plan") print_plan(name);
    if (mode == "time") time_read(name);
    if (mode == "reduction") reduction(name, true);
    if (mode == "no-reduction") reduction(name, false);
    large_lists = !mode.starts_with("small-");
    if (mode == "compiled-reduction") compiled_reduction(name, 4);
    if (mode == "compiled-reduction-of-halves") compiled_reduction(name, 2);
    if (mode == "compiled-pointwise") compiled_pointwise(name);
    if (mode == "segments") segments(name);
    if (mode == "tensor-list") tensor_list<LargeList>(name, false);
    if (mode == "tensor-pointers") tensor_list<LargeList>(name, true);
    if (mode == "small-tensor-list") tensor_list<SmallList>(name, false);
    if (mode == "small-tensor-pointers") tensor_list<SmallList>(name, true);
    if (mode == "repeated-list") repeated_list(name);
    if (mode == "strided") strided();
    if (mode == "operands") operands(name);
    if (mode == "flash") flash(name, 0);
    if (mode == "flash-of-unequal-lengths") flash(name, 6000);
    if (mode == "accessors") accessors(name);
    if (mode == "tensor-infos") tensor_infos(name);
    if (mode == "garbled-accessors") garbled_accessors(name);
    if (mode == "garbled-strided") garbled_strided();
    if (mode == "garbled-concatenation") garbled_concatenation(name);
    if (mode == "garbled-list") garbled_list(name);
    if (mode == "cast") cast(name);
    if (mode == "forward-lookups") forward_lookups(name);
    if (mode == "backward-lookups") backward_lookups(name);
  }
}
