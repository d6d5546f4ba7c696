// phantora_py._channel: the agent's side of the shared memory, for Python.
// Its interface is documented in phantora_py/_channel.pyi.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <system_error>

#include "bindings/channel_set.h"
#include "bindings/test_rank.h"

namespace py = pybind11;

namespace {

using ph::Nanoseconds;

// A ChannelSet that Python can close.
class Channels {
 public:
  Channels(const std::string& run_dir, const std::vector<std::uint32_t>& ranks)
      : set_(std::make_unique<ph::ChannelSet>(run_dir, ranks)) {}

  ph::ChannelSet& set() const {
    if (!set_) throw py::value_error("the channels are closed");
    return *set_;
  }

  void close() {
    if (polling_) throw std::runtime_error("the channels are closed while another thread polls them");
    set_.reset();
  }

  py::list poll(int timeout_ms) {
    ph::ChannelSet& channels = set();
    {
      polling_ = true;
      const py::gil_scoped_release released;
      channels.sleep(timeout_ms);
    }
    polling_ = false;
    py::list polls;
    for (const auto& poll : channels.collect())
      polls.append(py::make_tuple(poll.rank, poll.host_clock_ns, py::bytes(poll.cells)));
    return polls;
  }

 private:
  std::unique_ptr<ph::ChannelSet> set_;
  bool polling_ = false;  // under the GIL
};

// Python's int, negative values as two's complement.
std::uint64_t unsigned_value(const py::int_& value) {
  const std::uint64_t bits = PyLong_AsUnsignedLongLongMask(value.ptr());
  if (PyErr_Occurred()) throw py::error_already_set();
  return bits;
}

void raise_os_error(std::exception_ptr thrown) {
  try {
    if (thrown) std::rethrow_exception(thrown);
  } catch (const std::system_error& error) {
    errno = error.code().value();
    PyErr_SetFromErrnoWithFilename(PyExc_OSError, error.what());
  }
}

}  // namespace

PYBIND11_MODULE(_channel, module) {
  py::register_local_exception_translator(&raise_os_error);
  module.attr("RING_CELLS") = ph::kRingCells;
  module.attr("REPLY_SLOTS") = ph::kReplySlots;
  module.attr("REPLY_PAYLOAD_BYTES") = ph::kReplyPayloadBytes;

  py::class_<Channels>(module, "ChannelSet")
      .def(py::init<const std::string&, const std::vector<std::uint32_t>&>(), py::arg("run_dir"), py::arg("ranks"))
      .def("poll", &Channels::poll, py::arg("timeout_ms"))
      .def(
          "answer",
          [](const Channels& self, std::uint32_t rank, std::uint32_t slot, std::uint32_t status, Nanoseconds time_ns,
             const py::int_& value, const py::bytes& payload) {
            self.set().answer(rank, slot, static_cast<ph::ReplyStatus>(status), time_ns, unsigned_value(value),
                              std::string_view(payload));
          },
          py::arg("rank"), py::arg("slot"), py::arg("status"), py::arg("time_ns"), py::arg("value"),
          py::arg("payload") = py::bytes())
      .def(
          "set_aside", [](const Channels& self, std::uint32_t rank) { return self.set().set_aside(rank); },
          py::arg("rank"))
      .def(
          "waiting", [](const Channels& self, std::uint32_t rank) { return self.set().channel(rank).waiting.load(); },
          py::arg("rank"))
      .def(
          "poll_sleeps",
          [](const Channels& self, std::uint32_t rank) {
            const ph::Channel& channel = self.set().channel(rank);
            return py::make_tuple(channel.poll_sleeps.load(), channel.polls_asleep.load());
          },
          py::arg("rank"))
      .def(
          "blocked", [](const Channels& self, std::uint32_t rank) { return self.set().channel(rank).blocked.load(); },
          py::arg("rank"))
      .def(
          "looking_up",
          [](const Channels& self, std::uint32_t rank) { return self.set().channel(rank).looking_up.load(); },
          py::arg("rank"))
      .def(
          "ran_out", [](const Channels& self, std::uint32_t rank) { return self.set().channel(rank).ran_out.load(); },
          py::arg("rank"))
      .def(
          "gives_way",
          [](const Channels& self, std::uint32_t rank) {
            const ph::Channel& channel = self.set().channel(rank);
            return py::make_tuple(channel.giving_way.load(), channel.asked.load(),
                                  channel.giving_way_beside.load() != 0);
          },
          py::arg("rank"))
      .def(
          "tell_children",
          [](const Channels& self, std::uint32_t rank, std::uint32_t question, bool sleep) {
            self.set().tell_children(rank, question, sleep);
          },
          py::arg("rank"), py::arg("question"), py::arg("sleep"))
      .def(
          "clock",
          [](const Channels& self, std::uint32_t rank) { return self.set().channel(rank).host_clock_ns.load(); },
          py::arg("rank"))
      .def(
          "owner_pid",
          [](const Channels& self, std::uint32_t rank) { return self.set().channel(rank).owner_pid.load(); },
          py::arg("rank"))
      .def(
          "release",
          [](Channels& self, std::uint32_t rank, std::uint32_t pid) { return self.set().release(rank, pid); },
          py::arg("rank"), py::arg("pid"))
      .def(
          "awaits_values",
          [](const Channels& self, std::uint32_t rank) { return self.set().channel(rank).awaiting_values.load() != 0; },
          py::arg("rank"))
      .def("calls",
           [](const Channels& self) {
             py::dict counts;
             for (const auto& [rank, count] : self.set().calls())
               counts[py::int_(rank)] = py::make_tuple(count.begun, count.answers, count.under_way);
             return counts;
           })
      .def(
          "hang_up", [](const Channels& self, std::uint32_t rank) { self.set().hang_up(rank); }, py::arg("rank"))
      .def("damage",
           [](const Channels& self) -> py::object {
             const auto damage = self.set().damage();
             if (!damage) return py::none();
             return py::make_tuple(damage->rank, damage->what);
           })
      .def("wake", [](const Channels& self) { self.set().wake(); })
      .def("close", &Channels::close);

  auto test_rank = py::class_<ph::TestRank>(module, "TestRank");
  test_rank.attr("__test__") = false;  // not a test class, for pytest
  test_rank.def(py::init<const std::string&, std::uint32_t>(), py::arg("run_dir"), py::arg("rank"))
      .def("push", &ph::TestRank::push, py::arg("cells"), py::arg("host_clock_ns"), py::arg("ring") = true,
           py::call_guard<py::gil_scoped_release>())
      .def("set_clock", &ph::TestRank::set_clock, py::arg("host_clock_ns"))
      .def("count_call", &ph::TestRank::count_call, py::arg("to"), py::arg("ended"))
      .def("overwrite", &ph::TestRank::overwrite, py::arg("field"), py::arg("value"))
      .def_property_readonly_static("FIELDS", [](const py::object&) { return ph::TestRank::fields(); })
      .def(
          "wait_reply",
          [](ph::TestRank& self, std::uint32_t slot, int timeout_ms) -> py::object {
            std::optional<ph::TestRank::Reply> reply;
            {
              const py::gil_scoped_release released;
              reply = self.wait_reply(slot, timeout_ms);
            }
            if (!reply) return py::none();
            return py::make_tuple(static_cast<std::uint32_t>(reply->status), reply->time_ns, reply->value,
                                  py::bytes(reply->payload));
          },
          py::arg("slot"), py::arg("timeout_ms"))
      .def("aside", &ph::TestRank::aside);
}
