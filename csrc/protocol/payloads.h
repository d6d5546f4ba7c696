// What a rank says in JSON. `each` gives the members of a payload, in the order in which they
// are written.
// Made by tools/payload_schema.py from sim_server/records/payloads.py, which says what they mean.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace ph::payloads {

// Text that is JSON already.
struct Json {
  std::string text;
};

struct Kernel {
  std::string name;
  std::tuple<std::int64_t, std::int64_t, std::int64_t> grid;
  std::tuple<std::int64_t, std::int64_t, std::int64_t> block;
  std::int64_t shared_bytes = {};
  std::vector<std::tuple<std::int64_t, std::int64_t>> scalars;
  std::optional<std::vector<std::pair<std::string, std::int64_t>>> sizes = {};
  std::optional<std::string> module = {};
  std::optional<std::int64_t> thread_bytes = {};
  std::optional<std::string> block_bytes = {};
  std::optional<std::string> block_again = {};
  std::optional<std::string> block_instructions = {};
  std::optional<std::string> block_flops = {};
  std::optional<std::int64_t> host_bytes = {};

  template <class Each>
  void each(Each&& one) const {
    one("kind", std::string("kernel"));
    one("name", name);
    one("grid", grid);
    one("block", block);
    one("shared_bytes", shared_bytes);
    one("scalars", scalars);
    one("sizes", sizes);
    one("module", module);
    one("thread_bytes", thread_bytes);
    one("block_bytes", block_bytes);
    one("block_again", block_again);
    one("block_instructions", block_instructions);
    one("block_flops", block_flops);
    one("host_bytes", host_bytes);
  }
};

struct GroupedGemm {
  std::int64_t m = {};
  std::int64_t n = {};
  std::int64_t k = {};
  std::int64_t batch = {};
  std::string transa;
  std::string transb;
  std::string a;
  std::string b;
  std::string c;
  std::string d;
  std::string compute;
  std::string epilogue;
  bool beta = {};
  std::optional<std::string> along = {};
  std::optional<std::vector<std::int64_t>> group_sizes = {};

  template <class Each>
  void each(Each&& one) const {
    one("kind", std::string("gemm"));
    one("library", std::string("cutlass"));
    one("grouped", true);
    one("m", m);
    one("n", n);
    one("k", k);
    one("batch", batch);
    one("transa", transa);
    one("transb", transb);
    one("a", a);
    one("b", b);
    one("c", c);
    one("d", d);
    one("compute", compute);
    one("epilogue", epilogue);
    one("beta", beta);
    one("along", along);
    one("group_sizes", group_sizes);
  }
};

struct Gemm {
  std::string library;
  std::int64_t m = {};
  std::int64_t n = {};
  std::int64_t k = {};
  std::int64_t batch = {};
  std::string transa;
  std::string transb;
  std::int64_t lda = {};
  std::int64_t ldb = {};
  std::int64_t ldc = {};
  std::string a;
  std::string b;
  std::string c;
  std::string d;
  std::string compute;
  std::string epilogue;
  bool beta = {};
  std::optional<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>> orders = {};
  std::optional<std::tuple<std::int64_t, std::int64_t, std::int64_t>> strides = {};
  std::optional<bool> pointer_array = {};
  std::optional<std::string> scale_a = {};
  std::optional<std::string> scale_b = {};

  template <class Each>
  void each(Each&& one) const {
    one("kind", std::string("gemm"));
    one("library", library);
    one("m", m);
    one("n", n);
    one("k", k);
    one("batch", batch);
    one("transa", transa);
    one("transb", transb);
    one("lda", lda);
    one("ldb", ldb);
    one("ldc", ldc);
    one("a", a);
    one("b", b);
    one("c", c);
    one("d", d);
    one("compute", compute);
    one("epilogue", epilogue);
    one("beta", beta);
    one("orders", orders);
    one("strides", strides);
    one("pointer_array", pointer_array);
    one("scale_a", scale_a);
    one("scale_b", scale_b);
  }
};

struct Attention {
  std::string operation;
  std::string type;
  std::int64_t batch = {};
  std::int64_t heads = {};
  std::int64_t kv_heads = {};
  std::int64_t seqlen_q = {};
  std::int64_t seqlen_k = {};
  std::int64_t head_dim = {};
  std::int64_t head_dim_v = {};
  std::int64_t causal = {};
  std::int64_t dropout = {};
  std::int64_t bias = {};
  std::int64_t bytes = {};
  std::optional<std::int64_t> total_q = {};

  template <class Each>
  void each(Each&& one) const {
    one("kind", std::string("library"));
    one("library", std::string("cudnn"));
    one("operation", operation);
    one("type", type);
    one("batch", batch);
    one("heads", heads);
    one("kv_heads", kv_heads);
    one("seqlen_q", seqlen_q);
    one("seqlen_k", seqlen_k);
    one("head_dim", head_dim);
    one("head_dim_v", head_dim_v);
    one("causal", causal);
    one("dropout", dropout);
    one("bias", bias);
    one("bytes", bytes);
    one("total_q", total_q);
  }
};

struct Convolution {
  std::string operation;
  std::string type;
  std::int64_t groups = {};
  std::int64_t flops = {};
  std::int64_t bytes = {};
  std::string compute;
  std::string layout;
  std::vector<std::int64_t> x;
  std::vector<std::int64_t> w;
  std::vector<std::int64_t> y;
  std::optional<std::vector<std::int64_t>> padding = {};
  std::optional<std::vector<std::int64_t>> stride = {};
  std::optional<std::vector<std::int64_t>> dilation = {};

  template <class Each>
  void each(Each&& one) const {
    one("kind", std::string("library"));
    one("library", std::string("cudnn"));
    one("operation", operation);
    one("type", type);
    one("groups", groups);
    one("flops", flops);
    one("bytes", bytes);
    one("compute", compute);
    one("layout", layout);
    one("x", x);
    one("w", w);
    one("y", y);
    one("padding", padding);
    one("stride", stride);
    one("dilation", dilation);
  }
};

struct BatchNorm {
  std::string operation;
  std::string type;
  std::int64_t batch = {};
  std::int64_t channels = {};
  std::int64_t pixels = {};
  std::int64_t bytes = {};
  std::string layout;

  template <class Each>
  void each(Each&& one) const {
    one("kind", std::string("library"));
    one("library", std::string("cudnn"));
    one("operation", operation);
    one("type", type);
    one("batch", batch);
    one("channels", channels);
    one("pixels", pixels);
    one("bytes", bytes);
    one("layout", layout);
  }
};

struct Recurrent {
  std::string operation;
  std::string type;
  std::int64_t layers = {};
  std::int64_t directions = {};
  std::int64_t seqlen = {};
  std::int64_t batch = {};
  std::int64_t tokens = {};
  std::int64_t input = {};
  std::int64_t hidden = {};
  std::int64_t projection = {};
  std::int64_t persistent = {};
  std::int64_t tensor_cores = {};
  std::int64_t dropout = {};

  template <class Each>
  void each(Each&& one) const {
    one("kind", std::string("library"));
    one("library", std::string("cudnn"));
    one("operation", operation);
    one("type", type);
    one("layers", layers);
    one("directions", directions);
    one("seqlen", seqlen);
    one("batch", batch);
    one("tokens", tokens);
    one("input", input);
    one("hidden", hidden);
    one("projection", projection);
    one("persistent", persistent);
    one("tensor_cores", tensor_cores);
    one("dropout", dropout);
  }
};

struct DropoutStates {
  std::string type;
  std::int64_t bytes = {};

  template <class Each>
  void each(Each&& one) const {
    one("kind", std::string("library"));
    one("library", std::string("cudnn"));
    one("operation", std::string("dropout_states"));
    one("type", type);
    one("bytes", bytes);
  }
};

struct CtcLoss {
  std::string type;
  std::int64_t seqlen = {};
  std::int64_t batch = {};
  std::int64_t channels = {};
  std::int64_t labels = {};
  std::int64_t bytes = {};

  template <class Each>
  void each(Each&& one) const {
    one("kind", std::string("library"));
    one("library", std::string("cudnn"));
    one("operation", std::string("ctc_loss"));
    one("type", type);
    one("seqlen", seqlen);
    one("batch", batch);
    one("channels", channels);
    one("labels", labels);
    one("bytes", bytes);
  }
};

struct Sampling {
  std::string operation;
  std::string type;
  std::int64_t batch = {};
  std::int64_t channels = {};
  std::int64_t pixels = {};
  std::int64_t points = {};
  std::int64_t bytes = {};

  template <class Each>
  void each(Each&& one) const {
    one("kind", std::string("library"));
    one("library", std::string("cudnn"));
    one("operation", operation);
    one("type", type);
    one("batch", batch);
    one("channels", channels);
    one("pixels", pixels);
    one("points", points);
    one("bytes", bytes);
  }
};

struct OperationGraph {
  std::string type;
  std::int64_t operations = {};
  std::int64_t flops = {};
  std::int64_t bytes = {};

  template <class Each>
  void each(Each&& one) const {
    one("kind", std::string("library"));
    one("library", std::string("cudnn"));
    one("operation", std::string("graph"));
    one("type", type);
    one("operations", operations);
    one("flops", flops);
    one("bytes", bytes);
  }
};

struct Dot {
  std::string type;
  std::int64_t n = {};
  std::int64_t flops = {};
  std::int64_t bytes = {};

  template <class Each>
  void each(Each&& one) const {
    one("kind", std::string("library"));
    one("library", std::string("cublas"));
    one("operation", std::string("dot"));
    one("type", type);
    one("n", n);
    one("flops", flops);
    one("bytes", bytes);
  }
};

struct Solve {
  std::string operation;
  std::string type;
  std::int64_t m = {};
  std::int64_t n = {};
  std::int64_t nrhs = {};
  std::int64_t batch = {};
  std::int64_t flops = {};
  std::int64_t bytes = {};

  template <class Each>
  void each(Each&& one) const {
    one("kind", std::string("library"));
    one("library", std::string("cublas"));
    one("operation", operation);
    one("type", type);
    one("m", m);
    one("n", n);
    one("nrhs", nrhs);
    one("batch", batch);
    one("flops", flops);
    one("bytes", bytes);
  }
};

struct FourierTransform {
  std::string operation;
  std::string type;
  std::int64_t elements = {};
  std::int64_t batch = {};
  std::int64_t flops = {};
  std::int64_t bytes = {};

  template <class Each>
  void each(Each&& one) const {
    one("kind", std::string("library"));
    one("library", std::string("cufft"));
    one("operation", operation);
    one("type", type);
    one("elements", elements);
    one("batch", batch);
    one("flops", flops);
    one("bytes", bytes);
  }
};

struct SparseOperation {
  std::string operation;
  std::string type;
  std::int64_t m = {};
  std::int64_t n = {};
  std::int64_t k = {};
  std::int64_t nonzeros = {};
  std::int64_t index_bytes = {};
  std::int64_t batch = {};

  template <class Each>
  void each(Each&& one) const {
    one("kind", std::string("library"));
    one("library", std::string("cusparse"));
    one("operation", operation);
    one("type", type);
    one("m", m);
    one("n", n);
    one("k", k);
    one("nonzeros", nonzeros);
    one("index_bytes", index_bytes);
    one("batch", batch);
  }
};

struct Factorization {
  std::string operation;
  std::string type;
  std::int64_t m = {};
  std::int64_t n = {};
  std::int64_t columns = {};
  std::int64_t batch = {};
  std::int64_t flops = {};
  std::int64_t bytes = {};

  template <class Each>
  void each(Each&& one) const {
    one("kind", std::string("library"));
    one("library", std::string("cusolver"));
    one("operation", operation);
    one("type", type);
    one("m", m);
    one("n", n);
    one("columns", columns);
    one("batch", batch);
    one("flops", flops);
    one("bytes", bytes);
  }
};

struct KeptLaunch {
  Json signature;
  std::int64_t cooperative = {};
  std::tuple<std::int64_t, std::int64_t, std::int64_t> cluster;
  std::int64_t packed = {};
  std::vector<std::string> parameters;
  std::vector<std::tuple<std::int64_t, std::int64_t>> regions;
  std::vector<std::tuple<std::int64_t, std::string>> contents;
  std::optional<std::string> image = {};
  std::optional<std::string> library = {};
  std::optional<std::int64_t> offset = {};

  template <class Each>
  void each(Each&& one) const {
    one("signature", signature);
    one("cooperative", cooperative);
    one("cluster", cluster);
    one("packed", packed);
    one("parameters", parameters);
    one("regions", regions);
    one("contents", contents);
    one("image", image);
    one("library", library);
    one("offset", offset);
  }
};

struct CallCounts {
  std::string library;
  std::vector<std::pair<std::string, std::int64_t>> modelled;
  std::vector<std::pair<std::string, std::int64_t>> ignored;
  std::vector<std::pair<std::string, std::int64_t>> passthrough;

  template <class Each>
  void each(Each&& one) const {
    one("kind", std::string("calls"));
    one("library", library);
    one("modelled", modelled);
    one("ignored", ignored);
    one("passthrough", passthrough);
  }
};

struct HostGaps {
  std::vector<std::tuple<std::string, std::int64_t, std::int64_t>> gaps;

  template <class Each>
  void each(Each&& one) const {
    one("kind", std::string("host_gaps"));
    one("gaps", gaps);
  }
};

struct ReplayedGaps {
  std::tuple<std::int64_t, std::int64_t> signature;
  std::tuple<std::int64_t, std::int64_t> family;
  std::tuple<std::int64_t, std::int64_t> call;
  std::tuple<std::int64_t, std::int64_t> fixed;

  template <class Each>
  void each(Each&& one) const {
    one("kind", std::string("replayed_gaps"));
    one("signature", signature);
    one("family", family);
    one("call", call);
    one("fixed", fixed);
  }
};

struct CountedWork {
  std::vector<std::tuple<std::string, std::int64_t, std::int64_t>> works;
  std::vector<std::tuple<std::string, std::int64_t, std::int64_t>> calls;
  std::vector<std::tuple<std::string, std::int64_t>> functions;
  std::int64_t elsewhere_ns = {};
  std::vector<std::tuple<std::int64_t, std::string, std::int64_t>> stacks;

  template <class Each>
  void each(Each&& one) const {
    one("kind", std::string("counted_work"));
    one("works", works);
    one("calls", calls);
    one("functions", functions);
    one("elsewhere_ns", elsewhere_ns);
    one("stacks", stacks);
  }
};

struct HostSample {
  std::int64_t spent_ns = {};
  std::vector<std::pair<std::string, std::int64_t>> works;
  std::vector<std::pair<std::string, std::int64_t>> calls;

  template <class Each>
  void each(Each&& one) const {
    one("kind", std::string("host_sample"));
    one("spent_ns", spent_ns);
    one("works", works);
    one("calls", calls);
  }
};

struct UnsupportedCalls {
  std::vector<std::tuple<std::string, std::string, std::string, std::int64_t, std::int64_t>> calls;

  template <class Each>
  void each(Each&& one) const {
    one("kind", std::string("unsupported"));
    one("calls", calls);
  }
};

struct Group {
  std::vector<std::string> meeting;
  std::vector<std::int64_t> ranks;

  template <class Each>
  void each(Each&& one) const {
    one("kind", std::string("group"));
    one("meeting", meeting);
    one("ranks", ranks);
  }
};

struct Caveat {
  std::string what;
  std::int64_t count = {};

  template <class Each>
  void each(Each&& one) const {
    one("kind", std::string("caveat"));
    one("what", what);
    one("count", count);
  }
};

struct UnsupportedCall {
  std::string library;
  std::string symbol;
  std::string detail;
  std::optional<std::string> answer = {};

  template <class Each>
  void each(Each&& one) const {
    one("library", library);
    one("symbol", symbol);
    one("detail", detail);
    one("answer", answer);
  }
};

}  // namespace ph::payloads
