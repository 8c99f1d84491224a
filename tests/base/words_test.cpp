#include "src/base/words.h"

#include <catch2/catch.hpp>

namespace rlreplay {

TEST_CASE("Lines are as wide as they are shown") {
  CHECK(wrapped("one two three", 7) == "one two\nthree");
  CHECK(wrapped("a \xff\xff b", 11) == "a \\xff\\xff\nb");
  CHECK(wrapped("a b", 3, 2) == "a\n  b");
  CHECK(wrapped("longer than the width", 4) == "longer\nthan\nthe\nwidth");
}

}  // namespace rlreplay
