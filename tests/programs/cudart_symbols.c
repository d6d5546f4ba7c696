/* covers: cudaGetSymbolAddress cudaGetSymbolSize cudaMemcpyToSymbol cudaMemcpyToSymbolAsync cudaMemcpyFromSymbol
   cudaMemcpyFromSymbolAsync */
#include <string.h>

#include "program.h"
#include "registered.h"

#define OK(call) REQUIRE(call, cudaSuccess)

static void check_copies(cudaStream_t stream) {
  char sent[64], back[64] = {0}, *address;
  memset(sent, 'a', sizeof sent);
  OK(cudaMemcpyToSymbol(table, sent, sizeof sent, 0, cudaMemcpyHostToDevice));
  memset(sent, 'b', sizeof sent);
  OK(cudaMemcpyToSymbolAsync(table, sent, 8, 8, cudaMemcpyDefault, stream));
  OK(cudaStreamSynchronize(stream));
  OK(cudaMemcpyFromSymbol(back, table, 16, 4, cudaMemcpyDeviceToHost));
  CHECK(memcmp(back, "aaaabbbbbbbbaaaa", 16) == 0);
  OK(cudaGetSymbolAddress((void**)&address, table));
  OK(cudaMemset(address + 60, 'c', 4));
  OK(cudaMemcpyFromSymbolAsync(back, table, 8, 56, cudaMemcpyDefault, stream));
  OK(cudaStreamSynchronize(stream));
  CHECK(memcmp(back, "aaaacccc", 8) == 0);
}

static void check_misuse(void) {
  char bytes[65] = {0};
  static char unknown[64];
  void* address;
  size_t size;
  EXPECT(cudaGetSymbolAddress(&address, unknown), cudaErrorInvalidSymbol);
  EXPECT(cudaGetSymbolSize(&size, unknown), cudaErrorInvalidSymbol);
  EXPECT(cudaMemcpyToSymbol(unknown, bytes, 8, 0, cudaMemcpyHostToDevice), cudaErrorInvalidSymbol);
  EXPECT(cudaMemcpyToSymbol(table, bytes, 65, 0, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT(cudaMemcpyToSymbol(table, bytes, 8, 60, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT(cudaMemcpyToSymbol(table, bytes, 8, 0, cudaMemcpyDeviceToHost), cudaErrorInvalidMemcpyDirection);
  EXPECT(cudaMemcpyFromSymbol(bytes, table, 8, 0, cudaMemcpyHostToDevice), cudaErrorInvalidMemcpyDirection);
}

int main(void) {
  void** handle = register_kernel();
  cudaStream_t stream;
  size_t size = 0;
  OK(cudaStreamCreate(&stream));
  OK(cudaGetSymbolSize(&size, table));
  CHECK(size == sizeof table);
  check_copies(stream);
  check_copies(NULL);
  check_misuse();
  __cudaUnregisterFatBinary(handle);
  return differences;
}
