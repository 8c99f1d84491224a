#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "bench/median.h"
#include "bench/random_step.h"
#include "src/base/error.h"
#include "src/base/json_line.h"
#include "src/engine/parallel.h"
#include "src/engine/rotary.h"
#include "src/engine/step.h"
#include "src/engine/thread_ranks.h"

/// What a step costs in parallel layouts: time against one rank, the bytes that a rank receives
/// against those that it must, and what it holds.
namespace rlreplay::bench {
namespace {

constexpr int kRepetitions = 3;
constexpr const char* kLayouts[] = {"",     "dp=2",      "dp=2,zero=1", "tp=2",
                                    "tp=4", "tp=2,sp=1", "pp=2",        "cp=2"};

ModelConfig bench_model() {
  ModelConfig c;
  c.architecture = Architecture::kLlama;
  c.hidden = 512;
  c.intermediate = 1536;
  c.layers = 2;
  c.heads = 8;
  c.kv_heads = 4;
  c.head_dim = 64;
  c.vocab = 4096;
  c.max_positions = 1024;
  return c;
}
const std::vector<int64_t> kLengths(4, 260);

/// Counts the bytes that a rank gets from others; of a sum those of a ring, the least there is.
class CountingGroup : public engine::Group {
 public:
  CountingGroup(engine::Group& inner, double& received) : inner_(inner), received_(received) {}
  int size() const override { return inner_.size(); }
  int rank() const override { return inner_.rank(); }
  void gather(std::span<const std::byte> own, std::span<std::byte> all) override {
    received_ += static_cast<double>(all.size() - own.size());
    inner_.gather(own, all);
  }
  void sum(std::span<int64_t> values) override {
    received_ += 2.0 * (size() - 1) / size() * static_cast<double>(values.size_bytes());
    inner_.sum(values);
  }
  void send(int to, std::span<const std::byte> bytes) override { inner_.send(to, bytes); }
  void receive(int from, std::span<std::byte> bytes) override {
    received_ += static_cast<double>(bytes.size());
    inner_.receive(from, bytes);
  }

 private:
  engine::Group& inner_;
  double& received_;
};

/// What a rank must receive in a step: gradients of dp and cp, a ring's 2 (n - 1) / n of int64
/// sums; keys, values, and what their gradients read, of cp; the sums of rows of tp, as a ring's;
/// the residual stream, there and back, of pp.
double needed_bytes(const ModelConfig& c, const Layout& l) {
  double tokens = 0;
  for (const int64_t n : kLengths) tokens += static_cast<double>(n);
  const auto d = [](auto x) { return static_cast<double>(x); };
  const auto others = [](int n) { return static_cast<double>(n - 1) / n; };
  const double stream = tokens * d(c.hidden) * 4;
  const double gradients = d(make_parameters(c).elements) * 8;
  const double of_layer =
      tokens * 4 * (2 * d(c.kv_heads * c.head_dim) + 2 * d(c.heads * c.head_dim) + 2 * d(c.heads));
  // With zero a rank needs the sums of its part, then the others' new weights.
  return (l.zero ? 1.5 : 2) * others(l.dp) * gradients +
         others(l.cp) * (2 * gradients + d(c.layers) * of_layer) +
         2 * others(l.tp) * stream * (4 * d(c.layers) + 2) + (l.pp > 1 ? stream : 0);
}

struct LayoutCost {
  std::vector<double> seconds;
  double received = 0;  // the most of any rank, of one step
  double weights = 0, moments = 0, gradients = 0;
  std::string norm;  // bits
};

LayoutCost measure(const ModelConfig& c, const Layout& layout, int threads, const Batch& batch) {
  ThreadPool pool(1);
  const auto table = engine::make_rotary_table(c, kernels::Rope::kHf, 512, pool);
  const ParameterTable whole = make_parameters(c);
  std::vector<float> start(static_cast<size_t>(whole.elements));
  fill_random(whole, start);
  LayoutCost out;
  std::mutex mutex;
  engine::run_thread_ranks(layout, [&](const engine::Ranks& r) {
    double received = 0;
    CountingGroup world(r.world, received), dp(r.dp, received), tp(r.tp, received),
        pp(r.pp, received), cp(r.cp, received);
    const engine::Ranks ranks{r.layout, r.place, world, dp, tp, pp, cp};
    ThreadPool own_pool(std::max(1, threads / layout.ranks()));
    const bool alone = layout.ranks() == 1;
    const engine::Runtime runtime{kernels::cpu_kernels(), own_pool, nullptr,
                                  alone ? nullptr : &ranks};
    engine::TrainState state(c, layout, r.place);
    engine::for_shard_runs(state.model.shard_table(), whole, {0, state.model.parameters().elements},
                           false, [&](int64_t local, int64_t at, int64_t n) {
                             std::copy_n(start.data() + at, n,
                                         state.model.weights().data() + local);
                           });
    state.model.pack(runtime, engine::PackedFor::kTraining);
    engine::Gradients gradients(state.model.parameters());
    const auto dealt = engine::dealt_samples(std::ssize(batch.samples), r.place.dp, layout.dp);
    const auto part = [&](const auto& all) {
      return std::span(all).subspan(static_cast<size_t>(dealt.begin),
                                    static_cast<size_t>(dealt.size()));
    };
    double norm = 0;
    for (int i = 0; i <= kRepetitions; ++i) {
      received = 0;
      r.world.sum({});
      const auto begin = std::chrono::steady_clock::now();
      norm = engine::run_step(runtime, state, gradients, engine::view(table), part(batch.samples),
                              part(batch.targets), {})
                 .grad_norm;
      r.world.sum({});
      const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
      const std::lock_guard lock(mutex);
      if (i > 0 && r.world.rank() == 0) out.seconds.push_back(elapsed.count());
    }
    const std::lock_guard lock(mutex);
    const auto most = [](double& to, double value) { to = std::max(to, value); };
    most(out.received, received);
    most(out.weights, static_cast<double>(state.model.weights().size()) * 4);
    most(out.moments, static_cast<double>(state.moments.first.size()) * 8);
    most(out.gradients, static_cast<double>(gradients.sums().size()) * 8);
    out.norm = hex_float(norm);
  });
  return out;
}

int main(std::span<char*> arguments) {
  bool json = false;
  int threads = 2;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (std::string(arguments[i]) == "--json") {
      json = true;
    } else if (std::string(arguments[i]) == "--threads" && i + 1 < arguments.size()) {
      threads = std::stoi(arguments[++i]);
    } else {
      throw Error(ErrorCode::kUsage,
                  "usage: layouts [--json] [--threads N], of all ranks together");
    }
  }
  const ModelConfig c = bench_model();
  const Batch batch = random_batch(c, kLengths);
  constexpr double kMega = 1e6;
  if (!json) {
    std::printf("%-14s %8s %7s %12s %12s %7s %9s %9s %9s\n", "layout", "step s", "of one",
                "received MB", "needed MB", "ratio", "weights", "moments", "gradients");
  }
  LayoutCost one;
  for (const char* text : kLayouts) {
    const Layout layout = parse_layout(text);
    const LayoutCost cost = measure(c, layout, threads, batch);
    if (layout.ranks() == 1) one = cost;
    if (cost.norm != one.norm) throw Error(ErrorCode::kInternal, "another norm than one rank's");
    const double seconds = median(cost.seconds), needed = needed_bytes(c, layout);
    const double ratio = needed > 0 ? cost.received / needed : 1;
    if (json) {
      std::puts(JsonLine()
                    .text("layout", to_string(layout))
                    .integer("threads", threads)
                    .number("seconds", seconds)
                    .number("of_one_rank", seconds / median(one.seconds))
                    .number("received_bytes", cost.received)
                    .number("needed_bytes", needed)
                    .number("weights_bytes", cost.weights)
                    .number("moments_bytes", cost.moments)
                    .number("gradients_bytes", cost.gradients)
                    .str()
                    .c_str());
    } else {
      std::printf("%-14s %8.3f %7.2f %12.1f %12.1f %7.2f %9.1f %9.1f %9.1f\n",
                  *text == '\0' ? "one rank" : text, seconds, seconds / median(one.seconds),
                  cost.received / kMega, needed / kMega, ratio, cost.weights / kMega,
                  cost.moments / kMega, cost.gradients / kMega);
    }
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace rlreplay::bench

int main(int argc, char** argv) {
  try {
    return rlreplay::bench::main({argv + 1, static_cast<size_t>(argc - 1)});
  } catch (const rlreplay::Error& error) {
    std::fprintf(stderr, "layouts: %s\n", error.what());
    return rlreplay::exit_code(error.code());
  }
}
