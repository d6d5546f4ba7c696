// A graph as a picture for people, in Graphviz' language.
#include <cstdio>
#include <map>
#include <memory>

#include "shim/calls/graph_calls.h"

namespace ph::calls {

namespace {

const char* name_of(NodeKind kind) noexcept {
  switch (kind) {
    case NodeKind::Kernel: return "KERNEL";
    case NodeKind::Copy: return "MEMCPY";
    case NodeKind::Fill: return "MEMSET";
    case NodeKind::Host: return "HOST";
    case NodeKind::Child: return "GRAPH";
    case NodeKind::Empty: return "EMPTY";
    case NodeKind::EventWait: return "EVENT_WAIT";
    case NodeKind::EventRecord: return "EVENT_RECORD";
    case NodeKind::Allocate: return "MEM_ALLOC";
    case NodeKind::Free: return "MEM_FREE";
  }
  return "";
}

}  // namespace

Status print_graph(const void* handle, const char* path) noexcept {
  const auto graph = find_graph(handle);
  if (graph == nullptr || path == nullptr) return Status::InvalidValue;
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path, "we"), std::fclose);
  if (file == nullptr) return Status::OperatingSystem;
  std::map<const void*, std::size_t> numbers;
  std::fprintf(file.get(), "digraph dot {\n");
  for (const void* node : graph->nodes) {
    const std::size_t number = numbers.emplace(node, numbers.size()).first->second;
    const GraphNode* found = find_graph_node(node);
    if (found == nullptr) continue;
    std::fprintf(file.get(), "  \"node_%zu\" [shape=\"rectangle\" label=\"%zu\\n%s\"];\n", number, number,
                 name_of(found->kind));
  }
  for (const auto& [node, number] : numbers) {
    const GraphNode* found = find_graph_node(node);
    if (found == nullptr) continue;
    for (const void* dependency : found->dependencies)
      std::fprintf(file.get(), "  \"node_%zu\" -> \"node_%zu\";\n", numbers[dependency], number);
  }
  std::fprintf(file.get(), "}\n");
  return std::fflush(file.get()) == 0 ? Status::Success : Status::OperatingSystem;
}

}  // namespace ph::calls
