#include "src/replay/capture/state_data.h"

#include <algorithm>
#include <utility>

#include "format/boxes.h"
#include "src/replay/capture/rank_part.h"
#include "src/replay/record/state_reader.h"

namespace rlreplay::replay {
namespace {

/// Along the dimensions of a parameter, of which a vector has one.
format::Box box_of(const std::string& name, const Parameter& p, const ParameterPart& part) {
  const auto along = [](int64_t first, int64_t length, int64_t of) {
    return format::Interval{static_cast<uint64_t>(first), static_cast<uint64_t>(length),
                            static_cast<uint64_t>(of)};
  };
  format::Box out{name, {}};
  if (!p.is_vector()) out.dims.push_back(along(part.row, part.rows, p.rows));
  out.dims.push_back(along(part.column, part.columns, p.cols));
  return out;
}

std::vector<float> elements_of(std::span<const float> values, const Parameter& p,
                               const ParameterPart& part) {
  std::vector<float> out;
  out.reserve(static_cast<size_t>(part.rows * part.columns));
  for (int64_t row = part.row; row < part.row + part.rows; ++row) {
    const auto begin = values.begin() + row * p.cols + part.column;
    out.insert(out.end(), begin, begin + part.columns);
  }
  return out;
}

/// Rows of one of a parameter's three tensors, which become one dataset.
struct Piece {
  const Parameter* parameter;
  const StateTensor* tensor;
  ParameterPart part;

  uint64_t bytes() const { return static_cast<uint64_t>(part.rows * part.columns) * sizeof(float); }
};

format::Dataset dataset_of(const Piece& piece, const StateSpans<const float>& state,
                           const std::string& group) {
  const Parameter& p = *piece.parameter;
  const std::string name = state_name(*piece.tensor, p);
  const format::Box box = box_of(name, p, piece.part);
  format::Dataset out = format::dataset_of<float>(
      group + "/" + name, DType::kF32, box.lengths(),
      elements_of(values_of(state.*piece.tensor->read, p), p, piece.part));
  if (box.lengths() != box.shape()) format::set_boxes(out.attributes, std::span(&box, 1));
  return out;
}

format::Dataset counters(const std::string& group, int64_t steps) {
  auto out = format::dataset_of<double>(group + "/" + std::string(kStateCounters), DType::kF64, {1},
                                        {static_cast<double>(steps)});
  out.attributes = {{"columns", "steps"}};
  return out;
}

/// What a rank writes of a state, where no piece of several rows has more than `most` bytes.
std::vector<Piece> pieces_of(const std::vector<Parameter>& parameters, const RankParts& parts,
                             uint64_t most) {
  std::vector<Piece> out;
  for (size_t i = 0; i < parameters.size(); ++i) {
    for (const StateTensor& tensor : state_tensors()) {
      const bool weights = tensor.read == &StateSpans<const float>::weights;
      const ParameterPart& whole = weights ? parts.weights[i] : parts.moments[i];
      const auto row = static_cast<int64_t>(sizeof(float)) * std::max<int64_t>(whole.columns, 1);
      const int64_t rows = std::max<int64_t>(1, static_cast<int64_t>(most) / row);
      for (int64_t done = 0; done < whole.rows; done += rows) {
        Piece& piece = out.emplace_back(Piece{&parameters[i], &tensor, whole});
        piece.part.row += done;
        piece.part.rows = std::min(rows, whole.rows - done);
      }
    }
  }
  return out;
}

/// The pieces of each unit: as many, in their order, as have `most` bytes together, or one.
std::vector<std::vector<Piece>> units_of(const std::vector<Piece>& pieces, uint64_t most) {
  std::vector<std::vector<Piece>> out(1);
  uint64_t held = 0;
  for (const Piece& piece : pieces) {
    if (held > 0 && held + piece.bytes() > most) {
      out.emplace_back();
      held = 0;
    }
    held += piece.bytes();
    out.back().push_back(piece);
  }
  return out;
}

}  // namespace

void each_state_unit(engine::Backend& backend, const std::string& group, const Layout& layout,
                     int rank, uint64_t unit_bytes, const UseStateUnit& use) {
  const StateSpans<const float> state = backend.state();
  const auto pieces =
      pieces_of(backend.parameters().list, rank_parts(backend.config(), layout, rank), unit_bytes);
  const auto units = units_of(pieces, unit_bytes);
  const std::string name = "weights/" + group + "/rank" + std::to_string(rank);
  for (size_t u = 0; u < units.size(); ++u) {
    const bool last = u + 1 == units.size();
    std::vector<format::Dataset> datasets = coordinate_datasets(layout, rank, group);
    for (const Piece& piece : units[u]) datasets.push_back(dataset_of(piece, state, group));
    if (last) datasets.push_back(counters(group, backend.steps()));
    use(name + (last ? "" : "-part" + std::to_string(u)) + ".h5", std::move(datasets));
  }
}

void read_state(const RecordedRun& run, const StepId& step, engine::Backend& backend) {
  const format::DumpReader& dump = run.dump();
  backend.write_state(read_steps(dump, step.group()), [&](const StateSpans<float>& state) {
    StateReader(dump, backend.parameters(), state).read(step.group());
  });
}

}  // namespace rlreplay::replay
