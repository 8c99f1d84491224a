#include "src/engine/remote_events.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "src/base/error.h"
#include "src/engine/rank_orders.h"
#include "src/events/table.h"

namespace rlreplay::engine {
namespace {

/// The elements of a view without gaps.
std::vector<std::byte> elements_of(const EventView& v) {
  const size_t row = static_cast<size_t>(v.cols) * size_of(v.dtype);
  std::vector<std::byte> out(static_cast<size_t>(v.rows) * row);
  for (int64_t r = 0; r < v.rows && row > 0; ++r) {
    std::memcpy(out.data() + static_cast<size_t>(r) * row, v.at(r, 0), row);
  }
  return out;
}

void pack_view(Packer& to, const EventView& v) {
  to.add(v.dtype).add(v.rows).add(v.cols).add(elements_of(v));
}

EventView view_of(Unpacker& from, std::vector<std::byte>& elements) {
  EventView out;
  from.take(out.dtype);
  from.take(out.rows);
  from.take(out.cols);
  from.take(elements);
  check(std::ssize(elements) == out.rows * out.cols * static_cast<int64_t>(size_of(out.dtype)),
        "an event of another rank has another size");
  out.stride = out.cols;
  out.data = elements.data();
  return out;
}

}  // namespace

void RemoteSink::rows(const Event& event, const EventView& values, const RowCoordinates& at) {
  if (values.rows == 0) return;
  Packer packer;
  pack(packer.add(RankNote::kRows), event);
  pack_view(packer, values);
  const auto rows = static_cast<size_t>(values.rows);
  packer.add(std::span(at.sample, rows)).add(std::span(at.position, rows));
  mesh_.note(0, packer.take());
}

void RemoteSink::whole(const Event& event, const EventView& values) {
  Packer packer;
  pack(packer.add(RankNote::kWhole), event);
  pack_view(packer, values);
  mesh_.note(0, packer.take());
}

void RemoteSink::part(const Event& event, int /*rank*/, const EventView& values, int64_t row,
                      int64_t column) {
  Packer packer;
  pack(packer.add(RankNote::kPart), event);
  pack_view(packer, values);
  mesh_.note(0, packer.add(row).add(column).take());
  // The sink at rank 0 may change elements: they come back before this rank computes with them.
  const std::vector<std::byte> elements = mesh_.receive(0, kPartCall, 0);
  const size_t bytes = static_cast<size_t>(values.cols) * size_of(values.dtype);
  check(elements.size() == static_cast<size_t>(values.rows) * bytes,
        "a part comes back with another size");
  for (int64_t r = 0; r < values.rows && bytes > 0; ++r) {
    std::memcpy(values.at(r, 0), elements.data() + static_cast<size_t>(r) * bytes, bytes);
  }
}

void RemoteSink::restart() { mesh_.note(0, Packer().add(RankNote::kRestart).take()); }

std::vector<Event> wanted_events(const ModelConfig& config,
                                 const std::function<bool(const Event&)>& wants) {
  std::vector<Event> out;
  for (const EventSpec& spec : event_table()) {
    const int layers = spec.layered ? static_cast<int>(config.layers) : 0;
    for (int layer = spec.layered ? 0 : -1; layer < layers; ++layer) {
      const Event event{
          spec.phase, layer, spec.op,
          is_parameter(spec.kind) ? parameter_name(spec.tensor, layer) : std::string(spec.tensor)};
      if (wants(event)) out.push_back(event);
    }
  }
  return out;
}

std::optional<std::vector<std::byte>> show_note(int rank, std::span<const std::byte> note,
                                                EventSink& sink) {
  Unpacker from(note);
  const auto kind = from.take<RankNote>();
  if (kind == RankNote::kRestart) {
    sink.restart();
    return std::nullopt;
  }
  Event event;
  unpack(from, event);
  std::vector<std::byte> elements;
  const EventView view = view_of(from, elements);
  if (kind == RankNote::kWhole) {
    sink.whole(event, view);
    return std::nullopt;
  }
  if (kind == RankNote::kPart) {
    const auto row = from.take<int64_t>();
    sink.part(event, rank, view, row, from.take<int64_t>());
    return elements;
  }
  std::vector<uint64_t> samples;
  std::vector<int32_t> positions;
  from.take(samples);
  from.take(positions);
  check(std::ssize(samples) == view.rows && samples.size() == positions.size(),
        "an event of another rank lacks coordinates");
  sink.rows(event, view, {samples.data(), positions.data()});
  return std::nullopt;
}

}  // namespace rlreplay::engine
