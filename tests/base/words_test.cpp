#include "src/base/words.h"

#include <catch2/catch.hpp>

#include "src/base/markup_text.h"

namespace rlreplay {

TEST_CASE("Lines are as wide as they are shown") {
  CHECK(wrapped("one two three", 7) == "one two\nthree");
  CHECK(wrapped("a \xff\xff b", 11) == "a \\xff\\xff\nb");
  CHECK(wrapped("a b", 3, 2) == "a\n  b");
  CHECK(wrapped("longer than the width", 4) == "longer\nthan\nthe\nwidth");
}

TEST_CASE("nothing that XML has no letter for gets into markup") {
  CHECK(markup_text("a\xef\xbf\xbe<\xef\xbf\xbf\x01") == "a\\ufffe&lt;\\uffff\\u0001");
  CHECK(markup_text("\xef\xbf\xbd\xef\xbe\xbf") == "\xef\xbf\xbd\xef\xbe\xbf");
}

}  // namespace rlreplay
