#include "src/base/json_line.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "src/base/json_value.h"

using rlreplay::hex_float;
using rlreplay::JsonDocument;
using rlreplay::JsonLine;

TEST_CASE("a line holds its members in order and reads back") {
  // The text holds what JSON escapes, and a byte that is no UTF-8.
  const auto line = JsonLine()
                        .text("name", "a \"b\"\n\xff")
                        .integer("step", -3)
                        .boolean("identical", true)
                        .number("loss", 0.1)
                        .number("record", {})
                        .json("where", "[1,2]")
                        .str();
  CHECK(line ==
        "{\"name\":\"a \\\"b\\\"\\n\xef\xbf\xbd\",\"step\":-3,\"identical\":true,\"loss\":0.1,"
        "\"record\":null,\"where\":[1,2]}");
  const auto document = JsonDocument::parse(line, "line");
  CHECK(document.root()["step"].integer(-10, 0) == -3);
  CHECK(JsonLine().str() == "{}");
}

TEST_CASE("numbers read back to the bit, in decimal and in bits") {
  // Periodic in binary, signed zero, whole, the ends of the range, and a widened binary32.
  for (const double value :
       {0.1, 1.0 / 3, -0.0, 3.0, 1e300, 5e-324, -1.25e-310, static_cast<double>(0.1f)}) {
    const auto line = JsonLine().bits("loss", value).str();
    const auto document = JsonDocument::parse(line, "line");
    const double decimal = document.root()["loss"].number();
    const auto& hex = document.root()["loss_bits"].string();
    CAPTURE(line);
    CHECK(decimal == value);
    CHECK(std::signbit(decimal) == std::signbit(value));
    CHECK(hex.size() == 16);
    CHECK(std::bit_cast<double>(std::stoull(hex, nullptr, 16)) == value);
  }
  CHECK(hex_float(3) == "0x1.8p+1");
  CHECK(hex_float(-0.0) == "-0x0p+0");
}

TEST_CASE("what is no number in JSON is null, and told apart in bits") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  CHECK(JsonLine().bits("x", -kInfinity).str() == "{\"x\":null,\"x_bits\":\"fff0000000000000\"}");
  CHECK(JsonLine().bits("x", std::nan("")).str() == "{\"x\":null,\"x_bits\":\"7ff8000000000000\"}");
}
