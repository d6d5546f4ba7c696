/* Compiled once per library: every row of its table (csrc/shim/api) as a function that returns 0, success in all of
   them. The few functions that must do more are in <library>.c and take precedence over these. */
#define API(name, support, note) \
  __attribute__((weak, visibility("default"))) int name(void) { return 0; }
#include TABLE
