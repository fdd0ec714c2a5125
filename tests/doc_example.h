// The guides' examples, which tests run like a reader would.
#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace tp::test {

// Returns the text of the n-th fenced block (from 1) of a guide ("model/README.md") under a heading ("##
// Encoders"), up to the next heading of the same or a higher level. Throws std::runtime_error if there is
// none.
inline std::string doc_example(const std::string& guide, const std::string& heading, int n = 1) {
  std::ifstream file(std::filesystem::path(TP_TEST_DATA) / "../.." / guide);
  const std::size_t level = heading.find(' ');
  bool is_there = false;
  bool is_block = false;
  std::string block;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("```")) {
      is_block = !is_block;
      if (is_there && !is_block && --n == 0) return block;
      block.clear();
    } else if (is_block) {
      block += line + "\n";
    } else if (line == heading) {
      is_there = true;
    } else if (is_there && line.starts_with("#") && line.find(' ') <= level) {
      break;
    }
  }
  throw std::runtime_error(guide + " has no such example under \"" + heading + "\"");
}

// Returns the block's lines without trailing comments.
inline std::vector<std::string> doc_example_lines(const std::string& guide, const std::string& heading,
                                                  int n = 1) {
  std::istringstream block(doc_example(guide, heading, n));
  std::vector<std::string> lines;
  for (std::string line; std::getline(block, line);) lines.push_back(line.substr(0, line.find("  #")));
  return lines;
}

}  // namespace tp::test
