#include "src/replay/rerun/why.h"

#include <catch2/catch.hpp>
#include <vector>

#include "kernels/kernels.h"
#include "src/base/thread_pool.h"
#include "src/replay/capture/recorder.h"
#include "src/replay/source/demo.h"
#include "src/replay/source/model_source.h"
#include "tests/temporary_folder.h"

using namespace rlreplay;
using namespace rlreplay::replay;
using kernels::KernelSet;
using rlreplay::test::TemporaryFolder;

/// What `why` says where its claims do not hold: of kernels that break the contract.
namespace {

const char* const kGradient = "0.0/reduce/1/gradient/model.layers.1.mlp.down_proj.weight:9";

/// Each leaf rounded in two halves.
void cut_leaves(const kernels::MatmulTokens& op, ThreadPool& pool) {
  std::vector<kernels::Range> halves;
  for (const kernels::Range& leaf : op.leaves) {
    const int64_t middle = (leaf.begin + leaf.end) / 2;
    halves.push_back({leaf.begin, middle});
    halves.push_back({middle, leaf.end});
  }
  kernels::MatmulTokens changed = op;
  changed.leaves = halves;
  kernels::cpu_kernels().matmul_tokens(changed, pool);
}

KernelSet broken_kernels() {
  KernelSet out = kernels::cpu_kernels();
  out.matmul_tokens = cut_leaves;
  return out;
}

/// The demo on a kernel set.
class Demo {
 public:
  explicit Demo(const KernelSet& set) : set_(set), model_(open_demo()) {
    apply_settings(options_, demo_settings());
    options_.steps = 1;
    options_.weights = "all";
    trainer_.emplace(engine::Runtime{set_, pool_}, options_, *model_, Workload{});
  }

  void capture(const std::string& path) {
    Recorder recorder(format::DumpPlace(path, false, format::DumpPlace::Writer::kResumable),
                      options_, *model_, *trainer_, pool_);
    run_training(*trainer_, RunTask(options_, *model_), options_, recorder);
    recorder.finish();
  }
  ElementOrigin origin(const std::string& path) {
    return find_origin(RecordedRun(path), options_, parse_element(kGradient), *trainer_, pool_);
  }

 private:
  const KernelSet set_;
  ThreadPool pool_{2};
  RunOptions options_;
  std::unique_ptr<ModelSource> model_;
  std::optional<Trainer> trainer_;
};

bool says(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("a gradient whose leaves are rounded in halves is not the sum of its leaves") {
  const TemporaryFolder folder;
  const std::string path = folder / "dump";
  Demo(broken_kernels()).capture(path);

  const ElementOrigin same = Demo(broken_kernels()).origin(path);
  CHECK(same.identical);
  CHECK_FALSE(same.adds_up());
  CHECK_FALSE(same.holds());
  CHECK(says(origin_text(same, false), "  the parts are NOT the element\n"));
  CHECK(says(origin_json(same, path), R"("adds_up":false)"));

  const ElementOrigin other = Demo(kernels::cpu_kernels()).origin(path);
  CHECK_FALSE(other.identical);
  CHECK(other.adds_up());
  CHECK_FALSE(other.holds());
  CHECK(says(origin_text(other, false), "NOT identical to the record"));
}

TEST_CASE("a gradient is the sum of its leaves where kernels keep the contract") {
  const TemporaryFolder folder;
  const std::string path = folder / "dump";
  Demo(kernels::cpu_kernels()).capture(path);
  ElementOrigin origin = Demo(kernels::cpu_kernels()).origin(path);
  CHECK(origin.holds());
  CHECK(says(origin_text(origin, false), "  the parts are the element, to the last integer\n"));
  CHECK(says(origin_json(origin, path), R"("adds_up":true)"));
  origin.parts.pop_back();
  CHECK_FALSE(origin.adds_up());
}
