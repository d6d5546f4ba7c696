// A fault for the sanitizer that this is compiled with to find. Exit status 0: it is compiled without one.
#include <cstdio>
#include <thread>

#if defined(__SANITIZE_THREAD__)

int main() {
  int shared = 0;
  std::thread other([&shared] { ++shared; });
  ++shared;
  other.join();
  std::printf("%d\n", shared);
}

#elif defined(__SANITIZE_ADDRESS__)

int main(int count, char**) {
  const int* one = new int[1]{};
  std::printf("%d\n", one[count]);
}

#else

int main() {}

#endif
