#include <sys/resource.h>

#include "format/foreign/pickle_machine.h"
#include "format/foreign/tree_check.h"
#include "tests/foreign/support.h"

// Pickles are written out by opcodes, as pickletools names them: X a text by its length, J an
// integer, ( a mark, t a tuple and l a list of what lies above it, c a global by two lines, R a
// call, b a state, q and h into the memo and out of it, . the end. A pickle is refused by its first
// opcode that is wrong: what stands before it must be sound, or the test would see another refusal.
namespace rlreplay::foreign {
namespace {

using namespace std::string_literals;

/// The archive around a pickle: one storage, of four floats where it is not said otherwise.
class OneRecord : public RecordSource {
 public:
  explicit OneRecord(size_t floats = 4) : data_(4 * floats, '\x01') {}

  std::optional<Bytes> record(std::string_view key) const override {
    if (key != "0") return std::nullopt;
    return as_bytes(data_);
  }

 private:
  std::string data_;
};

/// What the pickle holds, as canonical JSON. The tree is checked as whoever reads a file does it.
std::string run(const std::string& pickle, const OneRecord& records = OneRecord()) {
  Tree tree;
  PickleMachine machine(as_bytes(pickle), tree, records);
  const Value root = machine.run();
  check_tree(tree, root, pickle.size());
  std::string text;
  write_canonical_json(tree, root, [&](std::string_view piece) { text += piece; });
  return text;
}

void refused(ErrorCode code, std::string_view fragment, const std::string& pickle) {
  expect_error(code, fragment, [&] { run(pickle); });
}

void corrupt(std::string_view fragment, const std::string& pickle) {
  refused(ErrorCode::kCorrupt, fragment, pickle);
}

std::string text(const std::string& s) { return "X" + little(static_cast<uint32_t>(s.size())) + s; }

std::string integer(int32_t i) { return "J" + little(i); }

std::string integers(std::initializer_list<int32_t> items) {
  std::string out = "(";
  for (const int32_t i : items) out += integer(i);
  return out + "t";
}

// What torch writes as a tensor's backward hooks.
const std::string kNoHooks = "ccollections\nOrderedDict\n)R";

/// The persistent id by which torch names a storage of the archive.
std::string storage(const std::string& type = "FloatStorage", int32_t count = 4) {
  return "(" + text("storage") + "ctorch\n" + type + "\n" + text("0") + text("cpu") +
         integer(count) + "tQ";
}

/// A tensor that begins at element `offset` of its storage.
std::string tensor(int32_t offset, const std::string& size, const std::string& stride,
                   const std::string& from = storage()) {
  return "ctorch._utils\n_rebuild_tensor_v2\n(" + from + integer(offset) + size + stride + "\x89" +
         kNoHooks + "tR.";
}

TEST_CASE("what asks for code is refused by name, whatever the opcode") {
  const auto unsafe = [](std::string_view fragment, const std::string& pickle) {
    refused(ErrorCode::kUnsafe, fragment, pickle);
  };
  unsafe("'os.system'", "cos\nsystem\n.");
  unsafe("'os.system'", "\x80\x04\x8c\x02os\x8c\x06system\x93.");
  unsafe("'os.system'", "(" + text("true") + "ios\nsystem\n.");
  unsafe("'os.system'", "(cos\nsystem\no.");
  unsafe("'builtins.eval'", "cbuiltins\neval\n.");
  unsafe("'__builtin__.exec'", "c__builtin__\nexec\n.");
  unsafe("'torch.storage._load_from_bytes'", "ctorch.storage\n_load_from_bytes\n.");
  unsafe("'torch.load'", "ctorch\nload\n.");
  unsafe("'slime.utils.types.Sample.__init__'",
         "c__builtin__\ngetattr\n(cslime.utils.types\nSample\n" + text("__init__") + "tR.");
  unsafe("attribute 'x'", "c__builtin__\ngetattr\n(ctorch\nSize\n" + text("x") + "tR.");
  unsafe("calls slime.utils.types.Sample", "cslime.utils.types\nSample\n)R.");
  unsafe("changes slime.utils.types.Sample", "cslime.utils.types\nSample\n}b.");
  unsafe("'__class__'", "cslime.utils.types\nSample\n)\x81}" + text("__class__") + "Nsb.");
  unsafe("keyword", "cslime.utils.types\nSample\n)}" + text("a") + "Ns\x92.");
  unsafe("extension registry", "\x82\x01.");
  unsafe("codec 'rot13'", "c_codecs\nencode\n" + text("a") + text("rot13") + "\x86R.");
}

TEST_CASE("the message names the byte and the opcode") {
  try {
    run("N0cos\nsystem\n.");
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.where() == "byte 2 (GLOBAL)");
  }
}

TEST_CASE("data that has no place here is refused as unsupported") {
  const auto unsupported = [](std::string_view fragment, const std::string& pickle) {
    refused(ErrorCode::kUnsupported, fragment, pickle);
  };
  unsupported("'torch.QInt8Storage'", "ctorch\nQInt8Storage\n.");
  unsupported("'torch.float99'", "ctorch\nfloat99\n.");
  unsupported("_rebuild_sparse_tensor", "ctorch._utils\n_rebuild_sparse_tensor\n.");
  unsupported("outside the file", "\x97.");
  unsupported("protocol 6", "\x80\x06N.");
  unsupported("dtype 'O8'", "cnumpy\ndtype\n" + text("O8") + "\x85R.");
  unsupported("without a tensor", storage() + ".");
  unsupported("without a tensor", "(" + storage() + "l.");
  unsupported("cyclic", "]q\0h\0a."s);
  unsupported("cyclic", "]q\0(h\0ta."s);
  unsupported("cyclic", "}q\0"s + text("a") + "h\0s."s);
}

TEST_CASE("a machine that is misused stops") {
  corrupt("no STOP", "N");
  corrupt("no STOP", "");
  corrupt("without an object", ".");
  corrupt("several objects", "NN.");
  corrupt("open marks", "((N.");
  corrupt("too few", "(N\x86.");
  corrupt("the stack is empty", "R.");
  corrupt("the stack is empty", "q\0N."s);
  corrupt("never put", "h\x05.");
  corrupt("never put", "j\xff\xff\xff\xff.");
  corrupt("no valid number", "Np-1\n.");
  corrupt("no mark", "}u.");
  corrupt("odd number", "}(Nu.");
  corrupt("odd number", "(Nd.");
  corrupt("appends to a dict", "}Na.");
  corrupt("sets items of a list", "]NNs.");
  corrupt("adds items to a list", "](N\x90.");
  corrupt("a list cannot be the key", "}]Ns.");
  corrupt("a key holds a list", "}(]\x85N]\x85Nu.");
  corrupt("unknown opcode 0xf0", "\xf0.");
  corrupt("calls an integer", "K\x01)R.");
  corrupt("state to a dict", "}}b.");
  corrupt("a global's name is not a text", "K\x01K\x02\x93.");
  corrupt("arguments", "ctorch._utils\n_rebuild_tensor_v2\n)R.");
  corrupt("frame is longer", "\x95" + little<uint64_t>(100) + "N.");
}

TEST_CASE("lengths and texts that lie are refused") {
  corrupt("past the end", "X\xff\xff\xff\xff"s + "abc.");
  corrupt("past the end", "\x8d" + little<uint64_t>(UINT64_MAX - 3) + "abc.");
  corrupt("past the end", "\x96" + little<uint64_t>(uint64_t{1} << 60) + ".");
  corrupt("negative length", "\x8b" + little<int32_t>(-1) + ".");
  corrupt("negative length", "T" + little<int32_t>(-1) + ".");
  corrupt("past the end", "\x8b" + little<int32_t>(INT32_MAX) + "\x01.");
  corrupt("not UTF-8", text("\xff") + ".");
  corrupt("not UTF-8", text("\xc0\xaf") + ".");
  corrupt("not a decimal", "I12x\n.");
  corrupt("not a decimal", "L\n.");
  corrupt("not a float", "F1.5x\n.");
  corrupt("5000 digits", "L" + std::string(5000, '9') + "L\n.");
  corrupt("3000 bytes", "\x8b" + little<int32_t>(3000) + std::string(3000, '\x7f') + ".");
  corrupt("quoted text", "S'abc\n.");
  corrupt("broken escape", "V\\u12\n.");
  corrupt("above U+00FF", "c_codecs\nencode\n" + text("\u0416") + text("latin1") + "\x86R.");
}

TEST_CASE("depth and sharing are bounded") {
  const size_t deep = 100000;
  corrupt("levels deep", std::string(deep, ']') + std::string(deep - 1, 'a') + ".");
  corrupt("levels deep", "N" + std::string(deep, '\x85') + ".");
  // Eight references to the level below, on each of forty: 8^40 parts in some hundred bytes.
  std::string laughs = "]q\0"s + text("ha") + "a";
  for (char level = 0; level < 40; ++level) {
    laughs += "0](";
    for (int copy = 0; copy < 8; ++copy) laughs += "h"s + level;
    laughs += "eq"s + static_cast<char>(level + 1);
  }
  corrupt("shares its parts", laughs + ".");
  CHECK(run("]" + std::string(500, ']') + std::string(500, 'a') + ".").size() == 1002);
}

TEST_CASE("integers of every width and notation") {
  CHECK(run("(K\xffM\xff\xffJ\xff\xff\xff\xffl.") == "[255,65535,-1]");
  CHECK(run("(\x8a\0\x8a\x01\xff\x8a\x08\0\0\0\0\0\0\0\x80l."s) == "[0,-1,-9223372036854775808]");
  CHECK(run("\x8a\x09\0\0\0\0\0\0\0\x80\0."s) == R"({"$int":"9223372036854775808"})");
  CHECK(run("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\x7f\xff."s) ==
        R"({"$int":"-9223372036854775809"})");
  CHECK(run("\x8a\x0a\x05\0\0\0\0\0\0\0\0\0."s) == "5");
  CHECK(run("(I-7\nI01\nI00\nL-0012L\nI99999999999999999999\nl.") ==
        R"([-7,true,false,-12,{"$int":"99999999999999999999"}])");
}

TEST_CASE("lists are packed, and widened where they must be") {
  CHECK(run("](K\x01" + integer(-1) + "e(\x8a\x05\0\0\0\0\1K\x02"s + "e.") ==
        "[1,-1,4294967296,2]");
  CHECK(run("](K\x01K\x02"
            "e(NK\x03"
            "e.") == "[1,2,null,3]");
  const std::string half = "G\x3f\xe0\0\0\0\0\0\0"s;
  const std::string tenth = "G\x3f\xb9\x99\x99\x99\x99\x99\x9a"s;
  CHECK(run("](" + half + "e(" + tenth + "e.") ==
        R"({"$fl":["3fe0000000000000","3fb999999999999a"]})");
  CHECK(run("](" + half + "e(K\x01" + "e.") == R"([{"$f":"3fe0000000000000"},1])");
}

TEST_CASE("a key that occurs twice counts once, the last value at the first place") {
  Tree tree;
  const OneRecord records;
  const std::string pickle = "}(" + text("a") + "K\1" + text("b") + "K\2" + text("a") + "K\3u.";
  PickleMachine machine(as_bytes(pickle), tree, records);
  const Value root = machine.run();
  const std::vector<Problem> problems = check_tree(tree, root, pickle.size());
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].code == "duplicate-key");
  CHECK(problems[0].message.find("'a'") != std::string::npos);
  CHECK(tree.find(root, "a")->integer == 3);
  CHECK(run(pickle) == R"({"a":3,"b":2})");
  CHECK(run("}(K\1K\5\x88K\6u.") == R"({"$dict":[[1,6]]})");
}

TEST_CASE("tensors are windows on their storage, and may not leave it") {
  CHECK(run(tensor(1, integers({2}), integers({2}))).find("\"hex\":\"0101010101010101\"") !=
        std::string::npos);
  corrupt("reaches element 4", tensor(0, integers({5}), integers({1})));
  corrupt("reaches element 4", tensor(3, integers({2}), integers({1})));
  corrupt("reaches element 4", tensor(0, integers({2, 2}), integers({3, 1})));
  corrupt("offset is negative", tensor(-1, integers({1}), integers({1})));
  corrupt("stride is negative", tensor(0, integers({2}), integers({-1})));
  corrupt("size is negative", tensor(0, integers({-4}), integers({1})));
  corrupt("2 sizes and 1 stride", tensor(0, integers({2, 2}), integers({1})));
  corrupt("not a tuple", tensor(0, "N", integers({1})));
  corrupt("overflows", tensor(0, integers({INT32_MAX, INT32_MAX, INT32_MAX}), integers({0, 0, 0})));
  corrupt("is expanded", tensor(0, integers({INT32_MAX}), integers({0})));
  corrupt("should hold 8", tensor(0, integers({1}), integers({1}), storage("FloatStorage", 8)));
  corrupt("should hold -4", tensor(0, integers({1}), integers({1}), storage("FloatStorage", -4)));
  corrupt("as a storage's class", tensor(0, integers({1}), integers({1}), storage("Size", 4)));
  corrupt("not a storage", tensor(0, integers({1}), integers({1}), "N"));
  corrupt("two ways", "(" + storage() + storage("IntStorage") + "l.");
  corrupt("not a tuple", text("storage") + "Q.");
  corrupt("five parts", text("storage") + "\x85Q.");
  corrupt("a tensor's size is not a tuple: found None", tensor(0, "N", integers({1})));
  corrupt("a tensor's storage is not a storage: found None",
          tensor(0, integers({1}), integers({1}), "N"));
  corrupt("a persistent id is not a tuple: found 'storage'", text("storage") + "Q.");
  corrupt("location, count): found 5 parts: 1, 2, 3, 4, 5", integers({1, 2, 3, 4, 5}) + "Q.");
  corrupt("the arguments of a call are not a tuple: found None", "ctorch\nSize\nNR.");
  corrupt("torch.Size is not made from a tuple: found an integer", "ctorch\nSize\nK\1\x85R.");
}

/// The most memory that this process has held so far, in KiB.
long peak() {
  rusage usage{};
  REQUIRE(::getrusage(RUSAGE_SELF, &usage) == 0);
  return usage.ru_maxrss;
}

TEST_CASE("a refusal says how large an expanded tensor is, and copies none of it") {
  constexpr int32_t kFloats = 1 << 19;  // 2 MiB, of which 64 times as many are allowed
  const OneRecord records(kFloats);
  const std::string all = storage("FloatStorage", kFloats);
  std::string wide = tensor(0, integers({64, kFloats}), integers({0, 1}), all);
  wide.pop_back();  // the end
  const auto refuse = [&](std::string_view fragment, const std::string& pickle) {
    expect_error(ErrorCode::kCorrupt, fragment, [&] { run(pickle, records); });
  };
  const long before = peak();
  refuse("a tensor's size is not a tuple: found 33554432 numbers",
         tensor(0, wide, integers({1}), all));
  refuse("found 5 parts: 33554432 numbers, None,", "(" + wide + "NNNNtQ.");
  refuse("not a tuple: found 33554432 numbers", wide + "Q.");
  refuse("found 2 parts: 33554432 numbers, None", "cnumpy\ndtype\n(" + wide + "NtR.");
  CHECK(peak() - before < 32 * 1024);
}

TEST_CASE("numpy arrays must fit their bytes") {
  const auto array = [](const std::string& shape, const std::string& bytes) {
    return "cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n" + integers({0}) +
           "C\1btR(K\1" + shape + "cnumpy\ndtype\n" + text("i4") + "\x89\x88\x87R(K\3" + text("<") +
           "NNN" + integer(-1) + integer(-1) + "K\0tb\x89"s + "C" +
           static_cast<char>(bytes.size()) + bytes + "tb.";
  };
  CHECK(run(array(integers({1}), "\1\0\0\0"s)) ==
        R"({"$ndarray":{"dtype":"<i4","shape":[1],"hex":"01000000"}})");
  corrupt("needs 32 bytes", array(integers({8}), "\1\0\0\0"s));
  corrupt("something else than a size: found -1, expected an integer of at least 0",
          array(integers({-1}), ""));
  corrupt("an array's shape is not a tuple: found 7", array("K\7", ""));
  corrupt("overflows", array(integers({INT32_MAX, INT32_MAX, INT32_MAX}), ""));
}

}  // namespace
}  // namespace rlreplay::foreign
