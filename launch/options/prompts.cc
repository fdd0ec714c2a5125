#include "launch/options/prompts.h"

#include "model/files/json_text.h"
#include "model/files/strict_json.h"
#include "runtime/api/prompt_ids.h"
#include "runtime/text/embedder.h"
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

// Reads numbers of tokens, such as their types. Returns nothing if there are none.
std::vector<std::uint8_t> marks_of(const nlohmann::ordered_json& object, const char* name,
                                   const std::string& where) {
  std::vector<std::uint8_t> marks;
  if (!object.contains(name) || object.at(name).is_null()) return marks;
  const nlohmann::ordered_json& list = object.at(name);
  require<RequestError>(list.is_array(), "{}: `{}` must be a list of numbers, found {}", where, name,
                        list.type_name());
  for (const auto& number : list) {
    require<RequestError>(number.is_number_unsigned() && number <= 255,
                          "{}: `{}` must have whole numbers from 0 to 255, found {} at place {}", where, name,
                          json_text(number), marks.size());
    marks.push_back(number.get<std::uint8_t>());
  }
  return marks;
}

Request input_of(const nlohmann::ordered_json& value, const std::string& where) {
  if (!value.is_object()) return prompt_request(prompt_ids_of(value, where));
  require<RequestError>(value.contains("ids"), "{}: expected an object with `ids`, a list of token ids",
                        where);
  Request input =
      prompt_request(prompt_ids_of(value.at("ids"), where), marks_of(value, "token_type_ids", where));
  input.global_tokens = marks_of(value, "global_attention_mask", where);
  if (value.contains("decoder_ids")) input.decoder_prompt = prompt_ids_of(value.at("decoder_ids"), where);
  return input;
}

BatchText read_text_line(const std::string& line, const std::string& where) {
  if (line.front() != '{' && line.front() != '"') return {.where = where, .text = line};
  const nlohmann::ordered_json value = parse_json(line, where);
  if (value.is_string()) return {.where = where, .text = value.get<std::string>()};
  if (!value.contains("text")) return {.where = where, .tokens = input_of(value, where)};
  require<RequestError>(value.at("text").is_string(), "{}: `text` must be a text, found {}", where,
                        value.at("text").type_name());
  return {.where = where, .text = value.at("text").get<std::string>()};
}

}  // namespace

// Returns standard input, or `file` after opening it.
static std::istream& open_input(const std::string& path, std::ifstream& file) {
  if (path == kStdin) return std::cin;
  file.open(path, std::ios::binary);
  // A directory can be opened, but not read.
  const bool readable = file.is_open() && (file.peek() != std::ifstream::traits_type::eof() || file.eof());
  require<RequestError>(readable, "cannot read {}: expected a file; check the path and its permissions",
                        path);
  file.clear();
  return file;
}

std::string name_of_input(const std::string& path) { return path == kStdin ? "standard input" : path; }

std::string read_prompt_file(const std::string& path, std::size_t max_bytes) {
  std::ifstream file;
  std::istream& stream = open_input(path, file);
  std::string text;
  for (std::istreambuf_iterator<char> next(stream), end; next != end; ++next) {
    require<RequestError>(text.size() < max_bytes,
                          "{}: expected a text of at most {} bytes, found more; is it the right file?",
                          name_of_input(path), max_bytes);
    text.push_back(*next);
  }
  return text;
}

void for_each_line_of(const std::string& path,
                      const std::function<void(const std::string&, std::size_t)>& use) {
  std::ifstream file;
  std::istream& lines = open_input(path, file);
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    if (line.find_first_not_of(" \t\r") != std::string::npos) use(line, number);
  }
}

std::vector<TokenId> read_token_file(const std::string& path) {
  const std::string name = name_of_input(path);
  const nlohmann::ordered_json value = parse_json(read_prompt_file(path), name);
  return prompt_ids_of(value.is_object() && value.contains("ids") ? value.at("ids") : value, name);
}

Request read_input_file(const std::string& path) {
  const std::string name = name_of_input(path);
  Request input = input_of(parse_json(read_prompt_file(path), name), name);
  require<RequestError>(!input.prompt.empty(), "{}: no token ids; expected at least one", name);
  return input;
}

std::vector<BatchText> read_texts(const std::string& path) {
  std::vector<BatchText> texts;
  for_each_line_of(path, [&](const std::string& line, std::size_t number) {
    texts.push_back(read_text_line(line, fmt::format("{}:{}", name_of_input(path), number)));
  });
  require<RequestError>(!texts.empty(), "{}: no texts; expected one a line", name_of_input(path));
  return texts;
}

}  // namespace tp
