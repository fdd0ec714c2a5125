// Results of an earlier run: --resume skips requests that already have one.
#pragma once

#include <map>
#include <set>
#include <string>

#include <nlohmann/json.hpp>

namespace tp {

// Throws RequestError if the path exists but is not a regular file.
void require_resumable(const std::string& path);

// Results that an earlier run wrote to its file.
class EarlierResults {
 public:
  // Reads the file, which is already open for writing. Cuts off an unfinished last line, so that the next
  // line can be appended. Throws RequestError and keeps the file unchanged if it contains no results.
  explicit EarlierResults(const std::string& path);

  // Whether a request's continuation has a result. An error is not a result.
  bool has(const nlohmann::json& id, int sample) const;
  // Requests with results.
  std::size_t requests() const { return samples_.size(); }

 private:
  void add(const nlohmann::json& line);

  // Samples by id (as JSON). One line of an answer in OpenAI's form contains all samples of its request.
  std::map<std::string, std::set<int>> samples_;
};

// Makes sure that requests have distinct ids.
class DistinctIds {
 public:
  // Throws RequestError for a request without an id, or with an earlier request's id.
  void add(const nlohmann::json& id);

 private:
  std::set<std::string> ids_;
};

}  // namespace tp
