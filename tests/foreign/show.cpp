// Prints the content of files of torch.save as JSON, one object a line.
#include <cstdio>

#include "format/foreign/canonical_json.h"
#include "format/foreign/dump_check.h"
#include "format/foreign/torch_file.h"

namespace {

using namespace rlreplay;
using namespace rlreplay::foreign;

void print(std::string_view piece) { std::fwrite(piece.data(), 1, piece.size(), stdout); }

void print_field(const char* key, std::string_view value) {
  std::string text;
  append_json_string(text, key);
  text += ':';
  append_json_string(text, value);
  print(text);
}

int show(const char* path) {
  try {
    const TorchFile file(path);
    print("{");
    print_field("archive_root", file.archive_root());
    print(",\"problems\":[");
    std::vector<Problem> problems = file.problems();
    for (const Problem& problem : check_dump(file.tree(), file.root())) {
      problems.push_back(problem);
    }
    for (size_t i = 0; i < problems.size(); ++i) {
      print(i == 0 ? "{" : ",{");
      print_field("code", problems[i].code);
      print(",");
      print_field("message", problems[i].message);
      print(",");
      print_field("where", problems[i].where);
      print("}");
    }
    print("],\"root\":");
    write_canonical_json(file.tree(), file.root(), print);
    print("}\n");
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s: %s (%s)\n", std::string(to_string(error.code())).c_str(),
                 error.what(), error.where().c_str());
    return exit_code(error.code());
  }
}

}  // namespace

int main(int argc, char** argv) {
  int code = argc < 2 ? 2 : 0;
  for (int i = 1; i < argc; ++i) {
    if (const int result = show(argv[i]); result != 0) code = result;
  }
  return code;
}
