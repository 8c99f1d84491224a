#include "src/engine/torch/operators.h"
#include "tests/kernels/oracle.h"
#include "tests/kernels/vocab_support.h"

using namespace rlreplay;
using namespace rlreplay::kernels;
using namespace rlreplay::kernels::test;
using aten::Precision;

TEST_CASE("log-probability, entropy and their gradients against float64") {
  Random random(91);
  const int64_t rows = 12, cols = 3001;
  for (const double size : {0.01, 1.0, 20.0, 1e4}) {
    for (const float temperature : {1.0f, 0.7f, 0.01f, 50.0f}) {
      CAPTURE(size, temperature);
      Guarded<float> logits(rows, cols, 0, 0);
      logits.fill_normal(random, size);
      auto loss = random_loss(random, rows, cols);
      for (int64_t t = 0; t < rows; t += 2) {  // a likely label in every other row
        loss.labels[static_cast<size_t>(t)] = 17;
        logits(t, 17) = static_cast<float>(4 * size);
      }
      const auto values = std::vector<float>(logits.view().data, logits.view().data + rows * cols);
      const auto oracle = [&](Precision precision) {
        return aten::log_prob(array({rows, cols}, values), array({rows}, loss.labels),
                              array({rows}, loss.c), array({rows}, loss.ce),
                              static_cast<double>(temperature), precision);
      };
      const auto want = oracle(Precision::kFloat64), stock = oracle(Precision::kFloat32);
      const auto got =
          run_vocab(cpu_kernels(), *pools()[1], logits, cols, loss, {.temperature = temperature});
      require_accurate(got.log_prob, want.log_prob, stock.log_prob);
      require_accurate(got.entropy, want.entropy, stock.entropy);
      std::vector<float> dlogits;
      for (int64_t t = 0; t < rows; ++t) {
        const float* d = got.dlogits.view().row(t);
        dlogits.insert(dlogits.end(), d, d + cols);
      }
      require_accurate(dlogits, want.dlogits, stock.dlogits);
    }
  }
}
