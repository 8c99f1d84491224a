#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <sstream>
#include <string>

#include "src/base/golden_file.h"
#include "src/objective/token_objective.h"

using namespace rlreplay;
using namespace rlreplay::engine;

namespace {

/// A key of tests/golden/kl.txt.
struct KlCase {
  explicit KlCase(const std::string& key) {
    std::istringstream words(key);
    words >> type >> dialect >> path >> log_prob >> ref;
  }

  ObjectiveConfig config() const {
    ObjectiveConfig out;
    out.dialect = dialect == "miles" ? Dialect::kMiles : Dialect::kSlime;
    out.kl_loss_type = type == "k1"   ? KlType::kK1
                       : type == "k2" ? KlType::kK2
                       : type == "k3" ? KlType::kK3
                                      : KlType::kLowVar;
    out.kl_loss = true;
    out.unbiased_kl = path == "unbiased";
    return out;
  }

  /// In binary32, as a record has it.
  float value() const {
    TokenInput token;
    token.log_prob = std::strtof(log_prob.c_str(), nullptr);
    token.ref_log_prob = std::strtof(ref.c_str(), nullptr);
    token.old_log_prob = -0.5;
    const ObjectiveConfig o = config();
    const double difference =
        static_cast<double>(token.log_prob) - static_cast<double>(token.ref_log_prob);
    return static_cast<float>(path == "reward"
                                  ? kl_of_difference(o.kl_loss_type, o.dialect, difference).value
                                  : token_objective(o, token).kl);
  }

  std::string type, dialect, path, log_prob, ref;
};

}  // namespace

TEST_CASE("KL estimates are the frameworks' own, finite or not") {
  const GoldenFile golden = read_golden(RLREPLAY_GOLDEN "/kl.txt");
  REQUIRE(golden.entries.size() == 600);
  for (const auto& [key, bits] : golden.entries) {
    const float got = KlCase(key).value();
    CAPTURE(key, bits, got);
    if (bits == "nan") {
      CHECK(std::isnan(got));
    } else {
      CHECK(std::bit_cast<uint32_t>(got) == std::stoul(bits, nullptr, 16));
    }
  }
}
