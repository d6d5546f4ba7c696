// sim_server._network: flows for Python. Types in, types out; no behaviour of its own.
// Its interface is documented in sim_server/_network.pyi.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "network/flow_set.h"

namespace py = pybind11;

namespace {

using ph::Index, ph::Nanoseconds;

// Of tuples, which are read in place: an operation may have thousands.
std::vector<ph::Hop> path(const py::tuple& links, const py::object& flows_on_link = py::none()) {
  std::vector<ph::Hop> made;
  made.reserve(links.size());
  for (const py::handle link : links) made.push_back({link.cast<Index>()});
  if (flows_on_link.is_none()) return made;
  const py::tuple counts = flows_on_link;
  if (counts.size() != made.size()) throw py::value_error("flows_on_link says something of every link of the path");
  for (std::size_t i = 0; i < made.size(); ++i) made[i].flows = counts[i].cast<std::uint32_t>();
  return made;
}

// A Demand of sim_server/network/flows.py.
ph::Demand demand(const py::tuple& fields) {
  return {.path = path(fields[0], fields[3]),
          .size_bytes = fields[1].cast<double>(),
          .cap_bytes_per_s = fields[2].cast<double>(),
          .flows = fields[4].cast<std::uint32_t>()};
}

std::unique_ptr<ph::FlowSet> make_flow_set(std::vector<double> capacities_bytes_per_s, std::shared_ptr<ph::LinkUse> use,
                                           const std::optional<std::pair<double, std::vector<Index>>>& settling) {
  std::optional<ph::Settling> made;
  if (settling) {
    made = {settling->first, std::vector<bool>(capacities_bytes_per_s.size())};
    for (const Index link : settling->second) made->links.at(link) = true;
  }
  return std::make_unique<ph::FlowSet>(std::move(capacities_bytes_per_s), std::move(use), std::move(made));
}

Index start(ph::FlowSet& flows, Nanoseconds now_ns, const py::sequence& demands, std::uint32_t alike) {
  std::vector<ph::Demand> made;
  made.reserve(demands.size());
  for (const py::handle one : demands) made.push_back(demand(py::reinterpret_borrow<py::tuple>(one)));
  return flows.start(now_ns, std::move(made), alike);
}

using Paths = std::vector<std::vector<py::tuple>>;

std::vector<std::vector<std::vector<ph::Hop>>> hops(const Paths& paths) {
  std::vector<std::vector<std::vector<ph::Hop>>> made(paths.size());
  for (std::size_t at = 0; at < paths.size(); ++at)
    for (const py::tuple& links : paths[at]) made[at].push_back(path(links));
  return made;
}

void split(ph::FlowSet& flows, Nanoseconds now_ns, Index batch, const Paths& paths) {
  flows.split(now_ns, batch, hops(paths));
}

std::vector<Index> separate(ph::FlowSet& flows, Nanoseconds now_ns, Index batch, const Paths& paths) {
  return flows.separate(now_ns, batch, hops(paths));
}

using Numbers = std::vector<std::vector<Index>>;

std::vector<double> max_min_rates(const std::vector<double>& capacities, const Numbers& paths,
                                  const std::vector<double>& caps, const std::optional<Numbers>& counts) {
  if (caps.size() != paths.size()) throw py::value_error("every flow has a path and a cap");
  std::vector<std::vector<ph::Hop>> hops(paths.size());
  std::vector<ph::Claim> claims;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    for (std::size_t at = 0; at < paths[i].size(); ++at) {
      if (paths[i][at] >= capacities.size()) throw py::value_error("a path has a link that does not exist");
      hops[i].push_back({.link = paths[i][at], .flows = counts ? counts->at(i).at(at) : 1});
    }
    claims.push_back({hops[i], caps[i]});
  }
  return ph::MaxMin(capacities.size()).solve(capacities, claims);
}

py::tuple take(ph::LinkUse& use, Nanoseconds before_ns) {
  const ph::LinkUse::Taken taken = use.take(before_ns);
  py::list fresh;
  for (const ph::Load& load : taken.fresh) {
    py::list classes;
    for (const ph::ClassLoad& one : load) classes.append(py::make_tuple(one.link_class, one.share, one.most, one.link));
    fresh.append(classes);
  }
  return py::make_tuple(py::array_t<ph::UseRow>(static_cast<py::ssize_t>(taken.rows.size()), taken.rows.data()), fresh);
}

}  // namespace

PYBIND11_MODULE(_network, module) {
  PYBIND11_NUMPY_DTYPE(ph::UseRow, begin_ns, end_ns, load);
  module.def("max_min_rates", &max_min_rates, py::arg("capacities"), py::arg("paths"), py::arg("caps"),
             py::arg("counts") = std::nullopt);

  using ph::LinkUse;
  py::class_<LinkUse, std::shared_ptr<LinkUse>>(module, "LinkUse")
      .def(py::init<std::vector<double>, std::vector<std::uint32_t>, std::uint32_t>(),
           py::arg("capacities_bytes_per_s"), py::arg("class_of"), py::arg("channels"))
      .def("take", &take, py::arg("before_ns"))
      .def("__len__", &LinkUse::size);

  using ph::EndedBatch;
  py::class_<EndedBatch>(module, "EndedBatch")
      .def_readonly("batch", &EndedBatch::batch)
      .def_readonly("ends_ns", &EndedBatch::ends_ns)
      .def_readonly("limits_ns", &EndedBatch::limits_ns);

  using ph::FlowSet;
  py::class_<FlowSet>(module, "FlowSet")
      .def(py::init(&make_flow_set), py::arg("capacities_bytes_per_s"), py::arg("use"), py::arg("settling"))
      .def("start", &start, py::arg("now_ns"), py::arg("demands"), py::arg("alike") = 1)
      .def("split", &split, py::arg("now_ns"), py::arg("batch"), py::arg("paths"))
      .def("separate", &separate, py::arg("now_ns"), py::arg("batch"), py::arg("paths"))
      .def("set_capacity", &FlowSet::set_capacity, py::arg("link"), py::arg("capacity_bytes_per_s"))
      .def("settle", &FlowSet::settle, py::arg("now_ns"))
      .def("next_end_ns",
           [](FlowSet& self) {
             const Nanoseconds end_ns = self.next_end_ns();
             return end_ns == ph::kNever ? std::nullopt : std::optional(end_ns);
           })
      .def("end_due", &FlowSet::end_due, py::arg("now_ns"))
      .def("is_idle", &FlowSet::is_idle, py::arg("link"))
      .def("rates", &FlowSet::rates, py::arg("link"));
}
