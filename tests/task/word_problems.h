#pragma once

#include <cstdint>
#include <random>
#include <string>

namespace rlreplay::test {

struct WordProblem {
  std::string question;
  std::string answer;  // steps with <<a*b=c>>, then a line "#### n"
  int64_t result = 0;
};

/// A problem of two steps in the format of grade school math files.
inline WordProblem word_problem(uint32_t seed) {
  static constexpr const char* kNames[] = {"Mia", "Tariq", "Wen", "Olga", "Pedro"};
  static constexpr const char* kThings[] = {"bolts", "pears", "stamps", "marbles"};
  std::mt19937 random(seed);
  const auto pick = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint32_t>(high - low + 1));
  };
  const std::string name = kNames[random() % 5], thing = kThings[random() % 4];
  const int64_t boxes = pick(2, 40), each = pick(3, 90), given = pick(1, boxes * each);
  const int64_t all = boxes * each, left = all - given;
  const auto text = [](int64_t n) { return std::to_string(n); };
  const std::string grouped =
      left >= 1000 ? text(left / 1000) + "," + text(1000 + left % 1000).substr(1) : text(left);
  return {name + " has " + text(boxes) + " boxes with " + text(each) + " " + thing + " in each. " +
              name + " gives " + text(given) + " " + thing + " away. How many are left?",
          name + " starts with " + text(boxes) + "*" + text(each) + "=<<" + text(boxes) + "*" +
              text(each) + "=" + text(all) + ">>" + text(all) + " " + thing + ".\nThen " +
              text(all) + "-" + text(given) + "=<<" + text(all) + "-" + text(given) + "=" +
              text(left) + ">>" + text(left) + " are left.\n#### " + grouped,
          left};
}

}  // namespace rlreplay::test
