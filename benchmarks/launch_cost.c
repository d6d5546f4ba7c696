/* The calls of launch_cost.py: prints "<known values: 0 or 1>\t<case>\t<nanoseconds per call>" per burst.
   Time is processor time of this thread, by the system call: the clocks of libc are virtual here. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { BURST = 4000, BURSTS = 40, SIZES = 8, LIST_BLOCKS = 320, LIST_CHUNK = 65536 };

/* What the program calls, as the vendor's headers declare it; an enumeration is an int here. */
typedef struct {
  unsigned x, y, z;
} dim3;
void __cudaRegisterFunction(void**, const char*, char*, const char*, int, void*, void*, void*, void*, int*);
int cudaLaunchKernel(const void*, dim3, dim3, void**, size_t, void*);
int cudaMalloc(void**, size_t);
int cudaMemcpyAsync(void*, const void*, size_t, int, void*);
int cudaEventCreateWithFlags(void**, unsigned);
int cudaEventRecord(void*, void*);
int cudaGetDevice(int*);
int cudaStreamIsCapturing(void*, int*);
int cublasCreate_v2(void**);
int cublasGemmEx(void*, int, int, int, int, int, const void*, const void*, int, int, const void*, int, int, const void*,
                 void*, int, int, int, int);

/* Kernels of PyTorch 2.15: an addition of two tensors, a layer norm, a list of 320 blocks of tensors. Kernels of others: of
   a pointer, and of a structure whose size nothing tells, so that the caller's frame has to be found. */
enum { ADD, NORM, LIST_NORM, OF_POINTER, OF_STRUCTURE, KERNELS };
static const char* const names[KERNELS] = {
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EELb0EEEviT0_T1_",
    "_ZN2at6native53_GLOBAL__N__4da244e1_20_layer_norm_kernel_cu_9c5ada8a28vectorized_layer_norm_kernelIffLb0EEE"
    "viT0_PKT_S6_S6_PS3_S7_PS4_",
    "_ZN2at6native51_GLOBAL__N__99dedba0_18_ForeachReduceOp_cu_b83ec48c25multi_tensor_apply_kernelINS1_18TensorList"
    "MetadataILi1EEENS0_12LpMaxFunctorIiLi1ELi1ELi0EEEJPiPKlEEEvT_T0_DpT1_",
    "_Z5scalePf",
    "_Z5scale6Tensor",
};
/* PyTorch's kernels are told by the library that they are in. */
char* torch_stub(int kernel);
static char own_stubs[2][16];
static char* stub(int kernel) { return kernel < OF_POINTER ? torch_stub(kernel) : own_stubs[kernel - OF_POINTER]; }

static struct {
  int32_t sizes[SIZES];
  float epsilon;
  char functor[16];
  void* tensors[8];
  struct { /* TensorListMetadata<1> of at/native/cuda/MultiTensorApply.cuh */
    void* addresses[110];
    int64_t elements[110];
    unsigned char owner[LIST_BLOCKS];
    int chunk[LIST_BLOCKS];
    int start;
    char room[32768]; /* the layout for newer GPUs is larger */
  } list;
  void *a, *b, *c, *event, *cublas;
} data;

static int nothing(int i) { return i; }
static int (*volatile empty)(int) = nothing;

static void check(int code, const char* what) {
  if (code == 0) return;
  fprintf(stderr, "%s returned %d\n", what, code);
  exit(1);
}

static int call_add(int i) {
  void* arguments[] = {&data.sizes[i % SIZES], data.functor, data.tensors};
  return cudaLaunchKernel(stub(ADD), (dim3){64u << (i % SIZES), 1, 1}, (dim3){128, 1, 1}, arguments, 0, NULL);
}

static int call_norm(int i) {
  void** t = data.tensors;
  void* arguments[] = {&data.sizes[i % SIZES], &data.epsilon, &t[0], &t[1], &t[2], &t[3], &t[4], &t[5]};
  return cudaLaunchKernel(stub(NORM), (dim3){64u << (i % SIZES), 1, 1}, (dim3){128, 1, 1}, arguments, 0, NULL);
}

static int call_list_norm(int i) {
  (void)i;
  void* arguments[] = {&data.list, data.functor, &data.tensors[0], &data.tensors[1], &data.tensors[2]};
  return cudaLaunchKernel(stub(LIST_NORM), (dim3){LIST_BLOCKS, 1, 1}, (dim3){512, 1, 1}, arguments, 0, NULL);
}

static int call_of_pointer(int i) {
  void* arguments[] = {&data.tensors[i % 8]};
  return cudaLaunchKernel(stub(OF_POINTER), (dim3){64, 1, 1}, (dim3){128, 1, 1}, arguments, 0, NULL);
}

static int call_of_structure(int i) {
  struct {
    int64_t elements;
    void* data;
  } tensor = {1 << 20, data.tensors[i % 8]};
  void* arguments[] = {&tensor};
  return cudaLaunchKernel(stub(OF_STRUCTURE), (dim3){64, 1, 1}, (dim3){128, 1, 1}, arguments, 0, NULL);
}

static int call_empty(int i) { return empty(i) - i; }
static int call_device(int i) {
  (void)i;
  int device;
  return cudaGetDevice(&device);
}
static int call_capturing(int i) {
  (void)i;
  int capturing;
  return cudaStreamIsCapturing(NULL, &capturing);
}
static int call_event(int i) {
  (void)i;
  return cudaEventRecord(data.event, NULL);
}
static int call_gemm(int i) { /* bf16 in and out, sums in fp32 */
  const float one = 1, zero = 0;
  return cublasGemmEx(data.cublas, 1, 0, 1024, data.sizes[i % SIZES], 1024, &one, data.a, 14, 1024, data.b, 14, 1024,
                      &zero, data.c, 14, 1024, 68, -1);
}

static const struct {
  const char* name;
  int (*call)(int);
} cases[] = {
    {"empty function", call_empty},
    {"cudaGetDevice", call_device},
    {"cudaStreamIsCapturing", call_capturing},
    {"cudaEventRecord", call_event},
    {"cudaLaunchKernel: addition", call_add},
    {"cudaLaunchKernel: layer norm", call_norm},
    {"cudaLaunchKernel: list of 320 blocks", call_list_norm},
    {"cudaLaunchKernel: own kernel, pointer", call_of_pointer},
    {"cudaLaunchKernel: own kernel, structure", call_of_structure},
    {"cublasGemmEx", call_gemm},
};
enum { CASES = sizeof cases / sizeof *cases };

static int64_t cpu_ns(void) {
  struct timespec now;
  syscall(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1000000000L + now.tv_nsec;
}

static void pause_ms(long milliseconds) {
  const struct timespec time = {0, milliseconds * 1000000};
  syscall(SYS_nanosleep, &time, NULL);
}

static void prepare(void) {
  for (int i = 0; i < KERNELS; ++i) {
    __cudaRegisterFunction(NULL, stub(i), NULL, names[i], -1, NULL, NULL, NULL, NULL, NULL);
  }
  for (int i = 0; i < SIZES; ++i) data.sizes[i] = 8192 << i;
  for (int i = 0; i < 8; ++i) check(cudaMalloc(&data.tensors[i], 8 << 20), "cudaMalloc");
  for (int i = 0; i < LIST_BLOCKS; ++i) { /* ten blocks per tensor */
    data.list.owner[i] = i / 10;
    data.list.chunk[i] = i % 10;
    data.list.elements[i / 10] = 10 * LIST_CHUNK;
    data.list.addresses[i / 10] = data.tensors[i / 10 % 8];
  }
  check(cudaMalloc(&data.a, 1 << 24), "cudaMalloc");
  check(cudaMalloc(&data.b, 1 << 24), "cudaMalloc");
  check(cudaMalloc(&data.c, 1 << 24), "cudaMalloc");
  check(cudaEventCreateWithFlags(&data.event, 2), "cudaEventCreateWithFlags");
  check(cublasCreate_v2(&data.cublas), "cublasCreate");
}

/* Small tensors whose values the simulator keeps, as a training script has them: input tokens, flags, sizes. */
static void make_known(void) {
  static char tokens[16384];
  void* device;
  for (int i = 0; i < 16; ++i) {
    check(cudaMalloc(&device, sizeof tokens), "cudaMalloc");
    check(cudaMemcpyAsync(device, tokens, sizeof tokens, 1, NULL), "cudaMemcpyAsync");
  }
}

static void measure(int known) {
  for (int burst = 0; burst < BURSTS; ++burst) {
    for (int c = 0; c < CASES; ++c) {
      pause_ms(1); /* the reader catches up; a full ring would be waited for, not timed */
      const int64_t start_ns = cpu_ns();
      for (int i = 0; i < BURST; ++i) check(cases[c].call(i), cases[c].name);
      printf("%d\t%s\t%.2f\n", known, cases[c].name, (double)(cpu_ns() - start_ns) / BURST);
    }
  }
}

int main(void) {
  prepare();
  measure(0);
  make_known();
  measure(1);
}
