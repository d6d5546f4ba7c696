// Telling what the Python interpreter does for itself from what the program asks of it.
//
// A thread that wants the GIL waits for it in turns of 5 ms, each with a clock read and a timed wait. How many turns
// it takes depends on the other threads and the machine, so they must not move virtual time.
#pragma once

namespace ph {

// All but the last take the address that the libc function will return to.

// Any call of the interpreter's own.
bool is_of_python(const void* caller) noexcept;
// A wait on a condition variable: the interpreter has them for the GIL only (its locks are semaphores).
bool is_wait_for_gil(const void* caller) noexcept;
// A try to take a semaphore: the interpreter's locks.
bool is_lock_of_python(const void* caller) noexcept;
// A clock read without the GIL: no Python code runs then on this thread.
bool is_interpreters_own_read(const void* caller) noexcept;

// Whether the calling thread holds the GIL; false where there is no Python.
bool holds_gil() noexcept;

// Whether the calling thread is one of the program: one that Python knows, or any where there is no Python. The others
// are of libraries that look after something.
bool is_programs_thread() noexcept;

}  // namespace ph
