#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <map>

#include "format/dump_content.h"
#include "format/dump_writer.h"
#include "format/logical_group.h"
#include "format/train_ranks.h"
#include "format/verify.h"
#include "src/base/digest.h"
#include "tests/format/support.h"

/// A dump whose tensors and samples are cut among ranks says what the uncut one says: random cuts
/// of random tensors over random grids of ranks.
using namespace rlreplay;
using namespace rlreplay::format;
using namespace rlreplay::format::test;

namespace {

constexpr char kUncutMeta[] = R"({"ranks":1})";

struct Tensor {
  std::string name;
  DType dtype;
  std::vector<uint64_t> shape;
  std::vector<std::byte> bytes;
};

struct Grid {
  uint64_t axes[5];  // dp, tp, pp, cp, ep
  uint64_t ranks() const { return axes[0] * axes[1] * axes[2] * axes[3] * axes[4]; }
};

Grid random_grid(Random& random) {
  Grid grid{};
  do {
    for (uint64_t& axis : grid.axes) axis = uint64_t{1} << random.below(3);
  } while (grid.ranks() > 8);
  return grid;
}

Dataset coordinates(const std::string& group, const Grid& grid, uint64_t rank) {
  std::vector<uint32_t> numbers;
  for (const uint64_t of : grid.axes) {
    numbers.push_back(static_cast<uint32_t>(rank % of));
    numbers.push_back(static_cast<uint32_t>(of));
    rank /= of;
  }
  return dataset_of(group + "/coordinates", DType::kU32, {5, 2}, std::move(numbers));
}

std::vector<Tensor> random_tensors(Random& random) {
  constexpr DType kTypes[] = {DType::kF32, DType::kBF16, DType::kF64, DType::kI64, DType::kU8};
  std::vector<Tensor> out;
  for (uint64_t n = 1 + random.below(4); n-- > 0;) {
    Tensor& t = out.emplace_back();
    t.name = "parameters/t" + std::to_string(n);
    t.dtype = kTypes[random.below(std::size(kTypes))];
    for (uint64_t d = 1 + random.below(3); d-- > 0;) t.shape.push_back(random.below(9));
    t.bytes = values(random, *elements_of(t.shape) * size_of(t.dtype));
  }
  return out;
}

/// Cuts a block in two along a random dimension, again and again.
void cut(Random& random, const Box& box, int depth, std::vector<Box>& out) {
  if (depth == 0 || random.below(3) == 0) return out.push_back(box);
  const size_t d = random.below(box.dims.size());
  const uint64_t at = random.below(box.dims[d].length + 1);
  Box low = box, high = box;
  low.dims[d].length = at;
  high.dims[d].first += at;
  high.dims[d].length -= at;
  cut(random, low, depth - 1, out);
  cut(random, high, depth - 1, out);
}

void append_elements(const Tensor& t, const Box& box, std::vector<std::byte>& out) {
  const size_t size = size_of(t.dtype);
  std::vector<uint64_t> at(box.dims.size(), 0);
  for (uint64_t i = 0; i < box.elements(); ++i) {
    uint64_t element = 0;
    for (size_t d = 0; d < at.size(); ++d) {
      element = element * t.shape[d] + box.dims[d].first + at[d];
    }
    const auto from = t.bytes.begin() + static_cast<ptrdiff_t>(element * size);
    out.insert(out.end(), from, from + static_cast<ptrdiff_t>(size));
    for (size_t d = at.size(); d-- > 0;) {
      if (++at[d] < box.dims[d].length) break;
      at[d] = 0;
    }
  }
}

/// A dataset of blocks of tensors of one type, with some padding.
Dataset stored(Random& random, const std::string& path, const std::vector<Tensor>& tensors,
               std::vector<Box> boxes) {
  std::map<std::string, const Tensor*> by_name;
  for (const Tensor& t : tensors) by_name[t.name] = &t;
  const DType dtype = by_name.at(boxes.front().tensor)->dtype;
  if (random.below(3) == 0) {
    Box padding;
    for (size_t d = 0; d < boxes.front().dims.size(); ++d) padding.dims.push_back({0, 2, 2});
    boxes.insert(boxes.begin() + static_cast<ptrdiff_t>(random.below(boxes.size() + 1)), padding);
  }
  std::vector<std::byte> bytes;
  for (const Box& box : boxes) {
    if (box.tensor.empty()) {
      const std::vector<std::byte> noise = values(random, box.elements() * size_of(dtype));
      bytes.insert(bytes.end(), noise.begin(), noise.end());
    } else {
      append_elements(*by_name.at(box.tensor), box, bytes);
    }
  }
  const uint64_t count = bytes.size() / size_of(dtype);
  Dataset out = dataset_of(path, dtype, {count}, std::move(bytes));
  set_boxes(out.attributes, boxes);
  return out;
}

/// The blocks of all tensors, each given to one rank or several, in random datasets.
std::vector<std::vector<Dataset>> cut_tensors(Random& random, const std::vector<Tensor>& tensors,
                                              uint64_t ranks) {
  std::vector<std::vector<Dataset>> out(ranks);
  std::vector<std::map<std::pair<DType, size_t>, std::vector<Box>>> held(ranks);
  for (const Tensor& t : tensors) {
    if (random.below(5) == 0) {  // whole, on some rank
      out[random.below(ranks)].push_back(
          dataset_of("1-0/" + t.name, t.dtype, t.shape, std::vector(t.bytes)));
      continue;
    }
    std::vector<Box> boxes;
    cut(random, whole_box(t.name, t.shape), 4, boxes);
    for (const Box& box : boxes) {
      const uint64_t owner = random.below(ranks);
      for (uint64_t r = 0; r < ranks; ++r) {
        if (r == owner || random.below(6) == 0) held[r][{t.dtype, t.shape.size()}].push_back(box);
      }
    }
  }
  for (uint64_t r = 0; r < ranks; ++r) {
    for (auto& [type, boxes] : held[r]) {
      std::vector<Box> some;
      for (const Box& box : boxes) {
        some.push_back(box);
        if (random.below(3) != 0 && &box != &boxes.back()) continue;
        out[r].push_back(stored(random, "1-0/shards/d" + std::to_string(out[r].size()), tensors,
                                std::exchange(some, {})));
      }
    }
  }
  return out;
}

TrainData random_step(Random& random) {
  TrainData data;
  const uint64_t samples = 1 + random.below(5);
  for (uint64_t s = 0; s < samples; ++s) {
    data.sample_id.push_back(10 * s + random.below(10));
    data.offsets.push_back(data.offsets.back() + 1 + random.below(30));
  }
  const uint64_t total = data.offsets.back();
  data.prompt_length.emplace(samples, 1);
  auto& rewards = data.rewards.emplace();
  for (uint64_t s = 0; s < samples; ++s) {
    rewards.presence.push_back(random.below(3) == 0 ? 0 : 1);
    rewards.values.push_back(rewards.presence.back() ? static_cast<double>(s) : 0);
  }
  if (std::ranges::find(rewards.presence, 0) == rewards.presence.end()) rewards.presence.clear();
  auto& log_probs = data.log_probs.emplace();
  auto& advantages = data.advantages.emplace();
  auto& mask = data.loss_mask.emplace();
  auto& tokens = data.tokens.emplace();
  for (uint64_t t = 0; t < total; ++t) {
    log_probs.narrow.push_back(-static_cast<float>(random.below(100)) / 7);
    advantages.wide.push_back(static_cast<double>(random.below(100)) / 7);
    mask.values.push_back(static_cast<uint8_t>(random.below(2)));
    tokens.push_back(static_cast<int32_t>(random.below(1000)));
  }
  return data;
}

template <class T>
void append(std::vector<T>& to, const std::vector<T>& from, uint64_t begin, uint64_t count) {
  to.insert(to.end(), from.begin() + static_cast<ptrdiff_t>(begin),
            from.begin() + static_cast<ptrdiff_t>(begin + count));
}

/// A step's samples in slices: every token on one rank or several.
std::vector<TrainData> cut_step(Random& random, const TrainData& whole, uint64_t ranks) {
  std::vector<TrainData> out(ranks);
  for (TrainData& part : out) {
    part.slices.emplace();
    part.prompt_length.emplace();
    part.rewards.emplace();
    part.log_probs.emplace();
    part.advantages.emplace();
    part.loss_mask.emplace();
    part.tokens.emplace();
  }
  for (size_t s = 0; s < whole.size(); ++s) {
    const uint64_t length = whole.length(s), begin = whole.offsets[s];
    std::vector<Box> pieces;
    cut(random, whole_box("t", std::vector<uint64_t>{length}), 3, pieces);
    std::vector<std::vector<Interval>> held(ranks);
    for (const Box& piece : pieces) {
      const uint64_t owner = random.below(ranks);
      for (uint64_t r = 0; r < ranks; ++r) {
        if (r == owner || random.below(6) == 0) held[r].push_back(piece.dims[0]);
      }
    }
    for (uint64_t r = 0; r < ranks; ++r) {
      TrainData& part = out[r];
      part.sample_id.push_back(whole.sample_id[s]);
      part.slices->lengths.push_back(length);
      part.prompt_length->push_back((*whole.prompt_length)[s]);
      part.rewards->values.push_back(whole.rewards->values[s]);
      part.rewards->presence.push_back(whole.rewards->has(s) ? 1 : 0);
      for (const Interval& i : held[r]) {
        part.slices->slices.push_back(i);
        append(part.log_probs->narrow, whole.log_probs->narrow, begin + i.first, i.length);
        append(part.advantages->wide, whole.advantages->wide, begin + i.first, i.length);
        append(part.loss_mask->values, whole.loss_mask->values, begin + i.first, i.length);
        append(*part.tokens, *whole.tokens, begin + i.first, i.length);
      }
      part.slices->offsets.push_back(part.slices->slices.size());
      part.offsets.push_back(part.tokens->size());
    }
  }
  return out;
}

std::string rank_path(const char* kind, uint64_t rank) {
  return std::string(kind) + "/1-0/rank" + std::to_string(rank) + ".h5";
}

std::vector<Dataset> step_datasets(TrainData data) {
  return to_datasets(std::make_shared<const TrainData>(std::move(data)), "1-0");
}

void write_uncut(const std::string& path, const std::vector<Tensor>& tensors,
                 const TrainData& step) {
  DumpWriter writer = DumpWriter::create(path, kUncutMeta);
  std::vector<Dataset> state;
  for (const Tensor& t : tensors) {
    state.push_back(dataset_of("1-0/" + t.name, t.dtype, t.shape, std::vector(t.bytes)));
  }
  writer.append(rank_path("weights", 0), state);
  writer.append(rank_path("train", 0), step_datasets(step));
  static_cast<void>(writer.seal());
}

struct Cut {
  std::vector<std::vector<Dataset>> states;
  std::vector<TrainData> steps;
};

void write_cut(const std::string& path, const Cut& cut, const Grid& grid) {
  const std::string meta = R"({"ranks":)" + std::to_string(grid.ranks()) + "}";
  DumpWriter writer = DumpWriter::create(path, meta);
  for (uint64_t r = 0; r < grid.ranks(); ++r) {
    std::vector<Dataset> state = cut.states[r], step = step_datasets(cut.steps[r]);
    state.push_back(coordinates("1-0", grid, r));
    step.push_back(coordinates("1-0", grid, r));
    writer.append(rank_path("weights", r), state);
    writer.append(rank_path("train", r), step);
  }
  static_cast<void>(writer.seal());
}

std::string problems_of(const std::string& path) {
  std::string out;
  for (const Problem& p : verify(path, true).problems) out += p.path + ": " + p.message + "\n";
  return out;
}

/// The joined step in the order of the ids.
std::map<uint64_t, std::vector<double>> told(const TrainData& data) {
  std::map<uint64_t, std::vector<double>> out;
  for (size_t s = 0; s < data.size(); ++s) {
    std::vector<double>& row = out[data.sample_id[s]];
    row = {static_cast<double>((*data.prompt_length)[s]), data.rewards->has(s) ? 1.0 : 0.0,
           data.rewards->values[s]};
    for (uint64_t t = data.offsets[s]; t < data.offsets[s + 1]; ++t) {
      row.insert(row.end(), {data.log_probs->at(t), data.advantages->at(t),
                             static_cast<double>(data.loss_mask->values[t]),
                             static_cast<double>((*data.tokens)[t])});
    }
  }
  return out;
}

/// As docs/numerics.md section 8 names a tensor's value: a block a row.
Digest digest_of(const Tensor& t) {
  const TensorId id(t.name, t.dtype, std::vector<int64_t>(t.shape.begin(), t.shape.end()));
  const uint64_t row = t.shape.back() * size_of(t.dtype);
  Digest out;
  for (uint64_t r = 0; row > 0 && r < t.bytes.size() / row; ++r) {
    out += digest_block(id, std::vector<uint64_t>{r, 0}, std::span(t.bytes).subspan(r * row, row));
  }
  return out;
}

/// Of a number a token: a block for each 256 positions of a sample.
Digest digest_of(const TrainData& data, const std::vector<float>& column) {
  constexpr uint64_t kLeaf = 256;
  const TensorId id("log_probs", DType::kF32, {});
  Digest out;
  for (size_t s = 0; s < data.size(); ++s) {
    for (uint64_t t = data.offsets[s]; t < data.offsets[s + 1]; t += kLeaf) {
      const auto leaf = std::span(column).subspan(t, std::min(kLeaf, data.offsets[s + 1] - t));
      const uint64_t number = (t - data.offsets[s]) / kLeaf;
      out +=
          digest_block(id, std::vector<uint64_t>{data.sample_id[s], number}, std::as_bytes(leaf));
    }
  }
  return out;
}

class Dumps {
 public:
  explicit Dumps(Random& random)
      : tensors(random_tensors(random)), step(random_step(random)), grid(random_grid(random)) {
    cut = {cut_tensors(random, tensors, grid.ranks()), cut_step(random, step, grid.ranks())};
    write_uncut((folder.path() / "uncut").string(), tensors, step);
  }

  std::string write() const {
    std::filesystem::remove_all((folder.path() / "cut").string());
    write_cut((folder.path() / "cut").string(), cut, grid);
    return (folder.path() / "cut").string();
  }

  TemporaryFolder folder;
  std::vector<Tensor> tensors;
  TrainData step;
  Grid grid;
  Cut cut;
};

}  // namespace

TEST_CASE("However tensors and samples are cut among ranks, a dump says the same") {
  Random random(rlreplay::test::seed());
  for (int i = 0, cases = full() ? 2000 : 200; i < cases; ++i) {
    INFO("case " << i);
    const Dumps dumps(random);
    const std::string path = dumps.write();
    REQUIRE(problems_of(path).empty());
    const DumpReader uncut = DumpReader::open((dumps.folder.path() / "uncut").string());
    const DumpReader dump = DumpReader::open(path);
    REQUIRE(group_contents(dump) == group_contents(uncut));
    LogicalGroup logical = logical_group(dump, "weights", "1-0");
    REQUIRE(logical.tensors().size() == dumps.tensors.size());
    for (const Tensor& t : dumps.tensors) {
      const Buffer<std::byte> read = logical.read(t.name);
      REQUIRE(logical.find(t.name)->shape == t.shape);
      const std::vector<std::byte> bytes(read.data(), read.data() + read.size());
      REQUIRE(bytes == t.bytes);
      REQUIRE(digest_of({t.name, logical.find(t.name)->dtype, logical.find(t.name)->shape,
                         bytes}) == digest_of(t));
    }
    HeldBytes held;
    const std::vector<TrainRank> ranks = read_train_ranks(dump, "1-0", held);
    const TrainData& joined = ranks.front().data;
    REQUIRE(told(joined) == told(dumps.step));
    REQUIRE(digest_of(joined, joined.log_probs->narrow) ==
            digest_of(dumps.step, dumps.step.log_probs->narrow));
  }
}

TEST_CASE("An element that no rank holds, or two hold differently, is named") {
  const TemporaryFolder folder;
  const auto shard = [](uint64_t first, std::vector<float> values) {
    const uint64_t length = values.size() / 2;
    Dataset out = dataset_of("1-0/shards/a", DType::kF32, {length, 2}, std::move(values));
    const Box box{"parameters/w", {{first, length, 4}, {0, 2, 2}}};
    set_boxes(out.attributes, {&box, 1});
    return out;
  };
  const auto said = [&](std::vector<Dataset> second) {
    std::filesystem::remove_all((folder.path() / "d").string());
    DumpWriter writer = DumpWriter::create((folder.path() / "d").string(), R"({"ranks":2})");
    writer.append(rank_path("weights", 0), std::vector<Dataset>{shard(0, {1, 2, 3, 4})});
    writer.append(rank_path("weights", 1), second);
    static_cast<void>(writer.seal());
    return problems_of((folder.path() / "d").string());
  };
  CHECK(said({shard(2, {5, 6, 7, 8})}).empty());
  CHECK(said({shard(1, {3, 4, 5, 6, 7, 8})}).empty());
  CHECK(said({shard(1, {3, 9, 5, 6, 7, 8})}) ==
        "weights/1-0/rank1.h5: element [1, 1] of parameters/w is 9 here, and 4 in "
        "weights/1-0/rank0.h5\n");
  CHECK(said({shard(3, {7, 8})}) ==
        "weights/1-0/rank0.h5: of parameters/w the units hold 6 elements of 8\n");
}

TEST_CASE("Whole copies of a tensor that ranks hold differently are named") {
  const TemporaryFolder folder;
  const auto said = [&](const char* kind, std::vector<Dataset> copies) {
    const std::string path = (folder.path() / "d").string();
    std::filesystem::remove_all(path);
    DumpWriter writer = DumpWriter::create(path, R"({"ranks":3})");
    for (uint64_t rank = 0; rank < copies.size(); ++rank) {
      writer.append(rank_path(kind, rank), {&copies[rank], 1});
    }
    static_cast<void>(writer.seal());
    return problems_of(path);
  };
  const auto copy = [](std::vector<float> values) {
    return dataset_of("1-0/gradients/w", DType::kF32, {2}, std::move(values));
  };
  for (const char* kind : {"weights", "train"}) {
    CHECK(said(kind, {copy({1, 2}), copy({1, 2}), copy({1, 2})}).empty());
    CHECK(said(kind, {copy({1, 2}), copy({1, 2}), copy({1, 3})}) ==
          rank_path(kind, 2) + ": element [1] of gradients/w is 3 here, and 2 in " +
              rank_path(kind, 0) + "\n");
  }
  // A NaN is every NaN, and a number the same in the wider type.
  const auto nan = std::bit_cast<float>(0x7fc00001U);
  CHECK(said("weights", {copy({NAN, 2}), copy({nan, 2})}).empty());
  CHECK(said("weights", {copy({1, 2}), dataset_of("1-0/gradients/w", DType::kF64, {2},
                                                  std::vector<double>{1, 2})})
            .empty());
}

TEST_CASE("A token that no rank holds, or two hold differently, is named") {
  const TemporaryFolder folder;
  const auto part = [](std::vector<Interval> slices, std::vector<float> log_probs) {
    TrainData data;
    data.sample_id = {5};
    data.offsets = {0, log_probs.size()};
    data.slices.emplace();
    data.slices->offsets = {0, slices.size()};
    data.slices->slices = std::move(slices);
    data.slices->lengths = {8};
    data.log_probs.emplace().narrow = std::move(log_probs);
    return data;
  };
  const auto said = [&](const TrainData& second) -> std::string {
    std::filesystem::remove_all((folder.path() / "d").string());
    DumpWriter writer = DumpWriter::create((folder.path() / "d").string(), R"({"ranks":2})");
    // As a zigzag cut gives it: the first and the last quarter.
    writer.append(rank_path("train", 0), step_datasets(part({{0, 2, 8}, {6, 2, 8}}, {0, 1, 6, 7})));
    writer.append(rank_path("train", 1), step_datasets(second));
    static_cast<void>(writer.seal());
    HeldBytes held;
    try {
      const auto ranks =
          read_train_ranks(DumpReader::open((folder.path() / "d").string()), "1-0", held);
      CHECK(ranks[0].data.log_probs->narrow == std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7});
      CHECK(ranks[1].data.size() == 0);
    } catch (const FormatError& error) {
      return error.problem().path + ": " + error.problem().message;
    }
    return "";
  };
  CHECK(said(part({{2, 4, 8}}, {2, 3, 4, 5})).empty());
  CHECK(said(part({{1, 5, 8}}, {1, 2, 3, 4, 5})).empty());
  CHECK(said(part({{1, 5, 8}}, {9, 2, 3, 4, 5})) ==
        "train/1-0/rank1.h5: token 1 of sample 5 has 9 here, and 1 in train/1-0/rank0.h5");
  CHECK(said(part({{3, 3, 8}}, {3, 4, 5})) ==
        "train/1-0/rank0.h5: no rank holds token 2 of sample 5");
}

TEST_CASE("Boxes that are not of their tensor or their elements are refused") {
  const auto sound = [](std::vector<uint64_t> numbers, const std::string& tensors,
                        std::vector<uint64_t> shape) {
    const h5::Attributes attributes = {{"boxes", std::move(numbers)}, {"tensors", tensors}};
    return boxes_of("a/w", shape, attributes).has_value();
  };
  CHECK(sound({0, 2, 4, 1, 2, 3}, "a/w", {4}));
  CHECK(sound({0, 2, 4, 1, 1, 3}, "a/w\n", {3}));  // one dimension and padding
  CHECK(sound({}, "", {0}));
  CHECK(sound({4, 0, 4}, "a/w", {0}));
  CHECK_FALSE(sound({0, 2, 4, 2, 2, 3}, "a/w", {4}));  // beyond the tensor
  CHECK_FALSE(sound({0, 2, 4, 1, 2, 3}, "a/w", {5}));
  CHECK_FALSE(sound({0, 2, 4, 1, 2}, "a/w", {2}));
  CHECK_FALSE(sound({0, 2, 4}, "a/w\nb/w", {2}));
  CHECK_FALSE(sound({0, 2, 4}, "a//w", {2}));
  CHECK_FALSE(sound({0, 2, 4}, "a/b/c/d", {2}));
  CHECK_FALSE(sound({}, "a/w", {0}));
  const uint64_t huge = uint64_t{1} << 40;
  CHECK_FALSE(sound({0, huge, huge, 0, huge, huge}, "a/w", {0}));
}

TEST_CASE("Slices, coordinates and boxes that say what cannot be break the rule of meaning") {
  const TemporaryFolder folder;
  const auto said = [&](const char* kind, std::vector<Dataset> datasets) {
    const std::string path = (folder.path() / "d").string();
    std::filesystem::remove_all(path);
    DumpWriter writer = DumpWriter::create(path, kUncutMeta);
    writer.append(rank_path(kind, 0), datasets);
    static_cast<void>(writer.seal());
    return problems_of(path);
  };
  const auto numbers = [](const char* name, std::vector<uint64_t> shape, std::vector<uint64_t> of) {
    return dataset_of(std::string("1-0/") + name, DType::kU64, std::move(shape), std::move(of));
  };
  const auto sliced = [&](std::vector<uint64_t> slices, uint64_t length) {
    const uint64_t count = slices.size() / 2;
    return std::vector<Dataset>{numbers("sample_id", {1}, {5}), numbers("offsets", {2}, {0, 4}),
                                numbers("slice_offsets", {2}, {0, count}),
                                numbers("slices", {count, 2}, std::move(slices)),
                                numbers("lengths", {1}, {length})};
  };
  const std::string where = "train/1-0/rank0.h5: ";
  CHECK(said("train", sliced({0, 2, 6, 2}, 8)).empty());
  const std::string row = "the slices of the sample in row 0 ";
  CHECK(said("train", sliced({0, 2, 7, 2}, 8)) ==
        where + row + "do not lie in it, expected 4 of its 8\n");
  CHECK(said("train", sliced({0, 2, 5, 1}, 8)) ==
        where + row + "are 3 tokens, expected 4 of its 8\n");
  std::vector<Dataset> lacks = sliced({0, 4}, 8);
  lacks.pop_back();
  CHECK(said("train", lacks) == where + "lengths is missing\n");
  CHECK(said("weights", {coordinates("1-0", {{2, 1, 2, 1, 1}}, 3)}).empty());
  Dataset wrong = dataset_of("1-0/coordinates", DType::kU32, {5, 2},
                             std::vector<uint32_t>{0, 1, 2, 2, 0, 1, 0, 1, 0, 1});
  CHECK(said("weights", {wrong}) == "weights/1-0/rank0.h5: row 1 is rank 2 of 2\n");
  Dataset beyond = dataset_of("1-0/a", DType::kU8, {2}, std::vector<uint8_t>{1, 2});
  const Box box{"w", {{3, 2, 4}}};
  set_boxes(beyond.attributes, {&box, 1});
  CHECK(said("weights", {beyond}) ==
        "weights/1-0/rank0.h5: its boxes do not lie within their tensors, or are not of its "
        "elements\n");
  Dataset column = dataset_of("1-0/log_probs", DType::kF32, {2}, std::vector<float>{1, 2});
  const Box of{"w", {{0, 2, 2}}};
  set_boxes(column.attributes, {&of, 1});
  std::vector<Dataset> samples = {numbers("sample_id", {1}, {5}), numbers("offsets", {2}, {0, 2})};
  samples.push_back(column);
  CHECK(said("train", samples) ==
        where + "a dataset of the tables is no tensor of boxes: log_probs\n");
}
