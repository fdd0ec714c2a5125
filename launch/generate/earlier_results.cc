#include "launch/generate/earlier_results.h"

#include "model/files/json_text.h"
#include "model/files/printable.h"
#include "model/files/strict_json.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

namespace tp {
namespace {

namespace fs = std::filesystem;

constexpr int kAllSamples = -1;

// Lines of results begin with these texts. GenerateOutput sorts members by name. OpenAI's form has its own
// order.
constexpr std::string_view kBeginnings[] = {R"({"error":")", R"({"finish_reason":")", R"({"id":"batch_req)"};

// Returns null if the line isn't JSON.
nlohmann::json parsed(const std::string& line) {
  try {
    return parse_strict_json(line);
  } catch (const JsonError&) {
    return {};
  }
}

bool is_result(const nlohmann::json& line) {
  return line.is_object() && (line.contains("sample") || line.contains("response") || line.contains("error"));
}

bool begins_like_result(std::string_view text) {
  return std::any_of(std::begin(kBeginnings), std::end(kBeginnings), [&](std::string_view beginning) {
    const std::size_t size = std::min(text.size(), beginning.size());
    return text.substr(0, size) == beginning.substr(0, size);
  });
}

}  // namespace

void require_resumable(const std::string& path) {
  std::error_code error;
  const fs::file_type type = fs::status(path, error).type();
  require<RequestError>(
      type != fs::file_type::none,
      "cannot resume {}: expected the --output of an earlier run, found: {}; check the path", path,
      error.message());
  require<RequestError>(type == fs::file_type::not_found || type == fs::file_type::regular,
                        "cannot resume {}: it is not a regular file; give the --output of an earlier run",
                        path);
}

EarlierResults::EarlierResults(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  require<RequestError>(file.is_open(), "cannot read {} to resume it; check its permissions", path);
  std::uintmax_t whole_lines = 0;  // bytes of complete lines
  std::size_t number = 0;
  std::string line;
  while (std::getline(file, line) && !file.eof()) {
    ++number;
    const nlohmann::json result = parsed(line);
    require<RequestError>(is_result(result),
                          "cannot resume {}: line {} is not a result; give the --output of an earlier run",
                          path, number);
    add(result);
    whole_lines += line.size() + 1;
  }
  if (line.empty()) return;
  require<RequestError>(number > 0 || begins_like_result(line) || is_result(parsed(line)),
                        "cannot resume {}: expected results, one per line, found only \"{}\"; give the "
                        "--output of an earlier run",
                        path, printable(line));
  std::error_code error;
  fs::resize_file(path, whole_lines, error);
  require<RequestError>(
      !error, "cannot remove the unfinished last line of {}: {}; remove the file, or give another one", path,
      error.message());
}

void EarlierResults::add(const nlohmann::json& line) {
  if (line.contains("custom_id")) {
    const nlohmann::json response = line.value("response", nlohmann::json());
    const bool is_answered = response.is_object() && response.value("status_code", nlohmann::json()) == 200;
    if (is_answered) samples_[line.at("custom_id").dump()].insert(kAllSamples);
  } else if (line.contains("id") && line.contains("sample") && !line.contains("error")) {
    const nlohmann::json& sample = line.at("sample");
    if (sample.is_number_integer()) samples_[line.at("id").dump()].insert(sample.get<int>());
  }
}

bool EarlierResults::has(const nlohmann::json& id, int sample) const {
  const auto found = samples_.find(id.dump());
  return found != samples_.end() && (found->second.contains(sample) || found->second.contains(kAllSamples));
}

void DistinctIds::add(const nlohmann::json& id) {
  require<RequestError>(!id.is_null(),
                        "it has no `id`, but --resume recognizes finished requests by their ids; give every "
                        "request a unique id");
  const std::string text = json_text(id);
  require<RequestError>(ids_.insert(text).second,
                        "an earlier request also has the id {}, but --resume recognizes finished requests by "
                        "their ids; give every request a unique id",
                        text);
}

}  // namespace tp
