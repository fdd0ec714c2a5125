#include "launch/prompts.h"

#include "model/weights/checkpoint/strict_json.h"
#include "runtime/api/prompt_ids.h"
#include "tp/internal/require.h"

#include <fstream>
#include <iostream>
#include <iterator>

#include <nlohmann/json.hpp>

namespace tp {
namespace {

constexpr const char* kStdin = "-";

nlohmann::ordered_json parse_json(const std::string& text, const std::string& where) {
  try {
    return parse_strict_json<nlohmann::ordered_json>(text);
  } catch (const JsonError& error) {
    throw_error<RequestError>("{}: expected a JSON list of token ids ({})", where, error.what());
  }
}

}  // namespace

std::string name_of_input(const std::string& path) { return path == kStdin ? "standard input" : path; }

std::string read_prompt_file(const std::string& path) {
  std::ifstream file;
  if (path != kStdin) {
    file.open(path, std::ios::binary);
    // A directory can be opened, but not read.
    const bool readable = file.is_open() && (file.peek() != std::ifstream::traits_type::eof() || file.eof());
    require<RequestError>(readable, "cannot read {}: expected a file; check the path and its permissions",
                          path);
    file.clear();
  }
  std::istream& stream = path == kStdin ? std::cin : file;
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

std::vector<TokenId> read_token_file(const std::string& path) {
  const std::string name = name_of_input(path);
  const nlohmann::ordered_json value = parse_json(read_prompt_file(path), name);
  return prompt_ids_of(value.is_object() && value.contains("ids") ? value.at("ids") : value, name);
}

}  // namespace tp
