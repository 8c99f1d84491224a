#include "format/foreign/replicas.h"

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>

#include "format/foreign/train_columns.h"
#include "src/base/number_text.h"
#include "src/base/same_value.h"

namespace rlreplay::foreign {
namespace {

bool is_absent(const Value* value) { return value == nullptr || value->kind == Kind::kNone; }

/// How many entries a column of a file of columns has; nothing where it is absent or no list.
std::optional<size_t> list_size(const TrainShard& shard, const std::string& column) {
  const Value* value = shard.batch_value(column);
  const bool list = value != nullptr && value->kind == Kind::kList;
  return list ? std::optional(shard.tree().sequence(*value).size()) : std::nullopt;
}

/// Goes through the columns of the first file, and in each through the samples in its order. What
/// is cut among ranks is left out, and of two slices of one sample also what may be cut.
class Replicas {
 public:
  Replicas(const TrainShard& of, const TrainShard& first) : of_(of), first_(first) {}

  std::vector<Problem> run(bool same_slice) {
    for (const std::string& column : first_.columns()) {
      const TrainColumn* known = train_column(column);
      const Alike alike = known != nullptr ? known->alike : Alike::kInSlice;
      const bool is_cut = known != nullptr && known->is_cut();
      const bool is_batch = known != nullptr && !known->is_by_sample();
      if (is_cut || (alike == Alike::kInSlice && !same_slice)) continue;
      if (is_batch && first_.batch_value(column) != nullptr) {
        whole(column);
      } else if (first_.is_by_sample(column) && of_.is_by_sample(column)) {
        by_sample(column, alike == Alike::kAlways && !is_batch);
      } else if (alike == Alike::kAlways) {
        numbers_by_sample(column);
      }
    }
    return std::move(problems_);
  }

 private:
  /// `by_all`: each rank has the column, and so each or none says something of a sample.
  void by_sample(const std::string& column, bool by_all) {
    for (size_t row = 0; row < first_.indices().size(); ++row) {
      const auto x = of_.find(row, column), y = first_.find(row, column);
      const Value* mine = x ? &*x : nullptr;
      const Value* other = y ? &*y : nullptr;
      if (by_all && is_absent(mine) != is_absent(other)) {
        report(column, row, says(of_, mine), says(first_, other));
      } else {
        compare(column, sample(row), mine, other);
      }
    }
  }

  /// A column that is one tensor, with an element a sample.
  void numbers_by_sample(const std::string& column) {
    for (size_t row = 0; row < first_.indices().size(); ++row) {
      const auto x = of_.number(row, column), y = first_.number(row, column);
      if (x.has_value() == y.has_value() && (!x || same_value(*x, *y))) continue;
      report(column, row, x ? shortest_of(*x) : "None", y ? shortest_of(*y) : "None");
    }
  }

  std::string sample(size_t row) const { return "sample " + std::to_string(first_.indices()[row]); }

  static std::string says(const TrainShard& shard, const Value* value) {
    return is_absent(value) ? "None" : in_words(shard.tree(), *value);
  }

  void report(const std::string& column, size_t row, const std::string& x, const std::string& y) {
    problems_.push_back(replica_problem(of_, first_, column, {sample(row), x, y}));
  }

  void whole(const std::string& column) {
    compare(column, column, of_.batch_value(column), first_.batch_value(column));
  }

  /// What one rank has no value of is not compared: a stage of a pipeline has not all.
  void compare(const std::string& column, const std::string& name, const Value* x, const Value* y) {
    if (is_absent(x) || is_absent(y)) return;
    auto found = tree_difference(of_.tree(), *x, first_.tree(), *y);
    if (!found) return;
    found->place = place_in(name, found->place);
    problems_.push_back(replica_problem(of_, first_, column, *found));
  }

  const TrainShard& of_;
  const TrainShard& first_;
  std::vector<Problem> problems_;
};

}  // namespace

void check_columns(const TrainShard& of, const TrainShard& first) {
  for (const TrainColumn& known : kTrainColumns) {
    const std::string column(known.name);
    if (!known.is_by_sample() || known.alike != Alike::kAlways) continue;
    if (of.has(column) != first.has(column)) {
      const auto& [lacks, has] = of.has(column) ? std::tie(first, of) : std::tie(of, first);
      throw Error(ErrorCode::kCorrupt,
                  column + " is missing in " + lacks.name() + ", and " + has.name() +
                      " has it, of the same samples",
                  lacks.path());
    }
    const std::optional<size_t> x = list_size(of, column), y = list_size(first, column);
    if (!x || !y || *x == *y) continue;
    const bool odd = *x != of.indices().size();
    const TrainShard &there = odd ? of : first, &other = odd ? first : of;
    throw Error(ErrorCode::kCorrupt,
                column + " has " + std::to_string(odd ? *x : *y) + " entries in " + there.name() +
                    ", and " + std::to_string(odd ? *y : *x) + " in " + other.name() +
                    ", of the same samples",
                there.path());
  }
}

std::vector<Problem> compare_replicas(const TrainShard& of, const TrainShard& first,
                                      bool same_slice) {
  return Replicas(of, first).run(same_slice);
}

Problem replica_problem(const TrainShard& of, const TrainShard& first, std::string_view column,
                        const TreeDifference& at) {
  const std::string rank = std::to_string(first.rank());
  return {"replica-mismatch",
          std::string(column) + " of rank " + std::to_string(of.rank()) +
              " differs from that of rank " + rank,
          of.path() + ": " + at.place + ": " + at.a + ", rank " + rank + " says " + at.b};
}

}  // namespace rlreplay::foreign
