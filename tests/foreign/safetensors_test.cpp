#include <bit>
#include <cmath>
#include <limits>

#include "format/foreign/float_values.h"
#include "format/foreign/half.h"
#include "format/foreign/safetensors_file.h"
#include "format/foreign/safetensors_writer.h"
#include "tests/foreign/support.h"

namespace rlreplay::foreign {
namespace {

std::string file_of(const std::string& header, size_t data) {
  return little<uint64_t>(header.size()) + header + std::string(data, '\x01');
}

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

TEST_CASE("hostile headers are refused, each with its rule") {
  const TempFolder folder;
  const auto refused = [&](ErrorCode code, std::string_view fragment, const std::string& bytes) {
    const std::string path = folder.write("model.safetensors", bytes);
    expect_error(code, fragment, [&] { SafetensorsFile file(path); });
  };
  const auto corrupt = [&](std::string_view fragment, const std::string& header, size_t data) {
    refused(ErrorCode::kCorrupt, fragment, file_of(header, data));
  };
  const std::string good = entry("F32", "[2]", "[0,8]");
  refused(ErrorCode::kCorrupt, "too few", "1234567");
  refused(ErrorCode::kCorrupt, "at most 100000000", little<uint64_t>(UINT64_MAX) + "{}");
  refused(ErrorCode::kCorrupt, "the file has 2", little<uint64_t>(3) + "{}");
  corrupt("does not begin", "[]", 0);
  corrupt("not valid JSON", R"({"a":)", 0);
  corrupt("nests deeper", R"({"a":[[[[[[[[[]]]]]]]]]})", 0);
  corrupt("occurs twice", R"({"a":)" + good + R"(,"a":)" + good + "}", 8);
  corrupt("occurs twice", R"({"a":{"dtype":"F32","dtype":"F32"}})", 8);
  corrupt("is missing", R"({"a":{"dtype":"F32","shape":[2]}})", 8);
  corrupt("unknown key", R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}})", 8);
  corrupt("an integer from", R"({"a":)" + entry("F32", "[2.5]", "[0,8]") + "}", 8);
  corrupt("an integer from", R"({"a":)" + entry("F32", "[-2]", "[0,8]") + "}", 8);
  corrupt("an integer from", R"({"a":)" + entry("F32", "[2]", "[0,9]") + "}", 8);
  corrupt("an integer from", R"({"a":)" + entry("F32", "[2]", "[-8,0]") + "}", 8);
  corrupt("two numbers", R"({"a":)" + entry("F32", "[2]", "[0]") + "}", 8);
  corrupt("ends before", R"({"a":)" + entry("F32", "[2]", "[8,0]") + "}", 8);
  corrupt("needs 12 bytes", R"({"a":)" + entry("F32", "[3]", "[0,8]") + "}", 8);
  corrupt("overflows", R"({"a":)" + entry("F32", "[4294967296,4294967296]", "[0,8]") + "}", 8);
  corrupt("needs 0 bytes", R"({"a":)" + entry("F32", "[0,4294967296]", "[0,8]") + "}", 8);
  corrupt("overlaps", R"({"a":)" + good + R"(,"b":)" + entry("F32", "[2]", "[4,12]") + "}", 12);
  corrupt("a hole of 4", R"({"a":)" + good + R"(,"b":)" + entry("F32", "[1]", "[12,16]") + "}", 16);
  corrupt("a hole of 4", R"({"b":)" + entry("F32", "[1]", "[4,8]") + "}", 8);
  corrupt("belong to none", R"({"a":)" + good + "}", 9);
  corrupt("expected a string", R"({"__metadata__":{"format":1}})", 0);
  refused(ErrorCode::kUnsupported, "element type 'F4'",
          file_of(R"({"a":)" + entry("F4", "[2]", "[0,8]") + "}", 8));
}

TEST_CASE("tensors lie in the order of their data, empty and scalar ones included") {
  const TempFolder folder;
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"z":)" + entry("F32", "[]", "[0,4]") + R"(,"e":)" +
      entry("I64", "[0,7]", "[4,4]") + R"(,"a":)" + entry("BF16", "[1,2]", "[4,8]") + "}  ";
  const SafetensorsFile file(folder.write("x.safetensors", file_of(header, 8)));
  REQUIRE(file.tensors().size() == 3);
  CHECK(file.tensors()[0].name == "z");
  CHECK(file.tensors()[1].name == "e");
  CHECK(file.tensors()[2].shape == std::vector<int64_t>{1, 2});
  CHECK(file.find("a")->dtype == DType::kBF16);
  CHECK(file.find("b") == nullptr);
  CHECK(file.metadata().size() == 1);
}

TEST_CASE("what is written is read back, and the same tensors give the same bytes") {
  const TempFolder folder;
  const std::string a(24, 'a');
  const std::string b(6, 'b');
  const std::string c(4, 'c');
  std::vector<StoredTensor> tensors = {{"half", DType::kF16, {3}, as_bytes(b)},
                                       {"q\"\u00e9", DType::kF32, {2, 3}, as_bytes(a)},
                                       {"bits", DType::kF32, {}, as_bytes(c)},
                                       {"none", DType::kI8, {0}, {}}};
  const std::string path = (folder.path() / "x.safetensors").string();
  write_safetensors(path, tensors);
  const std::string first = read_text(path);
  std::reverse(tensors.begin(), tensors.end());
  write_safetensors(path, tensors);
  CHECK(read_text(path) == first);
  const SafetensorsFile file(path);
  REQUIRE(file.tensors().size() == 4);
  for (const StoredTensor& tensor : tensors) {
    const StoredTensor* found = file.find(tensor.name);
    REQUIRE(found != nullptr);
    CHECK(found->shape == tensor.shape);
    CHECK(found->dtype == tensor.dtype);
    CHECK(std::ranges::equal(found->data, tensor.data));
    CHECK(reinterpret_cast<uintptr_t>(found->data.data()) % size_of(tensor.dtype) == 0);
  }
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
  tensors[0].shape = {4};
  CHECK_THROWS_AS(write_safetensors(path, tensors), Error);
  CHECK(read_text(path) == first);
}

/// The value of an IEEE binary16 by its definition.
double half_by_definition(uint16_t bits) {
  const double sign = bits & 0x8000 ? -1 : 1;
  const int exponent = bits >> 10 & 0x1F;
  const int fraction = bits & 0x3FF;
  if (exponent == 31) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
  }
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

TEST_CASE("every binary16 widens to the number that it means") {
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const float wide = float16_to_float(static_cast<uint16_t>(bits));
    const double meant = half_by_definition(static_cast<uint16_t>(bits));
    const bool same = std::isnan(meant) ? std::isnan(wide) : static_cast<double>(wide) == meant;
    REQUIRE(same);
    REQUIRE(std::signbit(wide) == ((bits & 0x8000) != 0));
  }
}

/// Between each number and the next one of a narrower type lies one that is as near to both.
template <class Widen, class Narrow>
void check_rounding(uint16_t infinity, Widen widen, Narrow narrow) {
  for (uint16_t low = 0; low < infinity; ++low) {
    const auto high = static_cast<uint16_t>(low + 1);
    const float a = widen(low);
    const double step = high == infinity ? double{a} - double{widen(static_cast<uint16_t>(low - 1))}
                                         : double{widen(high)} - double{a};
    const auto middle = static_cast<float>(double{a} + step / 2);
    const uint16_t even = low % 2 == 0 ? low : high;
    for (const uint16_t sign : {uint16_t{0}, uint16_t{0x8000}}) {
      const float side = sign == 0 ? 1.0F : -1.0F;
      REQUIRE(narrow(side * a) == (sign | low));
      REQUIRE(narrow(side * middle) == (sign | even));
      REQUIRE(narrow(side * std::nextafter(middle, 0.0F)) == (sign | low));
      REQUIRE(narrow(side * std::nextafter(middle, std::numeric_limits<float>::infinity())) ==
              (sign | high));
    }
  }
  REQUIRE(narrow(std::numeric_limits<float>::infinity()) == infinity);
  REQUIRE(narrow(-std::numeric_limits<float>::max()) == (0x8000 | infinity));
  REQUIRE(std::isnan(widen(narrow(std::nanf("")))));
  REQUIRE(std::isnan(widen(narrow(std::bit_cast<float>(0x7F800001)))));
}

TEST_CASE("binary32 rounds to the nearest number of a narrower type, and to the even one of two") {
  check_rounding(0x7C00, float16_to_float, float_to_float16);
  check_rounding(0x7F80, bfloat16_to_float, float_to_bfloat16);
}

TEST_CASE("tensors widen exactly and non-finite elements are found") {
  std::vector<uint16_t> halves(5000, 0x3F80);
  halves[4097] = 0xFF80;
  halves[4099] = 0x7FC1;
  const Bytes raw(reinterpret_cast<const uint8_t*>(halves.data()), halves.size() * 2);
  const StoredTensor bf16{"w", DType::kBF16, {5000}, raw};
  const StoredTensor f16{"w", DType::kF16, {5000}, raw};
  REQUIRE(first_nonfinite(bf16).has_value());
  CHECK(first_nonfinite(bf16)->index == 4097);
  CHECK(!first_nonfinite(bf16)->nan);
  CHECK(first_nonfinite(f16)->index == 4097);
  CHECK(first_nonfinite(f16)->nan);
  std::vector<float> wide(5000);
  to_float(bf16, wide);
  CHECK(wide[0] == 1.0F);
  CHECK(std::bit_cast<uint32_t>(wide[4099]) == 0x7FC10000);
  halves[4097] = 0;
  CHECK(first_nonfinite(bf16)->index == 4099);
  CHECK(first_nonfinite(bf16)->nan);
  halves[4099] = 0;
  CHECK(!first_nonfinite(bf16));
  const StoredTensor integers{"i", DType::kI8, {10}, raw.first(10)};
  CHECK_THROWS_AS(first_nonfinite(integers), Error);
}

}  // namespace
}  // namespace rlreplay::foreign
