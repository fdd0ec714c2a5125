#include "launch/earlier_results.h"

#include "tp/error.h"

#include <filesystem>
#include <fstream>

namespace tp {
namespace {

constexpr int kAllSamples = -1;

}  // namespace

EarlierResults::EarlierResults(const std::string& path) {
  if (!std::filesystem::exists(path)) return;
  require<RequestError>(std::filesystem::is_regular_file(path),
                        "cannot resume {}: it is not a regular file; give the --output of an earlier run",
                        path);
  std::ifstream file(path, std::ios::binary);
  require<RequestError>(file.is_open(), "cannot read {} to resume it; check its permissions", path);
  std::uintmax_t whole_lines = 0;  // bytes of them
  std::size_t number = 0;
  for (std::string line; std::getline(file, line) && !file.eof();) {
    ++number;
    const nlohmann::json result = nlohmann::json::parse(line, nullptr, false);
    require<RequestError>(result.is_object(),
                          "cannot resume {}: line {} is not a result; give the --output of an earlier run",
                          path, number);
    add(result);
    whole_lines += line.size() + 1;
  }
  if (std::filesystem::file_size(path) != whole_lines) std::filesystem::resize_file(path, whole_lines);
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
  require<RequestError>(
      !id.is_null(),
      "it has no `id`, by which --resume knows what is done; give every request one of its own");
  const std::string text = id.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  require<RequestError>(
      ids_.insert(text).second,
      "an earlier request has the id {} too, by which --resume knows what is done; give every "
      "request one of its own",
      text);
}

}  // namespace tp
