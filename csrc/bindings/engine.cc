// sim_server._engine: the device engine for Python. Types in, types out; no behaviour of its own.
// Its interface is documented in sim_server/_engine.pyi.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cmath>
#include <map>
#include <numeric>

#include "engine/engine.h"
#include "engine/names.h"

namespace py = pybind11;

namespace {

using ph::Nanoseconds;
using Rate = std::pair<Nanoseconds, double>;  // latency_ns, bytes_per_s
using CopyRates = std::map<std::pair<std::uint32_t, bool>, Rate>;

ph::Rate engine_rate(const Rate& rate) {
  if (!(rate.second >= 1 && rate.second < 1e18)) throw py::value_error("a copy rate is out of range");
  return {rate.first, std::llround(rate.second)};
}

ph::Gpu engine_gpu(std::uint32_t sm_count, std::uint32_t comm_sm, const CopyRates& copy_rates, const Rate& fill_rate) {
  ph::Gpu gpu{.sm_count = sm_count, .comm_sm = comm_sm, .copy = {}, .fill = engine_rate(fill_rate)};
  for (const auto& [key, rate] : copy_rates) {
    if (key.first >= ph::kCopyKinds) throw py::value_error("copy_rates has an unknown kind of copy");
    gpu.copy[key.first][key.second] = engine_rate(rate);
  }
  return gpu;
}

std::unique_ptr<ph::Engine> make_engine(std::uint32_t ranks, std::uint32_t sm_count, std::uint32_t comm_sm,
                                        const CopyRates& copy_rates, const Rate& fill_rate,
                                        const std::optional<std::vector<std::uint32_t>>& live) {
  const ph::Gpu gpu = engine_gpu(sm_count, comm_sm, copy_rates, fill_rate);
  std::vector<std::uint32_t> all(live ? 0 : ranks);
  std::iota(all.begin(), all.end(), 0);
  return std::make_unique<ph::Engine>(ph::Settings{.ranks = ranks, .live = live.value_or(all), .gpu = gpu});
}

template <typename Row>
py::array array_of(std::vector<Row>&& taken) {
  auto rows = std::make_unique<std::vector<Row>>(std::move(taken));
  const auto size = static_cast<py::ssize_t>(rows->size());
  Row* data = rows->data();
  const py::capsule owner(rows.release(), [](void* held) { delete static_cast<std::vector<Row>*>(held); });
  return py::array_t<Row>(size, data, owner);
}

// Python lines are whatever bytes the programs' files have for names.
py::object text(const std::optional<std::string>& of) {
  if (!of) return py::none();
  PyObject* decoded = PyUnicode_DecodeUTF8(of->data(), static_cast<py::ssize_t>(of->size()), "replace");
  if (!decoded) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(decoded);
}

// What becomes of each state by each cause, all by name.
std::map<std::string, std::map<std::string, std::string>> liveness_table() {
  using ph::Liveness;
  std::map<std::string, std::map<std::string, std::string>> table;
  for (std::size_t cause = 0; cause < Liveness::kCauses; ++cause)
    for (std::size_t state = 0; state < Liveness::kStates; ++state) {
      const auto why = static_cast<Liveness::Cause>(cause);
      const auto before = static_cast<Liveness::State>(state);
      table[name(why)][name(before)] = name(Liveness::after(why, before));
    }
  return table;
}

// `owners`: of each member its rank and the device that it is there; none: each is the rank of that number.
std::vector<ph::Member> members_of(const std::vector<std::uint32_t>& gpus,
                                   const std::optional<std::vector<std::pair<std::uint32_t, std::uint16_t>>>& owners) {
  if (owners && owners->size() != gpus.size()) throw py::value_error("each member of a communicator has an owner");
  std::vector<ph::Member> members;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const auto [rank, device] = owners ? (*owners)[i] : std::pair{gpus[i], std::uint16_t{0}};
    members.push_back({.gpu = gpus[i], .rank = rank, .device = device});
  }
  return members;
}

template <class Row>
py::bytes bytes_of(const std::vector<Row>& rows) {
  return {reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof(Row)};
}

template <auto Member>
auto number() {
  return [](const py::object& self) {
    using Class = decltype([]<typename C, typename V>(V C::*) -> C { throw; }(Member));
    return static_cast<std::int64_t>(self.cast<const Class&>().*Member);
  };
}

void bind_results(py::module_& module) {
  using ph::Announcement, ph::Answer, ph::HostWait, ph::Pending, ph::Ready, ph::Request, ph::Stop;
  py::class_<Announcement>(module, "Announcement")
      .def_property_readonly("kind", number<&Announcement::kind>())
      .def_property_readonly("marker", number<&Announcement::id>())
      .def_readonly("flags", &Announcement::flags)
      .def_readonly("device", &Announcement::device)
      .def_readonly("rank", &Announcement::rank)
      .def_readonly("id", &Announcement::id)
      .def_readonly("site", &Announcement::site)
      .def_readonly("host_time_ns", &Announcement::host_time_ns)
      .def_property_readonly("args", [](const Announcement& self) { return py::tuple(py::cast(self.args)); })
      .def_property_readonly("payload", [](const Announcement& self) { return py::bytes(self.payload); });
  py::class_<Ready>(module, "Ready")
      .def_property_readonly("kind", number<&Ready::kind>())
      .def_readonly("operation", &Ready::operation)
      .def_readonly("time_ns", &Ready::time_ns)
      .def_readonly("comm", &Ready::comm)
      .def_readonly("count", &Ready::count)
      .def_readonly("dtype", &Ready::dtype)
      .def_readonly("reduction", &Ready::reduction)
      .def_readonly("root", &Ready::root)
      .def_readonly("source", &Ready::source)
      .def_readonly("destination", &Ready::destination)
      .def_readonly("launch", &Ready::launch)
      .def_readonly("rank", &Ready::rank)
      .def_readonly("site", &Ready::site)
      .def_readonly("arrivals_ns", &Ready::arrivals_ns);
  py::class_<Request>(module, "Request")
      .def_property_readonly("kind", number<&Request::kind>())
      .def_property_readonly("args", [](const Request& self) { return py::tuple(py::cast(self.args)); })
      .def_readonly("rank", &Request::rank)
      .def_readonly("device", &Request::device)
      .def_readonly("slot", &Request::slot)
      .def_readonly("announces", &Request::announces)
      .def_readonly("site", &Request::site)
      .def_readonly("time_ns", &Request::time_ns);
  py::class_<Answer>(module, "Answer")
      .def_property_readonly("status", number<&Answer::status>())
      .def_property_readonly("kind", number<&Answer::kind>())
      .def_readonly("background", &Answer::background)
      .def_readonly("asked_ns", &Answer::asked_ns)
      .def_property_readonly("payload",
                             [](const Answer& self) {
                               if (self.kind == ph::WaitKind::Activities) return bytes_of(self.activities);
                               return bytes_of(self.news);
                             })
      .def_readonly("rank", &Answer::rank)
      .def_readonly("slot", &Answer::slot)
      .def_readonly("time_ns", &Answer::time_ns)
      .def_readonly("value", &Answer::value);
  py::class_<Stop>(module, "Stop")
      .def_readonly("time_ns", &Stop::time_ns)
      .def_readonly("ready", &Stop::ready)
      .def_readonly("requests", &Stop::requests)
      .def_readonly("answers", &Stop::answers)
      .def_property_readonly("mismatch", [](const Stop& self) { return text(self.mismatch); });
  py::class_<Pending>(module, "Pending")
      .def_property_readonly("kind", number<&Pending::kind>())
      .def_readonly("comm", &Pending::comm)
      .def_readonly("count", &Pending::count)
      .def_readonly("dtype", &Pending::dtype)
      .def_readonly("sequence", &Pending::sequence)
      .def_readonly("arrived", &Pending::arrived)
      .def_readonly("missing", &Pending::missing)
      .def_readonly("source", &Pending::source)
      .def_readonly("destination", &Pending::destination);
  py::class_<HostWait>(module, "HostWait")
      .def_property_readonly("kind", number<&HostWait::kind>())
      .def_readonly("rank", &HostWait::rank)
      .def_readonly("site", &HostWait::site)
      .def_readonly("since_ns", &HostWait::since_ns)
      .def_readonly("held_up_by", &HostWait::held_up_by);
}

}  // namespace

PYBIND11_MODULE(_engine, module) {
  PYBIND11_NUMPY_DTYPE(ph::Span, rank, kind, device, stream, id, issue_ns, start_ns, end_ns);
  PYBIND11_NUMPY_DTYPE(ph::ScopeChange, rank, scope, issue_ns);
  py::register_exception<ph::MalformedInput>(module, "MalformedInput", PyExc_ValueError);
  bind_results(module);
  module.def("operation_name", [](std::uint8_t kind) { return ph::name(static_cast<ph::NcclOpKind>(kind)); });
  module.def("data_type_name", &ph::data_type_name);
  module.def("liveness_table", &liveness_table);

  using ph::Engine;
  py::class_<Engine>(module, "Engine")
      .def(py::init(&make_engine), py::arg("ranks"), py::arg("sm_count"), py::arg("comm_sm"), py::arg("copy_rates"),
           py::arg("fill_rate"), py::arg("live") = py::none())
      .def(
          "set_gpu",
          [](Engine& self, std::uint32_t rank, std::uint32_t sm_count, std::uint32_t comm_sm,
             const CopyRates& copy_rates,
             const Rate& fill_rate) { self.set_gpu(rank, engine_gpu(sm_count, comm_sm, copy_rates, fill_rate)); },
          py::arg("rank"), py::arg("sm_count"), py::arg("comm_sm"), py::arg("copy_rates"), py::arg("fill_rate"))
      .def(
          "feed",
          [](Engine& self, std::uint32_t rank, const py::bytes& cells, Nanoseconds host_clock_ns) {
            return self.feed(rank, std::string_view(cells), host_clock_ns);
          },
          py::arg("rank"), py::arg("cells"), py::arg("host_clock_ns"))
      .def("check_whole", &Engine::check_whole, py::arg("rank"))
      .def("set_duration", &Engine::set_duration, py::arg("rank"), py::arg("signature"), py::arg("duration_ns"),
           py::arg("sm_demand"), py::arg("timing_index"))
      .def(
          "define_communicator",
          [](Engine& self, std::uint32_t comm, const std::vector<std::uint32_t>& gpus,
             const std::optional<std::vector<std::pair<std::uint32_t, std::uint16_t>>>& owners) {
            self.define_communicator(comm, members_of(gpus, owners));
          },
          py::arg("comm"), py::arg("members"), py::arg("owners") = py::none())
      .def(
          "answer",
          [](Engine& self, std::uint32_t rank, std::uint32_t slot, std::uint32_t status, Nanoseconds time_ns,
             const py::int_&) { self.answer(rank, slot, static_cast<ph::ReplyStatus>(status), time_ns); },
          py::arg("rank"), py::arg("slot"), py::arg("status"), py::arg("time_ns"), py::arg("value"))
      .def("finish", &Engine::finish, py::arg("operation"), py::arg("ends_ns"))
      .def("set_aside", &Engine::set_aside, py::arg("rank"), py::arg("proven") = false,
           py::arg("awaits_values") = false)
      .def("exited", &Engine::exited, py::arg("rank"))
      .def_property_readonly("time_ns", &Engine::time_ns)
      .def("bound", &Engine::bound)
      .def("next_time", &Engine::next_time)
      .def(
          "advance",
          [](Engine& self, std::optional<Nanoseconds> limit_ns, bool inclusive) {
            return self.advance(limit_ns.value_or(ph::kNever), inclusive);
          },
          py::arg("limit_ns"), py::arg("inclusive"), py::call_guard<py::gil_scoped_release>())
      .def("wakeups", &Engine::wakeups)
      .def("helper_waits", &Engine::helper_waits)
      .def("is_running", &Engine::is_running, py::arg("rank"))
      .def(
          "liveness", [](const Engine& self, std::uint32_t rank) { return name(self.liveness(rank)); }, py::arg("rank"))
      .def("alarmed_ranks", &Engine::alarmed_ranks)
      .def("unproven_ranks", &Engine::unproven_ranks)
      .def("helpers_run_ranks", &Engine::helpers_run_ranks)
      .def("waiting_ranks", &Engine::waiting_ranks)
      .def("running_ranks", &Engine::running_ranks)
      .def("outside_ranks", &Engine::outside_ranks)
      .def("pending_operations", &Engine::pending_operations)
      .def("host_waits", &Engine::host_waits)
      .def("oldest_issue_ns", &Engine::oldest_issue_ns, py::arg("rank"))
      .def("last_site", &Engine::last_site, py::arg("rank"))
      .def("take_spans", [](Engine& engine) { return array_of(engine.take_spans()); })
      .def("take_scopes", [](Engine& engine) { return array_of(engine.take_scopes()); })
      .def_property_readonly("span_count", &Engine::span_count);
}
