#include "src/engine/replica_check.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>
#include <type_traits>
#include <vector>

#include "src/base/hash.h"
#include "src/base/number_text.h"
#include "src/engine/parallel.h"
#include "src/events/name.h"

namespace rlreplay::engine {
namespace {

/// Where a run of elements stands in the whole tensor. What two ranks hold of a parameter is cut so
/// that two runs are the same or have no element in common.
struct Place {
  int64_t parameter = 0, row = 0, column = 0, count = 0;
  friend auto operator<=>(const Place&, const Place&) = default;
};

/// What a rank tells others of a run that it holds.
struct Copy {
  Place place;
  Hash hash;
};
static_assert(std::is_trivially_copyable_v<Copy>);

/// A run of the rank's own.
struct OwnRun {
  Place place;
  int64_t begin = 0;  // in the flat storage
};

/// Finds the runs of a rank that others hold too, in the order of its parameters, cut as Place
/// says.
class Runs {
 public:
  Runs(const Model& model, const Ranks& ranks, kernels::Range held, bool dealt)
      : model_(model), ranks_(ranks), held_(held), dealt_(dealt) {
    const Layout& layout = ranks.layout;
    all_ = layout.cp > 1 || (layout.dp > 1 && !dealt);
  }

  std::vector<OwnRun> find() {
    for (size_t i = 0; i < model_.slices().size(); ++i) add(static_cast<int>(i));
    return std::move(out_);
  }

 private:
  /// Parts of a parameter that no other rank holds need no comparison.
  void add(int index) {
    const Parameter& p = model_.parameters()[index];
    const bool keys = of_keys(index);
    const bool stages =
        index == model_.parameters().embedding && model_.config().tied && ranks_.layout.pp > 1;
    const bool replicated =
        p.role == Role::kNorm || p.role == Role::kHeadNorm || p.role == Role::kBias || keys;
    if (!all_ && !stages && !(ranks_.layout.tp > 1 && replicated)) return;
    // Neighbours may hold some of a rank's key heads, the other stage another part of the rows that
    // are dealt: a run is a row, or a head of a vector.
    if (!keys && !(stages && dealt_)) return add_run(index, 0, p.size());
    const int64_t size = p.is_vector() ? model_.config().head_dim : p.cols;
    for (int64_t first = 0; first < p.size(); first += size) add_run(index, first, size);
  }

  bool of_keys(int index) const {
    if (!model_.shard().replicas) return false;
    return std::ranges::any_of(model_.parameters().layers, [&](const LayerParameters& l) {
      return index == l.k || index == l.v || index == l.k_bias || index == l.v_bias;
    });
  }

  /// Elements [first, first + count) of a parameter, as far as they are held.
  void add_run(int index, int64_t first, int64_t count) {
    const Parameter& p = model_.parameters()[index];
    const int64_t begin = std::max(p.offset + first, held_.begin);
    const int64_t end = std::min(p.offset + first + count, held_.end);
    if (begin >= end) return;
    const Slice& slice = model_.slices()[static_cast<size_t>(index)];
    const int64_t element = begin - p.offset;
    const bool vector = p.is_vector();
    out_.push_back({{slice.whole, vector ? 0 : slice.row + element / p.cols,
                     slice.column + (vector ? element : 0), end - begin},
                    begin});
  }

  const Model& model_;
  const Ranks& ranks_;
  const kernels::Range held_;
  const bool dealt_;  // over dp
  bool all_ = false;
  std::vector<OwnRun> out_;
};

/// Who holds a run, and what.
struct Holder {
  int rank = 0;
  Hash hash;
};

/// The first run whose copies differ, and the ranks that are compared.
struct Conflict {
  Place place;
  int rank = 0, other = 0, copies = 0;
  bool outvoted = false;
};

std::optional<Conflict> find_conflict(const std::vector<OwnRun>& own,
                                      const std::vector<Hash>& hashes, Group& world) {
  std::vector<Copy> copies;
  for (size_t i = 0; i < own.size(); ++i) copies.push_back({own[i].place, hashes[i]});
  const Gathered<Copy> all = gather_items(world, std::span<const Copy>(copies));
  std::map<Place, std::vector<Holder>> holders;
  for (size_t r = 0; r < all.first.size(); ++r) {
    const size_t end = r + 1 < all.first.size() ? all.first[r + 1] : all.items.size();
    for (size_t i = all.first[r]; i < end; ++i) {
      holders[all.items[i].place].push_back({static_cast<int>(r), all.items[i].hash});
    }
  }
  for (const auto& [place, holders_of_place] : holders) {
    const std::vector<Holder>& by = holders_of_place;
    const auto votes = [&](const Holder& holder) {
      return std::ranges::count(by, holder.hash, &Holder::hash);
    };
    const Holder& most = *std::ranges::max_element(by, {}, votes);  // of as many, the first
    const auto odd = std::ranges::find_if(by, [&](const Holder& h) { return h.hash != most.hash; });
    if (odd == by.end()) continue;
    return Conflict{place, odd->rank, most.rank, static_cast<int>(by.size()),
                    votes(most) > votes(*odd)};
  }
  return std::nullopt;
}

template <class T>
std::string value_text(T value) {
  if constexpr (std::is_floating_point_v<T>) return shortest(value);
  return std::to_string(value);
}

/// The first element that two ranks hold differently, and what.
template <class T>
struct Element {
  int64_t row = 0, column = 0;
  T value{}, other{};
};

/// The first element that differs; called on the rank whose copy is not the one of `theirs`.
template <class T>
Element<T> first_element(const Model& model, const Place& at, const T* mine,
                         std::span<const T> theirs) {
  int64_t i = 0;
  while (std::memcmp(mine + i, theirs.data() + i, sizeof(T)) == 0) ++i;
  const auto slice = std::ranges::find(model.slices(), at.parameter, &Slice::whole);
  const Parameter& p = model.parameters().list[static_cast<size_t>(slice - model.slices().begin())];
  const int64_t row = p.is_vector() ? 0 : i / p.cols;
  return {at.row + row, at.column + i - row * p.cols, mine[i], theirs[static_cast<size_t>(i)]};
}

/// The two ranks of a conflict find out, and tell all.
template <class T>
ReplicaDifference find_element(const Conflict& at, const std::vector<OwnRun>& own, const T* flat,
                               const Model& model, Group& world) {
  const auto run = std::ranges::find(own, at.place, &OwnRun::place);
  const auto count = static_cast<size_t>(at.place.count);
  Element<T> found;
  if (world.rank() == at.other) {
    world.send(at.rank, std::as_bytes(std::span(flat + run->begin, count)));
  } else if (world.rank() == at.rank) {
    std::vector<T> theirs(count);
    world.receive(at.other, std::as_writable_bytes(std::span(theirs)));
    found = first_element<T>(model, at.place, flat + run->begin, theirs);
  }
  std::vector<Element<T>> all(static_cast<size_t>(world.size()));
  world.gather(std::as_bytes(std::span(&found, 1)), std::as_writable_bytes(std::span(all)));
  found = all[static_cast<size_t>(at.rank)];
  const ParameterTable whole = make_parameters(model.config());
  const Parameter& p = whole[static_cast<int>(at.place.parameter)];
  ReplicaDifference out;
  out.event.layer = p.layer;
  out.event.tensor = p.name;
  out.index = found.row * p.cols + found.column;
  out.place = p.is_vector()
                  ? "[" + std::to_string(found.column) + "]"
                  : "[" + std::to_string(found.row) + ", " + std::to_string(found.column) + "]";
  out.rank = at.rank;
  out.other = at.other;
  out.outvoted = at.outvoted;
  out.copies = at.copies;
  out.value = value_text(found.value);
  out.other_value = value_text(found.other);
  return out;
}

template <class T>
std::optional<ReplicaDifference> compare(const Runtime& runtime, const Model& model,
                                         kernels::Range held, bool dealt, const T* flat,
                                         Phase phase, Op op) {
  const std::vector<OwnRun> own = Runs(model, *runtime.ranks, held, dealt).find();
  std::vector<Hash> hashes;
  for (const OwnRun& run : own) {
    hashes.push_back(
        hash_of(std::as_bytes(std::span(flat + run.begin, static_cast<size_t>(run.place.count)))));
  }
  const auto conflict = find_conflict(own, hashes, runtime.ranks->world);
  if (!conflict) return std::nullopt;
  ReplicaDifference out = find_element(*conflict, own, flat, model, runtime.ranks->world);
  out.event.phase = phase;
  out.event.op = op;
  return out;
}

}  // namespace

std::string to_string(const ReplicaDifference& d, const Layout& layout) {
  std::string out = to_string(d.event) + d.place + " is " + d.value + " on " +
                    rank_name(layout, d.rank) + " and " + d.other_value + " on " +
                    rank_name(layout, d.other);
  if (d.outvoted) out += ", as on most of " + std::to_string(d.copies) + " ranks that hold it";
  return out;
}

std::optional<ReplicaDifference> compare_sums(const Runtime& runtime, const Model& model,
                                              kernels::Range held, const Gradients& gradients) {
  if (runtime.ranks == nullptr) return std::nullopt;
  return compare(runtime, model, held, runtime.ranks->layout.zero, gradients.sums().data(),
                 Phase::kReduce, Op::kGradient);
}

std::optional<ReplicaDifference> compare_state(const Runtime& runtime, const Model& model,
                                               const Moments& moments) {
  if (runtime.ranks == nullptr) return std::nullopt;
  const bool dealt = runtime.ranks->layout.zero;
  const auto moment = [&](const Buffer<float>& values, Op op) {
    return compare(runtime, model, moments.held, dealt, values.data() - moments.held.begin,
                   Phase::kOptimizer, op);
  };
  if (auto found = moment(moments.first, Op::kExpAvg)) return found;
  if (auto found = moment(moments.second, Op::kExpAvgSq)) return found;
  return compare(runtime, model, {0, model.parameters().elements}, false, model.weights().data(),
                 Phase::kOptimizer, Op::kWeight);
}

}  // namespace rlreplay::engine
