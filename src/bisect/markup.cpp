#include "src/bisect/markup.h"

#include "src/base/markup_text.h"

namespace rlreplay::bisect {
namespace {

constexpr const char* kStyle =
    "<style>body{font:15px/1.5 system-ui,sans-serif;max-width:70em;margin:2em auto;padding:0 1em}"
    "pre{background:#f6f8fa;padding:1em;overflow-x:auto}table{border-collapse:collapse}"
    "td,th{padding:.2em .6em;text-align:left;border-bottom:1px solid #ddd;vertical-align:top}"
    ".strip{line-height:0}.strip i{display:inline-block;width:10px;height:28px;margin:1px}"
    ".good{background:#aceebb}.bad{background:#ffb3ad}.skipped{background:#f5e08a}"
    ".unknown{background:#d8dee4}.culprit{outline:3px solid #cf222e}svg{max-width:660px}"
    ".map td,.map th{text-align:center;border:1px solid #fff;min-width:3em}.map "
    ".begins{outline:3px "
    "solid #24292f}.bars{overflow:visible}.bars text{font-size:11px;text-anchor:middle}</style>\n";

}  // namespace

std::string html_page(const std::string& title, const std::string& body) {
  const std::string text = markup_text(title);
  return "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<title>rlbisect: " +
         text + "</title>\n" + kStyle + "</head><body>\n<h1>" + text + "</h1>\n" + body +
         "</body></html>\n";
}

}  // namespace rlreplay::bisect
