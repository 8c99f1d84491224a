#include "format/hdf5/attributes.h"

#include <algorithm>
#include <cstring>

#include "format/hdf5/dense.h"
#include "format/hdf5/types.h"
#include "format/rule.h"
#include "src/base/printable.h"
#include "src/base/words.h"

namespace rlreplay::format::h5 {
namespace {

std::string text_of(Bytes bytes) {
  const std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return std::string(all.substr(0, all.find('\0')));
}

std::optional<Attribute> value_of(Bytes datatype, const Dataspace& space, Cursor data,
                                  const File& file) {
  using Kind = Dataspace::Kind;
  if (const auto size = text_size(datatype, file)) {
    if (space.kind != Kind::kScalar) return std::nullopt;
    return text_of(data.bytes(*size));
  }
  if (element_of(datatype) != Element{Element::Kind::kUnsigned, 8}) return std::nullopt;
  const auto length = space.kind == Kind::kNull ? 0 : space.length();
  if (!length) return std::nullopt;
  file.expect_at_most(*length, data.left() / 8, "an attribute without all of its values");
  std::vector<uint64_t> numbers(static_cast<size_t>(*length));
  for (uint64_t& n : numbers) n = data.number(8);
  return numbers;
}

/// Gathers the attributes of one object.
class Reader {
 public:
  Reader(File& file, const Limits& limits) : file_(file), limits_(limits) {}

  void add(Bytes message);
  void add_dense(Bytes info);
  std::vector<NamedAttribute> finish();

 private:
  File& file_;
  const Limits& limits_;
  std::vector<NamedAttribute> all_;
};

void Reader::add(Bytes message) {
  if (all_.size() >= limits_.attributes) {
    file_.refuse(Rule::kObjectLimit, "a further attribute, expected at most " +
                                         std::to_string(limits_.attributes) + " of an object");
  }
  Cursor c(message, file_);
  c.expect(1, 3, "an attribute of another version");
  c.expect(1, 0, "an attribute of a shared type");
  const uint64_t name_size = c.number(2), type_size = c.number(2), space_size = c.number(2);
  file_.expect_at_most(c.byte(), 1, "a name in unknown characters");
  const std::string name = text_of(c.bytes(name_size));
  file_.expect_equal(name.size() + 1, name_size, "an attribute's name of another length");
  const Bytes datatype = c.bytes(type_size);
  const Dataspace space = dataspace_of(c.bytes(space_size), file_);
  if (c.left() > limits_.attribute_bytes) {
    file_.refuse(Rule::kObjectLimit, "an attribute of " + counted(c.left(), "byte") + ", at most " +
                                         std::to_string(limits_.attribute_bytes));
  }
  all_.push_back({name, value_of(datatype, space, c, file_)});
}

void Reader::add_dense(Bytes info) {
  constexpr size_t kId = 8;
  // A record by name: id, flags, order, the name's checksum.
  constexpr DenseForm kForm = {"attribute information of another version than 0",
                               "two indices of attributes that do not agree",
                               2,
                               RecordType::kAttributeName,
                               RecordType::kAttributeOrder,
                               kId + 1 + 4 + 4,
                               kId + 1 + 4,
                               0,
                               kId,
                               kId + 1 + 4};
  visit_dense(file_, info, kForm, limits_.objects, [&](Bytes object, Bytes record) {
    Cursor(record.subspan(kId), file_).expect(1, 0, "a shared attribute");
    add(object);
    return all_.back().name;
  });
}

std::vector<NamedAttribute> Reader::finish() {
  std::ranges::sort(all_, {}, &NamedAttribute::name);
  const auto twice = std::ranges::adjacent_find(all_, {}, &NamedAttribute::name);
  if (twice != all_.end()) file_.refuse("two attributes of one name, " + printable(twice->name));
  return std::move(all_);
}

}  // namespace

std::vector<NamedAttribute> attributes_of(File& file, const ObjectHeader& object,
                                          const Limits& limits) {
  Reader reader(file, limits);
  for (const Message& message : object.messages()) {
    if (message.type == MessageType::kAttribute) reader.add(message.body);
  }
  if (const Message* info = object.find(MessageType::kAttributeInfo)) reader.add_dense(info->body);
  return reader.finish();
}

}  // namespace rlreplay::format::h5
