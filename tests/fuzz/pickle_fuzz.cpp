#include "format/foreign/canonical_json.h"
#include "format/foreign/dump_check.h"
#include "format/foreign/pickle_machine.h"
#include "format/foreign/tree_check.h"
#include "tests/fuzz/answer.h"

namespace {

/// The storages that a pickle names, all of the same bytes.
class OneRecord final : public rlreplay::foreign::RecordSource {
 public:
  std::optional<rlreplay::foreign::Bytes> record(std::string_view) const override {
    return rlreplay::foreign::Bytes(kBytes);
  }

 private:
  static constexpr uint8_t kBytes[64] = {0, 0, 0x80, 0x3f};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rlreplay;
  return fuzz::answer([&] {
    const OneRecord records;
    Budget budget(size);
    foreign::Tree tree(&budget);
    foreign::PickleMachine machine({data, size}, tree, records);
    const foreign::Value root = machine.run();
    check_tree(tree, root, size);
    check_dump(tree, root);
    write_canonical_json(tree, root, [](std::string_view) {});
  });
}
