#include "launch/prompts.h"

#include "model/checkpoint/strict_json.h"
#include "tp/error.h"

#include <fstream>
#include <iostream>
#include <iterator>
#include <limits>

namespace tp {
namespace {

constexpr const char* kStdin = "-";

std::string name_of_input(const std::string& path) { return path == kStdin ? "standard input" : path; }

// Calls read(stream) with the file. It may be a pipe as well.
template <class Read>
void read_input(const std::string& path, Read&& read) {
  if (path == kStdin) {
    read(std::cin);
    return;
  }
  std::ifstream file(path, std::ios::binary);
  // A directory can be opened, but not read.
  const bool readable = file.is_open() && (file.peek() != std::ifstream::traits_type::eof() || file.eof());
  require<RequestError>(readable, "cannot read {}: expected a file; check the path and its permissions",
                        path);
  file.clear();
  read(file);
}

std::string read_all(const std::string& path) {
  std::string text;
  read_input(path, [&](std::istream& stream) {
    text.assign(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  });
  return text;
}

nlohmann::json parse_json(const std::string& text, const std::string& where, std::string_view expected) {
  try {
    return parse_strict_json(text);
  } catch (const JsonError& error) {
    throw_error<RequestError>("{}: expected {} ({})", where, expected, error.what());
  }
}

std::string printable(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::vector<TokenId> token_ids_of(const nlohmann::json& value, const std::string& where) {
  const nlohmann::json& list = value.is_object() && value.contains("ids") ? value.at("ids") : value;
  require<RequestError>(list.is_array(),
                        "{}: expected a JSON list of token ids, or an object with `ids`, found {}", where,
                        list.type_name());
  std::vector<TokenId> ids;
  for (const nlohmann::json& id : list) {
    require<RequestError>(id.is_number_integer() && id >= 0 && id <= std::numeric_limits<TokenId>::max(),
                          "{}: expected token ids (whole numbers from 0), found {} at place {}", where,
                          printable(id), ids.size());
    ids.push_back(id.get<TokenId>());
  }
  return ids;
}

// Fills in the prompt; what is there when it throws is kept.
void parse_batch_line(const std::string& line, const std::string& where, Prompt& prompt) {
  nlohmann::json object = parse_json(line, where, "a JSON object");
  require<RequestError>(object.is_object(),
                        "{}: expected a JSON object such as {{\"prompt\": \"...\"}}, found {}", where,
                        object.type_name());
  prompt.id = object.value("id", nlohmann::json());
  const bool has_text = object.contains("prompt");
  require<RequestError>(has_text != object.contains("ids"),
                        "{}: expected either a text in `prompt` or token ids in `ids`, found {}", where,
                        has_text ? "both" : "neither");
  if (has_text) {
    const nlohmann::json& text = object.at("prompt");
    require<RequestError>(text.is_string(), "{}: `prompt` must be a text, found {}", where, printable(text));
    prompt.text = text.get<std::string>();
  } else {
    prompt.ids = token_ids_of(object, where);
  }
  for (const char* field : {"prompt", "ids", "id"}) object.erase(field);
  prompt.fields = std::move(object);
}

}  // namespace

Prompt read_prompt_file(const std::string& path) { return {.text = read_all(path)}; }

std::vector<TokenId> read_token_file(const std::string& path) {
  const std::string name = name_of_input(path);
  return token_ids_of(parse_json(read_all(path), name, "a JSON list of token ids"), name);
}

std::vector<Prompt> read_batch(const std::string& path) {
  const std::string name = name_of_input(path);
  std::vector<Prompt> prompts;
  read_input(path, [&](std::istream& stream) {
    std::size_t number = 0;
    for (std::string line; std::getline(stream, line);) {
      ++number;
      if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
      Prompt& prompt = prompts.emplace_back();
      try {
        parse_batch_line(line, fmt::format("{}:{}", name, number), prompt);
      } catch (const RequestError& error) {
        prompt.error = error.what();
      }
    }
  });
  require<RequestError>(!prompts.empty(), "{}: no requests; expected one JSON object a line", name);
  return prompts;
}

}  // namespace tp
