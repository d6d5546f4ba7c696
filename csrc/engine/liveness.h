// Whether a rank may do something: one state, and what changes it.
//
// A rank that runs bounds virtual time, because it may yet issue something at its guarantee. Any other rank does not.
// docs/liveness.md is made from what stands here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/common.h"

namespace ph {

class Liveness {
 public:
  enum class State : std::uint8_t { Running, Waiting, HelpersRun, Outside, Returning, ReturningHelpersRun, Gone };
  enum class Cause : std::uint8_t { Asks, Told, SetAside, Woken, Alarm, Exits };
  static constexpr std::size_t kStates = 7;
  static constexpr std::size_t kCauses = 6;

  static State after(Cause cause, State state) { return kTable[index(cause)][index(state)]; }

  State state() const { return state_; }
  bool gone() const { return state_ == State::Gone; }
  bool outside() const { return state_ == State::Outside; }
  bool waits() const { return state_ == State::Waiting || state_ == State::Returning || helpers_run(); }
  bool helpers_run() const { return state_ == State::HelpersRun || state_ == State::ReturningHelpersRun; }
  bool runs() const { return state_ == State::Running || state_ == State::HelpersRun; }
  // None of its threads will go on by itself, so that its alarms may ring: it is outside, and not known to be still.
  bool lacks_proof() const { return outside() && !proven_; }
  // Somebody has set it going, and it has not resumed since.
  bool was_woken() const { return woken_ns_ > 0; }
  // The agent has found it asleep, and it has not resumed since.
  bool is_aside() const { return outside() || was_woken() || is_beside_; }
  // From when on a rank that runs may issue something, by what happened to it; its clocks may say later.
  Nanoseconds since_ns() const { return waits() ? helpers_ns_ : woken_ns_; }

  // Other threads of the rank than the one that runs wait for answers.
  bool runs_beside_waits() const { return state_ == State::Running && waits_open_ > 0; }

  void asks() {
    ++waits_open_;
    enter(Cause::Asks);
  }
  void told() {
    --waits_open_;
    is_beside_ = false;
    enter(Cause::Told);
  }
  void set_aside(bool proven) {
    is_beside_ = is_beside_ || runs_beside_waits();
    if (runs_beside_waits()) {
      state_ = State::Waiting;  // it comes back by the next answer, or when the thread that waits outside is woken
    } else {
      enter(Cause::SetAside);
    }
    proven_ = proven;
  }
  // Whether it was outside, and may do something from now on.
  bool wake(Nanoseconds now_ns) {
    const State before = state_;
    if (is_beside_ && state_ == State::Waiting) {
      alarm(now_ns);
      return true;
    }
    enter(Cause::Woken);
    if (state_ == before) return false;
    woken_ns_ = now_ns;
    return true;
  }
  void resume() {
    enter(Cause::Woken);
    woken_ns_ = 0;
  }
  void alarm(Nanoseconds now_ns) {
    if (waits()) helpers_ns_ = now_ns;
    else if (outside()) woken_ns_ = now_ns;
    enter(Cause::Alarm);
  }
  void exit() { enter(Cause::Exits); }

 private:
  template <typename Value>
  static constexpr std::size_t index(Value value) {
    return static_cast<std::size_t>(value);
  }
  void enter(Cause cause) { state_ = after(cause, state_); }

  using enum State;
  // By cause, from each state in the order of their declaration.
  static constexpr std::array<std::array<State, kStates>, kCauses> kTable{{
      {Waiting, Waiting, HelpersRun, Returning, Returning, ReturningHelpersRun, Gone},                // Asks
      {Running, Running, Running, Outside, Outside, Outside, Gone},                                   // Told
      {Outside, Returning, Waiting, Outside, Returning, Returning, Gone},                             // SetAside
      {Running, Waiting, HelpersRun, Running, Waiting, HelpersRun, Gone},                             // Woken
      {Running, HelpersRun, HelpersRun, Running, ReturningHelpersRun, ReturningHelpersRun, Gone},     // Alarm
      {Gone, Gone, Gone, Gone, Gone, Gone, Gone},                                                     // Exits
  }};

  State state_ = State::Running;
  bool proven_ = false;         // how it was set aside
  std::uint32_t waits_open_ = 0;  // of drivers
  bool is_beside_ = false;      // a driver waits outside while another one waits for an answer
  Nanoseconds woken_ns_ = 0;    // when it was woken last, until it resumes
  Nanoseconds helpers_ns_ = 0;  // when helper threads were set going, while the rank waits
};

}  // namespace ph
