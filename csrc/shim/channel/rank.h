// The rank's side of the channel: its record stream, its waits, its host clock.
//
// Everything here may be called from any thread. A thread that issues device work is a *driver*: its calls
// advance the rank's host clock. Other threads (NCCL watchdog, pinned-memory thread) read the clock and may
// ask questions, but never move it.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <span>
#include <string_view>

#include "protocol/channel.h"
#include "protocol/records.h"
#include "shim/core/api.h"

namespace ph {

struct Reply {
  ReplyStatus status = ReplyStatus::Done;
  Nanoseconds time_ns = 0;
  std::uint64_t value = 0;
  std::uint32_t payload_bytes = 0;
  unsigned char payload[kReplyPayloadBytes];
};

// Makes this process the one that drives the GPU of `rank`. False: another live process already does.
PH_EXPORT bool attach(const char* run_dir, std::uint32_t rank) noexcept;

// Makes this process a child of `rank` that sees its clock and drives nothing. False: the rank is not attached.
PH_EXPORT bool follow(const char* run_dir, std::uint32_t rank) noexcept;

// Whether the process that drives the rank's GPU has started this one, which sees its clock, itself or by others.
PH_EXPORT bool descends_from_owner() noexcept;

// False in a process that does not drive a rank's GPU (the zygote, a DataLoader worker, a tool):
// records go nowhere and waits return at once.
PH_EXPORT bool attached() noexcept;
// After the exit record: what destructors still do to the GPU is not recorded, and would get no answer.
PH_EXPORT void leave() noexcept;
PH_EXPORT std::uint32_t global_rank() noexcept;

// Appends `record`; its host_gap_ns is filled in here, and with `locate` its Python call site. Work on a stream that is
// being captured goes to the graph instead (graph/capture.h).
// Blocks only while the ring is full.
PH_EXPORT void emit(Record& record, bool locate = false) noexcept;
// A record followed by its payload, contiguous in the ring.
PH_EXPORT void emit(Record& record, std::string_view payload) noexcept;
// Several records that must stand together (NcclLaunch and its NcclOps); `locate` applies to the first.
PH_EXPORT void emit(std::span<Record> records, bool locate) noexcept;

// Emits a Wait record and sleeps until the server answers; a driver's host clock moves to the answer's time.
// The first form is for the many waits whose payload nobody needs.
PH_EXPORT ReplyStatus wait(Record record, std::uint64_t* value = nullptr) noexcept;
PH_EXPORT void wait(Record record, Reply& reply) noexcept;
// Waits of a helper thread, in steps: begins one, which tells its slot; sleeps until one of several is answered, in vain
// where another of the rank is or `limit` is over, in real time; ends one that is answered, or else does not (false);
// ends one without an answer.
PH_EXPORT std::uint32_t begin_wait(Record record) noexcept;
PH_EXPORT void await_any_reply(std::span<const std::uint32_t> slots, const timespec& limit) noexcept;
PH_EXPORT bool take_reply(std::uint32_t slot, Reply& reply) noexcept;
PH_EXPORT void withdraw_wait(std::uint32_t slot) noexcept;

// Marks the calling thread as one that drives the GPU. Called by every body that issues device work.
PH_EXPORT void become_driver() noexcept;
PH_EXPORT bool is_driver() noexcept;

// True in an attached process and in processes forked from it: the program's clocks are virtual.
PH_EXPORT bool clock_virtual() noexcept;
// Virtual nanoseconds since the start of the run; `advance` is for driver threads, and brings back a rank that was set
// aside: what it waited for comes first.
PH_EXPORT Nanoseconds host_clock_ns() noexcept;
PH_EXPORT void advance_host_clock(Nanoseconds duration_ns) noexcept;
// Whether a driver sleeps until the server answers.
PH_EXPORT bool waits_for_server() noexcept;

// For what ranks do to each other by other means than the GPU; see libc/outside.h.
// False also in a child that shares this process's memory until it executes a program.
PH_EXPORT bool is_owner() noexcept;
PH_EXPORT bool is_aside() noexcept;
// Whether a driver has to wait for the simulation before it goes on: the rank was set aside, or its host clock has
// passed the next alarm of one of its threads.
PH_EXPORT bool must_resume() noexcept;
// A driver of a rank that was set aside comes back: its host clock moves to the simulation's time.
PH_EXPORT void resume_if_aside() noexcept;
// A driver waits until the simulation has reached its host clock and so much more.
PH_EXPORT void wait_for_simulation(Nanoseconds duration_ns) noexcept;
// Lets the server know the host clock at once, where others wait for this rank's progress.
PH_EXPORT void tell_host_clock() noexcept;
// Calls to other ranks, see protocol/switchboard.h: at once, or when the simulation has reached the host clock.
PH_EXPORT Switchboard& switchboard() noexcept;
PH_EXPORT void begin_call(Recipient to) noexcept;
PH_EXPORT void begin_call_in_turn(Recipient to) noexcept;
PH_EXPORT void end_call(Recipient to) noexcept;
PH_EXPORT void begin_value_wait() noexcept;  // for values that other ranks are to send
PH_EXPORT void end_value_wait() noexcept;
// A driver has values that were sent at that time: if its rank is aside, it does not come back earlier.
PH_EXPORT void note_values(Nanoseconds sent_ns) noexcept;
PH_EXPORT void begin_poll_sleep() noexcept;
PH_EXPORT void end_poll_sleep() noexcept;
// Whether a helper thread waits for an answer that comes at once.
PH_EXPORT bool helpers_ask() noexcept;
// A lookup of a name: somebody answers who is no rank, and then its thread goes on.
PH_EXPORT void begin_lookup() noexcept;
PH_EXPORT void end_lookup() noexcept;
// An act is in the kernel, where it may wait for another rank.
PH_EXPORT void begin_blocking() noexcept;
PH_EXPORT void end_blocking() noexcept;

// What the processes below this rank do, its other threads included; and `beside`, those of the program that are no
// ranks. For a thread that lets them work first: while one does, the rank is not set aside. Work: also if nothing was
// told within the limit, in real time.
enum class Children { Work, Sleep, Still };
PH_EXPORT void begin_giving_way(bool beside) noexcept;
PH_EXPORT void end_giving_way(bool beside) noexcept;
PH_EXPORT Children await_children(Nanoseconds limit_ns) noexcept;
// A sleep or a time-out has ended though it is not known that nothing was to come before: the report tells.
PH_EXPORT void note_ran_out() noexcept;

// Alarms of the rank's threads (libc/alarms.cc): the slot in which they are answered, claimed for good; setting or
// withdrawing one; the next one, kNever if there is none; and a sleep until some have run out, which tells by
// what time: none after `timeout`, in real time.
PH_EXPORT std::uint32_t claim_alarm_slot() noexcept;
PH_EXPORT void tell_alarm(std::uint32_t slot, Nanoseconds deadline_ns, bool withdrawn) noexcept;
PH_EXPORT void set_next_alarm(Nanoseconds deadline_ns) noexcept;
PH_EXPORT std::optional<Nanoseconds> await_alarms(std::uint32_t slot, const timespec* timeout) noexcept;

// Statistics of any kind, as JSON.
PH_EXPORT void emit_statistics(std::string_view json) noexcept;

// Id of a signature by its JSON (docs/records.md): announced on first sight, looked up afterwards.
PH_EXPORT std::uint32_t intern_signature(std::string_view json) noexcept;
// What has that id; empty: none has.
PH_EXPORT std::string_view signature_text(std::uint32_t signature) noexcept;

}  // namespace ph
