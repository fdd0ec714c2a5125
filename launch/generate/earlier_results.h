// Results of an earlier run: --resume skips requests that already have one.
#pragma once

#include <map>
#include <set>
#include <string>

#include <nlohmann/json.hpp>

namespace tp {

// Throws RequestError if there is something at the path that is no regular file.
void require_resumable(const std::string& path);

// The lines of results that an earlier run has left in its file.
class EarlierResults {
 public:
  // Reads the file, which is open for writing already. A last line that was not finished is cut off, so that
  // the next one can be appended. Throws RequestError, and leaves the file as it is, where it does not hold
  // results.
  explicit EarlierResults(const std::string& path);

  // Whether a request's continuation has its result, which an error is not.
  bool has(const nlohmann::json& id, int sample) const;
  // Requests with results.
  std::size_t requests() const { return samples_.size(); }

 private:
  void add(const nlohmann::json& line);

  // By id, as JSON: the samples. An answer in OpenAI's form has all of its request's in one line.
  std::map<std::string, std::set<int>> samples_;
};

// Makes sure that requests have distinct ids.
class DistinctIds {
 public:
  // Throws RequestError for a request without an id, and for an id that another request had.
  void add(const nlohmann::json& id);

 private:
  std::set<std::string> ids_;
};

}  // namespace tp
