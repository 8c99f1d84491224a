#include "src/replay/exchange/unsaid.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "format/columns.h"
#include "format/dump_content.h"
#include "format/group_io.h"
#include "src/base/words.h"

namespace rlreplay::replay {
namespace {

using format::Dataset;
using format::StoredDataset;

bool is_event(const StoredDataset& stored) { return stored.name().starts_with("events/"); }

/// Whether a dataset is stored just as it is written.
bool is_same(const StoredDataset& stored, const Dataset& written) {
  return stored.dtype == written.dtype && stored.shape == written.shape &&
         stored.attributes == written.attributes && stored.hash == hash_of(written.bytes);
}

using Fields = std::map<std::string, Hash>;

Fields fields_of(const format::GroupContent& content) {
  return format::field_hashes({&content.items(), 1}, {});
}

/// The fields of datasets that are not yet stored.
Fields fields_of(std::string_view kind, const std::vector<Dataset>& written) {
  std::vector<format::GroupDataset> forms;
  std::map<std::string, std::span<const std::byte>> bytes;
  for (const Dataset& dataset : written) {
    const std::string name = dataset.path.substr(dataset.path.find('/') + 1);
    forms.push_back({name, dataset.dtype, dataset.shape, dataset.attributes});
    bytes[name] = dataset.bytes;
  }
  format::GroupContent content(kind, forms, [&](const format::GroupDataset& of) {
    return std::vector<std::byte>(bytes.at(of.name).begin(), bytes.at(of.name).end());
  });
  for (const auto& [name, of] : bytes) content.add(name, of);
  return fields_of(content);
}

/// Those of a stored group, without its events. Of slices and boxes, which are written as the whole
/// that they are parts of, there are only names to compare: nothing.
std::optional<Fields> fields_of(const format::DumpReader& dump, const format::UnitReader& unit,
                                const std::string& group) {
  std::vector<format::GroupDataset> forms = datasets_of(unit, group);
  std::erase_if(forms, [](const auto& form) { return form.name.starts_with("events/"); });
  format::HeldBytes held;
  format::GroupContent content(
      format::kind_of(unit.record().path), forms,
      [&](const format::GroupDataset& of) { return read_table(dump, unit, group + "/" + of.name); },
      hold_for(unit, group, held));
  if (unit.find(group + "/slices") != nullptr) return std::nullopt;
  for (const format::GroupDataset& form : forms) {
    const StoredDataset& stored = *unit.find(group + "/" + form.name);
    if (stored.base) {
      content.add(form.name, dump.read(unit, stored), stored.hash);
    } else {
      add_plain(unit, stored, content);
    }
  }
  if (content.is_cut()) return std::nullopt;
  return fields_of(content);
}

/// The names of what was written otherwise than it is here, not at all, or though it is not here.
std::vector<std::string> differing(Fields here, const Fields& said) {
  for (const auto& [name, hash] : said) here.emplace(name, Hash());
  std::vector<std::string> names;
  for (const auto& [name, hash] : here) {
    const auto at = said.find(name);
    if (at == said.end() || at->second != hash) names.push_back(name);
  }
  return names;
}

}  // namespace

void Unsaid::compare(const format::DumpReader& dump, const format::UnitReader& unit,
                     const std::string& group, const std::vector<Dataset>& written) {
  std::map<std::string, const Dataset*> by_path;
  for (const Dataset& dataset : written) by_path[dataset.path] = &dataset;
  size_t same = 0, stored = 0;
  for (const StoredDataset& dataset : unit.datasets_of(group)) {
    if (is_event(dataset)) continue;
    ++stored;
    const auto at = by_path.find(dataset.path);
    if (at != by_path.end() && is_same(dataset, *at->second)) ++same;
  }
  if (same == stored && same == written.size()) return;
  const std::string kind(format::kind_of(unit.record().path));
  std::optional<Fields> here = fields_of(dump, unit, group);
  if (!here) return add_unknown(unit, group);
  for (const std::string& name : differing(std::move(*here), fields_of(kind, written))) {
    const std::string presence = format::presence_name(name);
    const bool some = unit.find(group + "/" + presence) != nullptr;
    ++fields_[kind][some ? name + " with " + presence : name];
  }
}

void Unsaid::compare_joined(const format::DumpReader& dump, const std::string& kind,
                            const std::string& group, const std::vector<Dataset>& written) {
  Fields here = format::read_fields(dump, kind, group);
  std::erase_if(here, [](const auto& field) { return field.first.starts_with("events/"); });
  for (const std::string& name : differing(std::move(here), fields_of(kind, written))) {
    ++fields_[kind][name];
  }
}

void Unsaid::add_unknown(const format::UnitReader& unit, const std::string& group) {
  const std::string kind(format::kind_of(unit.record().path));
  for (const StoredDataset& dataset : unit.datasets_of(group)) {
    if (!is_event(dataset) && format::find_known(kind, dataset.name()) == nullptr) {
      ++fields_[kind][std::string(dataset.name())];
    }
  }
}

void Unsaid::add_empty(const format::UnitReader& unit) {
  ++empty_[std::string(format::kind_of(unit.record().path))];
}

std::vector<std::string> Unsaid::lines() const {
  std::vector<std::string> out;
  for (const auto& [kind, fields] : fields_) {
    for (const auto& [name, groups] : fields) {
      out.push_back(name + " of " + counted(groups, kind == "train" ? "step" : "rollout") + " (" +
                    form_ + " have no room for what the dump says there)");
    }
  }
  for (const auto& [kind, groups] : empty_) {
    out.push_back(counted(groups, kind == "train" ? "step" : "rollout") + " without samples (" +
                  form_ + " are of samples)");
  }
  return out;
}

}  // namespace rlreplay::replay
