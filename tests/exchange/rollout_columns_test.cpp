// What happens to the tree of a rollout dump while it is imported.
#include <catch2/catch.hpp>
#include <optional>

#include "format/foreign/torch_writer.h"
#include "src/replay/exchange/dicts.h"
#include "src/replay/exchange/import_rollout.h"
#include "tests/temporary_folder.h"

namespace rlreplay::replay {
namespace {

using foreign::Kind;
using foreign::TorchFile;
using foreign::Tree;
using foreign::Value;

/// Builds samples of two prompt tokens and three response tokens.
class Samples {
 public:
  Samples() : dicts_(tree_), list_(tree_.add_sequence(Kind::kList)) {}

  Dicts& dicts() { return dicts_; }
  Value integers(std::vector<int64_t> values) { return dicts_.integers(values); }
  Value floats(std::initializer_list<double> values) {
    const Value list = tree_.add_sequence(Kind::kList);
    for (const double value : values) {
      const Value item = Value::of_float(value);
      tree_.sequence(list).append({&item, 1}, true);
    }
    return list;
  }

  Value add(int64_t index, Value tokens, Value log_probs, Value mask) {
    const Value made = dicts_.make();
    dicts_.set(made, "index", Value::of_int(index));
    dicts_.set(made, "tokens", tokens);
    dicts_.set(made, "response_length", Value::of_int(3));
    dicts_.set(made, "rollout_log_probs", log_probs);
    dicts_.set(made, "loss_mask", mask);
    add(made);
    return made;
  }
  void add(Value sample) { tree_.sequence(list_).append({&sample, 1}, false); }

  /// The file of these samples, read again.
  TorchFile file() {
    const Value root = dicts_.make();
    dicts_.set(root, "rollout_id", Value::of_int(4));
    dicts_.set(root, "samples", list_);
    const std::string path = folder_ / "4.pt";
    foreign::write_torch_file(path, tree_, root);
    return TorchFile(path);
  }

 private:
  test::TemporaryFolder folder_;
  Tree tree_;
  Dicts dicts_;
  Value list_;
};

size_t size_of_field(const TorchFile& file, size_t sample, const char* key) {
  const Tree& tree = file.tree();
  const Value samples = *tree.find(file.root(), "samples");
  return tree.sequence(*tree.find(tree.sequence(samples)[sample], key)).size();
}

TEST_CASE("lists that a dump takes over are freed while it is imported") {
  Samples samples;
  samples.add(1, samples.integers({70000, 2, 3, 4, 5}), samples.floats({-1, -2, -0.5}),
              samples.integers({1, 0, 1}));
  samples.add(0, samples.integers({9, 8, 7, 6, 5}), samples.floats({-4, -8, -16}),
              samples.integers({0, 1, 1}));
  TorchFile file = samples.file();
  const ImportedRollout made = import_rollout(file, "rollout/4");
  CHECK(made.data->tokens == std::vector<int32_t>{9, 8, 7, 6, 5, 70000, 2, 3, 4, 5});
  CHECK(made.data->log_probs->narrow == std::vector<float>{0, 0, -4, -8, -16, 0, 0, -1, -2, -0.5F});
  CHECK(made.data->loss_mask->values == std::vector<uint8_t>{0, 0, 0, 1, 1, 0, 0, 1, 0, 1});
  CHECK(made.data->offsets == std::vector<uint64_t>{0, 5, 10});
  CHECK(made.data->prompt_length == std::vector<uint32_t>{2, 2});
  CHECK(made.replacements.size() == 6);
  for (const size_t s : {0, 1}) {
    for (const char* key : {"tokens", "rollout_log_probs", "loss_mask"}) {
      CHECK(size_of_field(file, s, key) == 0);
    }
  }
}

TEST_CASE("a list that two samples hold, and a sample that is there twice, stay whole") {
  Samples samples;
  const Value mask = samples.integers({1, 1, 0});
  samples.add(0, samples.integers({1, 2, 3, 4, 5}), samples.floats({-1, -2, -3}), mask);
  samples.add(
      samples.add(1, samples.integers({6, 7, 8, 9, 10}), samples.floats({-4, -5, -6}), mask));
  TorchFile file = samples.file();
  const ImportedRollout made = import_rollout(file, "rollout/4");
  CHECK(made.data->tokens == std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 6, 7, 8, 9, 10});
  CHECK(made.data->log_probs->narrow ==
        std::vector<float>{0, 0, -1, -2, -3, 0, 0, -4, -5, -6, 0, 0, -4, -5, -6});
  CHECK(made.data->loss_mask->values ==
        std::vector<uint8_t>{0, 0, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0});
  CHECK(size_of_field(file, 0, "tokens") == 0);
  CHECK(size_of_field(file, 0, "loss_mask") == 3);
  CHECK(size_of_field(file, 1, "tokens") == 5);
  CHECK(size_of_field(file, 1, "rollout_log_probs") == 3);
}

TEST_CASE("what a dump holds in another type stays in the file's own content") {
  Samples samples;
  samples.add(0, samples.integers({1, 2, 3, 4, 5}), samples.integers({-1, -2, -3}),
              samples.floats({1, 0, 1}));
  samples.add(1, samples.integers({1, 2, 3, 4, 5}), samples.floats({-0.1, -2, -3}), Value());
  TorchFile file = samples.file();
  const ImportedRollout made = import_rollout(file, "rollout/4");
  CHECK(made.data->log_probs->narrow.empty());
  CHECK(made.data->log_probs->wide == std::vector<double>{0, 0, -1, -2, -3, 0, 0, -0.1, -2, -3});
  CHECK(made.data->log_probs->presence.empty());
  CHECK(made.data->loss_mask->values == std::vector<uint8_t>{0, 0, 1, 0, 1, 0, 0, 0, 0, 0});
  CHECK(made.data->loss_mask->presence == std::vector<uint8_t>{1, 0});
  CHECK(size_of_field(file, 0, "rollout_log_probs") == 3);
  CHECK(size_of_field(file, 0, "loss_mask") == 3);
  CHECK(size_of_field(file, 1, "rollout_log_probs") == 0);
}

TEST_CASE("columns that no sample has are left away") {
  Samples samples;
  samples.add(0, samples.integers({1, 2, 3, 4, 5}), Value(), Value());
  TorchFile file = samples.file();
  const ImportedRollout made = import_rollout(file, "rollout/4");
  CHECK_FALSE(made.data->log_probs);
  CHECK_FALSE(made.data->loss_mask);
  CHECK_FALSE(made.data->prompt_text);
}

}  // namespace
}  // namespace rlreplay::replay
